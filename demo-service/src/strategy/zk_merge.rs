//! `zk-merge`: one lock of ZooKeeper and one transaction for all buyers of a SKU who arrived during the last one (flat
//! combining). An instance queues once for all of its buyers. It releases the lock after each batch, so the instances take turns.
//!
//! As under the fenced strategies, the row checks the token of the hold. A holder that was overtaken cannot write.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::merge::{Begun, Shop, Turn};
use super::zk_hold::Locks;
use super::{Boxed, Call, Context, Decided, Strategy};
use crate::failure::Failure;
use crate::sale::{GoodsNo, Level, Purchase, Quantity, Token};
use crate::store::Isolation;

/// The strategy.
pub(super) struct ZkMerge {
    shop: Arc<Shop<Locks>>,
}

impl ZkMerge {
    pub(super) fn new(locks: Locks) -> Self {
        Self { shop: Shop::new(locks.uncounted()) }
    }
}

impl Turn for Locks {
    fn context(&self) -> &Context {
        Locks::context(self)
    }

    async fn begin(&self, goods_no: GoodsNo, sale: i64, until: Instant) -> Result<Begun<'_>, Failure> {
        let context = Locks::context(self);
        // The lock is acquired for all who wait, so nobody's hanging up ends the wait.
        let purchase = Purchase::of_one(goods_no, Quantity::ONE);
        let call = Call::new(purchase, until - context.lock_wait, context.db_timeout, CancellationToken::new());
        let held = self.acquire(&call).await?;
        let token = held.tokens().of(goods_no).expect("BUG: a lock without a token");
        let begun = async {
            let level = level(context, goods_no, sale, token).await?;
            Ok((context.store.begin(Isolation::ReadCommitted, None).await?, level))
        };
        match held.guard(&call, Box::pin(begun)).await {
            Ok((transaction, level)) => {
                let (lost, behind): (Boxed<'_, _>, Boxed<'_, _>) = (Box::pin(held.loss()), Box::pin(held.release()));
                Ok(Begun { transaction, level, token: Some(token), lost, behind: Some(behind) })
            }
            Err(failure) => {
                held.release().await;
                Err(failure)
            }
        }
    }
}

/// Reads the stock under the fence.
async fn level(context: &Context, goods_no: GoodsNo, sale: i64, token: Token) -> Result<Level, Failure> {
    if let Some(level) = context.store.raise_fence(goods_no, sale, context.family, token).await? {
        return Ok(level);
    }
    let goods = context.store.look(goods_no).await?.ok_or_else(|| Failure::unknown_goods(goods_no))?;
    let guard = goods.guard.map(|guard| guard.family);
    if goods.sale == sale && guard.as_deref() == Some(context.family) {
        return Err(Failure::fenced());
    }
    // Another sale has started. Its purchases are not served by this turn, and those of the earlier sale learn of it.
    Ok(Level { sale: goods.sale, on_hand: 0, version: 0, guard: None })
}

impl Strategy for ZkMerge {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        self.shop.purchase(call)
    }

    fn context(&self) -> &Context {
        self.shop.context()
    }
}
