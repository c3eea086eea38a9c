//! The way of a purchase from its request to its answer.

use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tracing::field::Empty;
use tracing::{Instrument, Span, debug, warn_span};

use super::{App, Slot, shutting_down};
use crate::failure::{self, Failure};
use crate::sale::{Cart, Goods, Order, Purchase};
use crate::store::Remembered;
use crate::strategy::admission::Admission;
use crate::strategy::entry::Entry;
use crate::strategy::registry;
use crate::strategy::{Boxed, Call, Decided};
use crate::telemetry::log_failure;

/// How often a purchase looks which strategy may serve it, while other purchases claim the sale or sales restart.
const ADMISSIONS_MAX: usize = 5;

/// The label of a purchase that sold, and of one that was answered with an earlier order.
const SOLD: &str = "sold";
const REPEATED: &str = "repeated";

/// The answer to a purchase that sold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The order.
    pub order: Order,
    /// Whether an earlier request with the same key made the order.
    pub is_replay: bool,
}

/// A purchase that is decided.
struct Served<'a> {
    /// The strategy that it counts for.
    entry: &'static Entry,
    result: Result<Answer, Failure>,
    /// What is left to do behind the answer.
    behind: Option<Boxed<'a, ()>>,
}

impl<'a> Served<'a> {
    /// By no strategy: nothing is left behind the answer.
    fn at_once(entry: &'static Entry, result: Result<Answer, Failure>) -> Self {
        Self { entry, result, behind: None }
    }
}

impl App {
    /// Buys, in a task of its own: a client that hangs up, or an answer that is given up, must not leave a purchase half
    /// done. The answer comes as soon as the outcome is known, `--db-timeout` after the request arrived at the latest. The
    /// lock is released behind the answer.
    ///
    /// # Errors
    /// A [`Failure`]; unless it is [`OUTCOME_UNKNOWN`](failure::OUTCOME_UNKNOWN), nothing was sold.
    ///
    /// # Panics
    /// When the task did.
    ///
    /// # Cancel safety
    /// Dropped, a purchase that waits for a lock or a connection gives up. One that has what it waited for goes on to its
    /// end.
    pub async fn purchase(
        self: &Arc<Self>,
        purchase: Purchase,
        named: Option<&'static Entry>,
        slot: Slot,
    ) -> Result<Answer, Failure> {
        let client = self.closing.child_token();
        let _hang_up = client.clone().drop_guard();
        let (app, call) = (Arc::clone(self), Call::new(purchase, slot.arrived, self.config.db_timeout, client));
        let (answer, answered) = oneshot::channel();
        let goods_no = call.purchase.cart.numbers();
        // A spawned task has no span, so this one joins it to the request. Its level is `warn`: warnings must name their
        // purchase at every log level.
        let span = warn_span!("purchase", strategy = Empty, ?goods_no, token = Empty, order_id = Empty);
        let serve = async move { app.serve(&call, named, slot, answer).await };
        let task = self.purchases.spawn(serve.instrument(span));
        if let Ok(result) = answered.await {
            return result;
        }
        // Nothing aborts these tasks, so it panicked; the layer around the routes answers to that.
        resume_unwind(task.await.expect_err("BUG: a purchase ended without an answer").into_panic())
    }

    /// Decides a purchase, answers, and does what is left behind the answer.
    async fn serve(
        &self,
        call: &Call,
        named: Option<&'static Entry>,
        slot: Slot,
        answer: oneshot::Sender<Result<Answer, Failure>>,
    ) {
        let Served { entry, result, behind } = self.decide(call, named).await;
        let result = result.map_err(|failure| self.explain(failure));
        self.record(entry, &result, call);
        // A purchase keeps its slot while its commit is unknown. A release needs none, so the client's next request finds the
        // slot free.
        let slot = result.as_ref().is_err_and(|failure| failure.is(&failure::OUTCOME_UNKNOWN)).then_some(slot);
        // If nobody waits for the answer any more, sending it fails, and the rest is done all the same.
        answer.send(result).ok();
        if let Some(behind) = behind {
            behind.await;
        }
        drop(slot);
    }

