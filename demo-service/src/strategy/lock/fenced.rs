//! `zk-mutex-fenced`, `zk-handoff-fenced` and `zk-cohort-fenced`: a lock in ZooKeeper, and a fence in the row. The
//! read raises the fence to the token of the hold, and the write checks it. A holder that was overtaken cannot write,
//! so nothing is oversold whatever happens to processes and networks.
//!
//! The fence is raised in a transaction of its own, before the business time. Otherwise the row lock of that
//! transaction would guard the purchase, and the comparison would measure the row lock instead of the lock in
//! ZooKeeper.

use crate::failure::Failure;
use crate::sale::{Level, LockOrder};
use crate::strategy::attempt::{Attempt, Fences, restarted};
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::lock::Locks;
use crate::strategy::{Boxed, Decided, Decision, Strategy};

/// The strategy, for any exclusive lock.
pub(in crate::strategy) struct ZkFenced {
    locks: Locks,
}

impl ZkFenced {
    pub(in crate::strategy) fn new(locks: Locks) -> Self {
        Self { locks }
    }

    async fn sell(&self, call: &Call, fences: Fences) -> Decision {
        let levels = self.raise_fences(call, &fences).await?;
        let mut attempt = Attempt::begin(self.context(), call, fences).await?;
        let sold = attempt.overwrite_fenced(&levels).await;
        attempt.end(sold).await
    }

    /// Reads the stock of each SKU and raises its fence, in the order of the SKUs. Stops if the client hangs up.
    async fn raise_fences(&self, call: &Call, fences: &Fences) -> Result<Vec<Level>, Failure> {
        let context = self.context();
        let mut levels = Vec::with_capacity(call.purchase.cart.lines().len());
        for line in call.purchase.cart.in_order(LockOrder::Canonical) {
            let (goods_no, sale) = (line.goods_no, call.sale_of(line.goods_no));
            let fence = fences.of(goods_no).expect("BUG: a lock without a token");
            let raise = context.shared.store.raise_fence(goods_no, sale, context.family, fence, None);
            if let Some(level) = call.wait(raise).await?? {
                levels.push(level);
                continue;
            }
            let goods = call.wait(context.shared.store.look(goods_no)).await??;
            let is_on = goods.is_some_and(|goods| goods.sale == sale);
            return Err(if is_on { Failure::fenced() } else { restarted(call, goods_no) });
        }
        Ok(levels)
    }
}

impl Strategy for ZkFenced {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        Box::pin(self.locks.purchase(call, |fences| self.sell(call, fences)))
    }

    fn context(&self) -> &Context {
        self.locks.context()
    }
}
