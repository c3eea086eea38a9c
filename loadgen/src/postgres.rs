//! What a trial cost Postgres: transactions, write-ahead log, and waits for locks.
//!
//! The server's own statistics lag behind by up to ten seconds, so transactions are counted by their numbers, of which
//! every transaction that writes or locks a row takes one, and the log by its position. Both count whatever else the
//! server does at the same time. Waits for locks are not counted by the server at all: they are sampled.

use loadgen::stats::as_f64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the server's counters stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PostgresCounters {
    /// The next transaction number.
    pub(crate) next_xid: i64,
    /// The position of the write-ahead log in bytes.
    pub(crate) wal_bytes: i64,
}

/// Samples of who waits for a lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LockWaits {
    /// How often was looked.
    pub(crate) looks: u64,
    /// Connections that waited for a lock, added up over the looks.
    pub(crate) waiting: u64,
    /// Most that waited at once.
    pub(crate) waiting_max: u64,
}

impl LockWaits {
    /// Adds a look.
    pub(crate) fn add(&mut self, waiting: u64) {
        self.looks += 1;
        self.waiting += waiting;
        self.waiting_max = self.waiting_max.max(waiting);
    }

    /// How many waited at a look, on average; nothing without a look.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.looks > 0).then(|| as_f64(self.waiting) / as_f64(self.looks))
    }
}

/// What a trial cost Postgres. An absent figure could not be read.
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
    /// How often was looked who waits.
    pub(crate) lock_looks: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_averaged_and_the_most_is_kept() {
        let mut waits = LockWaits::default();
        assert_eq!(waits.mean(), None);
        [0, 6, 3].into_iter().for_each(|waiting| waits.add(waiting));
        assert_eq!((waits.mean(), waits.waiting_max, waits.looks), (Some(3.0), 6, 3));
    }
}
