//! `pg-queue`: the buyer is given a ticket, and a worker decides it. The queue is a table, so it needs no other server.
//!
//! A ticket is one insert, and no two buyers meet at it. A worker of any instance locks the row of the SKU whose oldest ticket has
//! waited longest, and passes over SKUs that others have locked (`skip locked`). It takes the oldest tickets of the SKU, and writes
//! their orders, the stock and their outcomes in one transaction. So the tickets of a SKU are decided in their order, by one worker at
//! a time, and a SKU that somebody has locked delays no other. Nothing is sold twice or lost, whatever dies: a ticket whose
//! transaction is rolled back waits again.
//!
//! As under `pg-conditional`, the business is done first. A buyer who finds too few units in the row is told "sold out" at once.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use super::attempt::{do_business_first, restarted};
use super::batch::already_sold;
use super::call::{Call, Sent};
use super::context::Context;
use super::{Boxed, Decided, Strategy};
use crate::failure::{self, Failure};
use crate::sale::{GoodsNo, Level, Purchase, Receipt, Share, Wish, share_out};
use crate::store::{
    BatchOrder, BatchWrite, Isolation, NewTicket, Remembered, TicketOutcome, TicketTaken, Transaction, WaitingGoods,
    WaitingTicket,
};
use crate::telemetry::{REPEATED, SOLD, log_failure};

/// The most tickets that a worker decides in one transaction. Their orders are written by one statement.
const BATCH_MAX: i64 = 500;

/// How long a worker that finds no ticket waits before it looks again. A ticket that its instance gives out wakes it, and so does a
/// buyer who asks its instance for a ticket that waits. This is for tickets of an instance that died, and for which nobody asks.
const PAUSE: Duration = Duration::from_secs(30);

/// How long a worker waits that finds the rows of all waiting SKUs locked. Mostly by another worker, which then decides the tickets.
const PAUSE_FOR_OTHERS: Duration = Duration::from_millis(20);

/// How long a worker waits after a failure, which is likely to come again.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// How often a purchase asks again for a ticket, if one with the same key was decided meanwhile.
const ASKED_MAX: usize = 3;

/// Gives out tickets, and decides them.
pub(super) struct Tickets {
    context: Context,
}

impl Tickets {
    pub(super) fn new(context: Context) -> Self {
        Self { context }
    }

    /// Writes a ticket for a purchase of one SKU.
    async fn give(&self, call: &Call) -> Result<Receipt, Failure> {
        do_business_first(&self.context, call).await?;
        let line = call.purchase.cart.lines()[0];
        let new = NewTicket {
            goods_no: line.goods_no,
            sale: call.sale_of(line.goods_no),
            guard: self.context.family,
            quantity: line.quantity,
            buyer: call.purchase.buyer.as_ref(),
            key: call.purchase.key.as_ref(),
        };
        for _ in 0..ASKED_MAX {
            call.still_wanted()?;
            let taken = self.context.shared.store.take_ticket(new, || call.commit.note(Sent::Statement)).await;
            call.answered(&taken);
            match taken? {
                TicketTaken::Ticket(ticket) => {
                    self.context.shared.tickets.notify_one();
                    return Ok(Receipt::Ticket(ticket));
                }
                TicketTaken::OtherCart => return Err(Failure::key_reused()),
                TicketTaken::SoldOut => return Err(Failure::sold_out(line.goods_no)),
                TicketTaken::Restarted => return Err(restarted(call, line.goods_no)),
                TicketTaken::Overtaken if self.order_under_key(&call.purchase).await?.is_some() => {
                    return Err(Failure::repeated());
                }
                // It was refused, so the key is free again.
                TicketTaken::Overtaken => {}
            }
        }
        Err(Failure::of(&failure::OVERTAKEN))
    }

    /// Returns what was bought under the key of a purchase.
    async fn order_under_key(&self, purchase: &Purchase) -> Result<Option<Remembered>, Failure> {
        let Some(key) = &purchase.key else { return Ok(None) };
        self.context.shared.store.recall(key, &purchase.cart).await
    }

