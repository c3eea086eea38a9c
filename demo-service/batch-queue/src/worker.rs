//! The worker of a SKU, which takes the buyers that wait, batch by batch.

use std::sync::Arc;

use crate::buyer::refuse;
use crate::queue::latest;
use crate::{Buyer, Candidate, Queues, Refusal};

/// The worker of a SKU. Only the worker takes its buyers. Dropped before its end, it removes its queue: the buyers in it stay undecided,
/// and the next buyer gets another worker.
pub struct Worker<C: Candidate> {
    queues: Arc<Queues<C>>,
    sku: C::Sku,
    sale: i64,
    until: C::Instant,
    /// Parts of batches that one purchase has stopped, the earliest buyers last. They are served before the queue.
    parts: Vec<Vec<Buyer<C>>>,
    has_ended: bool,
}

impl<C: Candidate> Worker<C> {
    pub(crate) fn new(queues: Arc<Queues<C>>, sku: C::Sku) -> Self {
        Self { queues, sku, sale: 0, until: C::now(), parts: Vec::new(), has_ended: false }
    }

    /// Returns what it sells.
    pub fn sku(&self) -> C::Sku {
        self.sku
    }

    /// Returns the latest sale among the buyers of the next part, or among all that wait if there is no part.
    pub fn sale(&self) -> i64 {
        self.sale
    }

    /// Returns the latest deadline among the same buyers.
    pub fn until(&self) -> C::Instant {
        self.until
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

    /// Refuses buyers because there was no right to write, so nobody was taken for it. If it was not had in time, refuses those whose
    /// deadline has passed: a part whole, because the wait lasted until the deadline of its last buyer. Most buyers of the queue
    /// give up by themselves, but not those that were put back. Otherwise refuses the next batch.
    pub fn refuse(&mut self, refusal: &C::Refusal) {
        let batch = match self.parts.pop() {
            Some(part) => part,
            None if refusal.is_lock_timeout() => self.queues.take_late(self.sku),
            None => self.queues.take(self.sku, self.sale),
        };
        refuse(batch, refusal);
    }

    /// Goes away, to wait for another instance. Purchases that were handed over to this instance go back undecided: their sender asks
    /// again which instance owns the SKU.
    pub fn go_away(&mut self) -> Away<C> {
        let mut gone = self.queues.go_away(self.sku);
        for part in &mut self.parts {
            gone.extend(part.extract_if(.., |buyer| buyer.request.is_handed()));
        }
        self.parts.retain(|part| !part.is_empty());
        drop(gone);
        Away { queues: Arc::clone(&self.queues), sku: self.sku }
    }

    /// Divides a batch that one purchase has stopped. Each half is a batch of its own, and is halved again if it is stopped, too. So
    /// the purchase that is to blame ends up alone, and a few batches serve all others.
    pub(crate) fn divide(&mut self, mut batch: Vec<Buyer<C>>) {
        let later = batch.split_off(batch.len().div_ceil(2));
        self.parts.extend([later, batch].into_iter().filter(|half| !half.is_empty()));
    }

    /// Puts buyers back: into the queue, each in its old position, or as the next part if parts are left. So no later buyer is served
    /// first. Nothing was decided for them. Refuses the buyers whose deadline has passed as `late`: a buyer whose batch was taken waits
    /// for its decision, and no longer for that deadline. Returns whether any buyer is back.
    pub(crate) fn put_back(&mut self, batch: Vec<Buyer<C>>, late: &C::Refusal) -> bool {
        let now = C::now();
        let (gone, back) = batch.into_iter().partition(|buyer| buyer.request.until() <= now);
        let gone: Vec<Buyer<C>> = gone;
        let mut back: Vec<Buyer<C>> = back;
        gone.into_iter().for_each(|buyer| buyer.answer(Err(late.clone())));
        back.iter().for_each(Buyer::note_rollback);
        let is_any_back = !back.is_empty();
        if is_any_back && !self.parts.is_empty() {
            back.sort_unstable_by_key(|buyer| buyer.number);
            self.parts.push(back);
        } else {
            self.queues.put_back(self.sku, back);
        }
        is_any_back
    }
}

/// The absence of a worker. Dropped, the worker is back.
pub struct Away<C: Candidate> {
    queues: Arc<Queues<C>>,
    sku: C::Sku,
}

impl<C: Candidate> Drop for Away<C> {
    fn drop(&mut self) {
        self.queues.come_back(self.sku);
    }
}

impl<C: Candidate> Drop for Worker<C> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.queues.end(self.sku);
        }
    }
}
