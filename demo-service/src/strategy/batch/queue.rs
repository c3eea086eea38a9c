//! The buyers who wait for a batch, by SKU.
//!
//! One worker per SKU serves them. It takes all waiting buyers, decides them together, answers each, and begins
//! again. So a batch has the buyers that arrived during the last commit. The worker ends when nobody waits.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::failure::{self, Failure};
use crate::sale::{GoodsNo, Line, Purchase, Wish};
use crate::store::WrittenOrder;
use crate::strategy::Decision;
use crate::strategy::call::{Call, Commit, Sent};
use crate::strategy::context::Context;
use crate::telemetry::Waiting;
use crate::telemetry::clock::Moment;

/// Upper bound of the purchases of a batch. A key has at most 255 bytes and a line has few, so a batch has less than a
/// megabyte.
pub(in crate::strategy) const BATCH_MAX: usize = 1000;

/// A purchase that waits for its batch.
pub(in crate::strategy) struct Buyer {
    /// Its place in the order of arrival.
    pub(super) number: u64,
    /// Whether another instance has handed it over. Then only this instance may decide it.
    pub(in crate::strategy) is_handed: bool,
    /// What is bought. The cart has one line.
    pub(in crate::strategy) purchase: Purchase,
    /// The sale to which the purchase was admitted.
    pub(in crate::strategy) sale: i64,
    /// Whether the purchase has decided by the stock of that sale.
    pub(in crate::strategy) has_decided: bool,
    /// When it began to wait.
    pub(in crate::strategy) asked: Moment,
    /// When it gives up waiting.
    pub(in crate::strategy) until: Instant,
    /// What the call knows of the commit of its order.
    pub(super) commit: Commit,
    pub(super) answer: oneshot::Sender<Decision>,
    /// The wait, until the batch begins.
    pub(super) waiting: Option<Waiting>,
}

/// The buyers of one strategy who wait. A SKU is in the map as long as its worker runs.
#[derive(Default)]
pub(in crate::strategy) struct Batches {
    pub(super) queues: Mutex<Queues>,
}

#[derive(Default)]
pub(super) struct Queues {
    /// The waiting buyers, by SKU and by arrival.
    pub(super) waiting: HashMap<GoodsNo, BTreeMap<u64, Buyer>>,
    /// All who have ever come. A number is never used again, because its place may outlive its queue.
    arrived: u64,
}

/// The worker of a SKU.
pub(in crate::strategy) struct Worker<'a> {
    batches: &'a Batches,
    goods_no: GoodsNo,
    has_ended: bool,
}

/// The place of a buyer in a queue. Dropped, it gives the place up, if the batch has not begun.
pub(super) struct Place {
    pub(super) batches: Arc<Batches>,
    pub(super) goods_no: GoodsNo,
    pub(super) number: u64,
}

impl Buyer {
    /// The line of the cart.
    pub(in crate::strategy) fn line(&self) -> Line {
        self.purchase.cart.lines()[0]
    }

    /// What the buyer wants of a batch.
    pub(in crate::strategy) fn wish(&self) -> Wish<'_> {
        Wish { sale: self.sale, quantity: self.line().quantity, key: self.purchase.key.as_ref() }
    }

    /// Returns whether the buyer still waits for the answer.
    pub(in crate::strategy) fn is_waiting(&self) -> bool {
        !self.answer.is_closed()
    }

    /// Notes that the commit of the buyer's order is about to be sent. Returns `false` if the buyer has given up: then the
    /// order must not be committed.
    #[must_use]
    pub(in crate::strategy) fn note_commit(&self, order: WrittenOrder) -> bool {
        self.commit.sent_if(Sent::Order(order), || self.is_waiting())
    }

    /// Notes that the purchase is about to be handed over. Returns `false` if the buyer has given up: then it must not be
    /// handed over.
    #[must_use]
    pub(in crate::strategy) fn note_handed(&self) -> bool {
        self.commit.sent_if(Sent::Elsewhere, || self.is_waiting())
    }

    /// Notes that nothing was committed, and that nothing will be.
    pub(in crate::strategy) fn note_rollback(&self) {
        self.commit.forget();
    }

    /// Answers the buyer, who may have hung up.
    pub(in crate::strategy) fn answer(self, decision: Decision) {
        self.answer.send(decision).ok();
    }
}

