//! A shop that sells in batches. When it is this instance's turn, the shop sells to all who wait.
//!
//! What a turn is differs: the lock of a row (`pg-merge`), or a lock in ZooKeeper with a fence in the row (`zk-merge`).

use std::sync::Arc;

use tokio::time::{Instant, timeout};
use tracing::debug;

use super::batches::{Batches, Buyer, latest};
use super::section::{Tokens, do_business_first, restarted_if, visit};
use super::{Boxed, Call, Context, Decided, Decision};
use crate::failure::{self, Failure};
use crate::sale::{GoodsNo, Level, Order, OrderLine, Purchase, Share, Token, share_out};
use crate::store::{BatchLine, BatchWrite, Transaction, WrittenOrder};
use crate::telemetry::history::Visit;

/// What keeps the batches of a SKU apart.
pub(super) trait Turn: Send + Sync + 'static {
    /// What the strategy works with.
    fn context(&self) -> &Context;

    /// Waits for the turn of this instance, at most until `until`. `sale` is the sale of those who wait.
    fn begin(
        &self,
        goods_no: GoodsNo,
        sale: i64,
        until: Instant,
    ) -> impl Future<Output = Result<Begun<'_>, Failure>> + Send;
}

/// A turn that has begun. Either nobody else can write the stock of the SKU, or the row refuses the write of an instance
/// that was overtaken.
pub(super) struct Begun<'a> {
    pub(super) transaction: Transaction,
    pub(super) level: Level,
    /// The fencing token of the turn, if it has one.
    pub(super) token: Option<Token>,
    /// Comes true when the turn is lost, with the failure of the purchases that this stops.
    pub(super) lost: Boxed<'a, Failure>,
    /// Ends the turn, when the buyers are answered.
    pub(super) behind: Option<Boxed<'a, ()>>,
}

/// A strategy that sells in batches.
pub(super) struct Shop<T> {
    turn: T,
    batches: Batches,
}

impl<T: Turn> Shop<T> {
    pub(super) fn new(turn: T) -> Arc<Self> {
        Arc::new(Self { turn, batches: Batches::default() })
    }

    pub(super) fn context(&self) -> &Context {
        self.turn.context()
    }

