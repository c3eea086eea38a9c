//! The number of permits of a semaphore.

use crate::error::Error;
use crate::locks::shared_count::SharedCount;
use crate::session::Session;
use crate::session::wire::Watch;

/// The number of permits.
#[derive(Debug)]
pub(super) enum Permits {
    Fixed(u32),
    Counted(SharedCount),
}

impl Permits {
    /// Returns the current number. `ours`: the session of the semaphore.
    pub(super) async fn now(&self, ours: &Session) -> Result<usize, Error> {
        match self {
            Self::Fixed(permits) => Ok(*permits as usize),
            Self::Counted(count) => count.get().await.map(|count| permits(count.value)).map_err(told_of(count, ours)),
        }
    }

    /// As [`now`](Self::now), with a watch on the number, if it can change.
    pub(super) async fn watch(&self, ours: &Session) -> Result<(usize, Option<Watch>), Error> {
        match self {
            Self::Fixed(permits) => Ok((*permits as usize, None)),
            Self::Counted(count) => {
                let (seen, watch) = count.watch().await.map_err(told_of(count, ours))?;
                Ok((permits(seen.value), Some(watch)))
            }
        }
    }

    /// Waits until the semaphore has at least `wanted` permits, held or free. Before that, our leases would only block other
    /// contenders. For one permit, the question is not worth a request.
    pub(super) async fn reach(&self, wanted: usize, ours: &Session) -> Result<(), Error> {
        if wanted == 1 || self.now(ours).await? >= wanted {
            return Ok(());
        }
        loop {
            match self.watch(ours).await? {
                (permits, Some(watch)) if permits < wanted => {
                    watch.fired().await;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Returns the upper bound of the number.
    pub(super) fn at_most(&self) -> u32 {
        match self {
            Self::Fixed(permits) => *permits,
            Self::Counted(_) => i32::MAX.unsigned_abs(),
        }
    }
}

/// Returns the number of permits for a count.
fn permits(count: i32) -> usize {
    usize::try_from(count).unwrap_or(0)
}

/// Returns a function that converts errors. If the count has its own session and that session has ended, the error names the
/// count.
fn told_of<'a>(count: &'a SharedCount, ours: &'a Session) -> impl FnOnce(Error) -> Error + 'a {
    move |error| match error {
        Error::SessionEnded { reason } if count.session().id() != ours.id() => {
            Error::CountSessionEnded { path: count.path().to_owned(), reason }
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_below_zero_stands_for_no_permit() {
        for (count, expected) in [(i32::MIN, 0), (-1, 0), (0, 0), (1, 1), (i32::MAX, 2_147_483_647)] {
            assert_eq!(permits(count), expected, "{count}");
        }
    }
}
