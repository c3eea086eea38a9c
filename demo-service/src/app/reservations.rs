//! Purchases in two steps, and the sweeper that ends what nobody has confirmed.
//!
//! A purchase in two steps counts in the metrics once it has ended: sold by its confirmation, or refused by either step. One that the
//! buyer abandons does not count.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{Instrument, Span, debug, warn_span};

use super::purchase::ADMISSIONS_MAX;
use super::{App, PurchaseAnswer, Slot, shutting_down};
use crate::failure::{self, Failure};
use crate::sale::{GoodsNo, Order, Purchase, Receipt, Reservation, ReservationState};
use crate::store::{Cancelled, Confirmed};
use crate::strategy::ReservationAnswer;
use crate::strategy::call::Call;
use crate::strategy::reserve;
use crate::telemetry::log_failure;

/// The longest pause between two sweeps of reservations. A reservation that is made here wakes a sweeper that knows of none. So this is
/// for reservations of an instance that died. The next buyer needs no sweeper.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The shortest pause.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// The pause after a sweep that failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

impl App {
    /// Holds units for a buyer, in a task of its own.
    ///
    /// # Errors
    /// A [`Failure`]. Unless it is [`OUTCOME_UNKNOWN`](failure::OUTCOME_UNKNOWN), nothing is held.
    ///
    /// # Panics
    /// If the task panicked.
    ///
    /// # Cancel safety
    /// Dropped, a request that waits for a connection gives up. After that, the units may be held.
    pub async fn reserve(self: &Arc<Self>, purchase: Purchase, slot: Slot) -> Result<ReservationAnswer, Failure> {
        let client = self.shared.closing.child_token();
        let _hang_up = client.clone().drop_guard();
        let call = Call::new(purchase, slot.arrived, self.config.db_timeout, client);
        let app = Arc::clone(self);
        let span = warn_span!("reservation", goods_no = ?call.purchase.cart.numbers());
        let arrived = slot.arrived;
        self.in_task(slot, span, async move {
            let result = app.hold(&call).await.map_err(|failure| app.explain(failure));
            // Refused, the purchase has ended.
            result.inspect_err(|failure| app.record_of_reservation(&Err(failure.clone()), arrived))
        })
        .await
    }

    /// Admits a reservation to the current sale, and asks the strategy for the units.
    async fn hold(&self, call: &Call) -> Result<ReservationAnswer, Failure> {
        if self.is_stopping() {
            return Err(shutting_down());
        }
        let named = self.offer.find(reserve::NAME)?;
        let cart = &call.purchase.cart;
        for _ in 0..ADMISSIONS_MAX {
            let entry = self.admit(call, Some(named)).await.map_err(|failure| not_in_two_steps(failure, call))?;
            if self.is_known_sold_out(call).await {
                return Err(Failure::sold_out(cart.lines()[0].goods_no));
            }
            let Some(held) = self.strategy(entry).reserve(call) else {
                return Err(Failure::of(&failure::GUARD_MISMATCH));
            };
            match call.in_time(held).await {
                Err(failure) if failure.is(&failure::GUARD_MISMATCH) => self.memory.forget(cart),
                Err(failure) if failure.is(&failure::SOLD_OUT) && self.config.remember_sold_out => {
                    self.memory.remember_sold_out(cart);
                    return Err(failure);
                }
                held => return held,
            }
        }
        Err(Failure::of(&failure::SALE_RESTARTED))
    }

    /// Turns a reservation into an order, in a task of its own.
    ///
    /// # Errors
    /// A [`Failure`]. Unless it is [`OUTCOME_UNKNOWN`](failure::OUTCOME_UNKNOWN), nothing was sold.
    ///
    /// # Panics
    /// If the task panicked.
    ///
    /// # Cancel safety
    /// Dropped, the confirmation runs to its end.
    pub async fn confirm(self: &Arc<Self>, reservation_id: i64, slot: Slot) -> Result<PurchaseAnswer, Failure> {
        let app = Arc::clone(self);
        let span = warn_span!("confirmation", reservation_id, order_id = tracing::field::Empty);
        let arrived = slot.arrived;
        self.in_task(slot, span, async move {
            let result = app.sell_reserved(reservation_id, arrived).await;
            app.record_of_reservation(&result, arrived);
            result
        })
        .await
    }

