//! Open files: every client, session and database connection needs one.

use program::raise_file_limit;
use tracing::warn;

use super::instances::strangers::STRANGERS_MAX;
use crate::config::Config;
use crate::instances;
use crate::setup_error::SetupError;

/// Connections of the store beyond `--db-connections`: one for probes, and one for the question whether a commit is
/// over.
const DB_CONNECTIONS_ASIDE: u64 = 2;

/// Open files for everything else: standard streams, the runtime, listeners, a connection that waits for room, reconnects.
const SPARE: u64 = 64;

/// The fewest client connections of a listener that are worth a start, unless fewer were asked for.
const CONNECTIONS_MIN: u32 = 16;

/// The most connections of a listener that buyers at work leave to others. Probes and operators are answered on them.
const LEFT_TO_OTHERS: u32 = 32;

/// Raises the limit of open files as far as the system allows, and lowers `--connections-max` to what fits into it. Lowers
/// `--concurrency-max` below that.
pub(super) fn fit(config: Config) -> Result<Config, SetupError> {
    let limit = raise_file_limit();
    let asked = config.connections_max;
    match connections_within(limit, asked, listeners(&config), others(&config)) {
        Ok(used) => {
            if used < asked {
                warn!(
                    "the limit of {limit} open files is too low for --connections-max {asked} (CONNECTIONS_MAX): at most \
                     {used} client connections of each address are kept at once. Raise it with ulimit -n, LimitNOFILE of \
                     systemd or ulimits of a compose file"
                );
            }
            let concurrency_max = config.concurrency_max.min(at_work_max(used));
            Ok(Config { connections_max: used, concurrency_max, ..config })
        }
        Err(needed) => Err(SetupError::OpenFiles { limit, asked, needed }),
    }
}

/// Returns how many listeners the service opens.
fn listeners(config: &Config) -> u64 {
    1 + u64::from(config.operators_listen.is_some()) + u64::from(config.hands_over())
}

/// Returns how many open files the service needs beside those of its client connections.
fn others(config: &Config) -> u64 {
    let with_instances = if config.hands_over() { STRANGERS_MAX + instances::CONNECTIONS_MAX } else { 0 };
    let with_servers = u64::from(config.db_connections) + DB_CONNECTIONS_ASIDE + u64::from(config.zk_sessions);
    with_servers + with_instances as u64 + SPARE
}

/// Returns how many client connections each listener may have, at most `asked`. If that is fewer than
/// [`CONNECTIONS_MIN`] and fewer than `asked`, returns the limit of open files that the fewest connections need.
fn connections_within(limit: u64, asked: u32, listeners: u64, others: u64) -> Result<u32, u64> {
    let fitting = limit.saturating_sub(others) / listeners;
    let used = u32::try_from(fitting).unwrap_or(u32::MAX).min(asked);
    let fewest = asked.min(CONNECTIONS_MIN);
    if used < fewest { Err(others + listeners * u64::from(fewest)) } else { Ok(used) }
}

/// Returns how many connections of a listener buyers at work may have. No other connection replaces these.
fn at_work_max(connections_max: u32) -> u32 {
    (connections_max - LEFT_TO_OTHERS.min(connections_max.div_ceil(4))).max(1)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn config(arguments: &[&str]) -> Config {
        let servers = ["demo-service", "--database-url", "postgres://localhost/lab", "--zookeeper", "localhost:2181"];
        Config::parse_from_env(servers.iter().chain(arguments).map(OsString::from)).unwrap()
    }

    // S78
    #[test]
    fn every_listener_that_is_opened_is_counted() {
        for (arguments, expected) in [
            (&["--offer", "zk-mutex"][..], 1),
            (&["--offer", "zk-mutex,zk-owner"], 2),
            (&["--strategy", "zk-owner", "--offer", "zk-mutex"], 2),
            (&["--operators-listen", "127.0.0.1:9090"], 3),
        ] {
            assert_eq!(listeners(&config(arguments)), expected, "{arguments:?}");
        }
    }

    // S78
    #[test]
    fn every_connection_between_instances_is_counted() {
        let [alone, together] = ["zk-mutex", "zk-owner"].map(|offer| others(&config(&["--offer", offer])));
        assert_eq!(alone, 20 + 2 + 1 + SPARE);
        assert_eq!(together - alone, 32 + 256);
    }

    // S78
    #[test]
    fn connections_are_lowered_to_what_fits_into_the_open_files() {
        for (limit, asked, listeners, expected) in [
            (u64::MAX, 4096, 1, Ok(4096)),
            (100 + 4096, 4096, 1, Ok(4096)),
            (100 + 4095, 4096, 1, Ok(4095)),
            (100 + 2 * 500, 4096, 2, Ok(500)),
            (100 + 16, 4096, 1, Ok(16)),
            (100 + 15, 4096, 1, Err(116)),
            (100 + 3, 3, 1, Ok(3)),
            (100 + 2, 3, 1, Err(103)),
            (0, 4096, 2, Err(132)),
        ] {
            assert_eq!(connections_within(limit, asked, listeners, 100), expected, "{limit} {asked} {listeners}");
        }
    }

    // S66
    #[test]
    fn buyers_at_work_leave_connections_to_others() {
        for (connections_max, expected) in [(1, 1), (2, 1), (4, 3), (100, 75), (128, 96), (4096, 4064)] {
            assert_eq!(at_work_max(connections_max), expected, "{connections_max}");
        }
    }
}
