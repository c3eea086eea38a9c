//! Batches: one transaction for all buyers of a SKU who arrived during the last transaction.
//!
//! Each SKU for which anybody waits has a queue and a worker, of the crate `batch_queue`. The worker waits for the right to write the
//! SKU. It takes the buyers that wait by then, decides them together, answers each, and starts again. It ends when nobody waits.
//!
//! The strategies differ in that right: it is the lock of a row (`pg_merge.rs`), a lock in ZooKeeper with a fence in the row
//! (`zk_merge.rs`), or a term with that fence (`strategy/owner.rs`).

pub(super) mod pg_merge;
pub(super) mod zk_merge;

mod begun;
mod request;
mod sell;

use std::sync::Arc;

use batch_queue::{Pending, Queues, WaitEnd, Worker};
use tokio::time::sleep_until;

pub(super) use self::begun::{Begun, level_under_fence};
pub(super) use self::request::BatchRequest;
pub(super) use self::sell::{already_sold, sell};
use super::attempt::do_business_first;
use super::call::{Call, stopped};
use super::context::Context;
use super::{Boxed, Decided, Decision, Strategy};
use crate::failure::{self, Failure};
use crate::sale::GoodsNo;
use crate::telemetry::clock::Moment;

/// The right to write the next batch of a SKU, and how an instance comes to it.
pub(super) trait WriteRight: Send + Sync + 'static {
    /// Waits for the right until `worker.until`. A server that does not answer by then may take a little longer: `LOCK_GRACE` for a
    /// lock of the database, and the deadline of the database for its other answers. Then takes the next batch and serves it.
    ///
    /// # Errors
    /// The reason why there is no right. Then no buyer was taken: all of them still wait.
    fn serve(
        &self,
        context: &Context,
        worker: &mut Worker<BatchRequest>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// A strategy that sells in batches.
pub(super) struct Batches<R> {
    context: Context,
    right: R,
    queues: Arc<Queues<BatchRequest>>,
}

impl<R: WriteRight> Batches<R> {
    pub(super) fn new(context: Context, right: R) -> Arc<Self> {
        Arc::new(Self { context, right, queues: Arc::default() })
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// Puts purchases of another instance in the queue of their SKU. Returns `None` while its worker waits for another instance.
    pub(super) fn take_over(
        self: &Arc<Self>,
        goods_no: GoodsNo,
        requests: Vec<BatchRequest>,
    ) -> Option<Vec<Pending<BatchRequest>>> {
        let (pending, worker) = self.queues.take_over(goods_no, requests)?;
        self.start(worker);
        Some(pending)
    }

    /// Lets a worker serve, if there is a new one.
    fn start(self: &Arc<Self>, worker: Option<Worker<BatchRequest>>) {
        if let Some(worker) = worker {
            self.context.shared.tasks.spawn(Arc::clone(self).work(worker));
        }
    }

    /// Serves the buyers of a SKU, batch by batch, until nobody waits.
    async fn work(self: Arc<Self>, mut worker: Worker<BatchRequest>) {
        while worker.next() {
            if let Err(failure) = self.right.serve(&self.context, &mut worker).await {
                worker.refuse(&failure);
                // A lock may give up a moment before its deadline. Other tasks run before the next try, so this loop never keeps the
                // thread: late buyers leave, and others come.
                tokio::task::yield_now().await;
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
            waiting: self.context.metrics.wait(),
            asked: Moment::now(),
        };
        let (mut pending, worker) = self.queues.join(goods_no, vec![request]);
        self.start(worker);
        match pending.remove(0).wait(self.context.leaving(call, until), sleep_until(call.until)).await {
            WaitEnd::Decided(decision) => {
                call.answered(&decision);
                decision
            }
            WaitEnd::Left(reason) => Err(reason),
            WaitEnd::GaveUp(sent) => Err(stopped(sent, Failure::database_unavailable())),
            // The worker has panicked.
            WaitEnd::Undecided(sent) => Err(stopped(sent, Failure::of(&failure::INTERNAL))),
        }
    }
}

impl<R: WriteRight> Strategy for Arc<Batches<R>> {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        Box::pin(async move { self.decide(call).await.into() })
    }
}