impl Batches {
    /// Waits for the decision of a purchase of one SKU. `begin` starts the worker of the SKU if none runs.
    ///
    /// The buyer may give up until the batch has begun: by hanging up, or at `until`. After that the buyer gives up at the
    /// deadline for the database only. Once the commit was sent, the outcome is unknown then.
    ///
    /// # Cancel safety
    /// Dropped, the buyer gives up, unless the commit was sent.
    pub(in crate::strategy) async fn decide(
        self: &Arc<Self>,
        context: &Context,
        call: &Call,
        until: Instant,
        begin: impl FnOnce(GoodsNo),
    ) -> Decision {
        call.wait(std::future::ready(())).await?;
        let goods_no = call.purchase.cart.lines()[0].goods_no;
        let (answer, mut decided) = oneshot::channel();
        let buyer = Buyer {
            number: 0,
            is_handed: false,
            purchase: call.purchase.clone(),
            sale: call.sale_of(goods_no),
            has_decided: call.has_decided(),
            asked: Moment::now(),
            until,
            commit: call.commit.clone(),
            answer,
            waiting: Some(context.metrics.wait()),
        };
        let (number, is_first) = self.join(goods_no, [buyer]);
        let place = Place { batches: Arc::clone(self), goods_no, number };
        if is_first {
            begin(goods_no);
        }
        let decision = tokio::select! {
            biased;
            decision = &mut decided => decision,
            reason = context.leaving(call, until) => {
                if place.give_up() {
                    return Err(reason);
                }
                match timeout_at(call.until, &mut decided).await {
                    Ok(decision) => decision,
                    Err(_) => return Err(give_up(call, decided)),
                }
            }
        };
        // Without a decision the worker has panicked.
        let decision = decision.unwrap_or_else(|_| Err(call.stopped(Failure::of(&failure::INTERNAL))));
        call.commit.answered(&decision);
        decision
    }

    /// Puts buyers of a SKU in its queue. Returns the number of the first of them, and whether no worker serves the SKU yet. The
    /// numbers of the others follow. The lock makes the times at which they ask grow with their numbers.
    pub(super) fn join(&self, goods_no: GoodsNo, buyers: impl IntoIterator<Item = Buyer>) -> (u64, bool) {
        let mut queues = self.queues.lock();
        let is_first = !queues.waiting.contains_key(&goods_no);
        let Queues { waiting, arrived } = &mut *queues;
        let queue = waiting.entry(goods_no).or_default();
        let first = *arrived + 1;
        for mut buyer in buyers {
            *arrived += 1;
            (buyer.number, buyer.asked) = (*arrived, Moment::now());
            queue.insert(buyer.number, buyer);
        }
        (first, is_first)
    }

    /// Begins to serve a SKU, as the only worker.
    pub(in crate::strategy) fn worker(&self, goods_no: GoodsNo) -> Worker<'_> {
        Worker { batches: self, goods_no, has_ended: false }
    }
}

impl Worker<'_> {
    /// Returns the latest sale among the waiting buyers, and their latest deadline. If nobody waits, the worker has ended: the
    /// next buyer starts another one.
    pub(in crate::strategy) fn next(&mut self) -> Option<(i64, Instant)> {
        let mut queues = self.batches.queues.lock();
        let latest = queues.waiting.get(&self.goods_no).and_then(|queue| latest(queue.values()));
        if latest.is_none() {
            queues.waiting.remove(&self.goods_no);
            self.has_ended = true;
        }
        latest
    }

    /// Refuses the buyers whose deadline has passed. Most buyers give up by themselves, but not those that were put back.
    pub(in crate::strategy) fn refuse_late(&self, failure: &Failure) {
        let now = Instant::now();
        let mut queues = self.batches.queues.lock();
        let Some(queue) = queues.waiting.get_mut(&self.goods_no) else { return };
        queue.extract_if(.., |_, buyer| buyer.until <= now).for_each(|(_, buyer)| buyer.answer(Err(failure.clone())));
    }

    /// Takes the next batch: the buyers that have waited longest, in the order of their arrival. They may not give up any more.
    /// Buyers of a later sale than `sale` stay. They have come since the turn of the batch was asked for.
    pub(in crate::strategy) fn claim(&self, sale: i64) -> Vec<Buyer> {
        let mut queues = self.batches.queues.lock();
        let Some(queue) = queues.waiting.get_mut(&self.goods_no) else { return Vec::new() };
        let first = queue.extract_if(.., |_, buyer| buyer.sale <= sale);
        first
            .map(|(_, mut buyer)| {
                drop(buyer.waiting.take());
                buyer
            })
            .take(BATCH_MAX)
            .collect()
    }
}

