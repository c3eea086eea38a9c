//! `zk-merge`: one lock of ZooKeeper and one transaction for all buyers of a SKU who arrived during the last one (flat
//! combining). An instance queues once for all of its buyers. It releases the lock after each batch, so the instances take turns.
//!
//! As under the fenced strategies, the row checks the token of the hold. A holder that was overtaken cannot write.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Begun, Next, Shop, Turn, level_under_fence};
use crate::failure::Failure;
use crate::sale::GoodsNo;
use crate::store::Isolation;
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::lock::Locks;
use crate::strategy::{Boxed, Decided, Strategy};

/// The strategy.
pub(in crate::strategy) struct ZkMerge {
    shop: Arc<Shop<Locks>>,
}

impl ZkMerge {
    pub(in crate::strategy) fn new(locks: Locks) -> Self {
        Self { shop: Shop::new(locks.uncounted()) }
    }
}

impl Turn for Locks {
    fn context(&self) -> &Context {
        Locks::context(self)
    }

    async fn begin(&self, goods_no: GoodsNo, sale: i64, until: Instant) -> Result<Next<'_>, Failure> {
        let context = Locks::context(self);
        // The lock is acquired for all waiting buyers, so the wait goes on if one of them hangs up.
        let held = self.acquire(&[goods_no], until, &context.shared.closing).await?;
        let fence = held.fences().of(goods_no).expect("BUG: a lock without a token");
        let begun = async {
            let level = level_under_fence(context, goods_no, sale, fence, until).await?;
            Ok((context.shared.store.begin(Isolation::ReadCommitted, None).await?, level))
        };
        match held.guard(context.database_until(until), Box::pin(begun)).await {
            Ok((transaction, level)) => {
                let (lost, end): (Boxed<'_, _>, Boxed<'_, _>) = (Box::pin(held.loss()), Box::pin(held.release()));
                Ok(Next::Sell(Box::new(Begun { transaction, level, fence: Some(fence), lost, end: Some(end) })))
            }
            Err(failure) => {
                held.release().await;
                Err(failure)
            }
        }
    }
}

impl Strategy for ZkMerge {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        self.shop.purchase(call)
    }
}
