//! One batch of the shop: decided, written and committed in one transaction of the database.

use std::mem;
use std::pin::{Pin, pin};

use batch_queue::{BatchTransaction, Buyer, Worker, earliest};
use tokio::time::timeout;
use tracing::debug;

use super::BatchRequest;
use super::begun::Begun;
use crate::failure::{self, Failure};
use crate::sale::{AlreadySold, Fence, GoodsNo, Level, Line, Order, OrderLine, Purchase, Share, share_out};
use crate::store::{BatchOrder, BatchWrite, Transaction, WrittenOrder};
use crate::strategy::Decision;
use crate::strategy::attempt::{Fences, restarted_if, visit};
use crate::strategy::call::Sent;
use crate::strategy::context::Context;
use crate::telemetry::history::Visit;

/// Of a transaction that is needed after its end.
const OVER: &str = "BUG: the transaction of a batch is over";

/// The transaction of one batch of a SKU. `lost` resolves when the right to write is lost, to the failure of the purchases that this
/// stops.
struct OpenBatch<'a, L> {
    context: &'a Context,
    /// Until it is committed or rolled back.
    transaction: Option<Transaction>,
    level: Level,
    fence: Option<Fence>,
    lost: Pin<&'a mut L>,
    written: WrittenBatch,
    /// What the batch has left, unless a purchase has failed.
    left: Option<Level>,
}

/// What was decided in a batch, and the orders that were written.
#[derive(Default)]
struct WrittenBatch {
    shares: Vec<Share>,
    orders: Vec<WrittenOrder>,
}

/// Takes the next batch and sells it. `lost` resolves when the right to write is lost, to the failure of the purchases that this
/// stops. Returns what the batch has left, unless a purchase has failed. Only `zk-owner` uses that.
pub(in crate::strategy) async fn sell(
    context: &Context,
    worker: &mut Worker<BatchRequest>,
    begun: Begun,
    lost: impl Future<Output = Failure> + Send,
) -> Option<Level> {
    let Begun { transaction, level, fence } = begun;
    let left = Some(level.clone());
    let transaction = Some(transaction);
    let lost = pin!(lost);
    let mut open = OpenBatch { context, transaction, level, fence, lost, written: WrittenBatch::default(), left };
    batch_queue::sell(worker, &mut open, &context.lock_timeout()).await;
    open.left
}

