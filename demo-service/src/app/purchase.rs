//! The path of a purchase from its request to its answer.

use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::field::Empty;
use tracing::{Instrument, Span, debug, warn_span};

use super::{App, Slot, shutting_down};
use crate::failure::{self, Failure};
use crate::sale::{Cart, Goods, Purchase, Receipt};
use crate::store::Remembered;
use crate::strategy::admission::{Admission, check_buyer};
use crate::strategy::call::Call;
use crate::strategy::entry::Entry;
use crate::strategy::registry;
use crate::strategy::{Boxed, Decided};
use crate::telemetry::{QUEUED, REPEATED, SOLD, log_failure};

/// Upper bound of the attempts to admit a purchase, and of the looks in one attempt. Each claim and each restart of a
/// sale makes one more necessary.
pub(super) const ADMISSIONS_MAX: usize = 5;

/// The answer to a purchase that was not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurchaseAnswer {
    /// The order, or a ticket for one.
    pub receipt: Receipt,
    /// Whether an earlier request with the same key made the order or took the ticket.
    pub is_replay: bool,
}

/// A purchase that is decided.
struct Served<'a> {
    /// The strategy whose metrics count the purchase.
    entry: &'static Entry,
    result: Result<PurchaseAnswer, Failure>,
    /// The work that is left after the answer.
    release: Option<Boxed<'a, ()>>,
}

impl<'a> Served<'a> {
    /// Returns a decided purchase without work left after the answer.
    fn at_once(entry: &'static Entry, result: Result<PurchaseAnswer, Failure>) -> Self {
        Self { entry, result, release: None }
    }
}

impl App {
    /// Buys in a task of its own: if the client hangs up or the request times out, the purchase must not stop half
    /// done. Returns as soon as the outcome is known, at most `--db-timeout` after the request arrived. The lock is
    /// released after the answer.
    ///
    /// # Errors
    /// A [`Failure`]. Unless it is [`OUTCOME_UNKNOWN`](failure::OUTCOME_UNKNOWN), nothing was sold.
    ///
    /// # Panics
    /// If the task panicked.
    ///
    /// # Cancel safety
    /// Dropped, a purchase that waits for a lock or a connection gives up. Any other purchase runs to its end.
    pub async fn purchase(
        self: &Arc<Self>,
        purchase: Purchase,
        named: Option<&'static Entry>,
        slot: Slot,
    ) -> Result<PurchaseAnswer, Failure> {
        let client = self.shared.closing.child_token();
        // Dropped with this future, for example when the client hangs up. That ends the waits of the task.
        let _hang_up = client.clone().drop_guard();
        let call = Call::new(purchase, slot.arrived, self.config.db_timeout, client);
        let app = Arc::clone(self);
        let (answer, answered) = oneshot::channel();
        let goods_no = call.purchase.cart.numbers();
        // A spawned task has no span, so this span joins the task to the request. Its level is `warn`, because
        // warnings must name their purchase at every log level.
        let span = warn_span!("purchase", strategy = Empty, ?goods_no, token = Empty, order_id = Empty);
        let serve = async move { app.serve(&call, named, slot, answer).await };
        let task = self.shared.tasks.spawn(serve.instrument(span));
        if let Ok(result) = answered.await {
            return result;
        }
        // Nothing aborts these tasks, so this one panicked. The layer around the routes answers panics.
        resume_unwind(task.await.expect_err("BUG: a purchase ended without an answer").into_panic())
    }

    /// Decides a purchase, answers, and does the work that is left after the answer.
    async fn serve(
        &self,
        call: &Call,
        named: Option<&'static Entry>,
        slot: Slot,
        answer: oneshot::Sender<Result<PurchaseAnswer, Failure>>,
    ) {
        let Served { entry, result, release } = self.decide(call, named).await;
        let result = result.map_err(|failure| self.explain(failure));
        self.record(entry, &result, call.arrived);
        // A purchase keeps its slot while its outcome is unknown. A release needs no slot, so the client's next
        // request finds the slot free.
        let slot = result.as_ref().is_err_and(|failure| failure.is(&failure::OUTCOME_UNKNOWN)).then_some(slot);
        // If the client hung up, the answer cannot be sent. The work after it is done all the same.
        answer.send(result).ok();
        if let Some(release) = release {
            release.await;
        }
        drop(slot);
    }

