//! The number of permits of a semaphore, on which its contenders must agree.
//!
//! ZooKeeper does not know the number, so each lease tells in its data which number its contender was given. Contenders that
//! `zk-lock` did not start tell none.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::process;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_recipes::{Session, participants};

use crate::cli::RunSettings;
use crate::notices::Notices;
use crate::recipe::Recipe;

/// Upper bound of the delay that the comparison adds to the wait. It costs two round trips.
const COMPARED_WITHIN: Duration = Duration::from_secs(5);
/// A contender that waits for longer than this compares during the wait, because the difference may be the reason for the wait.
const LONG_WAIT: Duration = Duration::from_secs(1);
/// The text before the number in the data of a lease.
const MARK: &str = " permits=";

/// Returns the data of our nodes: `HOST:PID`, and the number of permits of a semaphore.
pub(crate) fn node_data(recipe: Recipe) -> String {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let permits = recipe.permits().map(|permits| format!("{MARK}{permits}"));
    format!("{}:{}{}", host.as_deref().unwrap_or("localhost"), process::id(), permits.unwrap_or_default())
}

/// The comparison of our number with the others'.
pub(crate) struct Comparison<'a> {
    settings: &'a RunSettings,
    session: &'a Session,
    notices: &'a Notices,
    /// Whether a difference was reported: one is enough.
    is_told: Cell<bool>,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(settings: &'a RunSettings, session: &'a Session, notices: &'a Notices) -> Self {
        Self { settings, session, notices, is_told: Cell::new(false) }
    }

    /// Compares once if the wait for the lock is long. The end of the wait drops this.
    pub(crate) async fn during_the_wait(&self) {
        sleep(LONG_WAIT).await;
        self.compare().await;
    }

    /// Compares at the end of the wait, whether the lock was granted or not.
    pub(crate) async fn after_the_wait(&self) {
        // Without an answer, nothing is known of a difference.
        let _ = timeout(COMPARED_WITHIN, self.compare()).await;
    }

    /// Warns if a contender that has a lease was given another number.
    async fn compare(&self) {
        let RunSettings { path, recipe, .. } = self.settings;
        let Some(ours) = recipe.permits() else { return };
        // If the leases cannot be read, the acquire or the hold tells why.
        let Ok(leases) = participants(self.session, path).await else { return };
        let mut told = leases.iter().filter_map(|lease| parse(&lease.data));
        if let Some((who, theirs)) = told.find(|(_, theirs)| *theirs != ours.get())
            && !self.is_told.replace(true)
        {
            self.notices.say(format_args!(
                "{who} takes {path} for a semaphore of {theirs}, and this command for one of {ours}; give both the same number"
            ));
        }
    }
}

/// Reads the data of a lease as [`node_data`] writes it: who made it, and the number. Other data may end in a similar way.
fn parse(data: &[u8]) -> Option<(&str, u32)> {
    let (who, written) = str::from_utf8(data).ok()?.rsplit_once(MARK)?;
    let permits = written.parse().ok().filter(|permits: &NonZeroU32| permits.to_string() == written)?;
    Some((who, permits.get()))
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_tells_the_number_that_its_contender_was_given() {
        for (recipe, expected) in [("semaphore=4", Some(4)), ("semaphore-mutex", Some(1)), ("mutex", None)] {
            let data = node_data(recipe.parse().unwrap());
            assert_eq!(parse(data.as_bytes()).map(|(_, permits)| permits), expected, "{data}");
        }
        for foreign in [
            &b""[..],
            b"__REVOKE__",
            b"10.0.0.7",
            b"a:1 permits=",
            b"a:1 permits=0",
            b"a:1 permits=+1",
            b"\xff permits=1",
        ] {
            assert_eq!(parse(foreign), None);
        }
    }
}
