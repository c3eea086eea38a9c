//! What a holder leaves in the data of the lock's node for whoever comes next. Pure.
//!
//! `HandoffMutex` numbers its nodes without a prefix, so that everybody knows the name of the one ahead, and its release
//! deletes the node and notes the number in one transaction: "released through 42". From a note of the number ahead
//! follows that nobody is ahead any more: who released held, so all before it had gone, and numbers only grow.
//!
//! Who was passed its hold within the session may release before the nodes of those before it have gone. Then it says so:
//! nobody is ahead, but what is there cannot be counted on. Whoever comes next by such a note has not seen them go, either,
//! and says the same.

use zookeeper_client::Stat;

use crate::node::Sequence;

/// What the notes begin with; the number follows as the server writes it.
const RELEASED: &str = "released-";
const RELEASING: &str = "releasing-";

/// What the data of the lock's node say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// Nobody has released yet, of those who leave notes.
    Nobody,
    /// The contender of this number has held and released, so that all up to it have gone.
    Through(Sequence),
    /// The same, but nodes of those before it that have released as well may be there.
    Releasing(Sequence),
    /// They are not notes of ours, and not ours to overwrite.
    Foreign,
}

/// What is known of the lock's node from one read of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    pub(crate) released: Released,
    /// Tells the node from an earlier one at the path, where numbers began anew.
    pub(crate) incarnation: i64,
    /// The version of its data.
    version: i32,
    /// The transaction that created or deleted a child last.
    changed: i64,
    /// How many children there are.
    children: i32,
    /// How many were created and deleted so far, as the server counts: all that have been created count twice, those
    /// that are there once less.
    changes: i32,
}

impl Released {
    fn parse(data: &[u8]) -> Self {
        if data.is_empty() {
            return Self::Nobody;
        }
        let text = std::str::from_utf8(data).unwrap_or_default();
        let after = |kind: &str| text.starts_with(kind).then(|| Sequence::parse(text, kind)).flatten();
        let through = after(RELEASED).map(Self::Through);
        through.or_else(|| after(RELEASING).map(Self::Releasing)).unwrap_or(Self::Foreign)
    }

    /// Whether nobody up to `predecessor` holds or waits, because one of them from that number on has held and released.
    /// `own` is the number of who asks; a note of a later one would be wrong.
    pub(crate) fn passes(self, predecessor: Sequence, own: Sequence) -> bool {
        match self {
            Self::Through(released) | Self::Releasing(released) => {
                released.queue_cmp(predecessor).is_ge() && released.queue_cmp(own).is_lt()
            }
            Self::Nobody | Self::Foreign => false,
        }
    }
}

/// What a holder leaves when it releases.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    /// The path of the lock's node, whose data it becomes.
    pub(crate) noted: String,
    /// The holder's number.
    pub(crate) released: Sequence,
    /// Whether all nodes before the holder's have gone.
    pub(crate) is_last: bool,
    /// The version of the data that it replaces. Other data are not ours to overwrite.
    pub(crate) version: i32,
}

impl Note {
    pub(crate) fn data(&self) -> Vec<u8> {
        note(self.released, self.is_last)
    }
}

/// The note that the contender of this number leaves when it releases, all nodes before its own having gone or not.
pub fn note(own: Sequence, is_last: bool) -> Vec<u8> {
    let kind = if is_last { RELEASED } else { RELEASING };
    format!("{kind}{own}").into_bytes()
}

impl Noted {
    /// What the data of the lock's node and its `stat` say.
    pub fn new(data: &[u8], stat: &Stat) -> Self {
        Self {
            released: Released::parse(data),
            incarnation: stat.czxid,
            version: stat.version,
            changed: stat.pzxid,
            children: stat.num_children,
            changes: stat.cversion,
        }
    }

    /// The version of the data, if they are ours to replace.
    pub(crate) fn version_to_replace(&self) -> Option<i32> {
        (self.released != Released::Foreign).then_some(self.version)
    }

    /// Whether this alone proves that the contender `own`, created by the transaction `czxid`, holds: that nobody is
    /// ahead of it, no one between `predecessor` and it being there, and that its own node is there still.
    pub fn admits(&self, predecessor: Sequence, own: Sequence, czxid: i64) -> bool {
        let is_alone = self.changed == czxid && self.children == 1;
        let is_counted = matches!(self.released, Released::Through(_)) && self.lacks_nobody_from(own);
        is_alone || is_counted && self.passes(predecessor, own, czxid)
    }

    /// Whether nobody is ahead of the contender `own`, created by the transaction `czxid`, by what the last holder has left,
    /// the one with the number `predecessor` having gone. A lock's node that is younger than the contender's has numbers of
    /// its own.
    pub fn passes(&self, predecessor: Sequence, own: Sequence, czxid: i64) -> bool {
        self.incarnation < czxid && self.released.passes(predecessor, own)
    }

    /// Whether nodes of those may be there who have released.
    pub fn is_early(&self) -> bool {
        matches!(self.released, Released::Releasing(_))
    }

