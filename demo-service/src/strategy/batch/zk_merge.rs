//! `zk-merge`: a batch for each hold of a lock of ZooKeeper (flat combining). An instance queues once for all of its buyers. It
//! releases the lock after each batch, so the instances alternate.
//!
//! As under the fenced strategies, the row checks the token of the hold. A holder that was overtaken cannot write.

use std::sync::Arc;

use batch_queue::Worker;

use super::{BatchRequest, Batches, Begun, WriteRight, level_under_fence, sell};
use crate::failure::Failure;
use crate::store::Isolation;
use crate::strategy::context::Context;
use crate::strategy::lock::held::{Held, LockKind};
use crate::strategy::lock::{Locks, ZkHold};

/// The lock is the right to write, and the row checks its token.
pub(in crate::strategy) struct ZkMerge {
    locks: Locks,
}

impl ZkMerge {
    /// Makes the strategy. The wait of a worker for its lock is not counted, because each of its buyers counts its own.
    pub(in crate::strategy) fn batches(locks: Locks) -> Arc<Batches<Self>> {
        let context = locks.context().clone();
        Batches::new(context, Self { locks: locks.uncounted() })
    }

    /// Acquires the lock, and begins a transaction under it.
    async fn acquire(
        &self,
        context: &Context,
        worker: &Worker<BatchRequest>,
    ) -> Result<(Held<'_, ZkHold>, Begun), Failure> {
        let goods_no = worker.sku();
        let sale = worker.sale();
        let until = worker.until();
        // The lock is acquired for all waiting buyers, so the wait goes on if one of them hangs up.
        let held = self.locks.acquire(&[goods_no], until, &context.shared.closing).await?;
        let fence = held.fences().of(goods_no).expect("BUG: a lock without a token");
        let begun = async {
            let level = level_under_fence(context, goods_no, sale, fence, until).await?;
            Ok((context.shared.store.begin(Isolation::ReadCommitted, None).await?, level))
        };
        match held.run_part(context.database_until(until), Box::pin(begun)).await {
            Ok((transaction, level)) => Ok((held, Begun { transaction, level, fence: Some(fence) })),
            Err(failure) => {
                held.release().await;
                Err(failure)
            }
        }
    }
}

impl WriteRight for ZkMerge {
    async fn serve(&self, context: &Context, worker: &mut Worker<BatchRequest>) -> Result<(), Failure> {
        let (held, begun) = context.until_closing(self.acquire(context, worker)).await?;
        sell(context, worker, begun, held.loss()).await;
        held.release().await;
        Ok(())
    }
}
