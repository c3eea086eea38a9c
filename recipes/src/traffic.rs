//! How much a session asks of ZooKeeper: requests, notifications and bytes.
//!
//! Sizes follow from the wire format (jute), in which every integer, string and vector has one encoding: a request is
//! its length, an 8-byte header and the record; a reply has a 16-byte header. Pings and the handshake are not counted:
//! they depend on time, not on what a recipe does. Neither are the requests by which the client library takes back a
//! watch that was dropped.

use std::sync::atomic::{AtomicU64, Ordering};

use zookeeper_client::Acl;

/// The length field before every packet.
const LENGTH: usize = 4;
/// xid and operation code.
const REQUEST_HEADER: usize = LENGTH + 8;
/// xid, zxid and error code. A reply that reports an error is nothing else.
const REPLY_HEADER: usize = LENGTH + 16;
/// Kind, end mark and error code, of each operation of a transaction.
const OPERATION_HEADER: usize = 4 + 1 + 4;
/// The stat of a node.
pub const STAT: usize = 68;
/// Kind and state of a notification; its path follows.
const NOTIFICATION: usize = 8;

/// What a session has exchanged with ZooKeeper so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// The counters behind [`Traffic`].
#[derive(Debug, Default)]
pub struct Counters {
    requests: AtomicU64,
    notifications: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_received: AtomicU64,
}

impl Counters {
    /// Counts a request with a record of so many bytes.
    pub fn sent(&self, record_bytes: usize) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes_sent.fetch_add((REQUEST_HEADER + record_bytes) as u64, Ordering::Relaxed);
    }

    /// Counts a reply with a record of so many bytes; none when it reports an error.
    pub fn received(&self, record_bytes: usize) {
        self.bytes_received.fetch_add((REPLY_HEADER + record_bytes) as u64, Ordering::Relaxed);
    }

    /// Counts a notification of a watched path of so many bytes.
    pub fn notified(&self, path_bytes: usize) {
        self.notifications.fetch_add(1, Ordering::Relaxed);
        let bytes = REPLY_HEADER + NOTIFICATION + string_len(path_bytes);
        self.bytes_received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn totals(&self) -> Traffic {
        Traffic {
            requests: self.requests.load(Ordering::Relaxed),
            notifications: self.notifications.load(Ordering::Relaxed),
            bytes_sent: self.bytes_sent.load(Ordering::Relaxed),
            bytes_received: self.bytes_received.load(Ordering::Relaxed),
        }
    }
}

/// A string or a byte buffer of `len` bytes.
pub const fn string_len(len: usize) -> usize {
    4 + len
}

/// `create`: path, data, ACL, flags.
pub(crate) fn create_request_len(path: usize, data: usize, acl: &[Acl]) -> usize {
    // An entry is permissions, scheme and identity; the vector of them begins with its length.
    let entry = |entry: &Acl| 4 + string_len(entry.scheme().len()) + string_len(entry.id().len());
    string_len(path) + string_len(data) + 4 + acl.iter().map(entry).sum::<usize>() + 4
}

/// `setData`: path, data, version.
pub const fn set_data_request_len(path: usize, data: usize) -> usize {
    string_len(path) + string_len(data) + 4
}

/// The reply to `create`: the path as created, its stat.
pub const fn create_reply_len(path: usize) -> usize {
    string_len(path) + STAT
}

/// `delete`: path, version.
pub const fn delete_request_len(path: usize) -> usize {
    string_len(path) + 4
}

/// A transaction of two operations, or the reply to one. Each operation has a header of its kind, whether it is the last,
/// and an error code; an empty one ends the transaction.
pub const fn transaction_len(one: usize, other: usize) -> usize {
    3 * OPERATION_HEADER + one + other
}

/// A check of a node's version, within a transaction: path, version.
pub const fn check_len(path: usize) -> usize {
    string_len(path) + 4
}

/// A read: path, watch flag.
pub const fn read_request_len(path: usize) -> usize {
    string_len(path) + 1
}

/// The reply to `getData`: data, stat.
pub const fn data_reply_len(data: usize) -> usize {
    string_len(data) + STAT
}

/// The reply to `getChildren`: a vector of names.
pub fn children_reply_len<S: AsRef<str>>(names: &[S]) -> usize {
    4 + names.iter().map(|name| string_len(name.as_ref().len())).sum::<usize>()
}
