//! The application: what every request works with.

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;
use tracing::{debug, error, warn};
use zk_recipes::SessionConfig;

use crate::config::Config;
use crate::database;
use crate::error::{Failure, SetupError};
use crate::sessions::SessionPool;
use crate::stock::store::Store;
use crate::stock::{GoodsNo, Outcome};
use crate::strategy::registry::{Entry, STRATEGIES};
use crate::strategy::section::{Progression, bounded};
use crate::strategy::{Context, Deduction, DeductionStrategy, Ended, zookeeper};
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
        let session_config = SessionConfig {
            timeout: config.zk_session_timeout,
            connect_within: config.zk_session_timeout,
            ..SessionConfig::default()
        };
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
    /// leave a critical section half done. The answer comes `--db-timeout` after the call at the latest, unless the
    /// lock service is slower to confirm that no lock was had. What may take longer, keeping the lock until an unknown
    /// outcome is settled, goes on after the answer.
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
        let began = Instant::now();
        let app = Arc::clone(self);
        let (answer, answered) = oneshot::channel();
        let task = tokio::spawn(async move {
            let Ended { result, aftermath } = app.deduct_known(entry, deduction, began).await;
            app.metrics.outcomes(entry.name).record(&result, began.elapsed());
            log_failure(entry, deduction, &result);
            // Where nobody waits for the answer any more, sending it fails, and the rest is done all the same.
            if let Some(aftermath) = aftermath {
                answer.send(result).ok();
                aftermath.await;
                drop(slot);
            } else {
                // Freed before the answer, or a client that asks again at once could be refused for its own last visit.
                drop(slot);
                answer.send(result).ok();
            }
        });
        if let Ok(result) = answered.await {
            return result;
        }
        // Nothing aborts these tasks, so it panicked; the layer around the routes answers to that.
        resume_unwind(task.await.expect_err("BUG: a deduction ended without an answer").into_panic())
    }

    /// Refuses an SKU that does not exist before it costs a lock: a queue in ZooKeeper for every number that somebody
    /// can think of would grow without bound.
    async fn deduct_known(&self, entry: &Entry, deduction: Deduction, began: Instant) -> Ended<'_> {
        match self.is_known(deduction.goods_no, began).await {
            Ok(true) => {}
            Ok(false) => return Ok(Outcome::UnknownGoods).into(),
            Err(failure) => return Err(failure).into(),
        }
        self.strategies.get(entry.name).expect("BUG: a strategy was not made").deduct(deduction, began).await
    }

    /// Whether an SKU exists. It is looked up once, as goods are never deleted.
    async fn is_known(&self, goods_no: GoodsNo, began: Instant) -> Result<bool, Failure> {
        if self.goods_known.read().unwrap_or_else(PoisonError::into_inner).contains(&goods_no) {
            return Ok(true);
        }
        let (db_timeout, progression) = (self.config.db_timeout, Progression::default());
        let exists = bounded(began, db_timeout, &progression, self.store.goods(goods_no)).await?.is_some();
        if exists {
            self.goods_known.write().unwrap_or_else(PoisonError::into_inner).insert(goods_no);
        }
        Ok(exists)
    }

    /// Waits until no request is being worked on, deductions whose client is gone and commits that are not settled
    /// included. No slot is given out from then on.
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
