//! The note that a holder leaves in the data of the lock's node for the waiter behind it. Pure.
//!
//! A `HandoffMutex` numbers its nodes without a prefix, so every waiter knows the name of its predecessor. A release deletes
//! the holder's node and writes a note in one transaction: "number 42 has released, in the lock's node that transaction 0x1a
//! created". A contender is granted only if no earlier one holds or waits. So once a waiter's predecessor is gone, a note of
//! that number or a later one proves that no contender ahead holds or waits. Nodes of earlier holders may still exist: these
//! holders have released, and the deletion of their nodes is under way.
//!
//! A note proves nothing about the waiter's own node, which somebody may have deleted. So the waiter reads its own node,
//! too.
//!
//! The note names the transaction (`czxid`) that created the lock's node. If that node is deleted and created again, numbers
//! begin anew, and its old data may be copied.

use crate::names::Sequence;
use crate::stat::{ParentCzxid, Stat};

/// The beginning of a note. The number follows as the server writes it.
const RELEASED: &str = "released-";
/// The text between the number and the `czxid` of the lock's node.
const OF_NODE: &str = "-of-0x";
/// The number of hexadecimal digits of the `czxid`.
const CZXID_WIDTH: usize = 16;

/// The data of the lock's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NoteState {
    /// No note. It proves nothing, and a note may replace it.
    NoNote,
    /// The contender of this number has held and released, in this lock's node.
    Released { number: Sequence, of_node: ParentCzxid },
    /// Something else, which we must not overwrite.
    Foreign,
}

/// The lock's node, as one read of its data shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParentState {
    note: NoteState,
    /// Which lock's node was read.
    pub parent: ParentCzxid,
    /// The version of its data.
    version: i32,
    /// The last transaction that created or deleted a child.
    changed: i64,
    /// The number of children.
    children: i32,
}

/// The note of one holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// The lock's node that is the parent of the holder's node.
    pub parent: ParentCzxid,
    /// The holder's number.
    pub released: Sequence,
    /// The version of the data that the note replaces. We must not overwrite other data.
    pub version: i32,
}

impl NoteState {
    fn parse(data: &[u8]) -> Self {
        if data.is_empty() { Self::NoNote } else { Self::written(data).unwrap_or(Self::Foreign) }
    }

    /// Reads a note as [`note`] writes it. Returns `None` for all other data: a client of another kind may have written it, and a note
    /// would overwrite it.
    fn written(data: &[u8]) -> Option<Self> {
        let (number, czxid) = str::from_utf8(data).ok()?.strip_prefix(RELEASED)?.split_once(OF_NODE)?;
        let are_digits = czxid.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        let czxid = u64::from_str_radix(czxid, 16).ok().filter(|_| are_digits && czxid.len() == CZXID_WIDTH)?;
        Some(Self::Released { number: Sequence::written(number)?, of_node: ParentCzxid(czxid.cast_signed()) })
    }
}

impl Note {
    /// Returns the data to write.
    pub fn data(&self) -> Vec<u8> {
        note(self.released, self.parent)
    }
}

/// Returns the note of the contender with the number `own`, in this lock's node.
pub fn note(own: Sequence, parent: ParentCzxid) -> Vec<u8> {
    format!("{RELEASED}{own}{OF_NODE}{:0CZXID_WIDTH$x}", parent.0).into_bytes()
}

impl ParentState {
    /// Reads the data of the lock's node and its `stat`.
    pub fn new(data: &[u8], stat: &Stat) -> Self {
        Self {
            note: NoteState::parse(data),
            parent: ParentCzxid(stat.czxid),
            version: stat.version,
            changed: stat.pzxid,
            children: stat.num_children,
        }
    }

    /// Returns the version of the data, if a note may replace the data.
    pub fn version_to_replace(&self) -> Option<i32> {
        (self.note != NoteState::Foreign).then_some(self.version)
    }

    /// Tells whether the lock's node was read after the transaction `czxid` had created a child of it.
    pub fn is_since(&self, czxid: i64) -> bool {
        self.changed >= czxid
    }

    /// Tells whether the only child is the node that the transaction `czxid` created.
    ///
    /// If so, no child was created or deleted since that transaction, so its node still exists, and it is the only one.
    pub fn has_only_child(&self, czxid: i64) -> bool {
        self.changed == czxid && self.children == 1
    }

    /// Tells whether the note proves that no contender is ahead of `own`. The transaction `czxid` created the node of `own`,
    /// and its `predecessor` is gone. The note does not prove that the node of `own` exists.
    pub fn proves_nobody_ahead(&self, predecessor: Sequence, own: Sequence, czxid: i64) -> bool {
        let NoteState::Released { number, of_node } = self.note else { return false };
        // If the lock's node is younger than the contender's node, its numbers cannot be compared with `own`.
        let is_of_this_node = of_node == self.parent && self.parent.0 < czxid;
        is_of_this_node && number.queue_cmp(predecessor).is_ge() && number.queue_cmp(own).is_lt()
    }
}

#[cfg(test)]
mod fuzzed;
