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
    /// The transaction that wrote the data.
    written: i64,
    /// The transaction that created or deleted a child last, and how many there were after it.
    changed: i64,
    children: i32,
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

    /// Whether whoever waited for `predecessor` holds: it has held and released. `own` is the number of who asks; a note
    /// of a later one would be wrong.
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
            written: stat.mzxid,
            changed: stat.pzxid,
            children: stat.num_children,
        }
    }

    /// The version of the data, if they are ours to replace.
    pub(crate) fn version_to_replace(&self) -> Option<i32> {
        (self.released != Released::Foreign).then_some(self.version)
    }

    /// Whether the contender `own`, created by the transaction `czxid`, held from then on. Read after the creation. Only
    /// what was true in the very transaction counts: its node may have been deleted since, and another have come to hold.
    pub(crate) fn admits_at_creation(&self, own: Sequence, czxid: i64) -> bool {
        let is_alone = self.changed == czxid && self.children == 1;
        let was_passed = self.written < czxid && self.released.passes(own.before(), own);
        is_alone || was_passed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sequence(number: i32) -> Sequence {
        Sequence::parse(&format!("lock-{number:010}"), "lock-").unwrap()
    }

    fn noted(data: &[u8], written: i64, changed: i64, children: i32) -> Noted {
        let stat = Stat {
            czxid: 1,
            mzxid: written,
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
    fn a_contender_holds_from_its_creation_if_it_was_alone_then() {
        assert!(noted(b"", 1, 9, 1).admits_at_creation(sequence(7), 9));
        assert!(!noted(b"", 1, 9, 2).admits_at_creation(sequence(7), 9), "somebody else is there");
        assert!(!noted(b"", 1, 10, 1).admits_at_creation(sequence(7), 9), "the one that is there may be another");
    }

    #[test]
    fn a_contender_holds_from_its_creation_if_the_one_ahead_had_released_before() {
        let data = note(sequence(6));
        assert!(noted(&data, 8, 12, 3).admits_at_creation(sequence(7), 9));
        assert!(!noted(&data, 10, 12, 3).admits_at_creation(sequence(7), 9), "released after: to be looked at again");
        assert!(!noted(&data, 8, 12, 3).admits_at_creation(sequence(8), 9), "somebody is between");
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
