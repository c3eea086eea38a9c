//! The application: what every request works with.

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, error, warn};
use zk_recipes::SessionConfig;

use crate::config::Config;
use crate::database;
use crate::error::{Failure, SetupError};
use crate::history::History;
use crate::purchase::Purchase;
use crate::sessions::SessionPool;
use crate::stock::store::{Remembered, Store};
use crate::stock::{Goods, GoodsNo, Outcome};
use crate::strategy::registry::{Entry, STRATEGIES};
use crate::strategy::section::bounded;
use crate::strategy::{Call, Context, DeductionStrategy, Ended, zookeeper};
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
    /// Who was in which critical section when.
    pub history: Arc<History>,
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

/// The answer to a purchase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What came of it.
    pub outcome: Outcome,
    /// Whether that was the answer to an earlier request with the same key.
    pub is_replay: bool,
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
        let (metrics, history) = (Metrics::new(), Arc::new(History::new(config.history as usize)));
        let context = |entry: &'static Entry| Context {
            entry,
            store: store.clone(),
            sessions: Arc::clone(&sessions),
            history: Arc::clone(&history),
            instance: config.instance.as_str().into(),
            hold: config.hold,
            lock_wait: config.lock_wait,
            db_timeout: config.db_timeout,
            lock_order: config.lock_order,
            permits: config.permits,
            attempts_max: config.attempts_max,
            metrics: metrics.locks(entry.name).clone(),
        };
        let strategies = STRATEGIES.iter().map(|entry| (entry.name, entry.build(context(entry)))).collect();
        let slots = Arc::new(Semaphore::new(config.concurrency_max as usize));
        Ok(Self { config, store, sessions, metrics, history, strategies, goods_known: RwLock::default(), slots })
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
    /// A [`Failure`]; unless it is [`Failure::OutcomeUnknown`], nothing was sold.
    ///
    /// # Panics
    /// When the deduction did.
    ///
    /// # Cancel safety
    /// Dropped, a deduction that waits for a lock or a connection gives up. One that has what it waited for goes on to
    /// its end, and keeps its slot until then.
    pub async fn deduct(
        self: &Arc<Self>,
        entry: &'static Entry,
        purchase: Purchase,
        slot: Slot,
    ) -> Result<Answer, Failure> {
        let began = Instant::now();
        let client = CancellationToken::new();
        let _client = client.clone().drop_guard();
        let app = Arc::clone(self);
        let (answer, answered) = oneshot::channel();
        let deduction = async move {
            let call = Call { began, client: &client };
            let Ended { result, aftermath } = app.deduct_once(entry, &purchase, call).await;
            app.metrics.outcomes(entry.name).record(&result, began.elapsed());
            log_failure(entry, &purchase, &result);
            let result = match result {
                Ok(Outcome::Repeated) => app.recall(&purchase, call).await,
                result => result.map(|outcome| Answer { outcome, is_replay: false }),
            };
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
        };
        // What it logs names the request.
        let task = tokio::spawn(deduction.in_current_span());
        if let Ok(result) = answered.await {
            return result;
        }
        // Nothing aborts these tasks, so it panicked; the layer around the routes answers to that.
        resume_unwind(task.await.expect_err("BUG: a deduction ended without an answer").into_panic())
    }

    /// Looks at the stock of a SKU as a strategy does.
    ///
    /// # Errors
    /// A [`Failure`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn look(&self, entry: &Entry, goods_no: GoodsNo) -> Result<Option<Goods>, Failure> {
        let client = CancellationToken::new();
        let call = Call { began: Instant::now(), client: &client };
        if !self.is_known(goods_no, call).await? {
            return Ok(None);
        }
        self.strategy(entry).look(goods_no, call).await
    }

    /// Refuses what needs no lock to be refused, or answered. SKUs that do not exist: a queue in ZooKeeper for every
    /// number that somebody can think of would grow without bound. And what was answered before.
    async fn deduct_once<'a>(&'a self, entry: &Entry, purchase: &'a Purchase, call: Call<'a>) -> Ended<'a> {
        for line in purchase.cart.lines() {
            match self.is_known(line.goods_no, call).await {
                Ok(true) => {}
                Ok(false) => return Ok(Outcome::UnknownGoods(line.goods_no)).into(),
                Err(failure) => return Err(failure).into(),
            }
        }
        if let Some(key) = &purchase.key {
            match bounded(call, self.config.db_timeout, self.store.recall(key, &purchase.cart)).await {
                Ok(None) => {}
                Ok(Some(_)) => return Ok(Outcome::Repeated).into(),
                Err(failure) => return Err(failure).into(),
            }
        }
        self.strategy(entry).deduct(purchase, call).await
    }

    /// The answer that was given to the first request with the key of this one.
    async fn recall(&self, purchase: &Purchase, call: Call<'_>) -> Result<Answer, Failure> {
        let key = purchase.key.as_ref().expect("BUG: a purchase without a key was repeated");
        let remembered = bounded(call, self.config.db_timeout, self.store.recall(key, &purchase.cart)).await?;
        let outcome = match remembered {
            Some(Remembered::Order(order)) => Outcome::Sold(order),
            Some(Remembered::SoldOut(goods_no)) => Outcome::SoldOut(goods_no),
            Some(Remembered::OtherCart) => Outcome::KeyReused,
            None => {
                return Err(Failure::DatabaseUnavailable("the answer to an earlier request is not there".to_owned()));
            }
        };
        Ok(Answer { outcome, is_replay: true })
    }

    fn strategy(&self, entry: &Entry) -> &dyn DeductionStrategy {
        &**self.strategies.get(entry.name).expect("BUG: a strategy was not made")
    }

    /// Whether an SKU exists. It is looked up once, as goods are never deleted.
    async fn is_known(&self, goods_no: GoodsNo, call: Call<'_>) -> Result<bool, Failure> {
        if self.goods_known.read().contains(&goods_no) {
            return Ok(true);
        }
        let goods = call.wait(bounded(call, self.config.db_timeout, self.store.goods(goods_no))).await;
        let exists = goods.map_err(|_| Failure::ClientGone)??.is_some();
        if exists {
            self.goods_known.write().insert(goods_no);
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
fn log_failure(entry: &Entry, purchase: &Purchase, result: &Result<Outcome, Failure>) {
    let Err(failure) = result else { return };
    let strategy = entry.name;
    let goods_no: Vec<_> = purchase.cart.lines().iter().map(|line| line.goods_no.get()).collect();
    match failure {
        Failure::LockTimeout { .. }
        | Failure::LockServiceUnavailable(_)
        | Failure::Overtaken { .. }
        | Failure::ClientGone => {
            debug!(strategy, ?goods_no, %failure, "a deduction was refused");
        }
        Failure::HoldLost(_) | Failure::Fenced | Failure::DatabaseUnavailable(_) | Failure::OutcomeUnknown(_) => {
            warn!(strategy, ?goods_no, %failure, "a deduction failed");
        }
        Failure::Database(_) => error!(strategy, ?goods_no, %failure, "a deduction failed"),
    }
}