    /// Decides up to `most` tickets of the SKU that has waited longest. Returns which SKU that was. `alone` is set to the ticket, if it
    /// was the only one.
    async fn decide(&self, most: i64, alone: &mut Option<i64>) -> Result<WaitingGoods, Failure> {
        let mut transaction = self.context.shared.store.begin(Isolation::ReadCommitted, None).await?;
        let decided = async {
            let waiting = transaction.lock_waiting_goods().await?;
            let WaitingGoods::Locked(goods_no) = waiting else { return Ok((waiting, Vec::new())) };
            Ok((waiting, self.decide_in(&mut transaction, goods_no, most, alone).await?))
        };
        match decided.await {
            Ok((waiting @ WaitingGoods::Locked(_), decided)) => {
                transaction.commit(None).await?;
                for (label, waited) in decided {
                    self.context.outcomes.record(label, waited);
                }
                Ok(waiting)
            }
            Ok((waiting, _)) => {
                transaction.roll_back().await;
                Ok(waiting)
            }
            Err(failure) => {
                transaction.roll_back().await;
                Err(failure)
            }
        }
    }

    /// Locks tickets of a SKU whose row is locked, decides them and writes what was decided. Returns the label and the wait of each.
    async fn decide_in(
        &self,
        transaction: &mut Transaction,
        goods_no: GoodsNo,
        most: i64,
        alone: &mut Option<i64>,
    ) -> Result<Vec<(&'static str, Duration)>, Failure> {
        let level = transaction.read_for_update(goods_no).await?.ok_or_else(|| Failure::unknown_goods(goods_no))?;
        let tickets = transaction.lock_tickets(goods_no, most).await?;
        *alone = tickets.first().filter(|_| tickets.len() == 1).map(|ticket| ticket.ticket);
        let before = already_sold(transaction, goods_no, &level, tickets.iter().map(|one| &one.purchase)).await?;
        let wishes: Vec<Wish<'_>> = tickets.iter().map(wish).collect();
        let shares = share_out(&level, self.context.family, &before, &wishes);
        let mut written = self.write(transaction, goods_no, &level, &tickets, &shares).await?.into_iter();
        let mut decided = Vec::with_capacity(tickets.len());
        for (ticket, share) in tickets.iter().zip(&shares) {
            let outcome = match share {
                Share::Sold { .. } => {
                    let order_id = written.next().ok_or_else(|| Failure::of(&failure::INTERNAL))?;
                    TicketOutcome::Sold { order_id }
                }
                Share::SoldOut => TicketOutcome::Refused(&failure::SOLD_OUT),
                Share::OverLimit => TicketOutcome::Refused(&failure::OVER_LIMIT),
                Share::Restarted => TicketOutcome::Refused(&failure::SALE_RESTARTED),
                Share::Repeated => match self.order_under_key(&ticket.purchase).await? {
                    Some(Remembered::Order(order)) => TicketOutcome::Repeated { order_id: order.order_id },
                    Some(Remembered::OtherCart) | None => TicketOutcome::Refused(&failure::KEY_REUSED),
                },
            };
            decided.push((ticket.ticket, outcome));
        }
        transaction.decide_tickets(&decided).await?;
        Ok(decided.iter().zip(&tickets).map(|((_, outcome), ticket)| (label(*outcome), ticket.waited)).collect())
    }

