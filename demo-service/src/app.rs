//! The application: what every request works with.

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, error, warn};
use zk_recipes::SessionConfig;

use crate::config::Config;
use crate::database;
use crate::error::{Failure, Progress, SetupError};
use crate::sessions::SessionPool;
use crate::stock::store::Store;
use crate::stock::{GoodsNo, Outcome};
use crate::strategy::registry::{Entry, STRATEGIES};
use crate::strategy::{Context, Deduction, DeductionStrategy, zookeeper};
use crate::telemetry::Metrics;

/// How long instances that start together wait for each other's migration.
const MIGRATE_WITHIN: Duration = Duration::from_secs(60);

/// One instance of the service.
pub struct App {
    /// What it was told to do.
    pub config: Config,
    /// The database.
    pub store: Store,
    /// The ZooKeeper sessions.
    pub sessions: Arc<SessionPool>,
    /// What it has counted.
    pub metrics: Metrics,
    strategies: HashMap<&'static str, Box<dyn DeductionStrategy>>,
    goods_known: RwLock<HashSet<GoodsNo>>,
    slots: Arc<Semaphore>,
}

/// The right to work on one request. As many exist as the service takes requests at once; a deduction keeps its own
/// until it has ended, also when the client is long gone.
#[derive(Clone)]
pub struct Slot {
    _permit: Arc<OwnedSemaphorePermit>,
}

impl App {
    /// Migrates the database, opens the ZooKeeper sessions and makes every strategy of the registry.
    ///
    /// # Errors
    /// A [`SetupError`] for whichever of the servers cannot be used.
    ///
    /// # Cancel safety
    /// Dropped, whatever was opened is closed.
    pub async fn open(config: Config) -> Result<Self, SetupError> {
        let options = database::options(&config.database_url)?;
        database::migrate(&options, MIGRATE_WITHIN).await?;
        let session_config =
            SessionConfig { timeout: config.zk_session_timeout, connect_within: config.zk_session_timeout };
        let sessions = SessionPool::open(&config.zookeeper, session_config, config.zk_sessions).await;
        let sessions = Arc::new(sessions.map_err(SetupError::ZooKeeper)?);
        zookeeper::probe(&sessions).await.map_err(SetupError::LockRefused)?;
        let store = Store::open(options, config.db_connections, config.db_timeout);
        let metrics = Metrics::new();
        let context = |entry: &Entry| Context {
            store: store.clone(),
            sessions: Arc::clone(&sessions),
            instance: config.instance.as_str().into(),
            hold: config.hold,
            lock_wait: config.lock_wait,
            db_timeout: config.db_timeout,
            lock_waits: metrics.lock_waits(entry.name).clone(),
        };
        let strategies = STRATEGIES.iter().map(|entry| (entry.name, entry.build(context(entry)))).collect();
        let slots = Arc::new(Semaphore::new(config.concurrency_max as usize));
        Ok(Self { config, store, sessions, metrics, strategies, goods_known: RwLock::default(), slots })
    }

    /// A slot, or `None` when the service is at its limit.
    pub fn try_slot(&self) -> Option<Slot> {
        let permit = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        Some(Slot { _permit: Arc::new(permit) })
    }

    /// Deducts by a strategy, in a task of its own: a client that goes away, or an answer that is given up, must not
    /// leave a critical section half done.
    ///
    /// # Errors
    /// A [`Failure`]; unless it is [`Failure::OutcomeUnknown`], nothing was written.
    ///
    /// # Panics
    /// When the deduction did.
    ///
    /// # Cancel safety
    /// Dropped, the deduction goes on to its end, and keeps its slot until then.
    pub async fn deduct(
        self: &Arc<Self>,
        entry: &'static Entry,
        deduction: Deduction,
        slot: Slot,
    ) -> Result<Outcome, Failure> {
        let app = Arc::clone(self);
        let task = tokio::spawn(async move {
            let began = Instant::now();
            let result = app.deduct_known(entry, deduction).await;
            app.metrics.outcomes(entry.name).record(&result, began.elapsed());
            log_failure(entry, deduction, &result);
            drop(slot);
            result
        });
        match task.await {
            Ok(result) => result,
            // Nothing aborts these tasks, so it panicked; the layer around the routes answers to that.
            Err(stopped) => resume_unwind(stopped.into_panic()),
        }
    }

    /// Refuses an SKU that does not exist before it costs a lock: a queue in ZooKeeper for every number that somebody
    /// can think of would grow without bound.
    async fn deduct_known(&self, entry: &Entry, deduction: Deduction) -> Result<Outcome, Failure> {
        if !self.is_known(deduction.goods_no).await? {
            return Ok(Outcome::UnknownGoods);
        }
        self.strategies.get(entry.name).expect("BUG: a strategy was not made").deduct(deduction).await
    }

    /// Whether an SKU exists. It is looked up once, as goods are never deleted.
    async fn is_known(&self, goods_no: GoodsNo) -> Result<bool, Failure> {
        if self.goods_known.read().unwrap_or_else(PoisonError::into_inner).contains(&goods_no) {
            return Ok(true);
        }
        let goods = self.store.goods(goods_no).await;
        let exists = goods.map_err(|error| Failure::of_database(error, Progress::Open))?.is_some();
        if exists {
            self.goods_known.write().unwrap_or_else(PoisonError::into_inner).insert(goods_no);
        }
        Ok(exists)
    }

    /// Waits until no request is being worked on, deductions whose client is gone included. No slot is given out from
    /// then on.
    ///
    /// # Cancel safety
    /// Dropped, only the waiting ends.
    pub async fn drained(&self) {
        if let Ok(all) = self.slots.acquire_many(self.config.concurrency_max).await {
            all.forget();
        }
    }
}

/// Logs a failure once, here, where it is known whole. Those that a busy or broken lock service makes by the thousand
/// are left to the metrics; the sessions log what happens to the service itself.
fn log_failure(entry: &Entry, deduction: Deduction, result: &Result<Outcome, Failure>) {
    let Err(failure) = result else { return };
    let (strategy, goods_no) = (entry.name, deduction.goods_no.get());
    match failure {
        Failure::LockTimeout { .. } | Failure::LockServiceUnavailable(_) => {
            debug!(strategy, goods_no, %failure, "a deduction was refused");
        }
        Failure::HoldLost(_) | Failure::DatabaseUnavailable(_) | Failure::OutcomeUnknown(_) => {
            warn!(strategy, goods_no, %failure, "a deduction failed");
        }
        Failure::Database(_) => error!(strategy, goods_no, %failure, "a deduction failed"),
    }
}
