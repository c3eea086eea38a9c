//! What the contenders of one session know together of a queue. A contender that finds an answer here sends no request for it.
//!
//! # Joins in batches
//!
//! Contenders that will wait long create their nodes together.
//!
//! Each contender joins by a write that the server makes durable, and each release is such a write as well. A server makes durable
//! together what arrives together. If contenders join one by one, every hand-over waits for a newcomer's write and for its own
//! write. So the queue advances at half its rate. A contender behind others of its session waits for them anyway. So it first
//! waits for company: until its batch has half as many contenders as wait in the queue. Each local hand-over shortens the queue,
//! so a batch joins before its session runs out of contenders. [`Pause::JOIN`](super::Pause::JOIN) is the longest wait. The nodes
//! of a batch stand next to each other in the queue, so its contenders can hand the lock over without the server.

use std::collections::BTreeMap;

use super::ask::ContenderId;
use super::grant_proof::GrantProof;
use crate::names::Sequence;
use crate::number_proof::{Expected, FirstRequests, GrantedNumber, NumberProof};
use crate::stat::ParentCzxid;

/// The size of a batch: one contender for each `waiters_per_contender` waiters of the session. Smaller queues are joined one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Batching {
    /// At least 1.
    pub waiters_per_contender: usize,
}

impl Default for Batching {
    /// 2: a batch is complete at half of the waiters. The first batch of two forms behind four waiters.
    fn default() -> Self {
        Self { waiters_per_contender: 2 }
    }
}

/// The contenders that wait for their batch to be complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Batch(Vec<ContenderId>);

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
        self.number_proof.granted(GrantedNumber { parent, sequence });
    }

    /// Notes that the holder of this number has released.
    pub(super) fn released(&mut self, parent: ParentCzxid, sequence: Sequence) {
        self.number_proof.released(GrantedNumber { parent, sequence });
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
        // An attempt that failed leaves an earlier watch as it was.
        self.watched = parent.or(self.watched);
    }

    /// Notes that the watch of the lock's node has fired.
    pub(super) fn lose_watch(&mut self) {
        self.watched = None;
        self.number_proof.disturbed();
    }
}

impl Batch {
    /// Adds a contender.
    pub(super) fn add(&mut self, id: ContenderId) {
        self.0.push(id);
    }

    /// Tells whether the batch has contenders and is complete, while `waiting` contenders of the session wait in the queue.
    pub(super) fn is_complete(&self, waiting: usize, batching: Batching) -> bool {
        !self.0.is_empty() && self.0.len() >= waiting / batching.waiters_per_contender
    }

    /// Ends the batch, complete or not, and returns it.
    pub(super) fn take(&mut self) -> Vec<ContenderId> {
        std::mem::take(&mut self.0)
    }

    /// Removes a contender that gives up.
    pub(super) fn remove(&mut self, id: ContenderId) {
        self.0.retain(|other| *other != id);
    }
}

// L32
#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: usize = 16;
    const BATCHING: Batching = Batching { waiters_per_contender: SHARE };

    fn batch(contenders: u64) -> Batch {
        let mut batch = Batch::default();
        (0..contenders).for_each(|id| batch.add(ContenderId(id)));
        batch
    }

    #[test]
    fn the_lock_is_busy_while_a_second_contender_waits() {
        let mut local = LocalQueue { waiting: 2, ..LocalQueue::default() };
        local.note_look(false);
        assert!(local.is_busy, "the next newcomer would list the whole queue in vain");
        local.waiting = 1;
        local.note_look(false);
        assert!(!local.is_busy);
        local.note_look(true);
        assert!(local.is_busy);
    }

    #[test]
    fn a_contender_joins_at_once_while_few_wait() {
        assert!(batch(1).is_complete(2 * SHARE - 1, BATCHING));
        assert!(!batch(1).is_complete(2 * SHARE, BATCHING));
    }

    #[test]
    fn a_batch_is_complete_at_its_share_of_the_waiters() {
        assert!(!batch(2).is_complete(3 * SHARE, BATCHING));
        assert!(batch(3).is_complete(3 * SHARE, BATCHING));
        assert!(batch(2).is_complete(3 * SHARE - 1, BATCHING), "one of those who wait was served");
        assert!(!batch(0).is_complete(0, BATCHING), "nobody joins");
    }

    #[test]
    fn a_batch_joins_in_order_of_arrival_and_the_next_is_empty() {
        let mut batch = batch(3);
        assert_eq!(batch.take(), [0, 1, 2].map(ContenderId));
        assert_eq!(batch.take(), []);
    }

    #[test]
    fn a_contender_that_gives_up_is_not_counted() {
        let mut batch = batch(2);
        batch.remove(ContenderId(0));
        assert!(!batch.is_complete(2 * SHARE, BATCHING));
        assert_eq!(batch.take(), [ContenderId(1)]);
    }
}
