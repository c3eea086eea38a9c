//! The grant proof, which each grant takes: no contender is ahead, and the contender's own node exists. A grant also takes a proof of
//! life: see `prove` in `waiting.rs`.
//!
//! A contender reaches its hold only with a [`GrantProof`]. Its field is private to this file, so its six constructors are the only
//! ways to make one. They check what they are given. That the answers of the server were read in the right order, and at the right
//! time, is the part of the callers.

use super::ask::{ContenderId, QueueListing};
use crate::names::Sequence;
use crate::number_proof::Expected;
use crate::queue::Predecessor;
use crate::release_note::ParentState;
use crate::stat::ParentCzxid;

/// A proof that its contender may hold, as far as the queue is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GrantProof {
    /// The contender of the session that handed the hold over or shares it. `None`: the server grants the hold.
    handed_over_by: Option<ContenderId>,
}

impl GrantProof {
    const BY_SERVER: Self = Self { handed_over_by: None };

    /// Returns the proof of a listing, or the contender that it shows ahead. `None` if the own node is missing. `own`: the
    /// transaction that created it. If the lock's node is younger than the own node, the node of the own name is another one.
    pub(super) fn by_listing(listed: &QueueListing, own: i64) -> Option<Result<Self, Predecessor>> {
        let has_own = listed.is_own_present && listed.parent.0 < own;
        has_own.then(|| listed.predecessor.clone().map_or(Ok(Self::BY_SERVER), Err))
    }

    /// Returns the proof of the lock's node, if its only child is the node that the transaction `own` created.
    pub(super) fn by_only_child(state: &ParentState, own: i64) -> Option<Self> {
        state.has_only_child(own).then_some(Self::BY_SERVER)
    }

    /// Returns the proof of the last holder's note. The predecessor with the number `gone` is gone. The contender has the number
    /// `own`. The transaction `czxid` created its node, which was read after the note and exists.
    pub(super) fn by_note(state: &ParentState, gone: Sequence, own: Sequence, czxid: i64) -> Option<Self> {
        state.proves_nobody_ahead(gone, own, czxid).then_some(Self::BY_SERVER)
    }

    /// Returns the proof of the number `own` in the reply to `create`, if it directly follows the grant that was `expected`.
    /// `watched`: the lock's node whose watch has not fired.
    pub(super) fn by_number(expected: Expected, own: Sequence, watched: Option<ParentCzxid>) -> Option<Self> {
        expected.proves(own, watched).then_some(Self::BY_SERVER)
    }

    /// Returns the proof of the successor to which `by` hands over the hold of this proof.
    pub(super) fn handed_over(self, by: ContenderId) -> Self {
        Self { handed_over_by: Some(by) }
    }

    /// Returns the proof of a contender that shares this hold of `by`. The listing must show the nodes of both, and no contender
    /// ahead.
    pub(super) fn shared(&self, by: ContenderId, listed: &QueueListing, own: i64) -> Option<Self> {
        let is_proved = listed.has_beside && matches!(Self::by_listing(listed, own), Some(Ok(_)));
        is_proved.then_some(Self { handed_over_by: Some(by) })
    }

    /// Returns the contender of the session that handed the hold over or shares it. `None`: the server grants the hold.
    pub(super) fn handed_over_by(&self) -> Option<ContenderId> {
        self.handed_over_by
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: i64 = 70;
    const WRITER: ContenderId = ContenderId(3);

    /// Returns a listing with the own node and the node of the writer, and without a contender ahead.
    fn listed() -> QueueListing {
        QueueListing {
            parent: ParentCzxid(1),
            changed: OWN,
            is_own_present: true,
            predecessor: None,
            has_beside: true,
            admits: false,
            foreign: None,
        }
    }

    fn ahead() -> Predecessor {
        Predecessor { sequence: Sequence::new(6), name: "n-0000000006".to_owned() }
    }

    #[test]
    fn a_listing_with_a_contender_ahead_is_no_proof() {
        assert_eq!(GrantProof::by_listing(&listed(), OWN), Some(Ok(GrantProof::BY_SERVER)));
        let behind = QueueListing { predecessor: Some(ahead()), ..listed() };
        assert_eq!(GrantProof::by_listing(&behind, OWN), Some(Err(ahead())));
    }

    #[test]
    fn a_listing_without_the_own_node_is_no_proof() {
        let missing = QueueListing { is_own_present: false, ..listed() };
        assert_eq!(GrantProof::by_listing(&missing, OWN), None);
        let anew = QueueListing { parent: ParentCzxid(OWN + 1), ..listed() };
        assert_eq!(GrantProof::by_listing(&anew, OWN), None, "the lock's node was created again");
    }

    #[test]
    fn a_hold_is_shared_only_beside_the_node_of_its_holder() {
        let held = GrantProof::BY_SERVER;
        let shared = held.shared(WRITER, &listed(), OWN).unwrap();
        assert_eq!(shared.handed_over_by(), Some(WRITER));
        for lacking in [
            QueueListing { has_beside: false, ..listed() },
            QueueListing { is_own_present: false, ..listed() },
            QueueListing { predecessor: Some(ahead()), ..listed() },
        ] {
            assert_eq!(held.shared(WRITER, &lacking, OWN), None, "{lacking:?}");
        }
    }
}
