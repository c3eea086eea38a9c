//! The application: the state that the requests of one instance share, and the operations on it.

mod memory;
mod purchase;
mod reservations;
mod sales;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use batch_queue::Slots;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::{self, BoxStream};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use self::memory::Memory;
pub use self::purchase::PurchaseAnswer;
use crate::config::Config;
use crate::failure::{self, Failure};
use crate::instances::{Address, Batch, BatchReply, Instances, Told};
use crate::redis_store::RedisStore;
use crate::sessions::SessionPool;
use crate::setup_error::SetupError;
use crate::shared_reads::SharedReads;
use crate::store::ensemble::{self, Ensemble};
use crate::store::{KeyLook, Store, schema};
use crate::strategy::Strategy;
use crate::strategy::admission::Offer;
use crate::strategy::context::{Context, HandOver, Settings, Shared};
use crate::strategy::entry::{Entry, Promise};
use crate::strategy::owner::{self, until_reachable};
use crate::strategy::registry::{self, STRATEGIES};
use crate::telemetry::history::History;
use crate::telemetry::{Levels, Metrics, PoolMetrics};

/// The time limit for connecting and migrating at the start. It includes the wait for the migration of another
/// instance.
pub(crate) const MIGRATE_WITHIN: Duration = Duration::from_secs(60);

/// The longest and the shortest pause between two sweeps of expired keys.
const SWEEP_PAUSE_MAX: Duration = Duration::from_secs(60);
const SWEEP_PAUSE_MIN: Duration = Duration::from_millis(100);

/// The pause between two renderings of the metrics. One takes about 3 ms of a processor, which buyers need, too.
const RENDERING_PAUSE: Duration = Duration::from_millis(50);

/// One instance of the service.
pub struct App {
    /// Its configuration.
    pub config: Config,
    /// What it shares with its strategies.
    pub shared: Arc<Shared>,
    /// Its counters.
    pub metrics: Metrics,
    /// The strategies that requests may name.
    pub offer: Offer,
    strategies: HashMap<&'static str, Box<dyn Strategy>>,
    memory: Memory,
    slots: Slots,
    /// The slots of purchases that other instances have handed over.
    handed: Slots,
    probes: Arc<SharedReads<(), Option<String>>>,
    redis_probes: Arc<SharedReads<(), Option<String>>>,
    renderings: Arc<SharedReads<(), Bytes>>,
    next_rendering: Mutex<Instant>,
}

/// The right to work on one request. An instance has `--concurrency-max` slots.
#[derive(Clone)]
pub struct Slot {
    /// When the request arrived. The deadlines of the request count from then.
    arrived: Instant,
    _slot: batch_queue::Slot,
}