    /// Decides a purchase: by the order under its key, by what is known to be sold out, or by the strategy that may serve it.
    async fn decide<'a>(&'a self, call: &'a Call, named: Option<&'static Entry>) -> Served<'a> {
        let before = named.unwrap_or(self.config.strategy);
        if self.closing.is_cancelled() {
            return Served::at_once(before, Err(shutting_down()));
        }
        match self.recall(call).await {
            Ok(None) => {}
            Ok(Some(answer)) => {
                let entry = registry::find(&answer.order.strategy).unwrap_or(before);
                return Served::at_once(entry, Ok(answer));
            }
            Err(failure) => return Served::at_once(before, Err(failure)),
        }
        for _ in 0..ADMISSIONS_MAX {
            let entry = match self.admit(call, named).await {
                Ok(entry) => entry,
                Err(failure) => return Served::at_once(before, Err(failure)),
            };
            Span::current().record("strategy", entry.name);
            if self.is_known_sold_out(call).await {
                let sold_out = Failure::sold_out(call.purchase.cart.lines()[0].goods_no);
                return Served::at_once(entry, self.replay(call, Err(sold_out)).await);
            }
            let Decided { decision, behind } = self.strategy(entry).purchase(call).await;
            if decision.as_ref().is_err_and(|failure| failure.is(&failure::GUARD_MISMATCH)) {
                // Somebody has started another sale. Whatever was locked is released before the next look.
                self.memory.forget(&call.purchase.cart);
                if let Some(behind) = behind {
                    // Given up, the release goes on in the background.
                    timeout_at(call.until, behind).await.ok();
                }
                continue;
            }
            return match behind {
                // Nothing is written, and the recall may take its time: the next buyer must not wait for it.
                Some(mut behind) if decision.is_err() && !call.is_committing() => {
                    let mut replay = pin!(self.replay(call, decision));
                    tokio::select! {
                        biased;
                        result = &mut replay => Served { entry, result, behind: Some(behind) },
                        () = &mut behind => Served::at_once(entry, replay.await),
                    }
                }
                behind => Served { entry, result: self.replay(call, decision).await, behind },
            };
        }
        Served::at_once(before, Err(Failure::of(&failure::SALE_RESTARTED)))
    }

    /// Finds the strategy for a purchase, and admits the purchase to the sales of its cart. What is in memory may be old, so
    /// only what it admits counts. A refusal, a claim and an unknown SKU follow from a look at the database.
    async fn admit(&self, call: &Call, named: Option<&'static Entry>) -> Result<&'static Entry, Failure> {
        let cart = &call.purchase.cart;
        if let Some(known) = self.memory.sales(cart)
            && let Ok(Admission::Serve(entry)) = self.offer.admit(named, &known)
        {
            call.admit(&known);
            return Ok(entry);
        }
        for _ in 0..ADMISSIONS_MAX {
            let sales = call.wait(call.in_time(self.look_up(cart))).await??;
            match self.offer.admit(named, &sales)? {
                Admission::Serve(entry) => {
                    call.admit(&sales);
                    return Ok(entry);
                }
                Admission::Claim(entry) => {
                    let unclaimed = sales.iter().filter(|goods| goods.guard.is_none());
                    let unclaimed: Vec<_> = unclaimed.map(|goods| (goods.goods_no, goods.sale)).collect();
                    call.wait(self.store.claim(&unclaimed, entry.family, entry.name, call.until)).await??;
                }
            }
        }
        Err(Failure::of(&failure::SALE_RESTARTED))
    }

    /// The sales of a cart as they are now.
    pub(super) async fn look_up(&self, cart: &Cart) -> Result<Vec<Goods>, Failure> {
        let mut sales = Vec::with_capacity(cart.lines().len());
        for line in cart.lines() {
            let goods = self.store.look(line.goods_no).await?;
            sales.push(goods.ok_or_else(|| Failure::unknown_goods(line.goods_no))?);
        }
        self.memory.remember(&sales);
        Ok(sales)
    }

    /// The order that was made under the key of a purchase, if it has one.
    async fn recall(&self, call: &Call) -> Result<Option<Answer>, Failure> {
        let Purchase { cart, key: Some(key) } = &call.purchase else { return Ok(None) };
        match call.wait(call.in_time(self.store.recall(key, cart))).await?? {
            None => Ok(None),
            Some(Remembered::Order(order)) => Ok(Some(Answer { order, is_replay: true })),
            Some(Remembered::OtherCart) => {
                let detail = "another cart was bought under this idempotency key; choose another key";
                Err(Failure::new(&failure::KEY_REUSED, detail))
            }
        }
    }

    /// The answer to a decision. If another purchase under the same key came first, its order is the answer, also if it took
    /// the last unit.
    async fn replay(&self, call: &Call, decision: Result<Order, Failure>) -> Result<Answer, Failure> {
        let failure = match decision {
            Ok(order) => return Ok(Answer { order, is_replay: false }),
            Err(failure) => failure,
        };
        if failure.is(&failure::SOLD_OUT) && self.config.remember_sold_out {
            self.memory.remember_sold_out(&call.purchase.cart);
        }
        if call.purchase.key.is_none() || !(failure.is(&failure::REPEATED) || failure.is(&failure::SOLD_OUT)) {
            return Err(failure);
        }
        match self.recall(call).await {
            Ok(Some(answer)) => Ok(answer),
            Err(error) if error.is(&failure::KEY_REUSED) => Err(error),
            Ok(None) | Err(_) if failure.is(&failure::REPEATED) => Err(twin_sold(failure)),
            Ok(None) => Err(failure),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the first SKU of a purchase is sold out. Memory alone is not enough, as units may have come back, so
    /// it looks at the stock. Concurrent buyers share the look.
    async fn is_known_sold_out(&self, call: &Call) -> bool {
        let line = call.purchase.cart.lines()[0];
        if !self.memory.is_sold_out(line.goods_no) {
            return false;
        }
        let look = call.wait(call.in_time(self.store.look(line.goods_no)));
        match look.await.flatten() {
            Ok(Some(goods)) if goods.on_hand < line.quantity.get() => true,
            Ok(Some(_)) => {
                self.memory.forget_sold_out(line.goods_no);
                false
            }
            // The purchase itself will tell what is wrong.
            Ok(None) | Err(_) => false,
        }
    }

    /// Counts and logs a purchase once, here, where its end is known. The span names it.
    fn record(&self, entry: &Entry, result: &Result<Answer, Failure>, call: &Call) {
        let label = match result {
            Ok(Answer { is_replay: false, .. }) => SOLD,
            Ok(Answer { is_replay: true, .. }) => REPEATED,
            // Every kind that a purchase can end with has a label, and a kind without one is a defect.
            Err(failure) => failure.kind().outcome.or(failure::INTERNAL.outcome).unwrap_or_default(),
        };
        self.metrics.outcomes(entry.name).record(label, call.began.elapsed());
        match result {
            Ok(Answer { order, is_replay }) => {
                Span::current().record("order_id", order.order_id);
                debug!(is_replay, "sold");
            }
            Err(failure) => log_failure(failure),
        }
    }
}

/// Another purchase under the same key has sold, and its order could not be read.
fn twin_sold(cause: Failure) -> Failure {
    let detail = "another request under this idempotency key has bought, and its order could not be read: send the same request \
                  again with the same key";
    Failure::new(&failure::OUTCOME_UNKNOWN, detail).caused_by(cause)
}
