//! Joins in batches: contenders that will wait long create their nodes together.
//!
//! Each contender joins by a write that the server makes durable, and each release is such a write as well. A server makes durable
//! together what arrives together. If contenders join one by one, every hand-over waits for a newcomer's write and for its own
//! write. So the queue advances at half its rate. A contender behind others of its session waits for them anyway. So it first
//! waits for company: until its batch has half as many contenders as wait in the queue. Each local hand-over shortens the queue,
//! so a batch joins before its session runs out of contenders. [`Pause::JOIN`](super::Pause::JOIN) is the longest wait. The nodes
//! of a batch stand next to each other in the queue, so its contenders can hand the lock over without the server.

use super::ask::ContenderId;

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
    fn a_contender_joins_at_once_while_few_wait() {
        assert!(batch(1).is_complete(2 * SHARE - 1, BATCHING));
        assert!(!batch(1).is_complete(2 * SHARE, BATCHING));
    }

    #[test]
    fn a_batch_is_complete_at_its_share_of_those_who_wait() {
        assert!(!batch(2).is_complete(3 * SHARE, BATCHING));
        assert!(batch(3).is_complete(3 * SHARE, BATCHING));
        assert!(batch(2).is_complete(3 * SHARE - 1, BATCHING), "one of those who wait was served");
        assert!(!batch(0).is_complete(0, BATCHING), "nobody joins");
    }

    #[test]
    fn a_batch_joins_in_the_order_of_arrival_and_the_next_one_begins_empty() {
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
