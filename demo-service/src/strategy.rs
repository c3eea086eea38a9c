//! Strategies: the same deduction, guarded in different ways.
//!
//! [`registry`] lists them. Each is a way to write ([`access::Access`]) and what is locked around it: nothing
//! ([`unlocked`]), a mutex of the process ([`local_mutex`]) or locks in ZooKeeper ([`zookeeper`]).

pub mod access;
pub mod registry;
pub mod section;

pub mod local_mutex;
pub mod unlocked;
pub mod zookeeper;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::registry::Entry;
use crate::error::Failure;
use crate::history::History;
use crate::hold::Hold;
use crate::purchase::{LockOrder, Purchase};
use crate::sessions::SessionPool;
use crate::stock::store::Store;
use crate::stock::{Goods, GoodsNo, Outcome};
use crate::telemetry::LockMetrics;

/// The future of one deduction, boxed because strategies are chosen at run time.
pub type Deducting<'a> = Pin<Box<dyn Future<Output = Ended<'a>> + Send + 'a>>;

/// The future of one look at the stock.
pub type Looking<'a> = Pin<Box<dyn Future<Output = Result<Option<Goods>, Failure>> + Send + 'a>>;

/// What a deduction leaves to be done when the buyer can already be answered.
pub type Aftermath<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// How a deduction ended.
#[must_use]
pub struct Ended<'a> {
    /// What the buyer is told. A [`Failure`] other than [`Failure::OutcomeUnknown`] means that nothing was sold.
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
    /// Takes the units and writes the order, in one transaction, or does neither.
    ///
    /// # Cancel safety
    /// Dropped, the deduction may have been committed or not, and any lock is released. Run it in a task of its own.
    fn deduct<'a>(&'a self, purchase: &'a Purchase, call: Call<'a>) -> Deducting<'a>;

    /// Looks at the stock of a SKU, or finds that there is no such SKU.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    fn look<'a>(&'a self, goods_no: GoodsNo, call: Call<'a>) -> Looking<'a>;
}

/// One request, as far as a strategy is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// When it began. The deadlines for the lock and for the database count from here.
    pub began: Instant,
    /// Cancelled when the client has gone, or the service is shutting down, which for those who wait is the same. Who
    /// only waits then stops; what has been begun is finished.
    pub client: &'a CancellationToken,
}

impl Call<'_> {
    /// Waits for something, for as long as the client does.
    ///
    /// # Errors
    /// [`ClientGone`].
    ///
    /// # Cancel safety
    /// That of what is waited for.
    pub async fn wait<F: Future>(&self, waited: F) -> Result<F::Output, ClientGone> {
        tokio::select! {
            biased;
            had = waited => Ok(had),
            () = self.client.cancelled() => Err(ClientGone),
        }
    }
}

/// Nobody waits for the answer any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientGone;

/// What a strategy works with.
#[derive(Clone)]
pub struct Context {
    /// Its row of the registry.
    pub entry: &'static Entry,
    /// The database.
    pub store: Store,
    /// The ZooKeeper sessions.
    pub sessions: Arc<SessionPool>,
    /// Where critical sections are noted.
    pub history: Arc<History>,
    /// What orders name as the instance.
    pub instance: Arc<str>,
    /// The simulated business time.
    pub hold: Hold,
    /// How long after its beginning a deduction must have its lock.
    pub lock_wait: Duration,
    /// How long after its beginning a deduction must be over.
    pub db_timeout: Duration,
    /// The order in which the locks of a cart are taken.
    pub lock_order: LockOrder,
    /// How many deductions of one SKU a semaphore lets through at a time.
    pub permits: u32,
    /// How often a deduction that was overtaken is tried in all.
    pub attempts_max: u32,
    /// Where waits and holds are recorded.
    pub metrics: LockMetrics,
}

impl Context {
    /// What is left of the time for the lock.
    fn lock_wait_left(&self, call: Call<'_>) -> Duration {
        self.lock_wait.saturating_sub(call.began.elapsed())
    }

    fn lock_timeout(&self) -> Failure {
        Failure::LockTimeout { waited: self.lock_wait }
    }

    /// Looks at the stock without any lock, until the deadline for the database.
    async fn look(&self, goods_no: GoodsNo, call: Call<'_>) -> Result<Option<Goods>, Failure> {
        section::bounded(call, self.db_timeout, self.store.look(goods_no)).await
    }
}
