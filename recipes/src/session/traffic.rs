//! How much a session asks of ZooKeeper: requests, notifications and bytes.
//!
//! Pings and the handshake are not counted: they depend on time, not on what a recipe does. Neither are the requests by which
//! the client library takes back a watch that was dropped.

use std::sync::atomic::{AtomicU64, Ordering};

use zk_recipes_protocol::wire_size;

/// What a session has exchanged with ZooKeeper so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Requests sent.
    pub requests: u64,
    /// Watch notifications received.
    pub notifications: u64,
    /// Bytes of those requests.
    pub bytes_sent: u64,
    /// Bytes of the replies and of the notifications.
    pub bytes_received: u64,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.notifications += other.notifications;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
    }
}

impl std::ops::Sub for Traffic {
    type Output = Self;

    /// What was exchanged since an earlier moment of the same session.
    fn sub(self, earlier: Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            notifications: self.notifications - earlier.notifications,
            bytes_sent: self.bytes_sent - earlier.bytes_sent,
            bytes_received: self.bytes_received - earlier.bytes_received,
        }
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
    /// Counts a request with a record of so many bytes.
    pub(crate) fn sent(&self, record_bytes: usize) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes_sent.fetch_add(wire_size::request(record_bytes) as u64, Ordering::Relaxed);
    }

    /// Counts a reply with a record of so many bytes; none when it reports an error.
    pub(crate) fn received(&self, record_bytes: usize) {
        self.bytes_received.fetch_add(wire_size::reply(record_bytes) as u64, Ordering::Relaxed);
    }

    /// Counts a notification of a watched path of so many bytes.
    pub(crate) fn notified(&self, path_bytes: usize) {
        self.notifications.fetch_add(1, Ordering::Relaxed);
        self.bytes_received.fetch_add(wire_size::notification(path_bytes) as u64, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub(crate) fn totals(&self) -> Traffic {
        Traffic {
            requests: self.requests.load(Ordering::Relaxed),
            notifications: self.notifications.load(Ordering::Relaxed),
            bytes_sent: self.bytes_sent.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
        }
    }
}
