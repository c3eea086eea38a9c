//! The buyers of a batch, and the wait of each for its decision.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::queue::Queues;
use crate::failure::{self, Failure};
use crate::sale::{GoodsNo, Line, Purchase, Wish};
use crate::store::WrittenOrder;
use crate::strategy::Decision;
use crate::strategy::call::{Commit, Sent};
use crate::telemetry::clock::Moment;

/// A purchase that asks to be decided in a batch.
pub(in crate::strategy) struct BatchRequest {
    /// What is bought. The cart has one line.
    pub(in crate::strategy) purchase: Purchase,
    /// The sale to which the purchase was admitted.
    pub(in crate::strategy) sale: i64,
    /// Whether the purchase has decided by the stock of that sale.
    pub(in crate::strategy) has_decided: bool,
    /// Whether another instance has handed it over. Then only this instance may decide it.
    pub(in crate::strategy) is_handed: bool,
    /// When it gives up waiting.
    pub(in crate::strategy) until: Instant,
    /// What is known of the commit of its order.
    pub(in crate::strategy) commit: Commit,
}

/// A buyer in a queue or in a batch.
pub(in crate::strategy) struct Buyer {
    /// Its number in the order of arrival.
    pub(super) number: u64,
    /// When it came. It grows with the number.
    pub(super) asked: Moment,
    pub(in crate::strategy) request: BatchRequest,
    pub(super) answer: oneshot::Sender<Decision>,
}

/// The wait of a purchase for its decision. Dropped, the buyer leaves the queue, if its batch was not taken.
pub(in crate::strategy) struct Pending {
    pub(super) queues: Arc<Mutex<Queues>>,
    pub(super) goods_no: GoodsNo,
    pub(super) number: u64,
    /// When the buyer gives up waiting.
    pub(in crate::strategy) until: Instant,
    /// What is known of the commit of its order.
    pub(in crate::strategy) commit: Commit,
    pub(super) decided: oneshot::Receiver<Decision>,
}

impl Buyer {
    /// Returns the line of the cart.
    pub(in crate::strategy) fn line(&self) -> Line {
        self.request.purchase.cart.lines()[0]
    }

    /// Returns what the buyer wants of a batch.
    pub(super) fn wish(&self) -> Wish<'_> {
        let BatchRequest { purchase, sale, .. } = &self.request;
        let Purchase { key, buyer, .. } = purchase;
        Wish { sale: *sale, quantity: self.line().quantity, key: key.as_ref(), buyer: buyer.as_ref() }
    }

    /// Returns whether the buyer still waits for the answer.
    pub(super) fn is_waiting(&self) -> bool {
        !self.answer.is_closed()
    }

    /// Notes that the commit of the buyer's order is about to be sent. Returns `false` if the buyer has given up: then the
    /// order must not be committed.
    #[must_use]
    pub(super) fn note_commit(&self, order: WrittenOrder) -> bool {
        self.request.commit.sent_if(Sent::Order(order), || self.is_waiting())
    }

    /// Notes that the purchase is about to be handed over. Returns `false` if the buyer has given up: then it must not be
    /// handed over.
    #[must_use]
    pub(in crate::strategy) fn note_handed(&self) -> bool {
        self.request.commit.sent_if(Sent::Elsewhere, || self.is_waiting())
    }

    /// Notes that nothing was committed, and that nothing will be.
    pub(super) fn note_rollback(&self) {
        self.request.commit.forget();
    }

    /// Answers the buyer, who may have hung up.
    pub(in crate::strategy) fn answer(self, decision: Decision) {
        self.answer.send(decision).ok();
    }
}

impl Pending {
    /// Waits for the decision. Returns `None` if there is none: the purchase goes back undecided to the instance that has handed it
    /// over, or the worker has panicked.
    pub(in crate::strategy) async fn decided(&mut self) -> Option<Decision> {
        (&mut self.decided).await.ok()
    }

    /// Leaves the queue. Returns `false` if the worker has taken the batch.
    pub(in crate::strategy) fn leave(&self) -> bool {
        self.queues.lock().leave(self.goods_no, self.number)
    }

    /// Waits no longer. A commit that was not sent will not be sent.
    pub(super) fn give_up(&mut self) {
        let Self { commit, decided, .. } = self;
        commit.undisturbed(|| decided.close());
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Refuses a batch. If the reason lies with this instance, purchases that were handed over go back undecided: another
/// instance may own their SKU next.
pub(super) fn refuse_all(batch: Vec<Buyer>, failure: &Failure) {
    let here = [
        &failure::DATABASE_UNAVAILABLE,
        &failure::HOLD_LOST,
        &failure::LOCK_SERVICE_UNAVAILABLE,
        &failure::CLIENT_GONE,
    ];
    let lies_here = here.into_iter().any(|kind| failure.is(kind));
    for buyer in batch.into_iter().filter(|buyer| !(buyer.request.is_handed && lies_here)) {
        buyer.answer(Err(failure.clone()));
    }
}
