//! Locks around a purchase. [`held`] is the purchase under them. Those in ZooKeeper are acquired for a whole cart. Unless the row
//! checks more, they are safe only as long as the ZooKeeper session lives.

pub(super) mod early_release;
pub(super) mod fenced;
pub(super) mod held;
pub(super) mod local_mutex;
pub(super) mod read_write;
pub(super) mod recipes;
pub(super) mod redis;
pub(super) mod semaphore;

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::poll;
use hashlink::LruCache;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::Span;
use tracing::field::display;
use zk_recipes::{AnyLock, ConnectionState, FencingToken, HoldWatch, MultiGuard, MultiLock, Session, SessionId};

use self::held::{Held, Hold, LockKind, hold_lost};
use super::call::{Call, wait_for};
use super::context::Context;
use crate::failure::{self, Failure};
use crate::sale::{Fence, GoodsNo, Token};
use crate::sessions::ROOT;
use crate::telemetry::clock::Moment;
use crate::telemetry::{LockMetrics, in_acquire_span};

/// Upper bound of the locks that a strategy keeps for their next use. Each of them may cost the server a watch. The
/// least recently used lock is dropped first.
const KEPT_MAX: usize = 1024;

/// Returns whether ZooKeeper answered, and an operator must do something: change an ACL, a quota, or the nodes.
fn is_refusal(error: &zk_recipes::Error) -> bool {
    use zk_recipes::Error as E;
    let refuses = |error: &E| matches!(error, E::NotAuthorized { .. } | E::Refused { .. } | E::NumbersExhausted { .. });
    error.errors().any(refuses)
}

/// Makes the lock of a SKU at a path. A semaphore takes the number of its permits.
pub(super) type MakeLock = fn(&Session, &str, u32) -> Result<AnyLock, zk_recipes::Error>;

/// The locks of one strategy.
pub(super) struct Locks {
    context: Context,
    /// The folder of the locks: strategies that exclude each other share it.
    folder: &'static str,
    make: MakeLock,
    /// Whether all buyers of a SKU use the same session. A lock that is handed over within a session needs that.
    is_by_goods: bool,
    /// Whether a purchase waits for its locks itself, so that its wait is counted.
    is_wait_counted: bool,
    /// Locks for their next use, by session and SKU. A [`Mutex`](zk_recipes::Mutex) that is kept costs a lone buyer
    /// one request to acquire and one to release.
    kept: Mutex<LruCache<(SessionId, GoodsNo), AnyLock>>,
    /// The seat of the last purchase of each SKU. A lone buyer keeps the session, and usually the kept lock.
    latest: Mutex<LruCache<GoodsNo, Seat>>,
}

/// The session of one purchase.
#[derive(Clone)]
struct Seat {
    session: Session,
    /// Counts the purchases that want or have locks, and whose first SKU this is. Too low after an eviction.
    buyers: Arc<()>,
}

/// The locks of one purchase, held in ZooKeeper.
pub(super) struct ZkHold {
    guard: MultiGuard,
    seat: Seat,
}

impl Locks {
    pub(super) fn new(context: Context, folder: &'static str, make: MakeLock) -> Self {
        let kept = Mutex::new(LruCache::new(KEPT_MAX));
        let latest = Mutex::new(LruCache::new(KEPT_MAX));
        Self { context, folder, make, is_by_goods: false, is_wait_counted: true, kept, latest }
    }

    /// Makes all buyers of a SKU use the same session.
    pub(super) fn by_goods(self) -> Self {
        Self { is_by_goods: true, ..self }
    }

    /// Leaves the waits for locks uncounted that nobody waits for alone. Each buyer's own wait is counted elsewhere.
    pub(super) fn uncounted(self) -> Self {
        Self { is_wait_counted: false, ..self }
    }

