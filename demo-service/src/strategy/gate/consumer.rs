//! The consumers: they take promised orders from the stream, and write them. An order is acknowledged when its transaction is
//! committed, and never before. If a consumer dies in between, the order is delivered again, and its number shows that it is written.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, error, warn};

use super::confirmations::MaybeRefused;
use super::{RedisGate, close};
use crate::failure::{self, Failure, Kind};
use crate::redis_store::RedisTrouble;
use crate::redis_store::gate::{Gates, SettledOrder};
use crate::redis_store::stream::{Consumer, Delivery, Message};
use crate::sale::{GoodsNo, Level, PromisedOrder, Purchase, Share, Wish, share_out};
use crate::store::{Isolation, LockWait, PromisedWrite, Transaction};
use crate::strategy::batch::already_sold;
use crate::telemetry::log_failure;

/// The most orders that are read together. The orders of one SKU are written by one statement.
const BATCH_MAX: usize = 500;

/// The SKUs of a batch that are written at the same time. Each needs a connection to the database.
const GOODS_AT_ONCE: usize = 2;

/// How often an instance without buyers looks whether there are orders, of an instance that died.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The pause between two looks at the backlog.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// The pause between two looks for orders of dead consumers.
const CLAIM_EVERY: Duration = Duration::from_secs(1);

/// The time limit of the wait for the row of a SKU. Other SKUs wait meanwhile, and the orders are delivered again.
const ROW_WAIT: Duration = Duration::from_secs(1);

/// The pause after a failure, which is likely to come again.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What a transaction has decided.
struct OrdersDecided {
    /// The row behind it, if there is one.
    level: Option<Level>,
    /// What became of each order.
    outcomes: Vec<MaybeRefused>,
}

/// Why nothing was written.
enum NothingWritten {
    /// The reason concerns all orders of the SKU.
    ForAll(Failure),
    /// One of the orders may be the reason.
    ForOne(Failure),
}

impl RedisGate {
    /// Waits until an order is promised here, or the stream has orders.
    pub(super) async fn until_needed(&self, gates: &Gates) {
        while self.backlog(gates).await.is_none_or(|orders| orders == 0) {
            if timeout(LOOK_EVERY, self.promised.notified()).await.is_ok() {
                return;
            }
        }
    }

    /// Shows the backlog in the metrics for ever. A consumer that waits for the database could not.
    pub(super) async fn show_backlog(&self, gates: &Gates) {
        loop {
            self.backlog(gates).await;
            sleep(SHOW_EVERY).await;
        }
    }

    /// Returns how many promised orders are not settled, and shows it in the metrics. `None` if Redis does not tell.
    async fn backlog(&self, gates: &Gates) -> Option<u32> {
        let backlog = gates.backlog().await.ok();
        self.context.metrics.set_gate_backlog(backlog);
        backlog
    }

    /// Writes promised orders for ever.
    pub(super) async fn write_orders(&self, gates: &Gates) {
        loop {
            let trouble = match gates.consumer(&self.context.shared.instance).await {
                Ok(consumer) => self.consume(gates, consumer).await,
                Err(trouble) => trouble,
            };
            log_failure(&away(trouble, "promised orders cannot be read, so none is written; trying again"));
            sleep(PAUSE_AFTER_FAILURE).await;
        }
    }

    /// Takes orders and writes them, until Redis fails.
    async fn consume(&self, gates: &Gates, mut consumer: Consumer) -> RedisTrouble {
        let mut claimed_to = String::new();
        let mut next_claim = Instant::now();
        loop {
            let delivered = if next_claim <= Instant::now() {
                let delivered = consumer.claim(BATCH_MAX, &mut claimed_to).await;
                if claimed_to.is_empty() {
                    next_claim = Instant::now() + CLAIM_EVERY;
                }
                delivered
            } else {
                consumer.read(BATCH_MAX).await
            };
            match delivered {
                Ok(delivery) => self.take(gates, delivery).await,
                Err(trouble) => return trouble,
            }
        }
    }

