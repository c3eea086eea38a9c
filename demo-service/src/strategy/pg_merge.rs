//! `pg-merge`: one transaction for all buyers of a SKU who arrived during the last one (group commit).
//!
//! A row lock lasts until the commit is on disk. So a SKU that is sold by one transaction a buyer sells at most one unit in
//! the time of a commit. Here a transaction locks the row, takes all who wait in this instance by then, decides them in
//! the order of their arrival, writes the stock once and all orders with one statement, and commits. The more buyers wait,
//! the larger is the batch. As under `pg-conditional`, the business is done first.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tracing::debug;

use super::batches::{Batches, Buyer};
use super::section::{Tokens, do_business_first, restarted_if, visit};
use super::{Boxed, Call, Context, Decided, Decision, Strategy};
use crate::failure::{self, Failure};
use crate::sale::{GoodsNo, Level, Order, OrderLine, Purchase, Share, share_out};
use crate::store::{BatchLine, BatchWrite, Isolation, LockWait, Transaction, WrittenOrder};
use crate::telemetry::history::Visit;

/// The strategy.
pub(super) struct PgMerge {
    shop: Arc<Shop>,
}

/// What the workers share with those who wait for them.
struct Shop {
    context: Context,
    batches: Batches,
}

/// We give up the wait for the row this much later than the server. If the server gives it up first, its connection can be
/// used again.
const LOCK_GRACE: Duration = Duration::from_millis(100);

impl PgMerge {
    pub(super) fn new(context: Context) -> Self {
        Self { shop: Arc::new(Shop { context, batches: Batches::default() }) }
    }
}

impl Strategy for PgMerge {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        let Shop { context, batches } = &*self.shop;
        let begin = |goods_no| drop(tokio::spawn(Arc::clone(&self.shop).serve(goods_no)));
        Box::pin(async move {
            let business = match call.in_time(do_business_first(context, call)).await {
                Ok(business) => business,
                Err(failure) => return Err(failure).into(),
            };
            batches.decide(context, call, context.lock_until(call) + business, begin).await.into()
        })
    }

    fn context(&self) -> &Context {
        &self.shop.context
    }
}

impl Shop {
    /// Serves the buyers of a SKU, batch by batch, until nobody waits.
    async fn serve(self: Arc<Self>, goods_no: GoodsNo) {
        while let Some(until) = self.batches.latest(goods_no) {
            match self.lock(goods_no, until).await {
                Ok((transaction, level)) => self.sell(transaction, level, self.batches.claim(goods_no)).await,
                // Those who have waited long enough give up by themselves. Others may have come meanwhile.
                Err(failure) if failure.is(&failure::LOCK_TIMEOUT) => tokio::task::yield_now().await,
                Err(failure) => {
                    for buyer in self.batches.claim(goods_no) {
                        buyer.answer(Err(failure.clone()));
                    }
                }
            }
        }
    }

    /// Begins a transaction, and locks the row of the SKU.
    async fn lock(&self, goods_no: GoodsNo, until: Instant) -> Result<(Transaction, Level), Failure> {
        let lock = async {
            let wait = LockWait { goods: vec![goods_no], until };
            let mut transaction = self.context.store.begin(Isolation::ReadCommitted, Some(wait)).await?;
            let level = transaction.read_for_update(goods_no).await;
            match level.and_then(|level| level.ok_or_else(|| Failure::unknown_goods(goods_no))) {
                Ok(level) => Ok((transaction, level)),
                Err(failure) => {
                    transaction.roll_back().await;
                    Err(failure)
                }
            }
        };
        timeout_at(until + LOCK_GRACE, lock).await.unwrap_or_else(|_| Err(self.context.lock_timeout()))
    }
}

impl Shop {
    /// Decides a batch under the lock of its row, and answers everyone in it.
    ///
    /// If the database refuses the batch because of one purchase, such as one whose key is in use elsewhere, each purchase
    /// gets a transaction of its own. So it concerns nobody else.
    async fn sell(&self, transaction: Transaction, level: Level, batch: Vec<Buyer>) {
        let refused = match self.attempt(transaction, &level, &batch).await {
            Ok(decisions) => return answer(batch, decisions),
            Err(refused) => refused,
        };
        if batch.len() == 1 || refused.is(&failure::DATABASE_UNAVAILABLE) {
            let decisions = batch.iter().map(|_| Err(refused.clone())).collect();
            return answer(batch, decisions);
        }
        for buyer in batch {
            let alone = [buyer];
            let decided = match self.lock(alone[0].line().goods_no, alone[0].until).await {
                Ok((transaction, level)) => self.attempt(transaction, &level, &alone).await,
                Err(failure) => Err(failure),
            };
            answer(alone, decided.unwrap_or_else(|failure| vec![Err(failure)]));
        }
    }

