//! `pg-reserve`: a purchase in two steps. A reservation takes units out of the free stock and holds them, and a confirmation turns them
//! into an order. What is not confirmed in time is free again.
//!
//! Each step is one statement, a function of the database. So no lock outlives a message, and the row of the SKU is locked for the
//! reservation only: a confirmation needs the row of the reservation alone. The clock of the database decides whether a confirmation is
//! in time, under the lock of that row. A confirmation that is too late ends the reservation, so no later answer differs.
//!
//! Nobody is told "sold out" while units of expired reservations wait for a sweeper: the next buyer frees them itself. The sweeper frees
//! the units of a SKU that nobody buys.
//!
//! A purchase in one request makes both steps, with its business time in between. Its key names the reservation, too. So a request that
//! comes again under the key, or after a crash between the steps, goes on with the same reservation.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;
use tracing::debug;

use super::attempt::restarted;
use super::call::{Call, Sent};
use super::context::{Context, Shared};
use super::{Boxed, Decided, Decision, ReservationAnswer, Strategy};
use crate::failure::{self, Failure};
use crate::sale::{Order, OrderLine};
use crate::store::{Confirmed, ReserveArguments, Reserved, SoldUnits};

/// The name of the strategy and of its family, as the database function `units_left` has it.
pub(crate) const NAME: &str = "pg-reserve";

/// Upper bound of the attempts to make a reservation. A further one is needed only if another request under the same key comes or gives
/// up at that moment.
const ATTEMPTS_MAX: usize = 5;

/// Sells by a reservation and its confirmation.
pub(super) struct Reserve {
    context: Context,
}

impl Reserve {
    pub(super) fn new(context: Context) -> Self {
        Self { context }
    }

    /// Makes a reservation, or finds the one under the same key. Returns the number of one that was found.
    async fn hold(
        &self,
        call: &Call,
        in_one_request: bool,
        until: Instant,
    ) -> Result<Result<ReservationAnswer, i64>, Failure> {
        let Context { family, shared, .. } = &self.context;
        let line = call.purchase.cart.lines()[0];
        let arguments = ReserveArguments {
            line,
            sale: call.sale_of(line.goods_no),
            per_buyer: call.per_buyer_of(line.goods_no),
            guard: family,
            buyer: call.purchase.buyer.as_ref(),
            key: call.purchase.key.as_ref(),
            in_one_request,
            hold: shared.settings.reservation_ttl,
        };
        for _ in 0..ATTEMPTS_MAX {
            return match self.ask(call, arguments, until).await? {
                Reserved::Held(reservation) => {
                    shared.reserved.notify_one();
                    Ok(Ok(ReservationAnswer { reservation, is_replay: false }))
                }
                Reserved::Repeated(reservation_id) => Ok(Err(reservation_id)),
                Reserved::Ordered => Err(Failure::repeated()),
                Reserved::KeyReused => Err(Failure::key_reused()),
                Reserved::Overtaken => continue,
                Reserved::SoldOut => Err(Failure::sold_out(line.goods_no)),
                Reserved::OverLimit => Err(Failure::over_limit(line.goods_no)),
                Reserved::Restarted => Err(restarted(call, line.goods_no)),
            };
        }
        Err(Failure::of(&failure::OVERTAKEN))
    }

    /// Sends the statement. The buyer may leave until then. After that only the answer tells whether units are held. That matters to
    /// a buyer who goes on by itself. Of a purchase in one request nothing is sold yet.
    async fn ask(&self, call: &Call, arguments: ReserveArguments<'_>, until: Instant) -> Result<Reserved, Failure> {
        call.still_wanted()?;
        let is_sent = AtomicBool::new(false);
        let sent = || {
            is_sent.store(true, Ordering::Relaxed);
            if !arguments.in_one_request {
                call.commit.note(Sent::Statement);
            }
        };
        let mut reserved = pin!(self.context.shared.store.reserve(arguments, until, sent));
        let reserved = tokio::select! {
            biased;
            reserved = &mut reserved => reserved,
            reason = self.context.leaving(call, until) => {
                if !is_sent.load(Ordering::Relaxed) {
                    return Err(reason);
                }
                reserved.await
            }
        };
        call.answered(&reserved);
        reserved
    }