    /// Whether, if nobody is ahead of `own`, it is there, and all that were created after it. Its number is the count of
    /// creations before its own.
    fn lacks_nobody_from(&self, own: Sequence) -> bool {
        own.created_since(self.changes.wrapping_add(self.children)) == Some(self.children)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sequence(number: i32) -> Sequence {
        Sequence::parse(&format!("lock-{number:010}"), "lock-").unwrap()
    }

    /// The lock's node after `created` contenders, of which `children` are there.
    fn noted(data: &[u8], changed: i64, created: i32, children: i32) -> Noted {
        let stat = Stat {
            czxid: 1,
            mzxid: 1,
            pzxid: changed,
            ctime: 0,
            mtime: 0,
            version: 3,
            cversion: created.wrapping_mul(2).wrapping_sub(children),
            aversion: 0,
            ephemeral_owner: 0,
            data_length: 0,
            num_children: children,
        };
        Noted::new(data, &stat)
    }

    #[test]
    fn a_note_is_read_back_and_anything_else_is_foreign() {
        assert_eq!(note(sequence(42), true), b"released-0000000042");
        assert_eq!(note(sequence(42), false), b"releasing-0000000042");
        assert_eq!(Released::parse(b"releasing-0000000042"), Released::Releasing(sequence(42)));
        assert_eq!(Released::parse(b"released-0000000042"), Released::Through(sequence(42)));
        assert_eq!(Released::parse(b"released--000000001"), Released::Through(sequence(-1)));
        assert_eq!(Released::parse(b""), Released::Nobody);
        for foreign in [&b"192.168.1.7"[..], b"released-", b"released-42", b"not released-0000000042", b"\xff"] {
            assert_eq!(Released::parse(foreign), Released::Foreign);
        }
    }

    #[test]
    fn a_release_passes_the_lock_to_who_waited_for_that_number_or_an_earlier_one() {
        let through = |number| Released::Through(sequence(number));
        assert!(through(41).passes(sequence(41), sequence(42)));
        assert!(through(41).passes(sequence(39), sequence(42)), "those between had given up");
        assert!(!through(40).passes(sequence(41), sequence(42)), "the one ahead gave up and never held");
        assert!(!through(42).passes(sequence(41), sequence(42)), "nobody else can have had our number");
        assert!(Released::Releasing(sequence(41)).passes(sequence(41), sequence(42)));
        assert!(!Released::Nobody.passes(sequence(41), sequence(42)));
        assert!(!Released::Foreign.passes(sequence(41), sequence(42)));
        assert!(through(i32::MAX).passes(sequence(i32::MAX), sequence(i32::MIN)), "the number after the wrap");
    }

    #[test]
    fn a_contender_that_is_alone_since_its_creation_holds() {
        let admits = |noted: Noted| noted.admits(sequence(6), sequence(7), 9);
        assert!(admits(noted(b"", 9, 8, 1)));
        assert!(!admits(noted(b"", 9, 8, 2)), "somebody else is there");
        assert!(!admits(noted(b"", 10, 9, 1)), "the one that is there may be another");
    }

    #[test]
    fn a_contender_that_was_passed_the_lock_holds_if_its_own_node_is_certainly_there() {
        let (data, too_early) = (note(sequence(6), true), note(sequence(6), false));
        let admits = |noted: Noted| noted.admits(sequence(6), sequence(7), 9);
        assert!(admits(noted(&data, 12, 8, 1)));
        assert!(admits(noted(&data, 12, 10, 3)), "and two that came later");
        assert!(!admits(noted(&data, 12, 10, 2)), "one has gone, and it may be this one");
        assert!(!admits(noted(&too_early, 12, 10, 3)), "the third may be one that has released");
        assert!(!noted(&data, 12, 10, 2).admits(sequence(7), sequence(8), 10), "the one ahead has not released");
    }

    #[test]
    fn the_counts_of_creations_wrap_with_the_numbers() {
        for number in [i32::MAX, i32::MIN, -1, 1 << 30] {
            let data = note(sequence(number).before(), true);
            let admits = |created: i32, children| {
                noted(&data, 12, created, children).admits(sequence(number).before(), sequence(number), 9)
            };
            assert!(admits(number.wrapping_add(1), 1) && admits(number.wrapping_add(3), 3));
            assert!(!admits(number.wrapping_add(3), 2) && !admits(number.wrapping_add(1), 0));
        }
    }

    proptest! {
        #[test]
        fn a_note_passes_the_lock_to_its_successor_and_to_nobody_further(number in any::<i32>(), further in 1..i32::MAX / 2) {
            let own = sequence(number).before();
            let released = Released::parse(&note(own, further % 2 == 0));
            let next = sequence(number);
            prop_assert!(released.passes(next.before(), next));
            let other = sequence(number.wrapping_add(further));
            prop_assert!(!released.passes(other.before(), other));
        }
    }
}
