//! Strategies: ways to decide a purchase. [`registry`] lists them. Each kind of technique has a folder, and each
//! technique a file in it.
//!
//! A purchase comes in as a [`Call`] and leaves as [`Decided`]. Strategies of one family exclude each other.
//! [`admission`] lets only strategies of the sale's family serve a sale.

pub mod admission;
pub mod entry;
pub mod registry;

pub(crate) mod owner;

mod attempt;
mod settle;

mod batch;
mod lock;
mod row;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream::BoxStream;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::failure::{self, Failure};
use crate::peers::{Address, Batch, Line, Peers};
use crate::sale::{BusinessTime, Goods, GoodsNo, LockOrder, Order, Purchase};
use crate::sessions::SessionPool;
use crate::store::{Store, WrittenOrder};
use crate::telemetry::LockMetrics;
use crate::telemetry::history::History;

/// The result of a purchase. Unless it failed with [`OUTCOME_UNKNOWN`](failure::OUTCOME_UNKNOWN), a failure wrote
/// nothing.
pub type Decision = Result<Order, Failure>;

/// A boxed future. Strategies are chosen at run time, so the types of their futures differ.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A way to decide purchases.
pub trait Strategy: Send + Sync {
    /// Decides a purchase: takes the units and writes the order in one transaction, or does neither.
    ///
    /// # Cancel safety
    /// Dropped, the purchase may have been committed or not, and any lock is released. Run it in a task of its own.
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>>;

    /// Looks at the stock of a SKU, or finds that there is no such SKU. Most strategies look without a lock.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    fn look<'a>(&'a self, goods_no: GoodsNo, call: &'a Call) -> Boxed<'a, Result<Option<Goods>, Failure>> {
        Box::pin(call.in_time(self.context().store.look(goods_no)))
    }

    /// Takes in a batch that another instance has handed over. Returns the answer to each purchase when it is decided, or
    /// `None` if nothing of the batch is.
    ///
    /// # Cancel safety
    /// If the stream is dropped, buyers whose commit was not sent give up.
    fn take_over(&self, _batch: Batch) -> Option<BoxStream<'static, Line>> {
        None
    }

    /// What the strategy works with.
    fn context(&self) -> &Context;
}

/// The decision of a purchase, and the work that is left after the answer.
#[must_use]
pub struct Decided<'a> {
    /// The answer.
    pub decision: Decision,
    /// Releases the lock. If the outcome is unknown, first waits until the commit is over. Dropped, the lock is
    /// released at once, possibly while a commit is in flight.
    pub release: Option<Boxed<'a, ()>>,
}

impl From<Decision> for Decided<'_> {
    /// A decision without work left after the answer.
    fn from(decision: Decision) -> Self {
        Self { decision, release: None }
    }
}

/// One request that a strategy serves.
pub struct Call {
    /// What the buyer asks for.
    pub purchase: Purchase,
    /// When the request arrived. The deadlines for the lock and for the database count from then.
    pub began: Instant,
    /// Cancelled when the client hangs up or the service shuts down. That ends waits. All other work runs to its end.
    pub client: CancellationToken,
    /// The deadline for the database.
    pub until: Instant,
    /// The sales that the purchase was admitted to. It must not write to any other.
    sales: Mutex<Vec<(GoodsNo, i64)>>,
    /// Whether the purchase has decided by the stock of `sales`. Then it must not go on in other sales.
    has_decided: AtomicBool,
    /// The commit that was sent and not answered. This field outlives the strategy's future. So a deadline or a lost
    /// lock that stops the future can tell whether the outcome is unknown. A batch shares it, because it commits for its
    /// buyers.
    committing: Arc<Mutex<Option<Committing>>>,
}

/// A commit that was sent.
#[derive(Debug, Clone)]
enum Committing {
    /// The COMMIT of a transaction that wrote this order.
    Order(WrittenOrder),
    /// A statement that commits by itself. The number of its order comes with its answer.
    Statement,
    /// Another instance decides the purchase, and commits it or not.
    Elsewhere,
}

impl Committing {
    /// The failure of a purchase of which nothing more is heard.
    fn unknown(&self) -> Failure {
        match self {
            Self::Order(order) => Failure::outcome_unknown(Some(order.order_id)),
            Self::Statement => Failure::outcome_unknown(None),
            Self::Elsewhere => Failure::outcome_unknown_elsewhere(),
        }
    }
}

impl Call {
    /// Makes a call for a request that arrived at `began`. Its deadline is `within` after that.
    pub fn new(purchase: Purchase, began: Instant, within: Duration, client: CancellationToken) -> Self {
        let until = began + within;
        let (sales, has_decided, committing) = (Mutex::default(), AtomicBool::new(false), Arc::default());
        Self { purchase, began, client, until, sales, has_decided, committing }
    }

    /// Admits the purchase to these sales, and to no others.
    pub fn admit(&self, sales: &[Goods]) {
        *self.sales.lock() = sales.iter().map(|goods| (goods.goods_no, goods.sale)).collect();
    }

