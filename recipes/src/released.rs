//! What a holder leaves in the data of the lock's node for whoever comes next. Pure.
//!
//! `HandoffMutex` numbers its nodes without a prefix, so that everybody knows the name of the one ahead, and its release
//! deletes the node and notes the number in one transaction: "released through 42". From a note of the number ahead
//! follows that nobody is ahead any more: who released held, so all before it had gone, and numbers only grow.

use zookeeper_client::Stat;

use crate::node::Sequence;

/// What the notes begin with; the number follows as the server writes it.
const NOTE: &str = "released-";

/// What the data of the lock's node say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// Nobody has released yet, of those who leave notes.
    Nobody,
    /// The contender of this number has held and released, so that all up to it have gone.
    Through(Sequence),
    /// They are not notes of ours, and not ours to overwrite.
    Foreign,
}

/// What is known of the lock's node from one read of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
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
        let text = std::str::from_utf8(data).ok();
        let sequence = text.filter(|text| text.starts_with(NOTE)).and_then(|text| Sequence::parse(text, NOTE));
        sequence.map_or(Self::Foreign, Self::Through)
    }

    /// Whether everybody up to `predecessor` has gone, because one of them from that number on has held and released.
    /// `own` is the number of who asks; a note of a later one would be wrong.
    pub(crate) fn passes(self, predecessor: Sequence, own: Sequence) -> bool {
        match self {
            Self::Through(released) => released.queue_cmp(predecessor).is_ge() && released.queue_cmp(own).is_lt(),
            Self::Nobody | Self::Foreign => false,
        }
    }
}

/// The note that the contender of this number leaves when it releases.
pub(crate) fn note(own: Sequence) -> Vec<u8> {
    format!("{NOTE}{own}").into_bytes()
}

impl Noted {
    pub(crate) fn new(data: &[u8], stat: &Stat) -> Self {
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
    pub(crate) fn admits(&self, predecessor: Sequence, own: Sequence, czxid: i64) -> bool {
        let is_alone = self.changed == czxid && self.children == 1;
        is_alone || self.released.passes(predecessor, own) && self.lacks_nobody_from(own)
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
        assert_eq!(note(sequence(42)), b"released-0000000042");
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
        let data = note(sequence(6));
        let admits = |noted: Noted| noted.admits(sequence(6), sequence(7), 9);
        assert!(admits(noted(&data, 12, 8, 1)));
        assert!(admits(noted(&data, 12, 10, 3)), "and two that came later");
        assert!(!admits(noted(&data, 12, 10, 2)), "one has gone, and it may be this one");
        assert!(!noted(&data, 12, 10, 2).admits(sequence(7), sequence(8), 10), "the one ahead has not released");
    }

    #[test]
    fn the_counts_of_creations_wrap_with_the_numbers() {
        for number in [i32::MAX, i32::MIN, -1, 1 << 30] {
            let data = note(sequence(number).before());
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
            let released = Released::parse(&note(own));
            let next = sequence(number);
            prop_assert!(released.passes(next.before(), next));
            let other = sequence(number.wrapping_add(further));
            prop_assert!(!released.passes(other.before(), other));
        }
    }
}
