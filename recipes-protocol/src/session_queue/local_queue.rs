//! What the contenders of one session know together of a queue. A contender that finds an answer here sends no request for it.

use std::collections::BTreeMap;

use super::ask::ContenderId;
use super::grant_proof::GrantProof;
use super::join_batching::Batch;
use crate::names::Sequence;
use crate::number_proof::{Expected, FirstRequests, Grant, NumberProof};
use crate::stat::ParentCzxid;

/// What the contenders of one session under the same names know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LocalQueue {
    /// Whether a newcomer will find contenders ahead, by the last look of a contender of the session.
    pub(super) is_busy: bool,
    /// The contenders that have a node in the queue, by number.
    members: BTreeMap<Sequence, ContenderId>,
    /// The contenders that are about to join together.
    pub(super) batch: Batch,
    /// The number of contenders that wait for the grant.
    pub(super) waiting: usize,
    /// The number of contenders whose `create` is under way.
    pub(super) creating: usize,
    number_proof: NumberProof,
    /// The lock's node, while a watch on it has not fired.
    watched: Option<ParentCzxid>,
}

impl LocalQueue {
    /// Notes whether a waiting contender found another one ahead. If other contenders of the session wait as well, a newcomer will
    /// find them ahead in any case.
    pub(super) fn note_look(&mut self, is_anybody_ahead: bool) {
        self.is_busy = is_anybody_ahead || self.waiting > 1;
    }

    /// Notes that a contender has a node in the queue.
    pub(super) fn add_member(&mut self, sequence: Sequence, id: ContenderId) {
        self.members.insert(sequence, id);
    }

    /// Notes that the node of a contender is gone.
    pub(super) fn remove_member(&mut self, sequence: Sequence, id: ContenderId) {
        // After the numbers have begun anew, another contender may have this number.
        if self.members.get(&sequence) == Some(&id) {
            self.members.remove(&sequence);
        }
    }

    /// Returns the contender of the session that has this number.
    pub(super) fn member(&self, sequence: Sequence) -> Option<ContenderId> {
        self.members.get(&sequence).copied()
    }

    /// Notes that a contender was granted the lock alone, so that no contender is ahead of it.
    pub(super) fn granted(&mut self, parent: ParentCzxid, sequence: Sequence) {
        self.number_proof.granted(Grant { parent, sequence });
    }

    /// Notes that the holder of this number has released.
    pub(super) fn released(&mut self, parent: ParentCzxid, sequence: Sequence) {
        self.number_proof.released(Grant { parent, sequence });
    }

    /// Returns what a contender best sends with its `create`.
    pub(super) fn first_requests(&self) -> FirstRequests {
        self.number_proof.first_requests(self.watched)
    }

    /// Returns the proof of the contender's number `own`, if it is one. The server has answered its `create` with that number.
    pub(super) fn proof_by_number(&self, expected: Expected, own: Sequence) -> Option<GrantProof> {
        GrantProof::by_number(expected, own, self.watched)
    }

    /// Keeps a watch that was set on the lock's node.
    pub(super) fn keep_watch(&mut self, parent: Option<ParentCzxid>) {
        self.watched = parent.or(self.watched);
    }

    /// Notes that the watch of the lock's node has fired.
    pub(super) fn lose_watch(&mut self) {
        self.watched = None;
        self.number_proof.disturbed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_the_queue_keeps_the_lock_busy_while_another_contender_of_its_session_waits() {
        let mut local = LocalQueue { waiting: 2, ..LocalQueue::default() };
        local.note_look(false);
        assert!(local.is_busy, "the next newcomer would list the whole queue in vain");
        local.waiting = 1;
        local.note_look(false);
        assert!(!local.is_busy);
        local.note_look(true);
        assert!(local.is_busy);
    }
}