    /// Returns the sale of a SKU to which the purchase was admitted.
    fn sale_of(&self, goods_no: GoodsNo) -> i64 {
        let sales = self.sales.lock();
        sales.iter().find(|(of, _)| *of == goods_no).map(|(_, sale)| *sale).expect("BUG: a purchase was not admitted")
    }

    /// Returns whether the purchase has decided by the stock of the sales to which it was admitted.
    fn has_decided(&self) -> bool {
        self.has_decided.load(Ordering::Relaxed)
    }

    /// Waits for `waited`, until the client hangs up or the service shuts down. If that has already happened,
    /// `waited` is not polled.
    ///
    /// # Errors
    /// [`CLIENT_GONE`](failure::CLIENT_GONE).
    ///
    /// # Cancel safety
    /// As `waited`.
    pub async fn wait<F: Future>(&self, waited: F) -> Result<F::Output, Failure> {
        if self.client.is_cancelled() {
            return Err(Failure::client_gone());
        }
        tokio::select! {
            biased;
            had = waited => Ok(had),
            () = self.client.cancelled() => Err(Failure::client_gone()),
        }
    }

    /// Runs a part of the call until the deadline for the database. The server limits the time of each statement,
    /// too. This deadline also holds if the server does not answer at all. Box a part with many statements: its
    /// future is large, and each wrapper around it would take as much of the stack again.
    ///
    /// # Errors
    /// Those of the part. At the deadline, [`OUTCOME_UNKNOWN`](failure::OUTCOME_UNKNOWN) if a commit is in flight,
    /// and [`DATABASE_UNAVAILABLE`](failure::DATABASE_UNAVAILABLE) otherwise.
    ///
    /// # Cancel safety
    /// Dropped, the part is dropped.
    pub async fn in_time<T>(&self, part: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        match timeout_at(self.until, part).await {
            Ok(result) => result,
            Err(_) => Err(self.stopped(Failure::database_unavailable())),
        }
    }

    /// Runs `decision` until the deadline for the database. No work is left after the answer.
    fn decide<'a>(&'a self, decision: impl Future<Output = Decision> + Send + 'a) -> Boxed<'a, Decided<'a>> {
        let decision: Boxed<'a, Decision> = Box::pin(decision);
        Box::pin(async move { self.in_time(decision).await.into() })
    }

    /// Returns whether a COMMIT was sent and not answered, or the purchase was handed over and not answered.
    pub fn is_committing(&self) -> bool {
        self.committing.lock().is_some()
    }

    /// Returns the failure of a call that was stopped for `reason`. If a commit is in flight, the outcome is unknown.
    fn stopped(&self, reason: Failure) -> Failure {
        match &*self.committing.lock() {
            Some(committing) => committing.unknown().caused_by(reason),
            None => reason,
        }
    }
}

/// The settings and services that a strategy works with.
#[derive(Clone)]
pub struct Context {
    /// The name of the strategy, for orders, metrics and the history.
    pub strategy: &'static str,
    /// The family of the strategy. The strategy writes only sales that this family guards.
    pub family: &'static str,
    /// The database.
    pub store: Store,
    /// The identity of the database.
    pub database: Arc<str>,
    /// The ZooKeeper sessions.
    pub sessions: Arc<SessionPool>,
    /// The history, in which critical sections are recorded.
    pub history: Arc<History>,
    /// The name of the instance, for its orders.
    pub instance: Arc<str>,
    /// The simulated business time of a purchase.
    pub business_time: BusinessTime,
    /// The deadline for the lock, counted from the arrival of the request.
    pub lock_wait: Duration,
    /// The deadline for the database, counted from the arrival of the request.
    pub db_timeout: Duration,
    /// The order in which the locks of a cart are taken.
    pub lock_order: LockOrder,
    /// Permits of the semaphore of a SKU.
    pub permits: u32,
    /// Upper bound of the attempts of a purchase that other purchases overtake.
    pub attempts_max: u32,
    /// How the other instances reach this one.
    pub address: Arc<Address>,
    /// The connections to the other instances.
    pub peers: Peers,
    /// The metrics of the waits and holds.
    pub metrics: LockMetrics,
    /// The tasks that a shutdown waits for.
    pub tasks: TaskTracker,
    /// Cancelled when the service shuts down. That ends waits.
    pub closing: CancellationToken,
}

impl Context {
    /// Returns the deadline for the lock.
    fn lock_until(&self, call: &Call) -> Instant {
        call.began + self.lock_wait
    }

    /// Returns the time that is left until the deadline for the lock.
    fn lock_wait_left(&self, call: &Call) -> Duration {
        self.lock_until(call).saturating_duration_since(Instant::now())
    }

    /// Waits until a buyer gives up: hangs up, or has waited for the lock until `until`. Returns why.
    async fn leaving(&self, call: &Call, until: Instant) -> Failure {
        tokio::select! {
            biased;
            () = call.client.cancelled() => Failure::client_gone(),
            () = sleep_until(until) => {
                if until < call.until { self.lock_timeout() } else { Failure::database_unavailable() }
            }
        }
    }

    fn lock_timeout(&self) -> Failure {
        let detail =
            format!("the lock was not acquired within {:?} of the request; nothing was written", self.lock_wait);
        Failure::new(&failure::LOCK_TIMEOUT, detail)
    }
}
