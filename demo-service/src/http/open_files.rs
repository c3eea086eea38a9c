//! Open files: every client, session and database connection needs one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::warn;

use super::places::ASIDE;
use crate::config::Config;
use crate::setup_error::SetupError;

/// Connections of the store beyond `--db-connections`: one for probes, and one for the question whether a commit is
/// over.
const DB_CONNECTIONS_ASIDE: u64 = 2;

/// Open files for everything else: standard streams, the runtime, listeners, a connection that waits for its place,
/// reconnects.
const SPARE: u64 = 64;

/// The fewest client connections of a listener that are worth a start, unless fewer were asked for.
const CONNECTIONS_MIN: u32 = 16;

/// Raises the limit of open files as far as the system allows, and lowers `--connections-max` to what fits into it.
///
/// # Errors
/// [`SetupError::OpenFiles`] if not even a few client connections fit.
pub(super) fn fit(config: Config) -> Result<Config, SetupError> {
    let Some(limit) = raise_limit() else { return Ok(config) };
    let Config { connections_max: asked, db_connections, zk_sessions, .. } = config;
    let listeners = 1 + u64::from(config.operators_listen.is_some());
    let others = u64::from(db_connections) + DB_CONNECTIONS_ASIDE + u64::from(zk_sessions) + SPARE;
    match connections_within(limit, asked, listeners, others) {
        Ok(used) => {
            if used < asked {
                warn!(
                    "the limit of {limit} open files is too low for --connections-max {asked} (CONNECTIONS_MAX): at most \
                     {used} client connections of each address are served, further clients wait. Raise it with ulimit -n, LimitNOFILE of \
                     systemd or ulimits of a compose file"
                );
            }
            Ok(Config { connections_max: used, ..config })
        }
        Err(needed) => Err(SetupError::OpenFiles { limit, asked, needed }),
    }
}

/// Returns how many client connections each listener may have, at most `asked`. If that is fewer than
/// [`CONNECTIONS_MIN`] and fewer than `asked`, returns the limit of open files that the fewest connections need.
fn connections_within(limit: u64, asked: u32, listeners: u64, others: u64) -> Result<u32, u64> {
    let aside = ASIDE as u64;
    let fitting = (limit.saturating_sub(others) / listeners).saturating_sub(aside);
    let used = u32::try_from(fitting).unwrap_or(u32::MAX).min(asked);
    let fewest = asked.min(CONNECTIONS_MIN);
    if used < fewest { Err(others + listeners * (u64::from(fewest) + aside)) } else { Ok(used) }
}

/// Raises the limit of open files as far as the system allows. Returns the limit, or `None` if it cannot be read.
pub(super) fn raise_limit() -> Option<u64> {
    let limits = getrlimit(Resource::RLIMIT_NOFILE);
    let (soft, hard) = limits.inspect_err(|error| warn!(%error, "cannot read the limit of open files")).ok()?;
    let raised = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    if let Err(error) = raised {
        warn!(%error, "cannot raise the limit of open files");
        return Some(soft);
    }
    Some(hard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_lowered_to_what_fits_into_the_open_files() {
        // Each listener needs 32 places aside.
        for (limit, asked, listeners, expected) in [
            (u64::MAX, 4096, 1, Ok(4096)),
            (100 + 4096 + 32, 4096, 1, Ok(4096)),
            (100 + 4096 + 31, 4096, 1, Ok(4095)),
            (100 + 2 * (500 + 32), 4096, 2, Ok(500)),
            (100 + 16 + 32, 4096, 1, Ok(16)),
            (100 + 15 + 32, 4096, 1, Err(148)),
            (100 + 3 + 32, 3, 1, Ok(3)),
            (100 + 2 + 32, 3, 1, Err(135)),
            (0, 4096, 2, Err(196)),
        ] {
            assert_eq!(connections_within(limit, asked, listeners, 100), expected, "{limit} {asked} {listeners}");
        }
    }
}