    async fn sell_reserved(&self, reservation_id: i64, arrived: Instant) -> Result<PurchaseAnswer, Failure> {
        if self.is_stopping() {
            return Err(shutting_down());
        }
        let business_time = self.shared.settings.business_time;
        // What has ended needs no business.
        if !business_time.is_none() && self.is_held(reservation_id).await? {
            business_time.pass().await;
        }
        // The business is no part of the wait for the database.
        let until = arrived + self.config.db_timeout;
        let is_sent = AtomicBool::new(false);
        let confirm = reserve::confirm(&self.shared, reservation_id, until, || is_sent.store(true, Ordering::Relaxed));
        let Ok(confirmed) = timeout_at(until, confirm).await else {
            return Err(match is_sent.into_inner() {
                true => unknown_end(reservation_id),
                false => Failure::database_unavailable(),
            });
        };
        match confirmed.map_err(|failure| name_the_end(failure, reservation_id))? {
            Confirmed::Sold(sold) => {
                Ok(PurchaseAnswer { receipt: Receipt::Order(reserve::order(&self.shared, sold)), is_replay: false })
            }
            Confirmed::Repeated(order_id) => {
                let order = self.confirmed_order(order_id).await?;
                Ok(PurchaseAnswer { receipt: Receipt::Order(order), is_replay: true })
            }
            Confirmed::Expired => Err(expired(reservation_id)),
            Confirmed::SaleOver => {
                let detail = format!(
                    "the next sale has started, which ended reservation {reservation_id}; nothing was sold by it: reserve in the \
                     new sale"
                );
                Err(Failure::new(&failure::RESERVATION_EXPIRED, detail))
            }
            Confirmed::Cancelled => {
                let detail = format!("the units of reservation {reservation_id} were given back; reserve again");
                Err(Failure::new(&failure::RESERVATION_CANCELLED, detail))
            }
            Confirmed::Unknown => Err(unknown(reservation_id)),
            Confirmed::KeyReused => {
                let detail = "another purchase was made under the idempotency key of this reservation; cancel it, and reserve under \
                              another key";
                Err(Failure::new(&failure::KEY_REUSED, detail))
            }
        }
    }

    async fn is_held(&self, reservation_id: i64) -> Result<bool, Failure> {
        let known = self.shared.store.reservation(reservation_id).await?;
        Ok(known.is_some_and(|reservation| reservation.state == ReservationState::Held))
    }

    async fn confirmed_order(&self, order_id: i64) -> Result<Order, Failure> {
        let order = self.shared.store.order(order_id).await?;
        order.ok_or_else(|| Failure::new(&failure::INTERNAL, "the order of a reservation is missing"))
    }

    /// Gives the units of a reservation back, in a task of its own.
    ///
    /// # Errors
    /// A [`Failure`].
    ///
    /// # Panics
    /// If the task panicked.
    ///
    /// # Cancel safety
    /// Dropped, the cancellation runs to its end.
    pub async fn cancel(self: &Arc<Self>, reservation_id: i64, slot: Slot) -> Result<ReservationAnswer, Failure> {
        let app = Arc::clone(self);
        let span = warn_span!("cancellation", reservation_id);
        let until = slot.arrived + self.config.db_timeout;
        self.in_task(slot, span, async move {
            let cancelled = timeout_at(until, app.give_back(reservation_id, until)).await;
            let result = cancelled.unwrap_or_else(|_| Err(unknown_end(reservation_id)));
            result.inspect_err(log_failure)
        })
        .await
    }

    async fn give_back(&self, reservation_id: i64, until: Instant) -> Result<ReservationAnswer, Failure> {
        if self.is_stopping() {
            return Err(shutting_down());
        }
        let store = &self.shared.store;
        let known = store.reservation(reservation_id).await?.ok_or_else(|| unknown(reservation_id))?;
        let goods_no = GoodsNo::try_from(known.goods_no)?;
        let cancelled = store.cancel(reservation_id, goods_no, until).await;
        let is_replay = match cancelled.map_err(|failure| name_the_end(failure, reservation_id))? {
            Cancelled::Cancelled => false,
            Cancelled::Repeated => true,
            Cancelled::Expired => return Err(expired(reservation_id)),
            Cancelled::Confirmed => {
                let detail = format!(
                    "reservation {reservation_id} was confirmed, so its units are sold; GET /reservations/{reservation_id} shows the order"
                );
                return Err(Failure::new(&failure::RESERVATION_CONFIRMED, detail));
            }
            Cancelled::Unknown => return Err(unknown(reservation_id)),
        };
        let reservation = Reservation { state: ReservationState::Cancelled, order_id: None, ..known };
        Ok(ReservationAnswer { reservation, is_replay })
    }

