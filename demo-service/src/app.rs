//! The application: what every request works with.

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Instrument, Span, debug, error, warn, warn_span};

use crate::config::Config;
use crate::database;
use crate::error::{Failure, SetupError};
use crate::history::History;
use crate::purchase::Purchase;
use crate::sessions::{SessionPool, session_config};
use crate::stock::store::{Remembered, Store};
use crate::stock::{Goods, GoodsNo, Outcome};
use crate::strategy::registry::{Entry, STRATEGIES};
use crate::strategy::section::bounded;
use crate::strategy::{Call, Context, DeductionStrategy, Ended, zookeeper};
use crate::telemetry::{Levels, Metrics, cpu_time, warn_of_database_outage};

/// How long instances that start together wait for each other's migration.
pub(crate) const MIGRATE_WITHIN: Duration = Duration::from_secs(60);

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
    closing: CancellationToken,
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
    /// Makes sure of the schema, opens the ZooKeeper sessions and makes every strategy of the registry.
    ///
    /// # Errors
    /// A [`SetupError`] for whichever of the servers cannot be used.
    ///
    /// # Cancel safety
    /// Dropped, whatever was opened is closed.
    pub async fn open(config: Config) -> Result<Self, SetupError> {
        let options = database::options(&config.database_url)?;
        database::prepare(&options, MIGRATE_WITHIN).await?;
        let zookeeper = config.zookeeper.as_deref().unwrap_or_default();
        let sessions = SessionPool::open(zookeeper, session_config(&config)?, config.zk_sessions).await;
        let sessions = Arc::new(sessions.map_err(|error| SetupError::of_sessions(error, &config))?);
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
        let (goods_known, closing) = (RwLock::default(), CancellationToken::new());
        Ok(Self { config, store, sessions, metrics, history, strategies, goods_known, closing, slots })
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
        let client = self.closing.child_token();
        let _client = client.clone().drop_guard();
        let app = Arc::clone(self);
        let (answer, answered) = oneshot::channel();
        let goods_no = purchase.cart.numbers();
        let span = warn_span!("deduct", strategy = entry.name, ?goods_no, token = Empty, order_id = Empty);
        let deduction = async move {
            let call = Call { began, client: &client };
            let Ended { result, aftermath } = app.deduct_once(entry, &purchase, call).await;
            let result = result.map_err(|failure| app.explain(failure));
            app.metrics.outcomes(entry.name).record(&result, began.elapsed());
            log(&result);
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
        // A task begins outside of every span; this one belongs into the request's. Where warnings are logged they must say of
        // which deduction they are, hence the level.
        let task = tokio::spawn(deduction.instrument(span));
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
        let call = Call { began: Instant::now(), client: &self.closing };
        let looked = async {
            if !self.is_known(goods_no, call).await? {
                return Ok(None);
            }
            self.strategy(entry).look(goods_no, call).await
        };
        looked.await.map_err(|failure| self.explain(failure))
    }

    /// The figures of this instance, as text for Prometheus.
    pub fn render_metrics(&self) -> String {
        let in_flight = self.config.concurrency_max as usize - self.slots.available_permits();
        self.metrics.render(&Levels {
            traffic: self.sessions.traffic(),
            sessions: self.sessions.counts(),
            connections: self.store.pool_counts(),
            in_flight: u32::try_from(in_flight).unwrap_or(u32::MAX),
            history_dropped: self.history.dropped_total(),
            cpu: cpu_time(),
        })
    }

    /// Refuses, from now on and at once, whoever waits for a lock or a connection. What has begun is finished.
    pub fn stop_waiting(&self) {
        self.closing.cancel();
    }

    /// Those who wait are stopped in the same way, whether it is the client that leaves or the service.
    fn explain(&self, failure: Failure) -> Failure {
        match failure {
            Failure::ClientGone if self.closing.is_cancelled() => Failure::ShuttingDown,
            failure => failure,
        }
    }

    /// Refuses what needs no lock to be refused, or answered. SKUs that do not exist: a queue in ZooKeeper for every
    /// number that somebody can think of would grow without bound. And what was answered before.
    async fn deduct_once<'a>(&'a self, entry: &Entry, purchase: &'a Purchase, call: Call<'a>) -> Ended<'a> {
        if self.closing.is_cancelled() {
            return Err(Failure::ShuttingDown).into();
        }
        for line in purchase.cart.lines() {
            match self.is_known(line.goods_no, call).await {
                Ok(true) => {}
                Ok(false) => return Ok(Outcome::UnknownGoods(line.goods_no)).into(),
                Err(failure) => return Err(failure).into(),
            }
        }
        if let Some(key) = &purchase.key {
            let recall = bounded(call, self.config.db_timeout, self.store.recall(key, &purchase.cart));
            match call.wait(recall).await {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(_))) => return Ok(Outcome::Repeated).into(),
                Ok(Err(failure)) => return Err(failure).into(),
                Err(_) => return Err(Failure::ClientGone).into(),
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

/// Logs once, here, where it is known whole, what came of a deduction; the span says of which. What a busy or broken lock
/// service makes by the thousand is left to the metrics; the sessions log what happens to the service itself.
fn log(result: &Result<Outcome, Failure>) {
    let failure = match result {
        Ok(Outcome::Sold(order)) => {
            Span::current().record("order_id", order.order_id);
            debug!("sold");
            return;
        }
        Ok(outcome) => return debug!(?outcome, "not sold"),
        Err(failure) => failure,
    };
    match failure {
        Failure::LockTimeout { .. }
        | Failure::LockServiceUnavailable(_)
        | Failure::Overtaken { .. }
        | Failure::ClientGone
        | Failure::ShuttingDown => debug!(%failure, "a deduction was refused"),
        Failure::DatabaseUnavailable(_) => warn_of_database_outage(failure),
        Failure::HoldLost(_) | Failure::Fenced | Failure::OutcomeUnknown(_) => warn!(%failure, "a deduction failed"),
        Failure::Database(_) => error!(%failure, "a deduction failed"),
    }
}
