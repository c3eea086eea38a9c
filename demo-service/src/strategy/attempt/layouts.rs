//! The steps of a purchase from a sale whose stock lies in several rows.
//!
//! The order is written first and its units are taken last. So the rows of the units are locked for the shortest time, and the
//! order has its number when its units name it. Purchases that wait for units hold nothing for which others wait, except their
//! keys, which every purchase takes before its units.

use tokio::time::Instant;

use super::{Attempt, Written, admitted, locked};
use crate::failure::Failure;
use crate::sale::{Order, OrderLine};
use crate::store::{Isolation, Taken};
use crate::strategy::call::Call;
use crate::strategy::context::Context;

impl<'a> Attempt<'a> {
    /// Begins a transaction that shares the sales of its SKUs until its end: the start of the next sale waits for it. Waits
    /// until `until`, as [`begin_to_wait`](Self::begin_to_wait) does.
    pub(in crate::strategy) async fn begin_in_sales(
        context: &'a Context,
        call: &'a Call,
        until: Instant,
    ) -> Result<Self, Failure> {
        Self::begin_with(context, call, Isolation::ReadCommitted, until, true).await
    }

    /// Writes the order, which does not say how many units it leaves.
    pub(in crate::strategy) async fn write_uncounted(&mut self) -> Result<Written, Failure> {
        let lines = self.lines.iter().map(|line| OrderLine {
            goods_no: line.goods_no.get(),
            sale: self.call.sale_of(line.goods_no),
            quantity: line.quantity.get(),
            remaining: None,
            token: None,
        });
        let lines = lines.collect();
        self.write_order(lines).await
    }

    /// Gives the order its units, from the number `start` on, and waits for nobody.
    pub(in crate::strategy) async fn take_units(&mut self, written: &Written, start: i64) -> Result<Taken, Failure> {
        let line = &written.order.lines[0];
        let take = self.transaction.take_units(line, self.context.family, written.order.order_id, start);
        let taken = take.await?;
        self.in_its_sale(taken).await
    }

    /// Gives the order its units, and waits for those that others have locked.
    pub(in crate::strategy) async fn take_units_in_order(&mut self, written: &Written) -> Result<Taken, Failure> {
        let line = &written.order.lines[0];
        let take = self.transaction.take_units_in_order(line, self.context.family, written.order.order_id);
        let taken = locked(self.context, self.call, self.locks_until, take).await?;
        self.in_its_sale(taken).await
    }

    /// Takes the units of the order out of one bucket that nobody has locked, `start` or the next one.
    pub(in crate::strategy) async fn take_from_free_bucket(
        &mut self,
        written: &Written,
        start: u32,
    ) -> Result<Taken, Failure> {
        let taken = self.transaction.take_from_free_bucket(&written.order.lines[0], self.context.family, start).await?;
        self.in_its_sale(taken).await
    }

    /// Takes the units of the order out of the first bucket that has enough, and waits for those that others have locked.
    pub(in crate::strategy) async fn take_from_first_bucket(&mut self, written: &Written) -> Result<Taken, Failure> {
        let take = self.transaction.take_from_first_bucket(&written.order.lines[0], self.context.family);
        let taken = locked(self.context, self.call, self.locks_until, take).await?;
        self.in_its_sale(taken).await
    }

    /// Takes the units of the order out of several buckets, and waits for those that others have locked.
    pub(in crate::strategy) async fn take_from_buckets(&mut self, written: &Written) -> Result<Taken, Failure> {
        let take = self.transaction.take_from_buckets(&written.order.lines[0], self.context.family);
        let taken = locked(self.context, self.call, self.locks_until, take).await?;
        self.in_its_sale(taken).await
    }

    /// Returns what was taken. Fails if nothing was, because the sale is over.
    async fn in_its_sale(&mut self, taken: Taken) -> Result<Taken, Failure> {
        if !matches!(taken, Taken::All { .. }) {
            let goods_no = self.lines[0].goods_no;
            let level = self.transaction.read(goods_no).await?;
            admitted(self.context, self.call, goods_no, level)?;
        }
        Ok(taken)
    }

    /// Commits an order that has its units. Otherwise rolls back, which gives back what was locked, and returns how to try again.
    pub(in crate::strategy) async fn close_if_taken<Again>(
        self,
        taken: Result<Result<Written, Again>, Failure>,
    ) -> Result<Result<Order, Again>, Failure> {
        let not_taken = match taken {
            Ok(Ok(written)) => return self.commit(written).await.map(Ok),
            Ok(Err(again)) => Ok(Err(again)),
            Err(failure) => Err(failure),
        };
        self.transaction.roll_back().await;
        not_taken
    }
}
