//! The sizes of requests, replies and notifications in bytes.
//!
//! The sizes follow from the wire format (jute), in which every integer, string and vector has one encoding. A request is
//! its length, a header of 8 bytes and the record. A reply is its length, a header of 16 bytes and the record.

/// The length field before every packet.
const LENGTH: usize = 4;
/// xid and operation code.
const REQUEST_HEADER: usize = LENGTH + 8;
/// xid, zxid and error code. A reply that reports an error has no record.
const REPLY_HEADER: usize = LENGTH + 16;
/// Kind, end mark and error code, of each operation of a transaction.
const OPERATION_HEADER: usize = 4 + 1 + 4;
/// The stat of a node.
pub const STAT: usize = 68;
/// Kind and state of a notification; its path follows.
const NOTIFICATION: usize = 8;

/// Returns the size of a request with a record of `record` bytes.
pub const fn request(record: usize) -> usize {
    REQUEST_HEADER + record
}

/// Returns the size of a reply with a record of `record` bytes. The record is empty if the reply reports an error.
pub const fn reply(record: usize) -> usize {
    REPLY_HEADER + record
}

/// Returns the size of the notification of a watched path of `path` bytes.
pub const fn notification(path: usize) -> usize {
    reply(NOTIFICATION + string(path))
}

/// Returns the size of a string or a byte buffer of `len` bytes.
pub const fn string(len: usize) -> usize {
    4 + len
}

/// Returns the size of an entry of an ACL: permissions, scheme and identity.
pub const fn acl_entry(scheme: usize, id: usize) -> usize {
    4 + string(scheme) + string(id)
}

/// Returns the size of the record of a `create`: path, data, the ACL with the sizes of its `acl_entries`, flags.
pub const fn create(path: usize, data: usize, acl_entries: usize) -> usize {
    string(path) + string(data) + 4 + acl_entries + 4
}

/// Returns the size of the record of the reply to `create`: the path as created, its stat.
pub const fn created(path: usize) -> usize {
    string(path) + STAT
}

/// Returns the size of the record of a `setData`: path, data, version.
pub const fn set_data(path: usize, data: usize) -> usize {
    string(path) + string(data) + 4
}

/// Returns the size of the record of a `delete`: path, version.
pub const fn delete(path: usize) -> usize {
    string(path) + 4
}

/// Returns the size of the record of a transaction of two operations, or of the reply to one. Each operation has a header
/// with its kind, an end mark and an error code. An empty operation ends the transaction.
pub const fn transaction(one: usize, other: usize) -> usize {
    3 * OPERATION_HEADER + one + other
}

/// Returns the size of the record of a transaction of one operation, or of the reply to one.
pub const fn lone(one: usize) -> usize {
    2 * OPERATION_HEADER + one
}

/// Returns the size of the check of a node's version within a transaction: path, version.
pub const fn check(path: usize) -> usize {
    string(path) + 4
}

/// Returns the size of the record of a read: path, watch flag.
pub const fn read(path: usize) -> usize {
    string(path) + 1
}

/// Returns the size of the record of the reply to `getData`: data, stat.
pub const fn data(data: usize) -> usize {
    string(data) + STAT
}

/// Returns the size of the record of the reply to `getChildren`: a vector of names.
pub fn children<S: AsRef<str>>(names: &[S]) -> usize {
    4 + names.iter().map(|name| string(name.as_ref().len())).sum::<usize>()
}