    /// Finds a reservation. Returns `None` if no reservation has that number.
    ///
    /// # Errors
    /// A [`Failure`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn reservation(&self, reservation_id: i64) -> Result<Option<Reservation>, Failure> {
        self.shared.store.reservation(reservation_id).await.inspect_err(log_failure)
    }

    /// Runs `work` in a task of its own: it outlives its client, and a shutdown waits for it. Frees the slot before the answer, unless
    /// the outcome is unknown.
    async fn in_task<T: Send + 'static>(
        &self,
        slot: Slot,
        span: Span,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let (answer, answered) = oneshot::channel();
        let work = Box::pin(work);
        let serve = async move {
            let result = work.await;
            let slot = result.as_ref().is_err_and(|failure| failure.is(&failure::OUTCOME_UNKNOWN)).then_some(slot);
            // If the client hung up, the answer cannot be sent.
            answer.send(result).ok();
            drop(slot);
        };
        let task = self.shared.tasks.spawn(serve.instrument(span));
        if let Ok(result) = answered.await {
            return result;
        }
        // Nothing aborts these tasks, so this one panicked. The layer around the routes answers panics.
        resume_unwind(task.await.expect_err("BUG: a task ended without an answer").into_panic())
    }

    fn record_of_reservation(&self, result: &Result<PurchaseAnswer, Failure>, arrived: Instant) {
        if let Ok(entry) = self.offer.find(reserve::NAME) {
            self.record(entry, result, arrived);
        }
    }

    /// Runs for ever: ends reservations that are past their time. Every instance does so, and wakes for the earliest of them.
    pub(super) async fn sweep_reservations(&self) {
        loop {
            match self.shared.store.sweep_reservations().await {
                Ok(Some(next)) => sleep(next.clamp(PAUSE_MIN, PAUSE_MAX)).await,
                Ok(None) => drop(timeout(PAUSE_MAX, self.shared.reserved.notified()).await),
                Err(failure) => {
                    debug!(%failure, "reservations that are past their time could not be ended, trying again");
                    sleep(PAUSE_AFTER_FAILURE).await;
                }
            }
        }
    }
}

fn unknown(reservation_id: i64) -> Failure {
    Failure::new(&failure::UNKNOWN_RESERVATION, format!("there is no reservation {reservation_id}"))
}

fn expired(reservation_id: i64) -> Failure {
    let detail = format!(
        "the time of reservation {reservation_id} has passed, so its units are free for others; nothing was sold by it: reserve again"
    );
    Failure::new(&failure::RESERVATION_EXPIRED, detail)
}

/// Says how to learn what became of a reservation whose end was not answered.
fn unknown_end(reservation_id: i64) -> Failure {
    let detail = format!(
        "the statement was sent and its answer was not seen: send the same request again, which is harmless, or look at \
         GET /reservations/{reservation_id}"
    );
    Failure::new(&failure::OUTCOME_UNKNOWN, detail)
}

fn name_the_end(failure: Failure, reservation_id: i64) -> Failure {
    if failure.is(&failure::OUTCOME_UNKNOWN) { unknown_end(reservation_id).caused_by(failure) } else { failure }
}

/// Explains to a buyer of a sale of another family that it sells in one step.
fn not_in_two_steps(failure: Failure, call: &Call) -> Failure {
    if !failure.is(&failure::GUARD_MISMATCH) {
        return failure;
    }
    let goods_no = call.purchase.cart.lines()[0].goods_no;
    let name = reserve::NAME;
    let detail = format!(
        "SKU {goods_no} is sold in one step: POST /goods/{goods_no}/orders buys of it; only a sale that was started with the strategy \
         {name} has reservations; nothing was written"
    );
    Failure::new(&failure::GUARD_MISMATCH, detail)
}