    /// Decides a batch, writes it and commits. Returns a decision for each buyer, or the failure because of which nothing
    /// was written.
    async fn attempt(
        &self,
        mut transaction: Transaction,
        level: &Level,
        batch: &[Buyer],
    ) -> Result<Vec<Decision>, Failure> {
        let within = self.context.db_timeout;
        let written = timeout(within, self.write(&mut transaction, level, batch)).await;
        let (shares, orders, visits) = match written.unwrap_or_else(|_| Err(Failure::database_unavailable())) {
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
            sold().zip(&orders).for_each(|((buyer, _), order)| buyer.note_commit(Some(order.clone())));
            let commit = timeout(within, transaction.commit(None)).await;
            commit.unwrap_or_else(|_| Err(Failure::outcome_unknown(None)))
        };
        if !committed.as_ref().is_err_and(|failure| failure.is(&failure::OUTCOME_UNKNOWN)) {
            sold().for_each(|(buyer, _)| buyer.note_commit(None));
        }
        if let Err(failure) = &committed
            && !failure.is(&failure::OUTCOME_UNKNOWN)
        {
            return Err(failure.clone());
        }
        let mut orders = orders.into_iter();
        let decide = |(buyer, share): (&Buyer, Share)| {
            let goods_no = buyer.line().goods_no;
            match (share, &committed) {
                (Share::Restarted, _) => Err(restarted_if(buyer.has_decided, goods_no)),
                (Share::Sold { remaining }, Ok(())) => Ok(self.order(orders.next(), buyer, remaining)),
                (Share::SoldOut, Ok(())) => Err(Failure::sold_out(goods_no)),
                (Share::Repeated, Ok(())) => Err(Failure::repeated()),
                (Share::Sold { .. }, Err(_)) => {
                    Err(Failure::outcome_unknown(orders.next().map(|order| order.order_id)))
                }
                // Whether they were right depends on a commit whose outcome nobody knows.
                (Share::SoldOut | Share::Repeated, Err(_)) => Err(Failure::database_unavailable()),
            }
        };
        Ok(batch.iter().zip(shares).map(decide).collect())
    }

    /// Decides a batch, and writes what is sold. Returns the shares, and the orders of those who bought.
    async fn write(&self, transaction: &mut Transaction, level: &Level, batch: &[Buyer]) -> Result<Written, Failure> {
        let Context { strategy, family, instance, .. } = &self.context;
        let keys: Vec<&str> = batch.iter().filter_map(|buyer| Some(buyer.purchase.key.as_ref()?.as_str())).collect();
        let known = transaction.known_keys(&keys).await?;
        let visit = |buyer: &Buyer| visit(&self.context, &[buyer.line()], &Tokens::default(), buyer.asked);
        let visits = batch.iter().map(visit).collect();
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
                transaction.write_batch(BatchWrite { goods_no, sale, strategy, instance, lines: &lines }).await?
            }
        };
        Ok((shares, orders, visits))
    }

    fn order(&self, written: Option<WrittenOrder>, buyer: &Buyer, remaining: i64) -> Order {
        let Context { strategy, instance, .. } = &self.context;
        let order_id = written.expect("BUG: a purchase of a batch has no order").order_id;
        let (goods_no, quantity) = (buyer.line().goods_no.get(), buyer.line().quantity.get());
        let line = OrderLine { goods_no, sale: buyer.sale, quantity, remaining: Some(remaining), token: None };
        Order { order_id, strategy: (*strategy).to_owned(), instance: instance.to_string(), lines: vec![line] }
    }
}

/// What was decided in a batch, the orders that were written, and the visits of the critical section, which end before the
/// commit.
type Written = (Vec<Share>, Vec<WrittenOrder>, Vec<Visit>);

fn answer(batch: impl IntoIterator<Item = Buyer>, decisions: Vec<Decision>) {
    for (buyer, decision) in batch.into_iter().zip(decisions) {
        buyer.answer(decision);
    }
}
