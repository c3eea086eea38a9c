//! The cost of a trial for Postgres: transactions, write-ahead log, and waits for locks.
//!
//! The server's own statistics lag behind by up to ten seconds. So transactions are counted by their numbers: every
//! transaction that writes or locks a row takes one. The log is measured by its position. Both include all other work of the
//! server at that time. The server does not count waits for locks at all: they are sampled.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{as_f64, as_ms};

/// The server's counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PostgresCounters {
    /// The next transaction number.
    pub(crate) next_xid: i64,
    /// The position of the write-ahead log in bytes.
    pub(crate) wal_bytes: i64,
}

/// Samples of the connections that wait for a lock.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct LockWaits {
    /// Number of samples.
    pub(crate) looks: u64,
    /// Total waiting time of the connections, in milliseconds. A connection that waits in a sample counts as waiting since
    /// the previous sample.
    pub(crate) waited_ms: f64,
    /// Most connections that waited at once.
    pub(crate) waiting_max: u64,
}

impl LockWaits {
    /// Adds a sample, weighted by the time since the previous one.
    pub(crate) fn add(&mut self, waiting: u64, stands_for: Duration) {
        self.looks += 1;
        self.waited_ms += as_f64(waiting) * as_ms(stands_for);
        self.waiting_max = self.waiting_max.max(waiting);
    }
}

/// The cost of a trial for Postgres. An absent figure could not be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PostgresLoad {
    /// Transactions that wrote or locked a row and were committed.
    pub(crate) commits: Option<u64>,
    /// Transactions that wrote or locked a row and were rolled back.
    pub(crate) rollbacks: Option<u64>,
    /// Bytes of write-ahead log.
    pub(crate) wal_bytes: Option<u64>,
    /// Time that connections waited for locks of the database, added up, in milliseconds: estimated from samples.
    pub(crate) lock_wait_ms: Option<f64>,
    /// Most connections that were seen to wait for a lock at once.
    pub(crate) lock_waiting_max: Option<u64>,
    /// Number of samples of the waits for locks.
    pub(crate) lock_looks: u64,
    /// Orders that one transaction wrote, on average over the transactions that wrote any.
    pub(crate) batch_mean: Option<f64>,
    /// Most orders that one transaction wrote.
    pub(crate) batch_max: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_lock_waits_counts_for_the_time_since_the_last() {
        let mut waits = LockWaits::default();
        [(0, 500), (6, 20), (3, 40)]
            .into_iter()
            .for_each(|(waiting, ms)| waits.add(waiting, Duration::from_millis(ms)));
        assert_eq!((waits.waiting_max, waits.looks), (6, 3));
        assert!((waits.waited_ms - 240.0).abs() < 1e-9, "{}", waits.waited_ms);
    }
}
