//! Locks in ZooKeeper.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::warn;
use zk_recipes::{AnyLock, LockGuard, Mutex, NaiveLock, Session};

use super::section::{Progression, read_modify_write, settle};
use super::{Context, Deducting, Deduction, DeductionStrategy, Ended, registry::Entry};
use crate::error::Failure;
use crate::sessions::SessionPool;
use crate::stock::GoodsNo;

/// The folder of all locks of the service.
const ROOT: &str = "/seckill";

/// How long the confirmation that the lock is free is waited for, and the answer to the buyer with it. The outcome is
/// certain by then; a release that is not confirmed goes on in the background.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// Takes a lock that guards nothing and gives it back, which shows that the chroot exists and may be written to. That
/// another instance is just doing the same shows it as well.
///
/// # Errors
/// Whatever the recipe says.
///
/// # Cancel safety
/// Dropped, the lock is released in the background.
pub async fn probe(sessions: &SessionPool) -> Result<(), zk_recipes::Error> {
    let Some(session) = sessions.pick() else { return Ok(()) };
    match Mutex::new(&session, &format!("{ROOT}/probe"))?.try_acquire().await? {
        Some(held) => held.release().await,
        None => Ok(()),
    }
}

/// Makes the lock of a strategy at a path: the very node of a naive lock, the parent of a mutex's queue.
type NewLock = fn(&Session, &str) -> Result<AnyLock, zk_recipes::Error>;

struct ZooKeeperLock {
    entry: &'static Entry,
    context: Context,
    new_lock: NewLock,
}

/// Makes the strategy whose waiters all watch the same node.
pub(super) fn build_naive(entry: &'static Entry, context: Context) -> Box<dyn DeductionStrategy> {
    let new_lock: NewLock = |session, path| NaiveLock::new(session, path).map(AnyLock::from);
    Box::new(ZooKeeperLock { entry, context, new_lock })
}

/// Makes the strategy whose waiters queue.
pub(super) fn build_mutex(entry: &'static Entry, context: Context) -> Box<dyn DeductionStrategy> {
    let new_lock: NewLock = |session, path| Mutex::new(session, path).map(AnyLock::from);
    Box::new(ZooKeeperLock { entry, context, new_lock })
}

impl ZooKeeperLock {
    /// Waits for the lock on a SKU. Without a connected session it fails at once: nothing is sold unguarded.
    async fn acquire(&self, goods_no: GoodsNo, began: Instant) -> Result<LockGuard, Failure> {
        let unavailable = |reason: String| Failure::LockServiceUnavailable(reason);
        let session = self.context.sessions.pick();
        let session = session.ok_or_else(|| unavailable("no ZooKeeper session is connected".to_owned()))?;
        let path = format!("{ROOT}/{}/{goods_no}", self.entry.name);
        let wait = self.context.lock_wait_left(began);
        let acquired = async { (self.new_lock)(&session, &path)?.acquire_within(wait).await };
        let acquired = self.context.timed(acquired).await;
        let timeout = Failure::LockTimeout { waited: self.context.lock_wait };
        acquired.map_err(|error| unavailable(error.to_string()))?.ok_or(timeout)
    }

    async fn deduct_guarded(&self, deduction: Deduction, began: Instant) -> Ended<'_> {
        let held = match self.acquire(deduction.goods_no, began).await {
            Ok(held) => held,
            Err(failure) => return Err(failure).into(),
        };
        let (context, name, token) = (&self.context, self.entry.name, Some(held.token().get()));
        let progression = Progression::default();
        let section = read_modify_write(context, name, deduction, began, token, &progression);
        // A lost hold stops the section wherever it stands. Before the commit that rolls the transaction back; once the
        // commit is on its way nothing can call it back, and then the outcome is not known.
        let run = held.run(section).await;
        let lost = run.is_err();
        let result = run.unwrap_or_else(|reason| Err(Failure::of_lost_hold(&reason, progression.get())));
        if matches!(result, Err(Failure::OutcomeUnknown(_))) {
            // A lost hold is no exception: by our clock it is lost before the server's, so the session may yet live,
            // and with it the node that keeps the next holder out.
            return Ended::with_aftermath(result, async move {
                settle(context, &progression).await;
                release(held, Instant::now() + RELEASE_WITHIN).await;
            });
        }
        if lost {
            // The transaction is rolled back, and the session too far away to confirm anything soon.
            drop(held);
        } else {
            // The time for the database bounds this as well, so that a sale is never answered too late.
            let confirmed_by = (Instant::now() + RELEASE_WITHIN).min(began + context.db_timeout);
            release(held, confirmed_by).await;
        }
        result.into()
    }
}

/// Releases after the section, whatever came of it. A failure changes nothing about an order that is committed.
async fn release(held: LockGuard, confirmed_by: Instant) {
    let token = held.token();
    match timeout_at(confirmed_by, held.release()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => warn!(%token, %error, "a lock was not released cleanly"),
        Err(_) => warn!(%token, "a release was not confirmed in time, it goes on in the background"),
    }
}

impl DeductionStrategy for ZooKeeperLock {
    fn deduct(&self, deduction: Deduction, began: Instant) -> Deducting<'_> {
        Box::pin(self.deduct_guarded(deduction, began))
    }
}
