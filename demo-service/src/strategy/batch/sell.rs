//! One batch: decided, written and committed, or not at all.

use std::pin::{Pin, pin};

use tokio::time::{Instant, timeout};
use tracing::debug;

use super::begun::Begun;
use super::buyer::{Buyer, refuse_all};
use super::queue::Worker;
use crate::failure::{self, Failure};
use crate::sale::{AlreadySold, Fence, GoodsNo, Level, Order, OrderLine, Purchase, Share, Token, share_out};
use crate::store::{BatchOrder, BatchWrite, Transaction, WrittenOrder};
use crate::strategy::Decision;
use crate::strategy::attempt::{Fences, restarted_if, visit};
use crate::strategy::context::Context;
use crate::telemetry::history::Visit;

/// What was decided in a batch, the orders that were written, and the visits of the critical section, which end before the
/// commit.
type WrittenBatch = (Vec<Share>, Vec<WrittenOrder>, Vec<Visit>);

/// Takes the next batch and decides it in one transaction. Answers the batch, puts it back into the queue or divides it. `lost`
/// resolves when the right to write is lost, to the failure of the purchases that this stops. Returns what the batch has left,
/// unless a purchase has failed. Only `zk-owner` uses that.
pub(in crate::strategy) async fn sell(
    context: &Context,
    worker: &mut Worker<'_>,
    begun: Begun,
    lost: impl Future<Output = Failure> + Send,
) -> Option<Level> {
    let mut batch = worker.take();
    batch.retain(Buyer::is_waiting);
    let Begun { transaction, level, fence } = begun;
    if batch.is_empty() {
        // All of them have gone while the transaction began.
        transaction.roll_back().await;
        return Some(level);
    }
    let decided = transact(context, transaction, &level, fence, pin!(lost), &batch).await;
    let failure = match decided {
        Ok(decisions) => {
            let left = level_left(level, &decisions);
            batch.into_iter().zip(decisions).for_each(|(buyer, decision)| buyer.answer(decision));
            return left;
        }
        Err(failure) => failure,
    };
    if failure.is(&failure::LOCK_TIMEOUT) && earliest(&batch) <= Instant::now() {
        // The row was locked until the first of them gave up. The others wait for it again.
        worker.put_back(batch, &context.lock_timeout());
    } else if batch.len() == 1 || concerns_all(&failure) {
        refuse_all(batch, &failure);
    } else {
        // One purchase has stopped the batch: its key is in use elsewhere, for example, or its buyer gave up before the commit.
        worker.divide(batch);
    }
    None
}

