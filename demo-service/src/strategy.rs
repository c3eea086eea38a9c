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
use std::time::{Duration, Instant};

use crate::error::Failure;
use crate::hold::Hold;
use crate::sessions::SessionPool;
use crate::stock::store::Store;
use crate::stock::{GoodsNo, Outcome, Quantity};
use crate::telemetry::LockWaits;

/// The future of one deduction, boxed because strategies are chosen at run time.
pub type Deducting<'a> = Pin<Box<dyn Future<Output = Result<Outcome, Failure>> + Send + 'a>>;

/// One way of guarding a deduction.
pub trait DeductionStrategy: Send + Sync {
    /// Takes the units and writes the order, in one transaction, or does neither.
    ///
    /// # Errors
    /// A [`Failure`]; unless it is [`Failure::OutcomeUnknown`], nothing was written.
    ///
    /// # Cancel safety
    /// Dropped, the deduction may have been committed or not, and any lock is released. Run it in a task of its own.
    fn deduct(&self, deduction: Deduction) -> Deducting<'_>;
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
    /// The longest wait for a lock.
    pub lock_wait: Duration,
    /// The longest time for a transaction, waiting for its connection included.
    pub db_timeout: Duration,
    /// Where waits for a lock are recorded, had or not.
    pub lock_waits: LockWaits,
}

impl Context {
    /// Waits for a lock and records how long that took.
    async fn timed<F: Future>(&self, acquire: F) -> F::Output {
        let began = Instant::now();
        let acquired = acquire.await;
        self.lock_waits.record(began.elapsed());
        acquired
    }
}
