//! One batch: decided, written and committed, or not at all.

use tokio::time::timeout;
use tracing::debug;

use super::queue::{Buyer, earliest};
use super::{Shop, Turn};
use crate::failure::{self, Failure};
use crate::sale::{Fence, Level, Order, OrderLine, Purchase, Share, Token, share_out};
use crate::store::{BatchLine, BatchWrite, Transaction, WrittenOrder};
use crate::strategy::attempt::{Fences, restarted_if, visit};
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decision};
use crate::telemetry::history::Visit;

/// What was decided in a batch, the orders that were written, and the visits of the critical section, which end before the
/// commit.
type Written = (Vec<Share>, Vec<WrittenOrder>, Vec<Visit>);

impl<T: Turn> Shop<T> {
    /// Decides a batch, writes it and commits. Returns a decision for each buyer, or the failure because of which nothing
    /// was written.
    pub(in crate::strategy) async fn attempt(
        &self,
        mut transaction: Transaction,
        level: &Level,
        fence: Option<Fence>,
        mut lost: Boxed<'_, Failure>,
        batch: &[Buyer],
    ) -> Result<Vec<Decision>, Failure> {
        let within = self.context().shared.settings.db_timeout;
        let written = tokio::select! {
            // A fence that refuses a turn that is over says nothing about the row.
            biased;
            lost = &mut lost => Err(lost),
            written = timeout(within, self.write(&mut transaction, level, fence, batch)) => {
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
                (Share::Sold { remaining }, Ok(())) => {
                    Ok(self.order(orders.next(), buyer, remaining, fence.map(|fence| fence.token)))
                }
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

    /// Decides a batch, and writes what is sold. Returns the shares, and the orders of the buyers that bought.
    async fn write(
        &self,
        transaction: &mut Transaction,
        level: &Level,
        fence: Option<Fence>,
        batch: &[Buyer],
    ) -> Result<Written, Failure> {
        let Context { strategy, family, shared, .. } = self.context();
        let instance = &*shared.instance;
        let keys: Vec<&str> = batch.iter().filter_map(|buyer| Some(buyer.purchase.key.as_ref()?.as_str())).collect();
        let known = transaction.known_keys(&keys).await?;
        let visit = |buyer: &Buyer| {
            let fences = fence.map(|fence| (buyer.line().goods_no, fence)).into_iter().collect::<Fences>();
            visit(self.context(), &[buyer.line()], &fences, buyer.asked)
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
        if lines.is_empty() {
            // Nothing is written, so the row refuses nothing. Another sale may have started since a stock was remembered, or the
            // database was restored.
            let is_stale = fence.is_some()
                && shares.contains(&Share::SoldOut)
                && transaction
                    .read(batch[0].line().goods_no)
                    .await?
                    .is_none_or(|now| (now.sale, now.on_hand) != (level.sale, level.on_hand));
            let shares = if is_stale { vec![Share::Restarted; batch.len()] } else { shares };
            return Ok((shares, Vec::new(), visits));
        }
        let Level { sale, on_hand, .. } = *level;
        let goods_no = batch[0].line().goods_no;
        let until = earliest(batch);
        let write =
            BatchWrite { goods_no, sale, on_hand, guard: family, strategy, instance, fence, lines: &lines, until };
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

    fn order(&self, written: Option<WrittenOrder>, buyer: &Buyer, remaining: i64, token: Option<Token>) -> Order {
        let (strategy, instance) = (self.context().strategy, &*self.context().shared.instance);
        let order_id = written.expect("BUG: a purchase of a batch has no order").order_id;
        let (goods_no, quantity) = (buyer.line().goods_no.get(), buyer.line().quantity.get());
        let line = OrderLine { goods_no, sale: buyer.sale, quantity, remaining: Some(remaining), token };
        Order { order_id, strategy: strategy.to_owned(), instance: instance.to_owned(), lines: vec![line] }
    }
}
