//! Batches: one transaction for all buyers of a SKU who arrived during the last transaction.
//!
//! Each SKU for which anybody waits has a queue and a worker. The worker waits for the right to write the SKU. It takes
//! the buyers that wait by then, decides them together, answers each, and starts again. It ends when nobody waits.
//!
//! The strategies differ in that right: it is the lock of a row (`pg_merge.rs`), a lock in ZooKeeper with a fence in the row
//! (`zk_merge.rs`), or a term with that fence (`strategy/owner.rs`).

pub(super) mod pg_merge;
pub(super) mod zk_merge;

mod begun;
mod buyer;
pub(super) mod queue;
mod sell;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::timeout_at;

pub(super) use self::begun::{Begun, level_under_fence};
use self::buyer::refuse_all;
pub(super) use self::buyer::{BatchRequest, Buyer, Pending};
use self::queue::Queues;
pub(super) use self::queue::Worker;
pub(super) use self::sell::{already_sold, sell};
use super::attempt::do_business_first;
use super::call::Call;
use super::context::Context;
use super::{Boxed, Decided, Decision, Strategy};
use crate::failure::{self, Failure};
use crate::sale::GoodsNo;
use crate::telemetry::{LockMetrics, Waiting};

/// The right to write the next batch of a SKU, and how an instance comes to it.
pub(super) trait WriteRight: Send + Sync + 'static {
    /// Waits for the right until `worker.until`. A server that does not answer by then may take a little longer: `LOCK_GRACE` for a
    /// lock of the database, and the deadline of the database for its other answers. Then takes the next batch and serves it.
    ///
    /// # Errors
    /// The reason why there is no right. Then no buyer was taken: all of them still wait.
    fn serve(&self, context: &Context, worker: &mut Worker<'_>) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A strategy that sells in batches.
pub(super) struct Batches<R> {
    context: Context,
    right: R,
    queues: Arc<Mutex<Queues>>,
}

impl<R: WriteRight> Batches<R> {
    pub(super) fn new(context: Context, right: R) -> Arc<Self> {
        Arc::new(Self { context, right, queues: Arc::default() })
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// Puts purchases of one SKU in its queue, and starts its worker if none runs. `wait` starts the wait of each.
    pub(super) fn join(
        self: &Arc<Self>,
        goods_no: GoodsNo,
        requests: Vec<BatchRequest>,
        wait: fn(&LockMetrics) -> Waiting,
    ) -> Vec<Pending> {
        let (pending, is_first) = queue::join(&self.queues, goods_no, requests, || wait(&self.context.metrics));
        if is_first {
            self.context.shared.tasks.spawn(Arc::clone(self).work(goods_no));
        }
        pending
    }

    /// Serves the buyers of a SKU, batch by batch, until nobody waits.
    async fn work(self: Arc<Self>, goods_no: GoodsNo) {
        let mut worker = Worker::new(&self.queues, goods_no, &self.context.metrics);
        while worker.next() {
            match self.right.serve(&self.context, &mut worker).await {
                Ok(()) => {}
                Err(failure) if failure.is(&failure::LOCK_TIMEOUT) => {
                    worker.refuse_late(&failure);
                    // A lock may give up a moment before its deadline. Other tasks run before the next try, so this loop never keeps
                    // the thread: late buyers leave, and others come.
                    tokio::task::yield_now().await;
                }
                Err(failure) => refuse_all(worker.take(), &failure),
            }
        }
    }

    /// Decides a purchase of one SKU in the next batch. The business is done first.
    ///
    /// The buyer may give up until the worker takes the batch: by hanging up, or at the deadline for the lock. After that the
    /// buyer gives up at the deadline for the database only. Once the commit was sent, the outcome is unknown then.
    async fn decide(self: &Arc<Self>, call: &Call) -> Decision {
        let business = call.in_time(do_business_first(&self.context, call)).await?;
        call.still_wanted()?;
        // Other strategies do the business after the wait for the lock. So its time does not count as a part of this wait, either.
        let until = self.context.lock_until(call) + business;
        let goods_no = call.purchase.cart.lines()[0].goods_no;
        let request = BatchRequest {
            purchase: call.purchase.clone(),
            sale: call.sale_of(goods_no),
            has_decided: call.has_decided(),
            is_handed: false,
            until,
            commit: call.commit.clone(),
        };
        let mut pending = self.join(goods_no, vec![request], LockMetrics::wait).remove(0);
        let decision = tokio::select! {
            biased;
            decision = pending.decided() => decision,
            reason = self.context.leaving(call, until) => {
                if pending.leave() {
                    return Err(reason);
                }
                match timeout_at(call.until, pending.decided()).await {
                    Ok(decision) => decision,
                    Err(_) => {
                        pending.give_up();
                        return Err(call.stopped(Failure::database_unavailable()));
                    }
                }
            }
        };
        // Without a decision the worker has panicked.
        let decision = decision.unwrap_or_else(|| Err(call.stopped(Failure::of(&failure::INTERNAL))));
        call.commit.answered(&decision);
        decision
    }
}

impl<R: WriteRight> Strategy for Arc<Batches<R>> {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        Box::pin(async move { self.decide(call).await.into() })
    }
}
