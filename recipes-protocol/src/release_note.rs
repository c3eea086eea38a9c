//! The note that a holder leaves in the data of the lock's node for the waiter behind it. Pure.
//!
//! A `HandoffMutex` numbers its nodes without a prefix, so every waiter knows the name of its predecessor. A release deletes
//! the holder's node and writes a note in one transaction: "number 42 has released, in the lock's node that transaction
//! 0x1a created". A contender is granted only if no earlier one holds or waits. So once a waiter's predecessor is gone, a
//! note of that number or a later one proves that nobody ahead holds or waits. Nodes of earlier holders may still be there:
//! they have released, and their deletion is under way.
//!
//! A note proves nothing about the waiter's own node, which somebody may have deleted. The waiter asks for that, too.
//!
//! The note names the transaction (`czxid`) because numbers begin anew when the lock's node is deleted and created again,
//! and whoever does that may copy its data.

use crate::names::Sequence;
use crate::stat::{ParentCzxid, Stat};

/// What a note begins with. The number follows as the server writes it.
const RELEASED: &str = "released-";
/// What stands between the number and the `czxid` of the lock's node, in hexadecimal, of one length.
const OF_NODE: &str = "-of-0x";
/// What older versions wrote, followed by nothing but the number. These notes do not say of which node they are.
const OLDER_NOTES: [&str; 2] = [RELEASED, "releasing-"];

/// The data of the lock's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NoteState {
    /// No note, or one of an older version. It proves nothing, and a note may replace it.
    Nobody,
    /// The contender of this number has held and released, in this lock's node.
    Through { number: Sequence, of_node: ParentCzxid },
    /// Something else, which is not ours to overwrite.
    Foreign,
}

/// The lock's node by one read of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParentState {
    released: NoteState,
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
    /// The lock's node in which the holder's node was.
    pub parent: ParentCzxid,
    /// The holder's number.
    pub released: Sequence,
    /// The version of the data that the note replaces. Other data are not ours to overwrite.
    pub version: i32,
}

impl NoteState {
    fn parse(data: &[u8]) -> Self {
        let Ok(text) = std::str::from_utf8(data) else { return Self::Foreign };
        let note = text.rsplit_once(OF_NODE).and_then(|(head, czxid)| {
            let number = number_after(RELEASED, head)?;
            Some(Self::Through { number, of_node: ParentCzxid(i64::from_str_radix(czxid, 16).ok()?) })
        });
        let is_older = || OLDER_NOTES.iter().any(|kind| number_after(kind, text).is_some());
        match note {
            Some(note) => note,
            None if text.is_empty() || is_older() => Self::Nobody,
            None => Self::Foreign,
        }
    }
}

/// The number that makes up the rest of a text of this `kind`.
fn number_after(kind: &str, text: &str) -> Option<Sequence> {
    text.starts_with(kind).then(|| Sequence::parse(text, kind)).flatten()
}

impl Note {
    /// The data to write.
    pub fn data(&self) -> Vec<u8> {
        note(self.released, self.parent)
    }
}

/// The note of the contender with the number `own`, in this lock's node.
pub fn note(own: Sequence, parent: ParentCzxid) -> Vec<u8> {
    format!("{RELEASED}{own}{OF_NODE}{:016x}", parent.0).into_bytes()
}

impl ParentState {
    /// Reads the data of the lock's node and its `stat`.
    pub fn new(data: &[u8], stat: &Stat) -> Self {
        Self {
            released: NoteState::parse(data),
            parent: ParentCzxid(stat.czxid),
            version: stat.version,
            changed: stat.pzxid,
            children: stat.num_children,
        }
    }

    /// The version of the data, if a note may replace them.
    pub fn version_to_replace(&self) -> Option<i32> {
        (self.released != NoteState::Foreign).then_some(self.version)
    }

    /// Whether the lock's node was read after the transaction `czxid` had created a child of it.
    pub fn is_since(&self, czxid: i64) -> bool {
        self.changed >= czxid
    }

    /// Whether the only child is the node that the transaction `czxid` created.
    ///
    /// No child was created or deleted since that transaction, so its node is still there, and there is no other.
    pub fn has_only_child(&self, czxid: i64) -> bool {
        self.changed == czxid && self.children == 1
    }

    /// Whether the note proves that nobody is ahead of the contender `own`, whose node the transaction `czxid` created and
    /// whose `predecessor` is gone. The note does not prove that its own node is there.
    pub fn passes(&self, predecessor: Sequence, own: Sequence, czxid: i64) -> bool {
        let NoteState::Through { number, of_node } = self.released else { return false };
        // The numbers of a lock's node that is younger than the contender's own are not comparable with `own`.
        let is_of_this_node = of_node == self.parent && self.parent.0 < czxid;
        is_of_this_node && number.queue_cmp(predecessor).is_ge() && number.queue_cmp(own).is_lt()
    }
}
