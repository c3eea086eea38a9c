//! The application: what every request works with, and the way of a purchase from its request to its answer.

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::field::Empty;
use tracing::{Instrument, Span, debug, warn_span};

use crate::config::Config;
use crate::failure::{self, Failure};
use crate::sale::{Cart, Goods, GoodsNo, NewStock, Order, Purchase, Quantity};
use crate::sessions::SessionPool;
use crate::setup_error::SetupError;
use crate::store::{Remembered, Store, schema};
use crate::strategy::admission::{Admission, Offer};
use crate::strategy::registry::{self, Entry, STRATEGIES};
use crate::strategy::{Call, Context, Decided, Strategy, probe};
use crate::telemetry::history::History;
use crate::telemetry::{Connections, Levels, Metrics, cpu_time, log_failure};

/// How long instances that start together wait for each other's migration.
pub(crate) const MIGRATE_WITHIN: Duration = Duration::from_secs(60);

/// How often a purchase looks which strategy may serve it, while other purchases claim the sale or sales restart.
const ADMISSIONS_MAX: usize = 5;

/// The longest and the shortest pause between two sweeps of expired keys.
const SWEEP_PAUSE_MAX: Duration = Duration::from_secs(60);
const SWEEP_PAUSE_MIN: Duration = Duration::from_millis(100);

/// The label of a purchase that sold, and of one that was answered with an earlier order.
const SOLD: &str = "sold";
const REPEATED: &str = "repeated";

/// One instance of the service.
pub struct App {
    /// Its configuration.
    pub config: Config,
    /// The database.
    pub store: Store,
    /// The ZooKeeper sessions.
    pub sessions: Arc<SessionPool>,
    /// Its counters.
    pub metrics: Metrics,
    /// Who was in which critical section when.
    pub history: Arc<History>,
    /// The strategies that requests may name.
    pub offer: Offer,
    strategies: HashMap<&'static str, Box<dyn Strategy>>,
    /// The sales as they were last seen. A restart at another instance is noticed by the next purchase: its strategy reads
    /// the guard and the number of the sale together with the stock.
    sales: RwLock<HashMap<GoodsNo, Goods>>,
    /// SKUs that were seen sold out, for `--remember-sold-out`.
    sold_out: RwLock<HashSet<GoodsNo>>,
    closing: CancellationToken,
    slots: Arc<Semaphore>,
    purchases: TaskTracker,
}

/// The right to work on one request. There are `--concurrency-max` of them.
#[derive(Clone)]
pub struct Slot {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// The answer to a purchase that sold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The order.
    pub order: Order,
    /// Whether an earlier request with the same key made the order.
    pub is_replay: bool,
}