/// Decides a batch, writes it and commits. Returns a decision for each buyer, or the failure because of which nothing
/// was written.
async fn transact(
    context: &Context,
    mut transaction: Transaction,
    level: &Level,
    fence: Option<Fence>,
    mut lost: Pin<&mut (impl Future<Output = Failure> + Send)>,
    batch: &[Buyer],
) -> Result<Vec<Decision>, Failure> {
    let within = context.shared.settings.db_timeout;
    let written = tokio::select! {
        // A fence that refuses a hold that is over says nothing about the row.
        biased;
        lost = lost.as_mut() => Err(lost),
        written = timeout(within, decide_and_write(context, &mut transaction, level, fence, batch)) => {
            written.unwrap_or_else(|_| Err(Failure::database_unavailable()))
        }
    };
    let (shares, orders, visits) = match written {
        Ok(written) => written,
        Err(failure) => {
            transaction.roll_back().await;
            return Err(failure);
        }
    };
    debug!(purchases = batch.len(), sold = orders.len(), "a batch is decided");
    // The visits end first: the commit ends the critical section at a time that only the database knows.
    drop(visits);
    let sold = || batch.iter().zip(&shares).filter(|(_, share)| matches!(share, Share::Sold { .. }));
    let committed = if orders.is_empty() {
        transaction.roll_back().await;
        Ok(())
    } else {
        if !sold().zip(&orders).all(|((buyer, _), order)| buyer.note_commit(order.clone())) {
            sold().for_each(|(buyer, _)| buyer.note_rollback());
            transaction.roll_back().await;
            return Err(Failure::client_gone());
        }
        tokio::select! {
            biased;
            commit = timeout(within, transaction.commit(None)) => {
                commit.unwrap_or_else(|_| Err(Failure::outcome_unknown(None)))
            }
            lost = lost => Err(Failure::outcome_unknown(None).caused_by(lost)),
        }
    };
    if let Err(failure) = &committed
        && !failure.is(&failure::OUTCOME_UNKNOWN)
    {
        sold().for_each(|(buyer, _)| buyer.note_rollback());
        return Err(failure.clone());
    }
    let mut orders = orders.into_iter();
    let decide = |(buyer, share): (&Buyer, Share)| {
        let goods_no = buyer.line().goods_no;
        match (share, &committed) {
            (Share::Restarted, _) => Err(restarted_if(buyer.request.has_decided, goods_no)),
            (Share::Sold { remaining }, Ok(())) => {
                Ok(order_of(context, orders.next(), buyer, remaining, fence.map(|fence| fence.token)))
            }
            (Share::SoldOut, Ok(())) => Err(Failure::sold_out(goods_no)),
            (Share::OverLimit, Ok(())) => Err(Failure::over_limit(goods_no)),
            (Share::Repeated, Ok(())) => Err(Failure::repeated()),
            (Share::Sold { .. }, Err(unknown)) => {
                let order_id = orders.next().map(|order| order.order_id);
                Err(Failure::outcome_unknown(order_id).caused_as(unknown))
            }
            // Whether they were right depends on a commit whose outcome nobody knows.
            (Share::SoldOut | Share::OverLimit | Share::Repeated, Err(unknown)) => {
                Err(Failure::database_unavailable().caused_as(unknown))
            }
        }
    };
    Ok(batch.iter().zip(shares).map(decide).collect())
}

/// Decides a batch, and writes what is sold. Returns the shares, and the orders of the buyers that bought.
async fn decide_and_write(
    context: &Context,
    transaction: &mut Transaction,
    level: &Level,
    fence: Option<Fence>,
    batch: &[Buyer],
) -> Result<WrittenBatch, Failure> {
    let Context { strategy, family, shared, .. } = context;
    let instance = &*shared.instance;
    let goods_no = batch[0].line().goods_no;
    let purchases = batch.iter().map(|buyer| &buyer.request.purchase);
    let before = already_sold(transaction, goods_no, level, purchases).await?;
    let visit_of = |buyer: &Buyer| {
        let fences = fence.map(|fence| (buyer.line().goods_no, fence)).into_iter().collect::<Fences>();
        visit(context, &[buyer.line()], &fences, buyer.asked)
    };
    let mut visits: Vec<_> = batch.iter().map(visit_of).collect();
    let wishes: Vec<_> = batch.iter().map(Buyer::wish).collect();
    let shares = share_out(level, family, &before, &wishes);
    let sold = batch.iter().zip(&shares).filter_map(|(buyer, share)| match *share {
        Share::Sold { remaining } => {
            let quantity = buyer.line().quantity.get();
            let Purchase { cart, key, buyer } = &buyer.request.purchase;
            Some(BatchOrder { quantity, remaining, key: key.as_ref(), cart, buyer: buyer.as_ref() })
        }
        Share::SoldOut | Share::OverLimit | Share::Repeated | Share::Restarted => None,
    });
    let orders: Vec<_> = sold.collect();
    if orders.is_empty() {
        // Nothing is written, so the row refuses nothing. Another sale may have started since a stock was remembered, or the
        // database was restored.
        let is_stale = fence.is_some()
            && shares.contains(&Share::SoldOut)
            && transaction
                .read(goods_no)
                .await?
                .is_none_or(|now| (now.sale, now.on_hand) != (level.sale, level.on_hand));
        let shares = if is_stale { vec![Share::Restarted; batch.len()] } else { shares };
        return Ok((shares, Vec::new(), visits));
    }
    let Level { sale, on_hand, per_buyer, .. } = *level;
    let until = earliest(batch);
    let guard = family;
    let orders = &orders;
    let write = BatchWrite { goods_no, sale, on_hand, guard, strategy, instance, per_buyer, fence, orders, until };
    // A statement that fails ends the transaction with its locks, before its answer is here.
    visits.iter_mut().for_each(Visit::seen_inside);
    let orders = match transaction.write_batch(write).await {
        Err(failure) if failure.is(&failure::SALE_RESTARTED) => {
            return Ok((vec![Share::Restarted; batch.len()], Vec::new(), visits));
        }
        orders => orders?,
    };
    visits.iter_mut().for_each(Visit::seen_inside);
    let sold = visits.iter_mut().zip(&shares).filter(|(_, share)| matches!(share, Share::Sold { .. }));
    sold.zip(&orders).for_each(|((visit, _), order)| visit.wrote(order.order_id));
    Ok((shares, orders, visits))
}

