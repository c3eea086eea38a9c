//! No lock but the database's own.

use tokio::time::Instant;

use super::section::{Progression, bounded, commit};
use super::{Context, Deducting, Deduction, DeductionStrategy, registry::Entry};
use crate::error::Failure;
use crate::stock::store::NewOrder;
use crate::stock::{Decision, Level, Outcome, Sold, decide};

struct Conditional {
    entry: &'static Entry,
    context: Context,
}

/// Makes the strategy.
pub(super) fn build_conditional(entry: &'static Entry, context: Context) -> Box<dyn DeductionStrategy> {
    Box::new(Conditional { entry, context })
}

impl Conditional {
    /// Reads the sale, lets the business time pass, then takes the units if enough are left *at that instant*.
    ///
    /// The read decides nothing for good: it names the sale, so that a straggler cannot sell out of the next one, and
    /// it spares a buyer who comes too late the business time. The time passes before the update, where the transaction
    /// holds no row lock yet. After it, every other buyer would wait for it too, which is what this strategy does away
    /// with; a service must do its business first and take the stock last for this to be a fair picture of it.
    async fn deduct_conditional(&self, deduction: Deduction, began: Instant) -> Result<Outcome, Failure> {
        let Deduction { goods_no, quantity } = deduction;
        let progression = Progression::default();
        let section = async {
            let mut transaction = self.context.store.begin().await?;
            let Some(Level { sale, on_hand }) = transaction.read(goods_no).await? else {
                return Ok(Outcome::UnknownGoods);
            };
            if decide(on_hand, quantity) == Decision::SoldOut {
                return Ok(Outcome::SoldOut);
            }
            self.context.hold.pass().await;
            let Some(remaining) = transaction.take_if_enough(goods_no, sale, quantity).await? else {
                // Sold out meanwhile, or a new sale has begun: at read committed, a second read tells which.
                let level = transaction.read(goods_no).await?;
                let same_sale = level.is_some_and(|level| level.sale == sale);
                return Ok(if same_sale { Outcome::SoldOut } else { Outcome::SaleRestarted });
            };
            let (strategy, instance) = (self.entry.name, &*self.context.instance);
            let order = NewOrder { goods_no, sale, quantity, strategy, instance, token: None };
            let written = transaction.insert_order(order).await?;
            commit(transaction, written.transaction, &progression).await?;
            Ok(Outcome::Sold(Sold { order_id: written.order_id, sale, remaining, token: None }))
        };
        bounded(began, self.context.db_timeout, &progression, section).await
    }
}

impl DeductionStrategy for Conditional {
    fn deduct(&self, deduction: Deduction, began: Instant) -> Deducting<'_> {
        Box::pin(async move { self.deduct_conditional(deduction, began).await.into() })
    }
}