    /// Decides a purchase in the next batch. The business is done first.
    pub(super) fn purchase<'a>(self: &'a Arc<Self>, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        let context = self.context();
        let begin = |goods_no| drop(context.tasks.spawn(Arc::clone(self).serve(goods_no)));
        Box::pin(async move {
            let business = match call.in_time(do_business_first(context, call)).await {
                Ok(business) => business,
                Err(failure) => return Err(failure).into(),
            };
            self.batches.decide(context, call, context.lock_until(call) + business, begin).await.into()
        })
    }

    /// Serves the buyers of a SKU, batch by batch, until nobody waits.
    async fn serve(self: Arc<Self>, goods_no: GoodsNo) {
        let mut worker = self.batches.worker(goods_no);
        while let Some((sale, until)) = worker.next() {
            let begun = tokio::select! {
                biased;
                begun = self.turn.begin(goods_no, sale, until) => begun,
                // All who wait are told to leave.
                () = self.context().closing.cancelled() => Err(Failure::client_gone()),
            };
            match begun {
                Ok(begun) => {
                    let refused = self.sell(begun, worker.claim(sale)).await;
                    self.sell_in_halves(goods_no, refused).await;
                }
                // Those who have waited long enough give up by themselves. Others may have come meanwhile.
                Err(failure) if failure.is(&failure::LOCK_TIMEOUT) => tokio::task::yield_now().await,
                Err(failure) => refuse_all(worker.claim(sale), &failure),
            }
        }
    }

    /// Decides a batch, answers everyone in it, and ends the turn. Returns the buyers if one purchase stopped the batch: its
    /// key is in use elsewhere, for example, or its buyer gave up before the commit.
    async fn sell(&self, begun: Begun<'_>, mut batch: Vec<Buyer>) -> Vec<Buyer> {
        batch.retain(Buyer::is_waiting);
        let Begun { transaction, level, token, lost, behind } = begun;
        let refused = match self.attempt(transaction, &level, token, lost, &batch).await {
            Ok(decisions) => {
                batch.into_iter().zip(decisions).for_each(|(buyer, decision)| buyer.answer(decision));
                Vec::new()
            }
            Err(failure) if batch.len() == 1 || concerns_all(&failure) => {
                refuse_all(batch, &failure);
                Vec::new()
            }
            Err(_) => batch,
        };
        if let Some(behind) = behind {
            behind.await;
        }
        refused
    }

    /// Sells to buyers whose batch was refused: to each half in a turn of its own. A half that is refused, too, is halved
    /// again. So the purchase that is to blame ends up alone, and a few turns serve all others.
    async fn sell_in_halves(&self, goods_no: GoodsNo, refused: Vec<Buyer>) {
        let mut parts = Vec::from(halves(refused));
        while let Some(part) = parts.pop() {
            let Some((sale, until)) = latest(&part) else { continue };
            match self.turn.begin(goods_no, sale, until).await {
                Ok(begun) => parts.extend(halves(self.sell(begun, part).await)),
                Err(failure) => refuse_all(part, &failure),
            }
        }
    }

    /// Decides a batch, writes it and commits. Returns a decision for each buyer, or the failure because of which nothing
    /// was written.
    async fn attempt(
        &self,
        mut transaction: Transaction,
        level: &Level,
        token: Option<Token>,
        mut lost: Boxed<'_, Failure>,
        batch: &[Buyer],
    ) -> Result<Vec<Decision>, Failure> {
        let within = self.context().db_timeout;
        let written = tokio::select! {
            biased;
            written = timeout(within, self.write(&mut transaction, level, token, batch)) => {
                written.unwrap_or_else(|_| Err(Failure::database_unavailable()))
            }
            lost = &mut lost => Err(lost),
        };
        let (shares, orders, visits) = match written {
            Ok(written) => written,
            Err(failure) => {
                transaction.roll_back().await;
                return Err(failure);
            }
        };
        debug!(purchases = batch.len(), sold = orders.len(), "a batch is decided");
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
                (Share::Restarted, _) => Err(restarted_if(buyer.has_decided, goods_no)),
                (Share::Sold { remaining }, Ok(())) => Ok(self.order(orders.next(), buyer, remaining, token)),
                (Share::SoldOut, Ok(())) => Err(Failure::sold_out(goods_no)),
                (Share::Repeated, Ok(())) => Err(Failure::repeated()),
                (Share::Sold { .. }, Err(unknown)) => {
                    let order_id = orders.next().map(|order| order.order_id);
                    Err(Failure::outcome_unknown(order_id).caused_as(unknown))
                }
                // Whether they were right depends on a commit whose outcome nobody knows.
                (Share::SoldOut | Share::Repeated, Err(unknown)) => {
                    Err(Failure::database_unavailable().caused_as(unknown))
                }
            }
        };
        Ok(batch.iter().zip(shares).map(decide).collect())
    }

    /// Decides a batch, and writes what is sold. Returns the shares, and the orders of those who bought.
    async fn write(
        &self,
        transaction: &mut Transaction,
        level: &Level,
        token: Option<Token>,
        batch: &[Buyer],
    ) -> Result<Written, Failure> {
        let Context { strategy, family, instance, .. } = self.context();
        let keys: Vec<&str> = batch.iter().filter_map(|buyer| Some(buyer.purchase.key.as_ref()?.as_str())).collect();
        let known = transaction.known_keys(&keys).await?;
        let visit = |buyer: &Buyer| {
            let tokens = token.map(|token| (buyer.line().goods_no, token)).into_iter().collect::<Tokens>();
            visit(self.context(), &[buyer.line()], &tokens, buyer.asked)
        };
        let mut visits: Vec<_> = batch.iter().map(visit).collect();
        let wishes: Vec<_> = batch.iter().map(Buyer::wish).collect();
        let shares = share_out(level, family, &known, &wishes);
        let sold = batch.iter().zip(&shares).filter_map(|(buyer, share)| match *share {
            Share::Sold { remaining } => {
                let (quantity, Purchase { key, cart }) = (buyer.line().quantity.get(), &buyer.purchase);
                Some(BatchLine { quantity, remaining, key: key.as_ref(), cart })
            }
            Share::SoldOut | Share::Repeated | Share::Restarted => None,
        });
        let lines: Vec<_> = sold.collect();
        let orders = match lines.is_empty() {
            true => Vec::new(),
            false => {
                let (goods_no, sale) = (batch[0].line().goods_no, level.sale);
                let write = BatchWrite { goods_no, sale, guard: family, strategy, instance, token, lines: &lines };
                // A statement that fails ends the transaction with its locks, before its answer is here.
                visits.iter_mut().for_each(Visit::seen_inside);
                let orders = match transaction.write_batch(write).await {
                    Err(failure) if failure.is(&failure::SALE_RESTARTED) => {
                        return Ok((vec![Share::Restarted; batch.len()], Vec::new(), visits));
                    }
                    orders => orders?,
                };
                visits.iter_mut().for_each(Visit::seen_inside);
                orders
            }
        };
        Ok((shares, orders, visits))
    }

    fn order(&self, written: Option<WrittenOrder>, buyer: &Buyer, remaining: i64, token: Option<Token>) -> Order {
        let Context { strategy, instance, .. } = self.context();
        let order_id = written.expect("BUG: a purchase of a batch has no order").order_id;
        let (goods_no, quantity) = (buyer.line().goods_no.get(), buyer.line().quantity.get());
        let line = OrderLine { goods_no, sale: buyer.sale, quantity, remaining: Some(remaining), token };
        Order { order_id, strategy: (*strategy).to_owned(), instance: instance.to_string(), lines: vec![line] }
    }
}

/// What was decided in a batch, the orders that were written, and the visits of the critical section, which end before the
/// commit.
type Written = (Vec<Share>, Vec<WrittenOrder>, Vec<Visit>);

/// Halves a batch. The earlier buyers come last.
fn halves(mut batch: Vec<Buyer>) -> [Vec<Buyer>; 2] {
    let later = batch.split_off(batch.len().div_ceil(2));
    [later, batch]
}

fn refuse_all(batch: Vec<Buyer>, failure: &Failure) {
    batch.into_iter().for_each(|buyer| buyer.answer(Err(failure.clone())));
}

/// Whether a refusal concerns a whole batch, and not one of its purchases.
fn concerns_all(refused: &Failure) -> bool {
    [&failure::DATABASE_UNAVAILABLE, &failure::FENCED, &failure::HOLD_LOST].into_iter().any(|kind| refused.is(kind))
}
