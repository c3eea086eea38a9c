//! The traffic of a session with ZooKeeper: requests, notifications and bytes.
//!
//! Traffic that depends on time and not on a recipe is not counted: pings, the session's signs of life, and the requests of a new
//! connection. The requests with which the client library removes dropped watches are not counted either.

use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::sync::atomic::{AtomicU64, Ordering};

use zk_recipes_protocol::wire_size;

/// The totals of what a session has exchanged with ZooKeeper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Traffic {
    /// Number of requests sent.
    pub requests: u64,
    /// Number of watch notifications received.
    pub notifications: u64,
    /// Bytes of the requests.
    pub bytes_sent: u64,
    /// Bytes of the replies and notifications.
    pub bytes_received: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.notifications += other.notifications;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
    }
}

impl Traffic {
    /// Returns the traffic since the `earlier` totals of the same session or sessions. If a value in `earlier` is greater, as for
    /// another session, the difference is 0.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            notifications: self.notifications.saturating_sub(earlier.notifications),
            bytes_sent: self.bytes_sent.saturating_sub(earlier.bytes_sent),
            bytes_received: self.bytes_received.saturating_sub(earlier.bytes_received),
        }
    }
}

impl Add for Traffic {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Sum for Traffic {
    fn sum<I: Iterator<Item = Self>>(totals: I) -> Self {
        totals.fold(Self::default(), Self::add)
    }
}

/// The counters behind [`Traffic`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    notifications: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_received: AtomicU64,
}

impl Counters {
    /// Counts a request with a record of `record_bytes`.
    pub(crate) fn sent(&self, record_bytes: usize) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes_sent.fetch_add(wire_size::request(record_bytes) as u64, Ordering::Relaxed);
    }

    /// Counts a reply with a record of `record_bytes`, which is 0 if the reply reports an error.
    pub(crate) fn received(&self, record_bytes: usize) {
        self.bytes_received.fetch_add(wire_size::reply(record_bytes) as u64, Ordering::Relaxed);
    }

    /// Counts a notification for a watched path of `path_bytes`.
    pub(crate) fn notified(&self, path_bytes: usize) {
        self.notifications.fetch_add(1, Ordering::Relaxed);
        self.bytes_received.fetch_add(wire_size::notification(path_bytes) as u64, Ordering::Relaxed);
    }

    /// Returns the totals so far.
    pub(crate) fn totals(&self) -> Traffic {
        Traffic {
            requests: self.requests.load(Ordering::Relaxed),
            notifications: self.notifications.load(Ordering::Relaxed),
            bytes_sent: self.bytes_sent.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_of_traffic_are_never_negative_and_sums_complete() {
        let less = Traffic { requests: 1, notifications: 2, bytes_sent: 3, bytes_received: 4 };
        let more = Traffic { requests: 10, notifications: 20, bytes_sent: 30, bytes_received: 40 };
        let difference = Traffic { requests: 9, notifications: 18, bytes_sent: 27, bytes_received: 36 };
        assert_eq!(more.since(less), difference);
        assert_eq!(less.since(more), Traffic::default());
        assert_eq!([less, difference].into_iter().sum::<Traffic>(), more);
        assert_eq!(less + difference, more);
    }
}