    /// Writes the orders of the tickets that are sold, and the stock that they leave. Returns the numbers of the orders.
    async fn write(
        &self,
        transaction: &mut Transaction,
        goods_no: GoodsNo,
        level: &Level,
        tickets: &[WaitingTicket],
        shares: &[Share],
    ) -> Result<Vec<i64>, Failure> {
        let sold = tickets.iter().zip(shares).filter_map(|(ticket, share)| {
            let Share::Sold { remaining } = *share else { return None };
            let Purchase { cart, key, buyer } = &ticket.purchase;
            let quantity = cart.lines()[0].quantity.get();
            Some(BatchOrder { quantity, remaining, key: key.as_ref(), cart, buyer: buyer.as_ref() })
        });
        let orders: Vec<_> = sold.collect();
        if orders.is_empty() {
            return Ok(Vec::new());
        }
        let Context { strategy, family, shared, .. } = &self.context;
        let write = BatchWrite {
            goods_no,
            sale: level.sale,
            on_hand: level.on_hand,
            guard: family,
            strategy,
            instance: &shared.instance,
            per_buyer: level.per_buyer,
            fence: None,
            orders: &orders,
            until: Instant::now() + shared.settings.db_timeout,
        };
        let written = transaction.write_batch(write).await?;
        Ok(written.into_iter().map(|order| order.order_id).collect())
    }

    /// Refuses a ticket that cannot be decided, so that no other ticket waits for it.
    async fn give_up(&self, ticket: i64) -> Result<(), Failure> {
        let mut transaction = self.context.shared.store.begin(Isolation::ReadCommitted, None).await?;
        transaction.decide_tickets(&[(ticket, TicketOutcome::Refused(&failure::INTERNAL))]).await?;
        transaction.commit(None).await
    }

    /// Decides tickets for ever.
    async fn work(&self) {
        let mut most = BATCH_MAX;
        loop {
            let mut alone = None;
            // A network that falls silent ends no statement, so the limit is set here, too.
            let decided = timeout(self.context.shared.settings.db_timeout, self.decide(most, &mut alone)).await;
            let decided = decided.unwrap_or_else(|_| Err(Failure::database_unavailable()));
            match (decided, alone) {
                (Ok(WaitingGoods::Locked(_)), _) => {
                    most = BATCH_MAX;
                    continue;
                }
                (Ok(WaitingGoods::LockedByOthers), _) => {
                    sleep(PAUSE_FOR_OTHERS).await;
                    continue;
                }
                (Ok(WaitingGoods::None), _) => {
                    timeout(PAUSE, self.context.shared.tickets.notified()).await.ok();
                    continue;
                }
                // A defect of one ticket. It is found by deciding one at a time.
                (Err(failure), None) if failure.is(&failure::INTERNAL) && most > 1 => {
                    most = 1;
                    continue;
                }
                (Err(failure), Some(ticket)) if failure.is(&failure::INTERNAL) => {
                    log_failure(&failure);
                    if self.give_up(ticket).await.is_ok() {
                        continue;
                    }
                }
                (Err(failure), _) => debug!(%failure, "tickets could not be decided, trying again"),
            }
            sleep(PAUSE_AFTER_FAILURE).await;
        }
    }
}

fn wish(ticket: &WaitingTicket) -> Wish<'_> {
    let Purchase { cart, key, buyer } = &ticket.purchase;
    Wish { sale: ticket.sale, quantity: cart.lines()[0].quantity, key: key.as_ref(), buyer: buyer.as_ref() }
}

/// Returns the metric label of a decided ticket.
fn label(outcome: TicketOutcome) -> &'static str {
    match outcome {
        TicketOutcome::Sold { .. } => SOLD,
        TicketOutcome::Repeated { .. } => REPEATED,
        TicketOutcome::Refused(kind) => kind.outcome.or(failure::INTERNAL.outcome).unwrap_or_default(),
    }
}

impl Strategy for Tickets {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        Box::pin(async move {
            let decision = call.in_time(Box::pin(self.give(call))).await;
            Decided { decision, release: None }
        })
    }

    fn upkeep(&self) -> Boxed<'_, ()> {
        // A transaction that is stopped half-way is rolled back, and its tickets wait for another worker.
        Box::pin(async move { self.context.shared.closing.run_until_cancelled(self.work()).await.unwrap_or(()) })
    }
}