impl App {
    /// Migrates or checks the schema, opens the ZooKeeper sessions, connects to Redis if there is one, and makes every strategy of the registry.
    ///
    /// # Errors
    /// A [`SetupError`] that names the server that cannot be used.
    ///
    /// # Cancel safety
    /// Dropped, everything that was opened is closed.
    pub async fn open(config: Config) -> Result<Self, SetupError> {
        let options = schema::options(&config.database_url)?;
        schema::prepare(&options, MIGRATE_WITHIN).await?;
        let (sessions, ensemble) = open_sessions(&config, config.zk_sessions).await?;
        let database = ensemble::check(&options, &ensemble, MIGRATE_WITHIN).await?.into_boxed_str();
        let address = Arc::new(address(&config, &sessions, &database).await?);
        let redis = open_redis(&config, &database).await?;
        // An operator sees in pg_stat_activity which instance waits, and for what.
        let options = options.application_name(&format!("demo-service {}", config.instance));
        let store = Store::open(options, ensemble, config.db_connections, config.db_timeout);
        if let Err(failure) = store.connect_aside().await {
            warn!(%failure, "the connection that asks whether a commit is over could not be opened, trying again when it is needed");
        }
        let metrics = Metrics::new(registry::names());
        let shared = Arc::new(Shared {
            store,
            sessions,
            redis,
            history: Arc::new(History::new(config.history as usize)),
            instance: config.instance.as_str().into(),
            settings: Settings {
                business_time: config.business_time,
                lock_wait: config.lock_wait,
                db_timeout: config.db_timeout,
                lock_order: config.lock_order,
                permits: config.permits,
                redis_lock_ttl: config.redis_lock_ttl,
                reservation_ttl: config.reservation_ttl,
                key_lifetime: config.key_lifetime,
                attempts_max: config.attempts_max,
            },
            hand_over: HandOver { database, address, instances: Instances::default() },
            tickets: Notify::new(),
            reserved: Notify::new(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        });
        let context = |entry: &Entry| Context {
            strategy: entry.name,
            family: entry.family,
            keeps_limit: entry.promise != Promise::ExceedsLimit,
            metrics: metrics.locks(entry.name).clone(),
            outcomes: metrics.outcomes(entry.name).clone(),
            shared: Arc::clone(&shared),
        };
        let strategies = STRATEGIES.iter().map(|entry| (entry.name, entry.build(context(entry)))).collect();
        let offer = Offer {
            strategies: config.offered().collect(),
            default: config.strategy,
            has_redis: config.redis.is_some(),
        };
        let slots = Slots::new(config.concurrency_max);
        let handed = Slots::new(config.concurrency_max);
        Ok(Self {
            config,
            shared,
            metrics,
            offer,
            strategies,
            memory: Memory::default(),
            slots,
            handed,
            probes: Arc::default(),
            redis_probes: Arc::default(),
            renderings: Arc::default(),
            next_rendering: Mutex::new(Instant::now()),
        })
    }

    /// Returns a slot for a request that arrived at `arrived`, or `None` if no slot is free.
    pub fn try_slot(&self, arrived: Instant) -> Option<Slot> {
        Some(Slot { arrived, _slot: self.slots.try_take()? })
    }

    /// Decides a batch that another instance has handed over, as far as `--concurrency-max` allows. Returns the reply for each
    /// purchase when it is decided, or `None` if nothing of the batch is. Dropped, the stream gives up as
    /// [`Strategy::take_over`] says.
    pub fn take_over(&self, mut batch: Batch) -> Option<BoxStream<'static, BatchReply>> {
        let count = batch.purchases.len();
        let mut slots = self.handed.try_take_up_to(count)?;
        let taken = slots.count();
        batch.purchases.truncate(taken);
        let replies = self.strategy(registry::find(owner::NAME)?).take_over(batch)?;
        // Each reply frees a slot. A dropped stream frees those that are left.
        let replies = replies.inspect(move |_| slots.free_one());
        let too_many = (taken..count).map(|index| BatchReply { index, told: Told::Elsewhere });
        // The refusals come first. Behind the other replies, they would wait for the slowest decision of the batch.
        Some(stream::iter(too_many).chain(replies).boxed())
    }

