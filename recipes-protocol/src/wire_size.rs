//! How many bytes requests, replies and notifications have.
//!
//! The sizes follow from the wire format (jute), in which every integer, string and vector has one encoding. A request is
//! its length, a header of 8 bytes and the record. A reply has a header of 16 bytes.

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

/// A request with a record of so many bytes.
pub const fn request(record: usize) -> usize {
    REQUEST_HEADER + record
}

/// A reply with a record of so many bytes; none when it reports an error.
pub const fn reply(record: usize) -> usize {
    REPLY_HEADER + record
}

/// The notification of a watched path of so many bytes.
pub const fn notification(path: usize) -> usize {
    reply(NOTIFICATION + string(path))
}

/// A string or a byte buffer of `len` bytes.
pub const fn string(len: usize) -> usize {
    4 + len
}

/// An entry of an ACL: permissions, scheme and identity.
pub const fn acl_entry(scheme: usize, id: usize) -> usize {
    4 + string(scheme) + string(id)
}

/// The record of a `create`: path, data, the ACL with the sizes of its `acl_entries`, flags.
pub const fn create(path: usize, data: usize, acl_entries: usize) -> usize {
    string(path) + string(data) + 4 + acl_entries + 4
}

/// The record of the reply to `create`: the path as created, its stat.
pub const fn created(path: usize) -> usize {
    string(path) + STAT
}

/// The record of a `setData`: path, data, version.
pub const fn set_data(path: usize, data: usize) -> usize {
    string(path) + string(data) + 4
}

/// The record of a `delete`: path, version.
pub const fn delete(path: usize) -> usize {
    string(path) + 4
}

/// The record of a transaction of two operations, or of the reply to one. Each operation has a header of its kind, whether
/// it is the last, and an error code; an empty one ends the transaction.
pub const fn transaction(one: usize, other: usize) -> usize {
    3 * OPERATION_HEADER + one + other
}

/// The check of a node's version, within a transaction: path, version.
pub const fn check(path: usize) -> usize {
    string(path) + 4
}

/// The record of a read: path, watch flag.
pub const fn read(path: usize) -> usize {
    string(path) + 1
}

/// The record of the reply to `getData`: data, stat.
pub const fn data(data: usize) -> usize {
    string(data) + STAT
}

/// The record of the reply to `getChildren`: a vector of names.
pub fn children<S: AsRef<str>>(names: &[S]) -> usize {
    4 + names.iter().map(|name| string(name.as_ref().len())).sum::<usize>()
}