    async fn take(&self, gates: &Gates, delivery: Delivery) {
        let Delivery { orders, unreadable, lost } = delivery;
        if lost > 0 {
            warn!(lost, "promised orders were deleted from the stream before they were written");
        }
        if !unreadable.is_empty() {
            error!(?unreadable, "messages in the stream are no orders, and are deleted");
            // Otherwise they are delivered again.
            gates.drop_unreadable(&unreadable).await.ok();
        }
        let mut by_goods: HashMap<GoodsNo, Vec<Message>> = HashMap::new();
        for message in orders {
            by_goods.entry(message.order.purchase.cart.lines()[0].goods_no).or_default().push(message);
        }
        let decide = |(goods_no, messages): (_, Vec<_>)| async move { self.decide(gates, goods_no, &messages).await };
        stream::iter(by_goods).for_each_concurrent(GOODS_AT_ONCE, decide).await;
    }

    /// Decides the orders of one SKU together or, if one of them is the reason that this fails, one by one.
    async fn decide(&self, gates: &Gates, goods_no: GoodsNo, messages: &[Message]) {
        if self.decide_together(gates, goods_no, messages).await.is_ok() {
            return;
        }
        for message in messages {
            let alone = std::slice::from_ref(message);
            let Err(failure) = self.decide_together(gates, goods_no, alone).await else { continue };
            if failure.is(&failure::INTERNAL) {
                // It would fail for ever.
                log_failure(&failure);
                let refused = self.in_time(goods_no, alone, Some(&failure::INTERNAL)).await;
                if let Ok(written) = refused {
                    self.settle(gates, goods_no, alone, written).await;
                }
            } else {
                debug!(%failure, order_id = message.order.order_id, "a promised order could not be decided, it is delivered again");
            }
        }
    }

    /// Decides orders in one transaction and settles them. Does nothing if the reason concerns all orders: they are delivered again.
    /// Otherwise fails.
    async fn decide_together(&self, gates: &Gates, goods_no: GoodsNo, messages: &[Message]) -> Result<(), Failure> {
        match self.in_time(goods_no, messages, None).await {
            Ok(written) => self.settle(gates, goods_no, messages, written).await,
            Err(NothingWritten::ForAll(failure)) => {
                debug!(%failure, orders = messages.len(), "promised orders could not be written, they are delivered again");
                sleep(PAUSE_AFTER_FAILURE).await;
            }
            Err(NothingWritten::ForOne(failure)) => return Err(failure),
        }
        Ok(())
    }

    /// Decides orders, unless the database is silent.
    async fn in_time(
        &self,
        goods_no: GoodsNo,
        messages: &[Message],
        refused: MaybeRefused,
    ) -> Result<OrdersDecided, NothingWritten> {
        let within = self.context.shared.settings.db_timeout;
        let decided = timeout(within, self.in_transaction(goods_no, messages, refused)).await;
        decided.unwrap_or_else(|_| Err(NothingWritten::ForAll(Failure::database_unavailable())))
    }

    /// Locks the row of a SKU, and decides orders. With `refused`, all that are not decided are refused.
    async fn in_transaction(
        &self,
        goods_no: GoodsNo,
        messages: &[Message],
        refused: MaybeRefused,
    ) -> Result<OrdersDecided, NothingWritten> {
        let wait = LockWait { goods: vec![goods_no], until: Instant::now() + ROW_WAIT, shares_sales: false };
        let begun = self.context.shared.store.begin(Isolation::ReadCommitted, Some(wait)).await;
        let mut transaction = begun.map_err(NothingWritten::ForAll)?;
        let level = match transaction.read_for_update(goods_no).await {
            Ok(level) => level,
            Err(failure) => {
                transaction.roll_back().await;
                return Err(NothingWritten::ForAll(failure));
            }
        };
        match self.decide_in(&mut transaction, goods_no, level, messages, refused).await {
            // If the commit is not answered, the orders are delivered again, and may be found written.
            Ok(written) => transaction.commit(None).await.map(|()| written).map_err(NothingWritten::ForAll),
            Err(failure) => {
                transaction.roll_back().await;
                let is_of_server = failure.is(&failure::DATABASE_UNAVAILABLE);
                Err(if is_of_server { NothingWritten::ForAll(failure) } else { NothingWritten::ForOne(failure) })
            }
        }
    }