/// Gives up the wait for a decision. If the commit was sent, the outcome is unknown. Otherwise it will not be sent.
fn give_up(call: &Call, mut decided: oneshot::Receiver<Decision>) -> Failure {
    call.commit.undisturbed(|| decided.close());
    call.stopped(Failure::database_unavailable())
}

/// Returns the latest sale of these buyers, and when the last of them gives up.
pub(in crate::strategy) fn latest<'a>(buyers: impl IntoIterator<Item = &'a Buyer>) -> Option<(i64, Instant)> {
    let each = buyers.into_iter().map(|buyer| (buyer.sale, buyer.until));
    each.reduce(|(sale, until), (other, later)| (sale.max(other), until.max(later)))
}

/// Returns when the first of the buyers of a batch gives up.
pub(in crate::strategy) fn earliest(batch: &[Buyer]) -> Instant {
    batch.iter().map(|buyer| buyer.until).min().expect("BUG: a batch without a buyer")
}

impl Drop for Worker<'_> {
    /// Drops the waiting buyers if the worker panicked. Otherwise nobody would ever serve the SKU again.
    fn drop(&mut self) {
        if !self.has_ended {
            let left = self.batches.queues.lock().waiting.remove(&self.goods_no);
            drop(left);
        }
    }
}

impl Place {
    /// Gives the place up. Returns `false` if the batch has begun.
    pub(super) fn give_up(&self) -> bool {
        let mut queues = self.batches.queues.lock();
        queues.waiting.get_mut(&self.goods_no).is_some_and(|queue| queue.remove(&self.number).is_some())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sale::Quantity;

    fn goods() -> GoodsNo {
        "1".parse().unwrap()
    }

    fn buyer() -> Buyer {
        let purchase = Purchase::of_one(goods(), Quantity::ONE);
        let (sale, has_decided, asked, until) = (1, false, Moment::now(), Instant::now());
        let (commit, answer, waiting, number, is_handed) = (Commit::default(), oneshot::channel().0, None, 0, false);
        Buyer { number, is_handed, purchase, sale, has_decided, asked, until, commit, answer, waiting }
    }

    fn join(batches: &Arc<Batches>) -> (Place, bool) {
        let (number, is_first) = batches.join(goods(), [buyer()]);
        (Place { batches: Arc::clone(batches), goods_no: goods(), number }, is_first)
    }

    #[test]
    fn a_place_of_an_earlier_queue_is_nobody_elses_place() {
        let batches = Arc::default();
        let (earlier, is_first) = join(&batches);
        assert!(is_first);
        let mut worker = batches.worker(goods());
        assert_eq!(worker.claim(1).len(), 1);
        assert_eq!(worker.next(), None, "the worker ends");
        let (_later, is_first) = join(&batches);
        assert!(is_first, "another worker begins");
        drop((worker, earlier));
        assert_eq!(batches.worker(goods()).claim(1).len(), 1);
    }

    #[test]
    fn a_buyer_may_give_up_until_the_batch_begins() {
        let batches = Arc::default();
        let places = [(); 3].map(|()| join(&batches).0);
        assert!(places[1].give_up());
        assert_eq!(batches.worker(goods()).claim(1).len(), 2);
        assert!(!places[0].give_up() && !places[2].give_up());
    }

    #[test]
    fn a_batch_has_a_bound_and_the_rest_wait_for_the_next_one() {
        let batches = Arc::default();
        let _places: Vec<_> = (0..=BATCH_MAX).map(|_| join(&batches)).collect();
        let worker = batches.worker(goods());
        assert_eq!([(); 3].map(|()| worker.claim(1).len()), [BATCH_MAX, 1, 0]);
    }

    #[test]
    fn after_a_worker_that_panicked_the_next_buyer_starts_another_one() {
        let batches = Arc::default();
        let _waiting = join(&batches);
        drop(batches.worker(goods()));
        assert!(join(&batches).1);
    }
}
