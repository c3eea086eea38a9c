//! The worker of a SKU, which takes the buyers that wait, batch by batch.

use std::sync::Arc;

use crate::buyer::refuse_all;
use crate::queue::latest;
use crate::{Buyer, Candidate, Queues, Refusal};

/// The worker of a SKU. Only the worker takes its buyers. Dropped before its end, its waiting buyers remain undecided: otherwise
/// nobody would ever serve the SKU again.
pub struct Worker<C: Candidate> {
    queues: Arc<Queues<C>>,
    /// What it sells.
    pub sku: C::Sku,
    /// The latest sale among the buyers of the next part, or among all that wait if there is no part.
    pub sale: i64,
    /// The latest deadline among the same buyers.
    pub until: C::Instant,
    /// Parts of batches that one purchase has stopped, the earliest buyers last. They are served before the queue.
    parts: Vec<Vec<Buyer<C>>>,
    has_ended: bool,
}

impl<C: Candidate> Worker<C> {
    pub(crate) fn new(queues: Arc<Queues<C>>, sku: C::Sku) -> Self {
        Self { queues, sku, sale: 0, until: C::now(), parts: Vec::new(), has_ended: false }
    }

    /// Goes on to the next batch. Returns `false` if nobody waits. Then the worker has ended.
    #[expect(clippy::should_implement_trait, reason = "a worker is no iterator: its batches are taken apart from this")]
    pub fn next(&mut self) -> bool {
        let next = match self.parts.last() {
            Some(part) => latest(part),
            None => self.queues.latest_or_end(self.sku),
        };
        match next {
            Some((sale, until)) => {
                self.sale = sale;
                self.until = until;
            }
            None => self.has_ended = true,
        }
        next.is_some()
    }

    /// Takes the next batch: a part, or the buyers that have waited longest, in the order of their arrival. They may not leave any
    /// more. Buyers of a later sale stay. They have come since [`next`](Self::next).
    pub fn take(&mut self) -> Vec<Buyer<C>> {
        self.parts.pop().unwrap_or_else(|| self.queues.take(self.sku, self.sale))
    }

    /// Refuses buyers because there was no right to write, so nobody was taken. If it was not had in time, refuses those whose
    /// deadline has passed: a part whole, because the wait lasted until the deadline of its last buyer. Most buyers of the queue
    /// give up by themselves, but not those that were put back. Otherwise refuses the next batch.
    pub fn refuse(&mut self, refusal: &C::Refusal) {
        let batch = match self.parts.pop() {
            Some(part) => part,
            None if refusal.is_lock_timeout() => self.queues.take_late(self.sku),
            None => self.queues.take(self.sku, self.sale),
        };
        refuse_all(batch, refusal);
    }

    /// Notes that this worker is going to wait for another instance.
    pub(crate) fn go_elsewhere(&self) {
        self.queues.go_elsewhere(self.sku);
    }

    /// Notes that this worker is back.
    pub(crate) fn come_back(&self) {
        self.queues.come_back(self.sku);
    }

    /// Divides a batch that one purchase has stopped. Each half is a batch of its own, and is halved again if it is stopped, too. So
    /// the purchase that is to blame ends up alone, and a few batches serve all others.
    pub(crate) fn divide(&mut self, mut batch: Vec<Buyer<C>>) {
        let later = batch.split_off(batch.len().div_ceil(2));
        self.parts.extend([later, batch].into_iter().filter(|half| !half.is_empty()));
    }

    /// Puts buyers back into the queue, each in its old position. Nothing was decided for them. The parts that are left go with them:
    /// otherwise later buyers would be served first. Refuses the buyers whose deadline has passed as `late`: a buyer whose batch was
    /// taken waits for its decision, and no longer for that deadline.
    pub(crate) fn put_back(&mut self, batch: Vec<Buyer<C>>, late: &C::Refusal) {
        let now = C::now();
        let all = batch.into_iter().chain(self.parts.drain(..).flatten());
        let (gone, back) = all.partition(|buyer| buyer.request.until() <= now);
        let gone: Vec<Buyer<C>> = gone;
        gone.into_iter().for_each(|buyer| buyer.answer(Err(late.clone())));
        self.queues.put_back(self.sku, back);
    }
}

impl<C: Candidate> Drop for Worker<C> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.queues.end(self.sku);
        }
    }
}