    async fn decide_in(
        &self,
        transaction: &mut Transaction,
        goods_no: GoodsNo,
        level: Option<Level>,
        messages: &[Message],
        refused: MaybeRefused,
    ) -> Result<OrdersDecided, Failure> {
        let numbers: Vec<i64> = messages.iter().map(|message| message.order.order_id).collect();
        let mut outcomes = transaction.decided_orders(&numbers).await?;
        let orders = messages.iter().map(|message| &message.order);
        let new: Vec<&PromisedOrder> = orders.filter(|order| !outcomes.contains_key(&order.order_id)).collect();
        let decided = match (&level, refused) {
            (Some(level), None) => self.share(transaction, goods_no, level, &new).await?,
            _ => new.iter().map(|_| refused.or(Some(&failure::SALE_RESTARTED))).collect(),
        };
        let with =
            |wanted: fn(MaybeRefused) -> bool| new.iter().zip(&decided).filter(move |(_, refused)| wanted(**refused));
        let sold: Vec<&PromisedOrder> = with(|refused| refused.is_none()).map(|(order, _)| *order).collect();
        let refusals: Vec<_> = with(|refused| refused.is_some())
            .filter_map(|(order, refused)| refused.map(|kind| (*order, kind)))
            .collect();
        let level = match level {
            Some(level) if !sold.is_empty() => {
                let strategy = self.context.strategy;
                let write = PromisedWrite { goods_no, level: &level, strategy, orders: &sold };
                Some(transaction.write_promised(write).await?)
            }
            level => level,
        };
        if !refusals.is_empty() {
            transaction.refuse_orders(self.context.strategy, &refusals).await?;
        }
        outcomes.extend(new.iter().zip(decided).map(|(order, refused)| (order.order_id, refused)));
        let outcomes = numbers.iter().map(|number| outcomes.get(number).copied().flatten()).collect();
        Ok(OrdersDecided { level, outcomes })
    }

    /// Shares the units of the row out to orders that are not decided.
    async fn share(
        &self,
        transaction: &mut Transaction,
        goods_no: GoodsNo,
        level: &Level,
        orders: &[&PromisedOrder],
    ) -> Result<Vec<MaybeRefused>, Failure> {
        let before = already_sold(transaction, goods_no, level, orders.iter().map(|order| &order.purchase)).await?;
        let wishes: Vec<Wish<'_>> = orders.iter().map(|order| wish(order)).collect();
        let shares = share_out(level, self.context.family, &before, &wishes);
        Ok(shares.into_iter().map(reason).collect())
    }

    /// Settles decided orders, and tells their waiting buyers. If Redis fails, the orders are delivered again.
    async fn settle(&self, gates: &Gates, goods_no: GoodsNo, messages: &[Message], written: OrdersDecided) {
        let OrdersDecided { level, outcomes } = written;
        let decided = || messages.iter().zip(outcomes.iter().copied());
        let orders = decided().map(|(message, refused)| SettledOrder { message, is_refused: refused.is_some() });
        let orders: Vec<_> = orders.collect();
        if let Err(trouble) = gates.settle(goods_no, level.as_ref(), &orders).await {
            log_failure(&away(
                trouble,
                "orders are decided and could not be acknowledged, so they are delivered again",
            ));
        }
        if let Some(level) = &level
            && outcomes.contains(&Some(&failure::SALE_RESTARTED))
        {
            // Nobody has closed the gate that promised them.
            close(gates, goods_no, level.sale).await;
        }
        let mut refused = decided().filter_map(|(message, refused)| Some((message.order.order_id, refused?)));
        // A buyer who waits learns it.
        if self.confirmations.is_none()
            && let Some((order_id, reason)) = refused.next()
        {
            let others = refused.count();
            let reason = reason.slug();
            warn!(%goods_no, order_id, reason, others, "orders that their buyers were told of are refused, see the table refused_orders");
        }
        let waiting = decided().filter_map(|(message, refused)| Some((message.waiter.as_deref()?, refused)));
        self.tell(gates, waiting).await;
    }
}

/// Returns what an operator is told if Redis keeps orders from being written.
fn away(trouble: RedisTrouble, told: &'static str) -> Failure {
    Failure::new(&failure::LOCK_SERVICE_UNAVAILABLE, told).caused_by(trouble)
}

fn wish(order: &PromisedOrder) -> Wish<'_> {
    let Purchase { cart, key, buyer } = &order.purchase;
    Wish { sale: order.sale, quantity: cart.lines()[0].quantity, key: key.as_ref(), buyer: buyer.as_ref() }
}

/// Returns why a share refuses its order.
fn reason(share: Share) -> Option<&'static Kind> {
    match share {
        Share::Sold { .. } => None,
        Share::SoldOut => Some(&failure::SOLD_OUT),
        Share::OverLimit => Some(&failure::OVER_LIMIT),
        Share::Restarted => Some(&failure::SALE_RESTARTED),
        Share::Repeated => Some(&failure::REPEATED),
    }
}