impl App {
    /// Makes sure of the schema, opens the ZooKeeper sessions and makes every strategy of the registry.
    ///
    /// # Errors
    /// A [`SetupError`] that names the server that cannot be used.
    ///
    /// # Cancel safety
    /// Dropped, whatever was opened is closed.
    pub async fn open(config: Config) -> Result<Self, SetupError> {
        let options = schema::options(&config.database_url)?;
        schema::prepare(&options, MIGRATE_WITHIN).await?;
        let zookeeper = config.zookeeper.as_deref().unwrap_or_default();
        let sessions = SessionPool::open(zookeeper, config.session_config()?, config.zk_sessions).await;
        let authority = config.zookeeper_ca.as_deref();
        let sessions = Arc::new(sessions.map_err(|error| SetupError::of_sessions(error, authority))?);
        probe(&sessions).await.map_err(SetupError::LockRefused)?;
        let store = Store::open(options, config.db_connections, config.db_timeout);
        let metrics = Metrics::new(registry::names());
        let history = Arc::new(History::new(config.history as usize));
        let context = |entry: &'static Entry| Context {
            strategy: entry.name,
            family: entry.family,
            store: store.clone(),
            sessions: Arc::clone(&sessions),
            history: Arc::clone(&history),
            instance: config.instance.as_str().into(),
            business_time: config.hold,
            lock_wait: config.lock_wait,
            db_timeout: config.db_timeout,
            lock_order: config.lock_order,
            permits: config.permits,
            attempts_max: config.attempts_max,
            metrics: metrics.locks(entry.name).clone(),
        };
        let strategies = STRATEGIES.iter().map(|entry| (entry.name, entry.build(context(entry)))).collect();
        let offer = Offer { strategies: config.offered().collect(), default: config.strategy };
        let slots = Arc::new(Semaphore::new(config.concurrency_max as usize));
        let (sales, sold_out, closing) = (RwLock::default(), RwLock::default(), CancellationToken::new());
        let purchases = TaskTracker::new();
        Ok(Self {
            config,
            store,
            sessions,
            metrics,
            history,
            offer,
            strategies,
            sales,
            sold_out,
            closing,
            slots,
            purchases,
        })
    }

    /// A slot, or `None` when the service is at its limit.
    pub fn try_slot(&self) -> Option<Slot> {
        let permit = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        Some(Slot { _permit: Arc::new(permit) })
    }

    /// Buys, in a task of its own: a client that hangs up, or an answer that is given up, must not leave a purchase half
    /// done. The answer comes as soon as the outcome is known, `--db-timeout` after the call at the latest. The lock is
    /// released behind the answer.
    ///
    /// # Errors
    /// A [`Failure`]; unless it is [`OUTCOME_UNKNOWN`](failure::OUTCOME_UNKNOWN), nothing was sold.
    ///
    /// # Panics
    /// When the task did.
    ///
    /// # Cancel safety
    /// Dropped, a purchase that waits for a lock or a connection gives up. One that has what it waited for goes on to its
    /// end.
    pub async fn purchase(
        self: &Arc<Self>,
        purchase: Purchase,
        named: Option<&'static Entry>,
        slot: Slot,
    ) -> Result<Answer, Failure> {
        let client = self.closing.child_token();
        let _hang_up = client.clone().drop_guard();
        let (app, call) = (Arc::clone(self), Call::new(purchase, client));
        let (answer, answered) = oneshot::channel();
        let goods_no = call.purchase.cart.numbers();
        // A spawned task has no span, so this one joins it to the request. Its level is `warn`: warnings must name their
        // purchase at every log level.
        let span = warn_span!("purchase", strategy = Empty, ?goods_no, token = Empty, order_id = Empty);
        let serve = async move { app.serve(&call, named, slot, answer).await };
        let task = self.purchases.spawn(serve.instrument(span));
        if let Ok(result) = answered.await {
            return result;
        }
        // Nothing aborts these tasks, so it panicked; the layer around the routes answers to that.
        resume_unwind(task.await.expect_err("BUG: a purchase ended without an answer").into_panic())
    }

    /// Decides a purchase, answers, and does what is left behind the answer.
    async fn serve(
        &self,
        call: &Call,
        named: Option<&'static Entry>,
        slot: Slot,
        answer: oneshot::Sender<Result<Answer, Failure>>,
    ) {
        let (entry, result, behind) = self.decide(call, named).await;
        let result = result.map_err(|failure| self.explain(failure));
        self.record(entry, &result, call);
        // A purchase keeps its slot while its commit is unknown. A release needs none, so the client's next request finds the
        // slot free.
        let slot = if result.as_ref().is_err_and(|failure| failure.is(&failure::OUTCOME_UNKNOWN)) {
            Some(slot)
        } else {
            drop(slot);
            None
        };
        // If nobody waits for the answer any more, sending it fails, and the rest is done all the same.
        answer.send(result).ok();
        if let Some(behind) = behind {
            behind.await;
        }
        drop(slot);
    }

    /// Decides a purchase by the strategy that may serve it.
    async fn decide<'a>(
        &'a self,
        call: &'a Call,
        named: Option<&'static Entry>,
    ) -> (&'static Entry, Result<Answer, Failure>, Option<crate::strategy::Boxed<'a, ()>>) {
        let before = named.unwrap_or(self.config.strategy);
        if self.closing.is_cancelled() {
            return (before, Err(shutting_down()), None);
        }
        match self.recall(call).await {
            Ok(None) => {}
            Ok(Some(answer)) => {
                let entry = registry::find(&answer.order.strategy).unwrap_or(before);
                return (entry, Ok(answer), None);
            }
            Err(failure) => return (before, Err(failure), None),
        }
        for _ in 0..ADMISSIONS_MAX {
            let entry = match self.admit(call, named).await {
                Ok(entry) => entry,
                Err(failure) => return (before, Err(failure), None),
            };
            Span::current().record("strategy", entry.name);
            if self.is_known_sold_out(call).await {
                let decision = Err(Failure::sold_out(call.purchase.cart.lines()[0].goods_no));
                return (entry, self.replay(call, decision).await, None);
            }
            let Decided { decision, behind } = self.strategy(entry).purchase(call).await;
            if decision.as_ref().is_err_and(|failure| failure.is(&failure::GUARD_MISMATCH)) {
                // Somebody has started a sale with another guard. Whatever was locked is released before the next look.
                self.forget(&call.purchase.cart);
                if let Some(behind) = behind {
                    behind.await;
                }
                continue;
            }
            if let Ok(order) = &decision {
                self.forget_if_restarted(&call.purchase.cart, order);
            }
            return (entry, self.replay(call, decision).await, behind);
        }
        (before, Err(Failure::new(&failure::SALE_RESTARTED, failure::SALE_RESTARTED.meaning)), None)
    }

    /// Which strategy serves a purchase. What is in memory may be old, so only what it admits counts. A refusal, a claim and
    /// an unknown SKU follow from a look at the database.
    async fn admit(&self, call: &Call, named: Option<&'static Entry>) -> Result<&'static Entry, Failure> {
        let cart = &call.purchase.cart;
        if let Some(known) = self.known(cart)
            && let Ok(Admission::Serve(entry)) = self.offer.admit(named, &known)
        {
            return Ok(entry);
        }
        for _ in 0..ADMISSIONS_MAX {
            let sales = call.wait(self.in_time(call, self.look_up(cart))).await??;
            match self.offer.admit(named, &sales)? {
                Admission::Serve(entry) => return Ok(entry),
                Admission::Claim(entry) => {
                    let unclaimed = sales.iter().filter(|goods| goods.guard.is_none());
                    let unclaimed: Vec<_> = unclaimed.map(|goods| (goods.goods_no, goods.sale)).collect();
                    call.wait(self.in_time(call, self.store.claim(&unclaimed, entry.family, entry.name))).await??;
                }
            }
        }
        Err(Failure::new(&failure::SALE_RESTARTED, failure::SALE_RESTARTED.meaning))
    }

    /// The sales of a cart as they are now.
    async fn look_up(&self, cart: &Cart) -> Result<Vec<Goods>, Failure> {
        let mut sales = Vec::with_capacity(cart.lines().len());
        for line in cart.lines() {
            let goods = self.store.look(line.goods_no).await?;
            sales.push(goods.ok_or_else(|| Failure::unknown_goods(line.goods_no))?);
        }
        self.remember(&sales);
        Ok(sales)
    }

    /// The sales of a cart as they were last seen, if all were.
    fn known(&self, cart: &Cart) -> Option<Vec<Goods>> {
        let known = self.sales.read();
        cart.lines().iter().map(|line| known.get(&line.goods_no).cloned()).collect()
    }

    fn remember(&self, sales: &[Goods]) {
        let mut known = self.sales.write();
        for goods in sales {
            // A look that began before a restart may end after it.
            if known.get(&goods.goods_no).is_none_or(|known| known.sale <= goods.sale) {
                known.insert(goods.goods_no, goods.clone());
            }
        }
    }

    fn forget(&self, cart: &Cart) {
        let mut known = self.sales.write();
        cart.lines().iter().for_each(|line| drop(known.remove(&line.goods_no)));
    }

    /// Forgets what is known of a cart if its order was sold in another sale: a new sale of the same family may have another
    /// strategy of its own.
    fn forget_if_restarted(&self, cart: &Cart, order: &Order) {
        let is_restarted = order.lines.iter().any(|line| {
            let goods_no = GoodsNo::try_from(line.goods_no).ok();
            let known = self.sales.read();
            goods_no.and_then(|goods_no| known.get(&goods_no)).is_some_and(|known| known.sale != line.sale)
        });
        if is_restarted {
            self.forget(cart);
        }
    }

    /// The order that was made under the key of a purchase, if it has one.
    async fn recall(&self, call: &Call) -> Result<Option<Answer>, Failure> {
        let Purchase { cart, key: Some(key) } = &call.purchase else { return Ok(None) };
        match call.wait(self.in_time(call, self.store.recall(key, cart))).await?? {
            None => Ok(None),
            Some(Remembered::Order(order)) => Ok(Some(Answer { order, is_replay: true })),
            Some(Remembered::OtherCart) => {
                let detail = "another cart was bought under this idempotency key; choose another key";
                Err(Failure::new(&failure::KEY_REUSED, detail))
            }
        }
    }

    /// The answer to a decision. If another purchase under the same key came first, its order is the answer, also if it took
    /// the last unit.
    async fn replay(&self, call: &Call, decision: Result<Order, Failure>) -> Result<Answer, Failure> {
        let failure = match decision {
            Ok(order) => return Ok(Answer { order, is_replay: false }),
            Err(failure) => failure,
        };
        if failure.is(&failure::SOLD_OUT) && self.config.remember_sold_out {
            self.sold_out.write().extend(call.purchase.cart.lines().iter().map(|line| line.goods_no));
        }
        if call.purchase.key.is_none() || !(failure.is(&failure::REPEATED) || failure.is(&failure::SOLD_OUT)) {
            return Err(failure);
        }
        match self.recall(call).await? {
            Some(answer) => Ok(answer),
            None if failure.is(&failure::SOLD_OUT) => Err(failure),
            // The key has expired meanwhile.
            None => Err(Failure::database_unavailable()),
        }
    }

    /// Returns whether the first SKU of a purchase is sold out. Memory alone is not enough, as units may have come back, so
    /// it looks at the stock. Concurrent buyers share the look.
    async fn is_known_sold_out(&self, call: &Call) -> bool {
        let line = call.purchase.cart.lines()[0];
        if !self.sold_out.read().contains(&line.goods_no) {
            return false;
        }
        let look = call.wait(self.in_time(call, self.store.look(line.goods_no)));
        match look.await.flatten() {
            Ok(Some(goods)) if goods.on_hand < line.quantity.get() => true,
            Ok(Some(_)) => {
                self.sold_out.write().remove(&line.goods_no);
                false
            }
            // The purchase itself will tell what is wrong.
            Ok(None) | Err(_) => false,
        }
    }

    /// Looks at the stock of a SKU as its strategy does, or as the named one of its family.
    ///
    /// # Errors
    /// A [`Failure`], [`UNKNOWN_GOODS`](failure::UNKNOWN_GOODS) if there is no such SKU.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn look(&self, goods_no: GoodsNo, named: Option<&'static Entry>) -> Result<Goods, Failure> {
        let call = Call::new(Purchase::of_one(goods_no, Quantity::ONE), self.closing.child_token());
        let looked = async {
            let entry = match self.known(&call.purchase.cart).map(|known| self.offer.admit(named, &known)) {
                Some(Ok(Admission::Serve(entry))) => entry,
                _ => {
                    let mut sales = self.in_time(&call, self.look_up(&call.purchase.cart)).await?;
                    if sales[0].guard.is_none() {
                        // A look claims nothing, and needs no guard.
                        return Ok(sales.remove(0));
                    }
                    match self.offer.admit(named, &sales) {
                        Ok(Admission::Serve(entry) | Admission::Claim(entry)) => entry,
                        // The strategy of the sale is not offered here, and nobody asks for another.
                        Err(_) if named.is_none() => return Ok(sales.remove(0)),
                        Err(failure) => return Err(failure),
                    }
                }
            };
            let goods = self.strategy(entry).look(goods_no, &call).await?;
            let goods = goods.ok_or_else(|| Failure::unknown_goods(goods_no))?;
            self.remember(std::slice::from_ref(&goods));
            Ok(goods)
        };
        let looked: Result<_, Failure> = looked.await;
        looked.map_err(|failure| self.explain(failure)).inspect_err(log_failure)
    }

    /// Starts the next sale of a SKU under a strategy, or under the default one.
    ///
    /// # Errors
    /// A [`Failure`], [`UNKNOWN_GOODS`](failure::UNKNOWN_GOODS) if the units that remain are asked for and there is no such
    /// SKU, [`OUTCOME_UNKNOWN`](failure::OUTCOME_UNKNOWN) if the commit was not answered.
    ///
    /// # Cancel safety
    /// Dropped, the sale may have started or not.
    pub async fn start_sale(
        &self,
        goods_no: GoodsNo,
        stock: NewStock,
        entry: Option<&'static Entry>,
    ) -> Result<Goods, Failure> {
        let entry = entry.unwrap_or(self.config.strategy);
        let started = self.store.start_sale(goods_no, stock, entry.family, entry.name).await;
        let started = started.and_then(|goods| goods.ok_or_else(|| Failure::unknown_goods(goods_no)));
        let started = started.inspect_err(log_failure)?;
        self.remember(std::slice::from_ref(&started));
        self.sold_out.write().remove(&goods_no);
        Ok(started)
    }

    /// An order, or `None` if there is none with that number.
    ///
    /// # Errors
    /// A [`Failure`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn order(&self, order_id: i64) -> Result<Option<Order>, Failure> {
        let call = Instant::now() + self.config.db_timeout;
        let order = tokio::time::timeout_at(call.into(), self.store.order(order_id)).await;
        order.unwrap_or_else(|_| Err(Failure::database_unavailable())).inspect_err(log_failure)
    }

    /// Sweeps expired keys and keeps the memory of samples bounded, for ever.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn upkeep(&self) {
        tokio::join!(self.metrics.upkeep(), self.sweep_keys());
    }

    async fn sweep_keys(&self) {
        let lifetime = self.config.key_lifetime;
        let pause = (lifetime / 4).clamp(SWEEP_PAUSE_MIN, SWEEP_PAUSE_MAX);
        loop {
            match self.store.forget_keys(lifetime).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(failure) => debug!(%failure, "expired keys could not be deleted, trying again"),
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// The figures of this instance, as text for Prometheus.
    pub fn render_metrics(&self) -> String {
        let in_flight = self.config.concurrency_max as usize - self.slots.available_permits();
        let (in_use, idle) = self.store.pool_counts();
        self.metrics.render(&Levels {
            traffic: self.sessions.traffic(),
            sessions: self.sessions.counts(),
            connections: Connections { in_use, idle },
            in_flight: u32::try_from(in_flight).unwrap_or(u32::MAX),
            history_dropped: self.history.dropped_total(),
            cpu: cpu_time(),
        })
    }

    /// Refuses at once, from now on, every request that waits for a lock or a connection. What has begun is finished.
    pub fn stop_waiting(&self) {
        self.closing.cancel();
    }

    /// Waits until no purchase is under way, purchases of clients that have gone and commits that are not settled included.
    ///
    /// # Cancel safety
    /// Dropped, only the waiting ends.
    pub async fn drained(&self) {
        self.purchases.close();
        self.purchases.wait().await;
    }

    /// A stop ends waits with `CLIENT_GONE`, too. This names it `SHUTTING_DOWN`.
    fn explain(&self, failure: Failure) -> Failure {
        if failure.is(&failure::CLIENT_GONE) && self.closing.is_cancelled() { shutting_down() } else { failure }
    }

    fn strategy(&self, entry: &Entry) -> &dyn Strategy {
        &**self.strategies.get(entry.name).expect("BUG: a strategy was not made")
    }

    /// Runs a statement outside of a strategy until `--db-timeout` after the call began.
    async fn in_time<T>(&self, call: &Call, statement: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let done = tokio::time::timeout_at(call.began + self.config.db_timeout, statement).await;
        done.unwrap_or_else(|_| Err(Failure::database_unavailable()))
    }

    /// Counts and logs a purchase once, here, where its end is known. The span names it.
    fn record(&self, entry: &Entry, result: &Result<Answer, Failure>, call: &Call) {
        let label = match result {
            Ok(Answer { is_replay: false, .. }) => SOLD,
            Ok(Answer { is_replay: true, .. }) => REPEATED,
            // Every kind that a purchase can end with has a label, and a kind without one is a defect.
            Err(failure) => failure.kind().outcome.or(failure::INTERNAL.outcome).unwrap_or_default(),
        };
        self.metrics.outcomes(entry.name).record(label, call.began.elapsed());
        match result {
            Ok(Answer { order, is_replay }) => {
                Span::current().record("order_id", order.order_id);
                debug!(is_replay, "sold");
            }
            Err(failure) => log_failure(failure),
        }
    }
}

fn shutting_down() -> Failure {
    let detail = "this instance was told to stop, another one may sell; nothing was written";
    Failure::new(&failure::SHUTTING_DOWN, detail)
}