    /// Makes both steps.
    async fn sell(&self, call: &Call) -> Decision {
        for _ in 0..ATTEMPTS_MAX {
            let held = self.hold(call, true, self.context.lock_until(call)).await;
            let reservation_id = match held.map_err(nothing_sold)? {
                Ok(ReservationAnswer { reservation, .. }) => reservation.reservation_id,
                Err(reservation_id) => reservation_id,
            };
            call.has_decided.store(true, Ordering::Relaxed);
            let Context { shared, .. } = &self.context;
            shared.settings.business_time.pass().await;
            let confirmed = confirm(shared, reservation_id, call.until, || call.commit.note(Sent::Statement)).await;
            call.answered(&confirmed);
            match confirmed {
                // Another request under the key has made the order, so the answer is that order.
                Ok(Confirmed::Repeated(_)) => return Err(Failure::repeated()),
                Ok(Confirmed::Sold(sold)) => return Ok(order(shared, sold)),
                // Another request under the key has given up meanwhile.
                Ok(Confirmed::Cancelled) => {}
                Ok(Confirmed::SaleOver) => return Err(Failure::of(&failure::SALE_RESTARTED)),
                Ok(Confirmed::Expired | Confirmed::Unknown) => return Err(Failure::of(&failure::RESERVATION_EXPIRED)),
                Ok(Confirmed::KeyReused) => {
                    self.give_back(call, reservation_id).await;
                    return Err(Failure::repeated());
                }
                Err(failure) => {
                    if !failure.is(&failure::OUTCOME_UNKNOWN) {
                        self.give_back(call, reservation_id).await;
                    }
                    return Err(failure);
                }
            }
        }
        Err(Failure::of(&failure::OVERTAKEN))
    }

    /// Gives the units back at once. If that fails, they are free when the time of the reservation has passed.
    async fn give_back(&self, call: &Call, reservation_id: i64) {
        let goods_no = call.purchase.cart.lines()[0].goods_no;
        if let Err(failure) = self.context.shared.store.cancel(reservation_id, goods_no, call.until).await {
            debug!(%failure, reservation_id, "the units of a reservation could not be given back, and are held until it expires");
        }
    }
}

/// Confirms a reservation until `until`. `sent` is called when the statement is about to be sent.
///
/// # Errors
/// As [`Store::confirm`](crate::store::Store::confirm).
///
/// # Cancel safety
/// Dropped after `sent`, the order may be committed or not.
pub(crate) async fn confirm(
    shared: &Shared,
    reservation_id: i64,
    until: Instant,
    sent: impl Fn(),
) -> Result<Confirmed, Failure> {
    shared.store.confirm(reservation_id, NAME, &shared.instance, until, sent).await
}

/// Returns the order that a confirmation has written on this instance.
pub(crate) fn order(shared: &Shared, sold: SoldUnits) -> Order {
    let SoldUnits { order_id, goods_no, sale, quantity } = sold;
    // Held units come back, so no order knows how many are left.
    let line = OrderLine { goods_no, sale, quantity, remaining: None, token: None };
    Order { order_id, strategy: NAME.to_owned(), instance: shared.instance.to_string(), lines: vec![line] }
}

/// Renames the failure of a first step of which nothing was heard: without the second step, nothing is sold.
fn nothing_sold(failure: Failure) -> Failure {
    if !failure.is(&failure::OUTCOME_UNKNOWN) {
        return failure;
    }
    let detail =
        "the database did not answer in time; nothing was sold, and units may be held until a reservation expires";
    Failure::new(&failure::DATABASE_UNAVAILABLE, detail).caused_by(failure)
}

impl Strategy for Reserve {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        call.decide(Box::pin(self.sell(call)))
    }

    fn reserve<'a>(&'a self, call: &'a Call) -> Option<Boxed<'a, Result<ReservationAnswer, Failure>>> {
        Some(Box::pin(async move {
            match self.hold(call, false, self.context.lock_until(call)).await? {
                Ok(answer) => Ok(answer),
                Err(reservation_id) => {
                    let known = self.context.shared.store.reservation(reservation_id).await?;
                    // Reservations are never deleted.
                    let reservation = known.ok_or_else(|| Failure::of(&failure::UNKNOWN_RESERVATION))?;
                    Ok(ReservationAnswer { reservation, is_replay: true })
                }
            }
        }))
    }
}
