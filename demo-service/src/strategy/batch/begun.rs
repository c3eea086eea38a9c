//! What a batch begins with: its transaction, and the stock that decides it.

use tokio::time::Instant;

use crate::failure::Failure;
use crate::sale::{Fence, GoodsNo, Level};
use crate::store::Transaction;
use crate::strategy::context::Context;

/// A transaction that may write the next batch. Either nobody else can write the stock of the SKU, or the row refuses the
/// write of an instance that was overtaken.
pub(in crate::strategy) struct Begun {
    pub(in crate::strategy) transaction: Transaction,
    pub(in crate::strategy) level: Level,
    /// The fence that the row checks, if there is one.
    pub(in crate::strategy) fence: Option<Fence>,
}

/// Reads the stock under the fence. Waits for the row until `until`.
pub(in crate::strategy) async fn level_under_fence(
    context: &Context,
    goods_no: GoodsNo,
    sale: i64,
    fence: Fence,
    until: Instant,
) -> Result<Level, Failure> {
    if let Some(level) = context.shared.store.raise_fence(goods_no, sale, context.family, fence, Some(until)).await? {
        return Ok(level);
    }
    let goods = context.shared.store.look(goods_no).await?.ok_or_else(|| Failure::unknown_goods(goods_no))?;
    let guard = goods.guard.map(|guard| guard.family);
    if goods.sale == sale && guard.as_deref() == Some(context.family) {
        return Err(Failure::fenced());
    }
    // The row has another sale, possibly an earlier one, if the database was restored. Its stock was not read under the fence. So
    // the level has no guard: nothing is decided by it, and each purchase is admitted anew.
    Ok(Level { sale: goods.sale, on_hand: 0, version: 0, guard: None, per_buyer: None })
}
