//! A purchase under held locks, wherever the locks are: the locks are watched while they are held, and released after the answer.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tracing::warn;

use crate::failure::{self, Failure};
use crate::sale::Receipt;
use crate::strategy::attempt::{Fences, note_order, visit};
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::strategy::settle::settle;
use crate::strategy::{Boxed, Decided, Decision, Strategy};
use crate::telemetry::LockMetrics;
use crate::telemetry::clock::Moment;
use crate::telemetry::history::Visit;

/// The time limit for the confirmation of a release. After it, the release goes on in the background.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// Locks of one kind, for the SKUs of a purchase.
pub(in crate::strategy) trait LockKind: Send + Sync {
    /// The locks of one purchase, held.
    type Hold: Hold;

    fn context(&self) -> &Context;

    /// Waits for the locks of the cart of a call, all or none, until the deadline for the lock.
    fn acquire_for(&self, call: &Call) -> impl Future<Output = Result<Held<'_, Self::Hold>, Failure>> + Send;
}

/// The locks of one purchase as their kind holds them.
pub(in crate::strategy) trait Hold: Send + Sync + Sized {
    /// Why the hold was lost, or why its locks are not released.
    type Error: Error + Send + Sync + 'static;

    /// Runs `part` until a lock is lost.
    fn run<F: Future + Send>(&self, part: F) -> impl Future<Output = Result<F::Output, Self::Error>> + Send;

    /// Releases the locks. Dropped, the release goes on in the background.
    fn release(self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Counts each lost hold that `error` reports.
    fn count_lost(metrics: &LockMetrics, error: &Self::Error);
}

/// Sells under the locks of a cart.
pub(in crate::strategy) type SellUnderLocks = for<'a> fn(&'a Context, &'a Call, Fences) -> Boxed<'a, Decision>;

/// A strategy with locks around the purchase. Unless `sell` checks more than the locks, only they keep two purchases apart.
pub(in crate::strategy) struct UnderLocks<K> {
    pub(super) locks: K,
    sell: SellUnderLocks,
}

/// The locks of one purchase, held.
pub(in crate::strategy) struct Held<'a, H> {
    pub(super) hold: H,
    fences: Fences,
    /// When the first lock was asked for.
    asked: Moment,
    granted: Instant,
    /// Whether the loss was counted. The release reports the same loss again.
    is_loss_counted: AtomicBool,
    context: &'a Context,
}

impl<K: LockKind> UnderLocks<K> {
    pub(in crate::strategy) fn new(locks: K, sell: SellUnderLocks) -> Self {
        Self { locks, sell }
    }
}

impl<K: LockKind> Strategy for UnderLocks<K> {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        Box::pin(async move {
            let held = match self.locks.acquire_for(call).await {
                Ok(held) => held,
                Err(failure) => return Err(failure).into(),
            };
            let decision = held.run(call, (self.sell)(self.locks.context(), call, held.fences())).await;
            held.release_after_answer(call, decision)
        })
    }
}

impl<'a, H: Hold + 'a> Held<'a, H> {
    /// Takes locks that were just granted. They were asked for at `asked`.
    pub(super) fn new(context: &'a Context, hold: H, fences: Fences, asked: Moment) -> Self {
        Self { hold, fences, asked, granted: Instant::now(), is_loss_counted: AtomicBool::new(false), context }
    }

    /// Returns the fences, one for each SKU.
    pub(in crate::strategy) fn fences(&self) -> Fences {
        self.fences.clone()
    }

    /// Runs the purchase under the locks, until the deadline for the database. A lost hold stops the purchase at
    /// once. Before the commit is sent, that rolls the purchase back. After that, the outcome is unknown.
    pub(super) async fn run(&self, call: &Call, purchase: impl Future<Output = Decision> + Send) -> Decision {
        let mut visit = self.visit(call);
        let decision = match self.hold.run(call.in_time(purchase)).await {
            Ok(decision) => decision,
            Err(reason) => Err(call.stopped(self.lost(reason))),
        };
        note_order(&mut visit, &decision);
        decision
    }

    /// Runs a part that commits nothing under the locks, until `until`. A lost hold stops it at once.
    pub(in crate::strategy) async fn run_part<T: Send>(
        &self,
        until: Instant,
        part: impl Future<Output = Result<T, Failure>> + Send,
    ) -> Result<T, Failure> {
        match self.hold.run(timeout_at(until, part)).await {
            Ok(part) => part.unwrap_or_else(|_| Err(Failure::database_unavailable())),
            Err(reason) => Err(self.lost(reason)),
        }
    }

    /// Notes in the history that the purchase enters its critical section.
    pub(super) fn visit(&self, call: &Call) -> Visit {
        visit(self.context, call.purchase.cart.lines(), &self.fences, self.asked)
    }

    /// Counts a lost hold, and returns the failure of a purchase that it stops before the commit.
    fn lost(&self, reason: H::Error) -> Failure {
        if !self.is_loss_counted.swap(true, Ordering::Relaxed) {
            H::count_lost(&self.context.metrics, &reason);
        }
        hold_lost().caused_by(reason)
    }

    /// Returns the decision. The release of the locks is the work after the answer. If the outcome is unknown, the
    /// locks are kept until the commit is over. That includes locks that were lost: a hold is lost by our clock
    /// before it is lost by the server's, so it may still keep the next holder out.
    pub(super) fn release_after_answer(self, call: &'a Call, decision: Decision) -> Decided<'a> {
        let release = async move {
            if call.is_committing() {
                settle(self.context, call).await;
            }
            self.release().await;
        };
        Decided { decision: decision.map(Receipt::Order), release: Some(Box::pin(release)) }
    }

    /// Releases the locks. A failure of the release does not affect a committed order.
    pub(in crate::strategy) async fn release(self) {
        self.context.metrics.record_hold(self.granted.elapsed());
        match timeout(RELEASE_WITHIN, self.hold.release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                if !self.is_loss_counted.into_inner() {
                    H::count_lost(&self.context.metrics, &error);
                }
                // The span names the token.
                warn!(error = program::chain(&error), "a lock was not released cleanly");
            }
            Err(_) => warn!("a release was not confirmed in time, it goes on in the background"),
        }
    }
}

/// Returns the failure of a purchase that the loss of its hold stops.
pub(super) fn hold_lost() -> Failure {
    let detail = "the hold on the lock was lost before the commit, which stopped the purchase; nothing was written";
    Failure::new(&failure::HOLD_LOST, detail)
}