    /// Runs for ever: deletes expired idempotency keys, ends reservations that are past their time, keeps the memory of the metric
    /// samples bounded, and does what strategies do beside the requests.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn upkeep(&self) {
        let strategies = join_all(self.strategies.values().map(|strategy| strategy.upkeep()));
        tokio::join!(self.metrics.upkeep(), self.sweep_keys(), self.sweep_reservations(), strategies);
    }

    async fn sweep_keys(&self) {
        let pause = (self.config.key_lifetime / 4).clamp(SWEEP_PAUSE_MIN, SWEEP_PAUSE_MAX);
        let mut last = None;
        loop {
            if let Err(failure) = self.sweep(&mut last).await {
                debug!(%failure, "expired keys could not be deleted, trying again");
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Deletes the keys that have expired. `last` is the last look at the keys, and when it was answered.
    async fn sweep(&self, last: &mut Option<(KeyLook, Instant)>) -> Result<(), Failure> {
        let before = last.map(|(look, answered)| (look, answered.elapsed()));
        let look = self.shared.store.look_at_keys(before, self.config.key_lifetime).await?;
        // Noted before the deletions, which may fail: an earlier look would add no time to the clock at the next step.
        *last = Some((look, Instant::now()));
        if let Some(last_key) = look.expired {
            while self.shared.store.forget_keys(last_key).await? {}
        }
        Ok(())
    }

    /// Takes a lock that protects nothing, and gives it back. Returns what went wrong. Callers that come during a probe share
    /// the next one.
    ///
    /// # Cancel safety
    /// Dropped, the lock is released in the background.
    pub async fn probe_locks(&self) -> Option<String> {
        let probe = || {
            let shared = Arc::clone(&self.shared);
            async move { shared.sessions.probe().await.err().map(|error| program::chain(&error)) }
        };
        self.probes.read((), probe).await
    }

    /// Takes a lock of Redis that protects nothing, and gives it back, if the instance has a Redis. Returns what went wrong. Callers
    /// that come during a probe share the next one.
    ///
    /// # Cancel safety
    /// Dropped, the lock ends after a few seconds.
    pub async fn probe_redis(&self) -> Option<String> {
        let redis = self.shared.redis.clone()?;
        let probe = || async move { redis.probe().await.err().map(|trouble| program::chain(&trouble)) };
        self.redis_probes.read((), probe).await
    }

    /// Returns the [metrics](Self::render_metrics), rendered after the call. Callers that come during a rendering
    /// share the next one, which starts 50 ms later.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn metrics_text(self: &Arc<Self>) -> Bytes {
        let render = || {
            let app = Arc::clone(self);
            async move {
                let earliest = *app.next_rendering.lock();
                sleep_until(earliest).await;
                let text = app.render_metrics().into();
                *app.next_rendering.lock() = Instant::now() + RENDERING_PAUSE;
                text
            }
        };
        self.renderings.read((), render).await
    }

    /// Returns the metrics of this instance as text for Prometheus.
    pub fn render_metrics(&self) -> String {
        let (in_use, idle) = self.shared.store.pool_counts();
        self.metrics.render(&Levels {
            traffic: self.shared.sessions.traffic(),
            redis_commands: self.shared.redis.as_ref().map_or(0, RedisStore::commands_total),
            sessions: self.shared.sessions.counts(),
            pool: PoolMetrics { in_use, idle },
            in_flight: self.slots.taken(),
            history_dropped: self.shared.history.dropped_total(),
        })
    }

    /// Refuses from now on, at once, every request that waits for a lock or a connection. All other purchases run to
    /// their end.
    pub fn stop_waiting(&self) {
        self.shared.closing.cancel();
    }

    /// Returns whether it was told to [stop waiting](Self::stop_waiting).
    pub fn is_stopping(&self) -> bool {
        self.shared.closing.is_cancelled()
    }

    /// Waits until no purchase is in progress. A purchase is in progress, too, if its client hung up or if its commit
    /// was not answered.
    ///
    /// # Cancel safety
    /// Dropped, only the waiting ends.
    pub async fn drained(&self) {
        // `wait` ends only on a closed tracker. A closed tracker still takes in tasks, and waits for them, too.
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// Renames `CLIENT_GONE` to `SHUTTING_DOWN` if the service stops, because a stop cancels waits in the same way.
    fn explain(&self, failure: Failure) -> Failure {
        if failure.is(&failure::CLIENT_GONE) && self.is_stopping() { shutting_down() } else { failure }
    }

    fn strategy(&self, entry: &Entry) -> &dyn Strategy {
        &**self.strategies.get(entry.name).expect("BUG: a strategy was not made")
    }
}

impl Drop for App {
    /// Ends the elections in which the instance takes part, if it was not told to stop.
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

/// Opens sessions with ZooKeeper, all on one ensemble. Returns them with the ensemble.
pub(crate) async fn open_sessions(config: &Config, count: u16) -> Result<(SessionPool, Ensemble), SetupError> {
    let servers = config.zookeeper.as_deref().unwrap_or_default();
    let sessions = SessionPool::open(servers, config.session_config()?, count).await;
    let sessions = sessions.map_err(|error| SetupError::of_sessions(error, count, config.zookeeper_ca.as_deref()))?;
    sessions.probe().await.map_err(SetupError::LockRefused)?;
    let ensemble = Ensemble { id: sessions.ensemble().to_string(), servers: servers.to_owned() };
    Ok((sessions, ensemble))
}

/// Connects to Redis, if the instance has one.
async fn open_redis(config: &Config, database: &str) -> Result<Option<RedisStore>, SetupError> {
    let Some(server) = config.redis_server()? else { return Ok(None) };
    let address = server.address();
    let opened = RedisStore::open(server, database).await;
    opened.map(Some).map_err(|source| SetupError::Redis { address, source })
}

/// Makes the address of this process, if the other instances can hand over to it.
async fn address(config: &Config, sessions: &SessionPool, database: &str) -> Result<Address, SetupError> {
    let reached_at = config.instances_address.clone().unwrap_or_else(|| config.instances_listen.to_string());
    let address = Address::of_this_process(reached_at);
    if config.hands_over() {
        until_reachable(sessions, database, &address, config.zk_session_timeout).await?;
    }
    Ok(address)
}

fn shutting_down() -> Failure {
    let detail = "this instance was told to stop, another one may sell; nothing was written";
    Failure::new(&failure::SHUTTING_DOWN, detail)
}
