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

use zookeeper_client::Stat;

use crate::node::Sequence;

/// What a note begins with. The number follows as the server writes it.
const RELEASED: &str = "released-";
/// What stands between the number and the `czxid` of the lock's node, in hexadecimal, of one length.
const OF_NODE: &str = "-of-0x";
/// What older versions wrote, followed by nothing but the number. These notes do not say of which node they are.
const OLDER_NOTES: [&str; 2] = [RELEASED, "releasing-"];

/// The data of the lock's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Released {
    /// No note, or one of an older version. It proves nothing, and a note may replace it.
    Nobody,
    /// The contender of this number has held and released, in the lock's node of this `czxid`.
    Through { number: Sequence, of_node: i64 },
    /// Something else, which is not ours to overwrite.
    Foreign,
}

/// The lock's node by one read of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    released: Released,
    /// The transaction that created the lock's node. It tells that node from earlier and later ones at the path.
    pub(crate) incarnation: i64,
    /// The version of its data.
    version: i32,
    /// The last transaction that created or deleted a child.
    changed: i64,
    /// The number of children.
    children: i32,
}

/// The note of one holder.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    /// The path of the lock's node.
    pub(crate) noted: String,
    /// The `czxid` of that node.
    pub(crate) incarnation: i64,
    /// The holder's number.
    pub(crate) released: Sequence,
    /// The version of the data that the note replaces. Other data are not ours to overwrite.
    pub(crate) version: i32,
}

impl Released {
    fn parse(data: &[u8]) -> Self {
        let Ok(text) = std::str::from_utf8(data) else { return Self::Foreign };
        let note = text.rsplit_once(OF_NODE).and_then(|(head, czxid)| {
            let number = number_after(RELEASED, head)?;
            Some(Self::Through { number, of_node: i64::from_str_radix(czxid, 16).ok()? })
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
    pub(crate) fn data(&self) -> Vec<u8> {
        note(self.released, self.incarnation)
    }
}

/// The note of the contender with the number `own`, in the lock's node of this `czxid`.
pub fn note(own: Sequence, czxid: i64) -> Vec<u8> {
    format!("{RELEASED}{own}{OF_NODE}{czxid:016x}").into_bytes()
}

impl Noted {
    /// Reads the data of the lock's node and its `stat`.
    pub fn new(data: &[u8], stat: &Stat) -> Self {
        Self {
            released: Released::parse(data),
            incarnation: stat.czxid,
            version: stat.version,
            changed: stat.pzxid,
            children: stat.num_children,
        }
    }

    /// The version of the data, if a note may replace them.
    pub(crate) fn version_to_replace(&self) -> Option<i32> {
        (self.released != Released::Foreign).then_some(self.version)
    }

    /// Whether the lock's node was read after the transaction `czxid` had created a child of it.
    pub(crate) fn is_since(&self, czxid: i64) -> bool {
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
        let Released::Through { number, of_node } = self.released else { return false };
        // The numbers of a lock's node that is younger than the contender's own are not comparable with `own`.
        let is_of_this_node = of_node == self.incarnation && self.incarnation < czxid;
        is_of_this_node && number.queue_cmp(predecessor).is_ge() && number.queue_cmp(own).is_lt()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The transaction that created the lock's node.
    const PARENT: i64 = 5;
    /// The transaction that created the contender's node.
    const OWN: i64 = 9;

    fn sequence(number: i32) -> Sequence {
        Sequence::parse(&format!("lock-{number:010}"), "lock-").unwrap()
    }

    /// The lock's node with these data, the last change of its children, and the number of them.
    fn noted(data: &[u8], changed: i64, children: i32) -> Noted {
        let stat = Stat {
            czxid: PARENT,
            mzxid: 1,
            pzxid: changed,
            ctime: 0,
            mtime: 0,
            version: 3,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: 0,
            data_length: 0,
            num_children: children,
        };
        Noted::new(data, &stat)
    }

    /// Whether a note of the number `released` lets the contender `own` in whose predecessor is gone.
    fn passes(released: i32, predecessor: i32, own: i32) -> bool {
        let noted = noted(&note(sequence(released), PARENT), 12, 2);
        noted.passes(sequence(predecessor), sequence(own), OWN)
    }

    #[test]
    fn a_note_is_read_back_and_anything_else_is_foreign() {
        assert_eq!(note(sequence(42), 0x1a), b"released-0000000042-of-0x000000000000001a");
        let through = |number| Released::Through { number: sequence(number), of_node: 0x1a };
        assert_eq!(Released::parse(b"released-0000000042-of-0x1a"), through(42));
        assert_eq!(Released::parse(b"released--000000001-of-0x1a"), through(-1));
        for foreign in [
            &b"192.168.1.7"[..],
            b"released-",
            b"released-42",
            b"not released-0000000042",
            b"released-0000000042-of-0x",
            b"released-42-of-0x1a",
            b"released-0000000042-of-0x1a ",
            b"\xff",
        ] {
            assert_eq!(Released::parse(foreign), Released::Foreign, "{foreign:?}");
        }
    }

    #[test]
    fn data_that_prove_nothing_are_replaced_and_foreign_data_are_not() {
        for data in [&b""[..], b"released-0000000042", b"releasing-0000000042", b"released--000000001"] {
            assert_eq!(Released::parse(data), Released::Nobody, "{data:?}");
            assert_eq!(noted(data, 12, 2).version_to_replace(), Some(3));
        }
        assert_eq!(noted(b"{}", 12, 2).version_to_replace(), None);
    }

    #[test]
    fn a_release_lets_in_the_waiter_behind_that_number_or_behind_an_earlier_one() {
        assert!(passes(41, 41, 42));
        assert!(passes(41, 39, 42), "the contenders between have given up");
        assert!(!passes(40, 41, 42), "the predecessor gave up and never held");
        assert!(!passes(42, 41, 42), "nobody else can have our number");
        assert!(passes(i32::MAX, i32::MAX, i32::MIN), "the number after the wrap");
        for data in [&b""[..], b"released-0000000041", b"releasing-0000000041", b"{}"] {
            assert!(!noted(data, 12, 2).passes(sequence(41), sequence(42), OWN), "{data:?}");
        }
    }

    #[test]
    fn a_note_of_another_node_of_the_path_lets_nobody_in() {
        let of_node = |czxid| noted(&note(sequence(41), czxid), 12, 2);
        assert!(of_node(PARENT).passes(sequence(41), sequence(42), OWN));
        assert!(!of_node(PARENT - 1).passes(sequence(41), sequence(42), OWN), "it was copied");
        assert!(!of_node(PARENT).passes(sequence(41), sequence(42), PARENT - 1), "the contender is of an earlier one");
    }

    #[test]
    fn a_contender_that_is_alone_since_its_creation_is_the_only_child() {
        assert!(noted(b"", OWN, 1).has_only_child(OWN));
        assert!(!noted(b"", OWN, 2).has_only_child(OWN), "a second child is there");
        assert!(!noted(b"", OWN + 1, 1).has_only_child(OWN), "the child may be another one");
    }

    proptest! {
        #[test]
        fn a_note_lets_in_its_successor_and_nobody_further(number in any::<i32>(), further in 1..i32::MAX / 2) {
            let own = sequence(number).before();
            let noted = noted(&note(own, PARENT), 12, 2);
            let next = sequence(number);
            prop_assert!(noted.passes(next.before(), next, OWN));
            let other = sequence(number.wrapping_add(further));
            prop_assert!(!noted.passes(other.before(), other, OWN));
        }
    }
}
