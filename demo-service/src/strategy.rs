//! Strategies: the same deduction, guarded in different ways.
//!
//! [`registry`] lists them. All but [`postgres`] run the same [`section`] and differ in the lock around it.

pub mod registry;
pub mod section;

pub mod local_mutex;
pub mod postgres;
pub mod unguarded;
pub mod zookeeper;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Failure;
use crate::hold::Hold;
use crate::sessions::SessionPool;
use crate::stock::store::Store;
use crate::stock::{GoodsNo, Outcome, Quantity};
use crate::telemetry::LockWaits;

/// The future of one deduction, boxed because strategies are chosen at run time.
pub type Deducting<'a> = Pin<Box<dyn Future<Output = Ended<'a>> + Send + 'a>>;

/// What a deduction leaves to be done when the buyer can already be answered.
pub type Aftermath<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// How a deduction ended.
#[must_use]
pub struct Ended<'a> {
    /// What the buyer is told. A [`Failure`] other than [`Failure::OutcomeUnknown`] means that nothing was written.
    pub result: Result<Outcome, Failure>,
    /// Keeps the lock until an unknown outcome is settled, then releases it. Dropped, the lock is released at once,
    /// possibly under a commit in flight.
    pub aftermath: Option<Aftermath<'a>>,
}

impl<'a> Ended<'a> {
    fn with_aftermath(result: Result<Outcome, Failure>, aftermath: impl Future<Output = ()> + Send + 'a) -> Self {
        Self { result, aftermath: Some(Box::pin(aftermath)) }
    }
}

impl From<Result<Outcome, Failure>> for Ended<'_> {
    /// An end that leaves nothing to be done.
    fn from(result: Result<Outcome, Failure>) -> Self {
        Self { result, aftermath: None }
    }
}

/// One way of guarding a deduction.
pub trait DeductionStrategy: Send + Sync {
    /// Takes the units and writes the order, in one transaction, or does neither. The deadlines for the lock and for
    /// the database count from `began`.
    ///
    /// # Cancel safety
    /// Dropped, the deduction may have been committed or not, and any lock is released. Run it in a task of its own.
    fn deduct(&self, deduction: Deduction, began: Instant) -> Deducting<'_>;
}

/// What is to be sold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deduction {
    /// The SKU.
    pub goods_no: GoodsNo,
    /// How many units.
    pub quantity: Quantity,
}

/// What strategies work with. One a strategy, as its lock waits are counted apart.
#[derive(Clone)]
pub struct Context {
    /// The database.
    pub store: Store,
    /// The ZooKeeper sessions.
    pub sessions: Arc<SessionPool>,
    /// What orders name as the instance.
    pub instance: Arc<str>,
    /// The simulated business time.
    pub hold: Hold,
    /// How long after its beginning a deduction must have its lock.
    pub lock_wait: Duration,
    /// How long after its beginning a deduction must be over.
    pub db_timeout: Duration,
    /// Where waits for a lock are recorded, had or not.
    pub lock_waits: LockWaits,
}

impl Context {
    /// What is left of the time for the lock.
    fn lock_wait_left(&self, began: Instant) -> Duration {
        self.lock_wait.saturating_sub(began.elapsed())
    }

    /// Waits for a lock and records how long that took.
    async fn timed<F: Future>(&self, acquire: F) -> F::Output {
        let began = Instant::now();
        let acquired = acquire.await;
        self.lock_waits.record(began.elapsed());
        acquired
    }
}
