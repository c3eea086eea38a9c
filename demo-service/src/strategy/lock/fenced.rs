//! `zk-mutex-fenced`, `zk-handoff-fenced` and `zk-cohort-fenced`: a lock in ZooKeeper, and a fence in the row. The
//! read raises the fence to the token of the hold, and the write checks it. A holder that was overtaken cannot write,
//! so nothing is oversold whatever happens to processes and networks.
//!
//! The fence is raised in a transaction of its own, before the business time. Otherwise the row lock of that
//! transaction would protect the purchase, and the comparison would measure the row lock instead of the lock in
//! ZooKeeper.

use crate::failure::Failure;
use crate::sale::{Level, LockSequence};
use crate::strategy::attempt::{Attempt, Fences, restarted};
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::{Boxed, Decision};

/// Sells under the fences of the locks.
pub(in crate::strategy) fn sell<'a>(context: &'a Context, call: &'a Call, fences: Fences) -> Boxed<'a, Decision> {
    Box::pin(async move {
        let levels = raise_fences(context, call, &fences).await?;
        let mut attempt = Attempt::begin(context, call, fences).await?;
        let sold = attempt.overwrite_fenced(&levels).await;
        attempt.end(sold).await
    })
}

/// Reads the stock of each SKU and raises its fence, in the order of the SKUs. Stops if the client hangs up.
async fn raise_fences(context: &Context, call: &Call, fences: &Fences) -> Result<Vec<Level>, Failure> {
    let store = &context.shared.store;
    let goods = call.purchase.cart.goods_in_order(LockSequence::Canonical);
    let mut levels = Vec::with_capacity(goods.len());
    for goods_no in goods {
        let sale = call.sale_of(goods_no);
        let fence = fences.of(goods_no).expect("BUG: a lock without a token");
        let raise = store.raise_fence(goods_no, sale, context.family, fence, None);
        if let Some(level) = call.wait(raise).await?? {
            levels.push(level);
            continue;
        }
        let goods = call.wait(store.look(goods_no)).await??;
        let is_on = goods.is_some_and(|goods| goods.sale == sale);
        return Err(if is_on { Failure::fenced() } else { restarted(call, goods_no) });
    }
    Ok(levels)
}