    /// Decides a purchase. An order under its key is the answer. A known sold-out is a refusal. Otherwise the
    /// strategy that may serve the purchase decides it.
    async fn decide<'a>(&'a self, call: &'a Call, named: Option<&'static Entry>) -> Served<'a> {
        let before = named.unwrap_or(self.config.strategy);
        if self.is_stopping() {
            return Served::at_once(before, Err(shutting_down()));
        }
        // The key comes before the admission: a repeated purchase gets its order, whatever its sale is by then.
        match self.recall(call).await {
            Ok(None) => {}
            Ok(Some(answer)) => {
                let entry = match &answer.receipt {
                    Receipt::Order(order) | Receipt::Promised { order, .. } => {
                        registry::find(&order.strategy).unwrap_or(before)
                    }
                    Receipt::Ticket(_) => before,
                };
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
            let Decided { decision, release } = self.strategy(entry).purchase(call).await;
            if decision.as_ref().is_err_and(|failure| failure.is(&failure::GUARD_MISMATCH)) {
                // Another sale has started. The locks are released before the next look.
                self.memory.forget(&call.purchase.cart);
                if let Some(release) = release {
                    // At the deadline, the release goes on in the background.
                    timeout_at(call.until, release).await.ok();
                }
                continue;
            }
            return match release {
                // Nothing is written. `replay` may ask the database, and the next buyer must not wait for that.
                Some(mut release) if decision.is_err() && !call.is_committing() => {
                    let mut replay = pin!(self.replay(call, decision));
                    tokio::select! {
                        // Without a key, `replay` is ready at once: the answer comes before the release.
                        biased;
                        result = &mut replay => Served { entry, result, release: Some(release) },
                        () = &mut release => Served::at_once(entry, replay.await),
                    }
                }
                // Otherwise the buyer is answered first, and a commit that may be in flight keeps its lock.
                release => Served { entry, result: self.replay(call, decision).await, release },
            };
        }
        Served::at_once(before, Err(Failure::of(&failure::SALE_RESTARTED)))
    }

    /// Finds the strategy for a purchase, and admits the purchase to the sales of its cart. The memory may be out of
    /// date, so it can only admit. Before a refusal, a claim or the answer that a SKU is unknown, the database is
    /// asked.
    pub(super) async fn admit(&self, call: &Call, named: Option<&'static Entry>) -> Result<&'static Entry, Failure> {
        let cart = &call.purchase.cart;
        if let Some(known) = self.memory.sales(cart)
            && let Ok(Admission::Serve(entry)) = self.offer.admit(named, &known)
            && check_buyer(&call.purchase, &known).is_ok()
        {
            call.admit(&known);
            return Ok(entry);
        }
        for _ in 0..ADMISSIONS_MAX {
            let sales = call.wait(call.in_time(Box::pin(self.look_up(cart)))).await??;
            match self.offer.admit(named, &sales)? {
                Admission::Serve(entry) => {
                    check_buyer(&call.purchase, &sales)?;
                    call.admit(&sales);
                    return Ok(entry);
                }
                Admission::Claim(entry) => {
                    let unclaimed = sales.iter().filter(|goods| goods.guard.is_none());
                    let unclaimed: Vec<_> = unclaimed.map(|goods| (goods.goods_no, goods.sale)).collect();
                    let claim = Box::pin(self.shared.store.claim(&unclaimed, entry.family, entry.name, call.until));
                    // A claim that another purchase has won is no failure: the next look shows the guard.
                    call.wait(claim).await??;
                }
            }
        }
        Err(Failure::of(&failure::SALE_RESTARTED))
    }

    /// Reads the sales of a cart as they are now, and remembers them. Their units may be counted up to the quantities only.
    pub(super) async fn look_up(&self, cart: &Cart) -> Result<Vec<Goods>, Failure> {
        let mut sales = Vec::with_capacity(cart.lines().len());
        for line in cart.lines() {
            let goods = self.shared.store.look_for(line.goods_no, line.quantity).await?;
            sales.push(goods.ok_or_else(|| Failure::unknown_goods(line.goods_no))?);
        }
        self.memory.remember(&sales);
        Ok(sales)
    }

    /// Returns the order under the key of a purchase. Returns `None` without a key or an order.
    async fn recall(&self, call: &Call) -> Result<Option<PurchaseAnswer>, Failure> {
        let Purchase { cart, key: Some(key), .. } = &call.purchase else { return Ok(None) };
        match call.wait(call.in_time(Box::pin(self.shared.store.recall(key, cart)))).await?? {
            None => Ok(None),
            Some(Remembered::Order(order)) => {
                Ok(Some(PurchaseAnswer { receipt: Receipt::Order(order), is_replay: true }))
            }
            Some(Remembered::OtherCart) => Err(Failure::key_reused()),
        }
    }

    /// Makes the answer to a decision. If another purchase under the same key came first, the answer is its order,
    /// even if that order took the last unit.
    async fn replay(&self, call: &Call, decision: Result<Receipt, Failure>) -> Result<PurchaseAnswer, Failure> {
        let failure = match decision {
            Ok(receipt) => {
                let is_replay = match &receipt {
                    Receipt::Order(_) => false,
                    Receipt::Promised { is_repeated, .. } => *is_repeated,
                    Receipt::Ticket(ticket) => ticket.is_repeated,
                };
                return Ok(PurchaseAnswer { receipt, is_replay });
            }
            Err(failure) => failure,
        };
        if failure.is(&failure::SOLD_OUT) && self.config.remember_sold_out {
            self.memory.remember_sold_out(&call.purchase.cart);
        }
        // Another purchase under the same key may have taken the last unit, or what the buyer was still allowed.
        let may_be_twin = failure.is_one_of(&[&failure::REPEATED, &failure::SOLD_OUT, &failure::OVER_LIMIT]);
        if call.purchase.key.is_none() || !may_be_twin {
            return Err(failure);
        }
        match self.recall(call).await {
            Ok(Some(answer)) => Ok(answer),
            Err(error) if error.is(&failure::KEY_REUSED) => Err(error),
            // The write has seen the key, so another purchase has sold. This is no refusal.
            Ok(None) | Err(_) if failure.is(&failure::REPEATED) => Err(twin_sold(failure)),
            Ok(None) => Err(failure),
            // So this is not known to be a refusal.
            Err(error) => Err(error),
        }
    }

    /// Returns whether the first SKU of a purchase is known to be sold out. Units may have come back, so a remembered
    /// sold-out is confirmed by a look at the stock. Concurrent buyers share the look.
    pub(super) async fn is_known_sold_out(&self, call: &Call) -> bool {
        let line = call.purchase.cart.lines()[0];
        if !self.memory.is_sold_out(line.goods_no) {
            return false;
        }
        let look = call.wait(call.in_time(Box::pin(self.shared.store.look_for(line.goods_no, line.quantity))));
        match look.await.flatten() {
            Ok(Some(goods)) if goods.on_hand < line.quantity.get() => true,
            Ok(Some(_)) => {
                self.memory.forget_sold_out(line.goods_no);
                false
            }
            // The strategy goes on, and finds what is wrong.
            Ok(None) | Err(_) => false,
        }
    }

    /// Counts and logs a purchase. This happens once for each purchase, when its result is known. The span names the
    /// purchase.
    pub(super) fn record(&self, entry: &Entry, result: &Result<PurchaseAnswer, Failure>, arrived: Instant) {
        let label = match result {
            Ok(PurchaseAnswer { is_replay: true, .. }) => REPEATED,
            Ok(PurchaseAnswer { receipt: Receipt::Order(_) | Receipt::Promised { .. }, .. }) => SOLD,
            Ok(PurchaseAnswer { receipt: Receipt::Ticket(_), .. }) => QUEUED,
            // Every kind of failure that can end a purchase has a label. A kind without a label is a defect and
            // counts as one.
            Err(failure) => failure.kind().outcome.or(failure::INTERNAL.outcome).unwrap_or_default(),
        };
        self.metrics.outcomes(entry.name).record(label, arrived.elapsed());
        match result {
            Ok(PurchaseAnswer { receipt: Receipt::Order(order) | Receipt::Promised { order, .. }, is_replay }) => {
                Span::current().record("order_id", order.order_id);
                debug!(is_replay, "sold");
            }
            Ok(PurchaseAnswer { receipt: Receipt::Ticket(ticket), is_replay }) => {
                debug!(ticket.ticket, is_replay, "queued");
            }
            Err(failure) => log_failure(failure),
        }
    }
}

/// Returns the failure if another purchase under the same key has sold, but its order could not be read.
fn twin_sold(cause: Failure) -> Failure {
    let detail = "another request under this idempotency key has bought, and its order could not be read: send the same request \
                  again with the same key";
    Failure::new(&failure::OUTCOME_UNKNOWN, detail).caused_by(cause)
}