impl<L: Future<Output = Failure> + Send> BatchTransaction<BatchRequest> for OpenBatch<'_, L> {
    async fn write(&mut self, batch: &[Buyer<BatchRequest>]) -> Result<Vec<Option<Sent>>, Failure> {
        self.left = None;
        let Self { context, level, fence, .. } = self;
        let transaction = self.transaction.as_mut().expect(OVER);
        let written = tokio::select! {
            // A fence that refuses a hold that is over says nothing about the row.
            biased;
            lost = self.lost.as_mut() => Err(lost),
            written = timeout(context.shared.settings.db_timeout, decide_and_write(context, transaction, level, *fence, batch)) => {
                written.unwrap_or_else(|_| Err(Failure::database_unavailable()))
            }
        };
        // The visits have ended: the commit ends the critical section at a time that only the database knows.
        self.written = written?;
        let WrittenBatch { shares, orders } = &self.written;
        debug!(purchases = batch.len(), sold = orders.len(), "a batch is decided");
        let mut orders = orders.iter().cloned().map(Sent::Order);
        let sent = |share: &Share| if matches!(share, Share::Sold { .. }) { orders.next() } else { None };
        Ok(shares.iter().map(sent).collect())
    }

    async fn commit(&mut self) -> Result<(), Failure> {
        let transaction = self.transaction.take().expect(OVER);
        tokio::select! {
            biased;
            commit = timeout(self.context.shared.settings.db_timeout, transaction.commit(None)) => {
                commit.unwrap_or_else(|_| Err(Failure::outcome_unknown(None)))
            }
            lost = self.lost.as_mut() => Err(Failure::outcome_unknown(None).caused_by(lost)),
        }
    }

    async fn roll_back(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            transaction.roll_back().await;
        }
    }

    fn decisions(&mut self, batch: &[Buyer<BatchRequest>], committed: Result<(), Failure>) -> Vec<Decision> {
        let WrittenBatch { shares, orders } = mem::take(&mut self.written);
        let mut orders = orders.into_iter();
        let decide = |(buyer, share): (&Buyer<BatchRequest>, Share)| {
            let request = &buyer.request;
            let goods_no = request.line().goods_no;
            match (share, &committed) {
                (Share::Restarted, _) => Err(restarted_if(request.has_decided, goods_no)),
                (Share::Sold { remaining }, Ok(())) => {
                    let order = orders.next().expect("BUG: a purchase of a batch has no order");
                    Ok(self.order_of(&order, request, remaining))
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
        let decisions: Vec<_> = batch.iter().zip(shares).map(decide).collect();
        self.left = level_left(&self.level, &decisions);
        decisions
    }
}

impl<L> OpenBatch<'_, L> {
    /// Returns the order of a buyer, as the buyer is told of it.
    fn order_of(&self, written: &WrittenOrder, request: &BatchRequest, remaining: i64) -> Order {
        let Context { strategy, shared, .. } = self.context;
        let Line { goods_no, quantity } = request.line();
        let token = self.fence.map(|fence| fence.token);
        let sale = request.sale;
        let line =
            OrderLine { goods_no: goods_no.get(), sale, quantity: quantity.get(), remaining: Some(remaining), token };
        let instance = shared.instance.to_string();
        Order { order_id: written.order_id, strategy: (*strategy).to_owned(), instance, lines: vec![line] }
    }
}

/// Decides a batch, and writes what is sold. Returns the shares, and the orders of the buyers that bought. The visits of the critical
/// section have ended by then.
async fn decide_and_write(
    context: &Context,
    transaction: &mut Transaction,
    level: &Level,
    fence: Option<Fence>,
    batch: &[Buyer<BatchRequest>],
) -> Result<WrittenBatch, Failure> {
    let Context { strategy, family, shared, .. } = context;
    let instance = &*shared.instance;
    let goods_no = batch[0].request.line().goods_no;
    let purchases = batch.iter().map(|buyer| &buyer.request.purchase);
    let before = already_sold(transaction, goods_no, level, purchases).await?;
    let visit_of = |Buyer { request, .. }: &Buyer<BatchRequest>| {
        let fences = fence.map(|fence| (goods_no, fence)).into_iter().collect::<Fences>();
        visit(context, &[request.line()], &fences, request.asked)
    };
    let mut visits: Vec<_> = batch.iter().map(visit_of).collect();
    let wishes: Vec<_> = batch.iter().map(|buyer| buyer.request.wish()).collect();
    let shares = share_out(level, family, &before, &wishes);
    let sold = batch.iter().zip(&shares).filter_map(|(buyer, share)| match *share {
        Share::Sold { remaining } => {
            let quantity = buyer.request.line().quantity.get();
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
        return Ok(WrittenBatch { shares, orders: Vec::new() });
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
            return Ok(WrittenBatch { shares: vec![Share::Restarted; batch.len()], orders: Vec::new() });
        }
        orders => orders?,
    };
    visits.iter_mut().for_each(Visit::seen_inside);
    let sold = visits.iter_mut().zip(&shares).filter(|(_, share)| matches!(share, Share::Sold { .. }));
    sold.zip(&orders).for_each(|((visit, _), order)| visit.wrote(order.order_id));
    Ok(WrittenBatch { shares, orders })
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

/// Returns what a batch has left, unless a purchase of it has failed.
fn level_left(level: &Level, decisions: &[Decision]) -> Option<Level> {
    let is_refusal =
        |failure: &Failure| failure.is_one_of(&[&failure::SOLD_OUT, &failure::OVER_LIMIT, &failure::REPEATED]);
    let has_failed = |decision: &Decision| decision.as_ref().is_err_and(|failure| !is_refusal(failure));
    if decisions.is_empty() || decisions.iter().any(has_failed) {
        return None;
    }
    let left = decisions.iter().flatten().last().and_then(|order| order.lines[0].remaining);
    let on_hand = left.unwrap_or(level.on_hand);
    Some(level.clone().after(on_hand))
}