/// Reads what was sold before a batch of purchases of one SKU: under their keys and, if the sale has a limit per buyer, to their
/// buyers.
pub(in crate::strategy) async fn already_sold<'a>(
    transaction: &mut Transaction,
    goods_no: GoodsNo,
    level: &Level,
    purchases: impl Iterator<Item = &'a Purchase> + Clone,
) -> Result<AlreadySold, Failure> {
    let keys: Vec<&str> = purchases.clone().filter_map(|purchase| Some(purchase.key.as_ref()?.as_str())).collect();
    let keys = transaction.known_keys(&keys).await?;
    if level.per_buyer.is_none() {
        return Ok(AlreadySold { keys, ..AlreadySold::default() });
    }
    let buyers: Vec<&str> = purchases.filter_map(|purchase| Some(purchase.buyer.as_ref()?.as_str())).collect();
    let units = transaction.units_of_buyers(goods_no, level.sale, &buyers).await?;
    Ok(AlreadySold { keys, units })
}

/// Returns the order of a buyer, as the buyer is told of it.
fn order_of(
    context: &Context,
    written: Option<WrittenOrder>,
    buyer: &Buyer,
    remaining: i64,
    token: Option<Token>,
) -> Order {
    let order_id = written.expect("BUG: a purchase of a batch has no order").order_id;
    let goods_no = buyer.line().goods_no.get();
    let quantity = buyer.line().quantity.get();
    let line = OrderLine { goods_no, sale: buyer.request.sale, quantity, remaining: Some(remaining), token };
    let instance = context.shared.instance.to_string();
    Order { order_id, strategy: context.strategy.to_owned(), instance, lines: vec![line] }
}

/// Returns what a batch has left, unless a purchase of it has failed.
fn level_left(level: Level, decisions: &[Decision]) -> Option<Level> {
    let refusals = [&failure::SOLD_OUT, &failure::OVER_LIMIT, &failure::REPEATED];
    let is_refusal = |failure: &Failure| refusals.into_iter().any(|kind| failure.is(kind));
    let has_failed = |decision: &Decision| decision.as_ref().is_err_and(|failure| !is_refusal(failure));
    if decisions.is_empty() || decisions.iter().any(has_failed) {
        return None;
    }
    let left = decisions.iter().flatten().last().and_then(|order| order.lines[0].remaining);
    let on_hand = left.unwrap_or(level.on_hand);
    Some(level.after(on_hand))
}

/// Returns when the first of the buyers of a batch gives up.
fn earliest(batch: &[Buyer]) -> Instant {
    batch.iter().map(|buyer| buyer.request.until).min().expect("BUG: a batch without a buyer")
}

/// Returns whether a refusal concerns a whole batch, and not one of its purchases.
fn concerns_all(refused: &Failure) -> bool {
    [&failure::DATABASE_UNAVAILABLE, &failure::FENCED, &failure::HOLD_LOST].into_iter().any(|kind| refused.is(kind))
}
