//! Joins in batches: contenders that will wait long create their nodes together.
//!
//! Each contender joins by a write that the server makes durable, and each release is such a write as well. A server makes durable
//! together what arrives together. If contenders join one by one, every hand-over waits for a newcomer's write and for its own
//! write. So the queue advances at half its rate. A contender of a long queue waits long anyway. So it first waits for other
//! contenders of its session, at most [`Pause::JOIN`](super::Pause::JOIN). The nodes of a batch stand next to each other in the
//! queue, so its contenders can hand the lock over without the server.

use super::ask::ContenderId;

/// The size of a batch: one contender for each `waiters_per_contender` waiters of the session. Smaller queues are joined one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Batching {
    /// At least 1.
    pub waiters_per_contender: usize,
}

impl Default for Batching {
    /// 16: a batch is complete at a sixteenth of the waiters. The first batch of two forms behind 32 waiters.
    fn default() -> Self {
        Self { waiters_per_contender: 16 }
    }
}

/// The contenders that wait for their batch to be complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Batch(Vec<ContenderId>);

impl Batch {
    /// Adds a contender while `waiting` others of the session wait for the grant. Returns the batch if it is complete.
    pub(super) fn add(&mut self, id: ContenderId, waiting: usize, batching: Batching) -> Vec<ContenderId> {
        self.0.push(id);
        if self.0.len() < waiting / batching.waiters_per_contender { Vec::new() } else { self.take() }
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

    #[test]
    fn a_contender_joins_at_once_while_few_wait() {
        let mut batch = Batch::default();
        for id in [1, 2, 3].map(ContenderId) {
            assert_eq!(batch.add(id, 2 * SHARE - 1, BATCHING), [id]);
        }
    }

    #[test]
    fn a_batch_joins_when_it_is_complete() {
        let mut batch = Batch::default();
        let [one, two, three, four] = [1, 2, 3, 4].map(ContenderId);
        assert_eq!(batch.add(one, 3 * SHARE, BATCHING), []);
        assert_eq!(batch.add(two, 3 * SHARE, BATCHING), []);
        assert_eq!(batch.add(three, 3 * SHARE, BATCHING), [one, two, three]);
        assert_eq!(batch.add(four, 3 * SHARE, BATCHING), [], "this one is of the next batch");
    }

    #[test]
    fn a_batch_that_is_not_complete_in_time_joins_together() {
        let mut batch = Batch::default();
        let [one, two] = [1, 2].map(ContenderId);
        assert_eq!(batch.add(one, 100 * SHARE, BATCHING), []);
        assert_eq!(batch.add(two, 100 * SHARE, BATCHING), []);
        assert_eq!(batch.take(), [one, two]);
    }

    #[test]
    fn a_contender_that_gives_up_is_not_counted() {
        let mut batch = Batch::default();
        let [given_up, alone, next] = [1, 2, 3].map(ContenderId);
        assert_eq!(batch.add(given_up, 2 * SHARE, BATCHING), []);
        batch.remove(given_up);
        assert_eq!(batch.add(alone, 2 * SHARE, BATCHING), []);
        assert_eq!(batch.add(next, 0, BATCHING), [alone, next], "no contender waits");
    }
}
