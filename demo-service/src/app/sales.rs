//! What the application does with sales beside buying: looks at the stock, starts the next sale, finds orders.

use futures_util::future::join_all;
use tokio::time::Instant;

use super::App;
use crate::failure::Failure;
use crate::sale::{Goods, GoodsNo, Guard, NewStock, Purchase, Quantity};
use crate::store::{PromiseLook, TicketLook};
use crate::strategy::admission::Admission;
use crate::strategy::call::Call;
use crate::strategy::entry::Entry;
use crate::telemetry::log_failure;

impl App {
    /// Looks at the stock of a SKU with the strategy of the sale, or with the strategy `named` if it is of the same
    /// family.
    ///
    /// # Errors
    /// A [`Failure`]. It is [`UNKNOWN_GOODS`](crate::failure::UNKNOWN_GOODS) if there is no such SKU.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn look(&self, goods_no: GoodsNo, named: Option<&'static Entry>) -> Result<Goods, Failure> {
        let looked = self.look_as(goods_no, named).await;
        looked.map_err(|failure| self.explain(failure)).inspect_err(log_failure)
    }

    async fn look_as(&self, goods_no: GoodsNo, named: Option<&'static Entry>) -> Result<Goods, Failure> {
        let purchase = Purchase::of_one(goods_no, Quantity::ONE, None);
        let call = Call::new(purchase, Instant::now(), self.config.db_timeout, self.shared.closing.child_token());
        let known = self.memory.sales(&call.purchase.cart);
        let entry = match known.map(|known| self.offer.admit(named, &known)) {
            Some(Ok(Admission::Serve(entry))) => entry,
            _ => {
                let mut sales = call.in_time(self.look_up(&call.purchase.cart)).await?;
                if sales[0].guard.is_none() {
                    // A look claims no sale, and needs no guard.
                    return Ok(sales.remove(0));
                }
                match self.offer.admit(named, &sales) {
                    Ok(Admission::Serve(entry) | Admission::Claim(entry)) => entry,
                    // This instance does not offer the strategy of the sale, and the request names no other.
                    Err(_) if named.is_none() => return self.look_unlocked(goods_no, &call).await,
                    Err(failure) => return Err(failure),
                }
            }
        };
        match self.strategy(entry).look_locked(goods_no, &call) {
            Some(looked) => self.looked(goods_no, looked.await),
            None => self.look_unlocked(goods_no, &call).await,
        }
    }

    /// Looks at the stock of a SKU without a lock, and counts all of its units.
    async fn look_unlocked(&self, goods_no: GoodsNo, call: &Call) -> Result<Goods, Failure> {
        let looked = call.in_time(self.shared.store.look(goods_no)).await;
        self.looked(goods_no, looked)
    }

    fn looked(&self, goods_no: GoodsNo, looked: Result<Option<Goods>, Failure>) -> Result<Goods, Failure> {
        let goods = looked?.ok_or_else(|| Failure::unknown_goods(goods_no))?;
        self.memory.remember(std::slice::from_ref(&goods));
        Ok(goods)
    }

    /// Starts the next sale of a SKU with the strategy `entry`, or with the default strategy. With `per_buyer`, no buyer gets more
    /// units of it.
    ///
    /// # Errors
    /// A [`Failure`]. It is [`UNKNOWN_GOODS`](crate::failure::UNKNOWN_GOODS) if `stock` is [`NewStock::Remaining`]
    /// and there is no such SKU, and [`OUTCOME_UNKNOWN`](crate::failure::OUTCOME_UNKNOWN) if the commit was not
    /// answered.
    ///
    /// # Cancel safety
    /// Dropped, the sale may have started or not.
    pub async fn start_sale(
        &self,
        goods_no: GoodsNo,
        stock: NewStock,
        entry: Option<&'static Entry>,
        per_buyer: Option<Quantity>,
    ) -> Result<Goods, Failure> {
        let entry = entry.unwrap_or(self.config.strategy);
        let guard = Guard { family: entry.family.to_owned(), strategy: entry.name.to_owned() };
        let started = self.shared.store.start_sale(goods_no, stock, guard, per_buyer).await;
        let started = started.and_then(|goods| goods.ok_or_else(|| Failure::unknown_goods(goods_no)));
        let started = started.inspect_err(log_failure)?;
        self.memory.remember(std::slice::from_ref(&started));
        self.memory.forget_sold_out(goods_no);
        join_all(self.strategies.values().map(|strategy| strategy.sale_started(goods_no, started.sale))).await;
        Ok(started)
    }

    /// Looks at an order, which may have been promised and not written.
    ///
    /// # Errors
    /// A [`Failure`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn order(&self, order_id: i64) -> Result<PromiseLook, Failure> {
        self.shared.store.promised(order_id).await.inspect_err(log_failure)
    }

    /// Looks at a ticket. Returns `None` if there is none of that number.
    ///
    /// # Errors
    /// A [`Failure`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn ticket(&self, number: i64) -> Result<Option<TicketLook>, Failure> {
        let look = self.shared.store.ticket(number).await.inspect_err(log_failure)?;
        if matches!(look, Some(TicketLook::Waiting(_))) {
            // Its instance may have died, so the worker of this one looks after it.
            self.shared.tickets.notify_one();
        }
        Ok(look)
    }
}