    /// Waits for the locks of these SKUs, all or none, until `until` or until `client` is cancelled.
    pub(super) async fn acquire(
        &self,
        goods: &[GoodsNo],
        until: Instant,
        client: &CancellationToken,
    ) -> Result<Held<'_, ZkHold>, Failure> {
        self.acquire_by(goods, |session, goods_no| self.lock(session, goods_no), until, client).await
    }

    /// Acquires as [`acquire`](Self::acquire) does, but locks that `make` makes.
    pub(super) async fn acquire_by(
        &self,
        goods: &[GoodsNo],
        make: impl Fn(&Session, GoodsNo) -> Result<AnyLock, zk_recipes::Error>,
        until: Instant,
        client: &CancellationToken,
    ) -> Result<Held<'_, ZkHold>, Failure> {
        let context = &self.context;
        let seat = self.seat(goods[0])?;
        let session = &seat.session;
        let locks: Result<Vec<_>, _> = goods.iter().map(|goods_no| make(session, *goods_no)).collect();
        let wait = until.saturating_duration_since(Instant::now());
        let asked = Moment::now();
        // Boxed, because each wrapper around a future takes its size again.
        let acquire = Box::pin(async {
            Span::current().record("session", display(format_args!("{:#x}", session.id())));
            let held = locks.and_then(MultiLock::new)?.acquire_within(wait).await?;
            Ok(held.inspect(|held| record_tokens(&Span::current(), held)))
        });
        // If the servers are silent, an acquire outlasts its deadline, to make sure that its node is deleted. After
        // the drop at the deadline for the database, it does so in the background.
        let waiting = self.is_wait_counted.then(|| context.metrics.wait());
        let acquire = wait_for(client, timeout_at(context.database_until(until), acquire));
        let acquired =
            in_acquire_span(waiting, acquire).await?.map_err(|_| Failure::of(&failure::LOCK_SERVICE_UNAVAILABLE))?;
        let guard = acquired.map_err(unavailable)?.ok_or_else(|| context.lock_timeout())?;
        // The future of the acquire has a span of its own, so the tokens are recorded for the purchase once more.
        record_tokens(&Span::current(), &guard);
        let fences = guard.guards().iter().map(|guard| fence(guard.token()));
        let fences = goods.iter().copied().zip(fences).collect();
        Ok(Held::new(context, ZkHold { guard, seat }, fences, asked))
    }

    /// Chooses the session for the locks of a purchase, by its first SKU. If no other purchase of the SKU is in
    /// progress, that is the session of the last one. Otherwise it is the next session of the pool.
    fn seat(&self, goods_no: GoodsNo) -> Result<Seat, Failure> {
        let sessions = &self.context.shared.sessions;
        let none = || Failure::of(&failure::LOCK_SERVICE_UNAVAILABLE);
        if self.is_by_goods {
            let session = sessions.pick_for(goods_no).ok_or_else(none)?;
            return Ok(Seat { session, buyers: Arc::default() });
        }
        let mut latest = self.latest.lock();
        // A count of one is the table's own: no other purchase of the SKU is in progress.
        let buyers = match latest.get(&goods_no) {
            Some(last) if Arc::strong_count(&last.buyers) == 1 && last.is_connected() => return Ok(last.clone()),
            Some(last) => Arc::clone(&last.buyers),
            None => Arc::default(),
        };
        let seat = Seat { session: sessions.pick().ok_or_else(none)?, buyers };
        latest.insert(goods_no, seat.clone());
        Ok(seat)
    }

    /// Returns the path of the lock of a SKU. It is the node of a naive lock, and the parent of the queue of any
    /// other lock.
    pub(super) fn path(&self, goods_no: GoodsNo) -> String {
        format!("{ROOT}/{}/{goods_no}", self.folder)
    }

    /// Returns the lock of a SKU. Makes it if it is not kept.
    fn lock(&self, session: &Session, goods_no: GoodsNo) -> Result<AnyLock, zk_recipes::Error> {
        let mut kept = self.kept.lock();
        // A session that replaces another one has its own id, so no lock of an ended session is used again.
        if let Some(lock) = kept.get(&(session.id(), goods_no)) {
            return Ok(lock.clone());
        }
        let lock = (self.make)(session, &self.path(goods_no), self.context.shared.settings.permits)?;
        kept.insert((session.id(), goods_no), lock.clone());
        Ok(lock)
    }
}

impl LockKind for Locks {
    type Hold = ZkHold;

    fn context(&self) -> &Context {
        &self.context
    }

    async fn acquire_for(&self, call: &Call) -> Result<Held<'_, ZkHold>, Failure> {
        let goods = call.purchase.cart.goods_in_order(self.context.shared.settings.lock_order);
        self.acquire(&goods, self.context.lock_until(call), &call.client).await
    }
}

impl Seat {
    fn is_connected(&self) -> bool {
        self.session.state() == ConnectionState::Connected
    }
}

impl Hold for ZkHold {
    type Error = zk_recipes::Error;

    async fn run<F: Future + Send>(&self, part: F) -> Result<F::Output, zk_recipes::Error> {
        self.guard.run(part).await
    }

    async fn release(self) -> Result<(), zk_recipes::Error> {
        let mut release = pin!(self.guard.release());
        // Sends the release. The next lone buyer need not wait for the confirmation: its requests follow over the same
        // connection.
        let sent = poll!(&mut release);
        drop(self.seat);
        match sent {
            Poll::Ready(released) => released,
            Poll::Pending => release.await,
        }
    }

    fn count_lost(metrics: &LockMetrics, error: &zk_recipes::Error) {
        metrics.count_lost(error);
    }
}

impl Held<'_, ZkHold> {
    /// Waits until a lock is lost, and returns the failure of a purchase that this stops. The wait may outlive the hold.
    pub(super) fn loss(&self) -> impl Future<Output = Failure> + Send + use<> {
        loss(self.hold.guard.watch())
    }
}

/// Waits until a hold is lost, and returns the failure of a purchase that this stops.
pub(super) async fn loss(watch: HoldWatch) -> Failure {
    match watch.lost().await {
        Some(_) => hold_lost(),
        // Released.
        None => pending().await,
    }
}

/// Makes the fence of a hold that was just granted.
pub(super) fn fence(token: FencingToken) -> Fence {
    Fence { token: Token { number: token.czxid(), handover: token.handover() }, hold: rand::random() }
}

fn record_tokens(span: &Span, held: &MultiGuard) {
    let tokens = || held.guards().iter().map(|guard| guard.token().to_string()).collect::<Vec<_>>().join(" ");
    if !span.is_disabled() {
        span.record("token", tokens());
    }
}

pub(super) fn unavailable(error: zk_recipes::Error) -> Failure {
    let kind = &failure::LOCK_SERVICE_UNAVAILABLE;
    let failure = if is_refusal(&error) {
        Failure::new(
            kind,
            "ZooKeeper refused a request for the lock, and nothing is sold unguarded; nothing was written",
        )
    } else {
        Failure::new(kind, "ZooKeeper did not answer, and nothing is sold unguarded; nothing was written")
    };
    failure.caused_by(error)
}
