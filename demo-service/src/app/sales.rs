//! What is done with a sale beside buying: looking, starting the next one, and finding an order.

use tokio::time::Instant;

use super::App;
use crate::failure::Failure;
use crate::sale::{Goods, GoodsNo, NewStock, Order, Purchase, Quantity};
use crate::strategy::Call;
use crate::strategy::admission::Admission;
use crate::strategy::entry::Entry;
use crate::telemetry::log_failure;

impl App {
    /// Looks at the stock of a SKU as its strategy does, or as the named one of its family.
    ///
    /// # Errors
    /// A [`Failure`], [`UNKNOWN_GOODS`](crate::failure::UNKNOWN_GOODS) if there is no such SKU.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn look(&self, goods_no: GoodsNo, named: Option<&'static Entry>) -> Result<Goods, Failure> {
        let looked = self.look_as(goods_no, named).await;
        looked.map_err(|failure| self.explain(failure)).inspect_err(log_failure)
    }

    async fn look_as(&self, goods_no: GoodsNo, named: Option<&'static Entry>) -> Result<Goods, Failure> {
        let purchase = Purchase::of_one(goods_no, Quantity::ONE);
        let call = Call::new(purchase, Instant::now(), self.config.db_timeout, self.closing.child_token());
        let known = self.memory.sales(&call.purchase.cart);
        let entry = match known.map(|known| self.offer.admit(named, &known)) {
            Some(Ok(Admission::Serve(entry))) => entry,
            _ => {
                let mut sales = call.in_time(self.look_up(&call.purchase.cart)).await?;
                if sales[0].guard.is_none() {
                    // A look claims nothing, and needs no guard.
                    return Ok(sales.remove(0));
                }
                match self.offer.admit(named, &sales) {
                    Ok(Admission::Serve(entry) | Admission::Claim(entry)) => entry,
                    // The strategy of the sale is not offered here, and nobody asks for another.
                    Err(_) if named.is_none() => return Ok(sales.remove(0)),
                    Err(failure) => return Err(failure),
                }
            }
        };
        let goods = self.strategy(entry).look(goods_no, &call).await?;
        let goods = goods.ok_or_else(|| Failure::unknown_goods(goods_no))?;
        self.memory.remember(std::slice::from_ref(&goods));
        Ok(goods)
    }

    /// Starts the next sale of a SKU under a strategy, or under the default one.
    ///
    /// # Errors
    /// A [`Failure`], [`UNKNOWN_GOODS`](crate::failure::UNKNOWN_GOODS) if the units that remain are asked for and there is
    /// no such SKU, [`OUTCOME_UNKNOWN`](crate::failure::OUTCOME_UNKNOWN) if the commit was not answered.
    ///
    /// # Cancel safety
    /// Dropped, the sale may have started or not.
    pub async fn start_sale(
        &self,
        goods_no: GoodsNo,
        stock: NewStock,
        entry: Option<&'static Entry>,
    ) -> Result<Goods, Failure> {
        let entry = entry.unwrap_or(self.config.strategy);
        let started = self.store.start_sale(goods_no, stock, entry.family, entry.name).await;
        let started = started.and_then(|goods| goods.ok_or_else(|| Failure::unknown_goods(goods_no)));
        let started = started.inspect_err(log_failure)?;
        self.memory.remember(std::slice::from_ref(&started));
        self.memory.forget_sold_out(goods_no);
        Ok(started)
    }

    /// An order, or `None` if there is none with that number.
    ///
    /// # Errors
    /// A [`Failure`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn order(&self, order_id: i64) -> Result<Option<Order>, Failure> {
        self.store.order(order_id).await.inspect_err(log_failure)
    }
}
