//! `pg-counted-limit`: a control. It counts what the buyer has ordered, and then buys as `pg-conditional` does.
//!
//! Many a shop keeps "one per customer" in this way. Two requests of one buyer that come at once both count none, and both buy.
//! Nothing is oversold, because the row of the SKU still refuses what is not there.

use crate::failure::Failure;
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::row::conditional;
use crate::strategy::{Boxed, Decision};

/// Counts, then sells.
pub(in crate::strategy) fn sell<'a>(context: &'a Context, call: &'a Call) -> Boxed<'a, Decision> {
    Box::pin(async move {
        for line in call.purchase.cart.lines() {
            let limit = call.per_buyer_of(line.goods_no);
            let Some((limit, buyer)) = limit.zip(call.purchase.buyer.as_ref()) else { continue };
            let sale = call.sale_of(line.goods_no);
            let ordered = call.wait(context.shared.store.units_ordered(line.goods_no, sale, buyer)).await??;
            if ordered.saturating_add(line.quantity.get()) > limit.get() {
                return Err(Failure::over_limit(line.goods_no));
            }
        }
        conditional::sell(context, call).await
    })
}
