//! Locks around a purchase. Those in ZooKeeper are acquired for a whole cart, watched while they are held, and released
//! after the answer.

pub(super) mod early_release;
pub(super) mod fenced;
pub(super) mod local_mutex;
pub(super) mod read_write;
pub(super) mod semaphore;

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use hashlink::LruCache;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::field::display;
use tracing::{Span, warn};
use zk_recipes::{AnyLock, ConnectionState, FencingToken, HoldWatch, MultiGuard, MultiLock, Session, SessionId};

use super::attempt::{Fences, note_order, visit};
use super::call::{Call, wait_for};
use super::context::Context;
use super::settle::settle;
use super::{Boxed, Decided, Decision, Strategy};
use crate::failure::{self, Failure};
use crate::sale::{Fence, GoodsNo, Receipt, Token};
use crate::sessions::ROOT;
use crate::telemetry::clock::Moment;
use crate::telemetry::history::Visit;
use crate::telemetry::in_acquire_span;

/// The time limit for the confirmation of a release. After it, the release goes on in the background.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

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

/// Sells under the locks of a cart.
pub(super) type SellUnderLocks = for<'a> fn(&'a Context, &'a Call, Fences) -> Boxed<'a, Decision>;

/// A strategy with locks in ZooKeeper around the purchase. Unless `sell` checks more than the locks, only they keep two
/// purchases apart: then it is safe only as long as the ZooKeeper session lives.
pub(super) struct ZkLock {
    locks: Locks,
    sell: SellUnderLocks,
}

/// The session of one purchase.
#[derive(Clone)]
struct Seat {
    session: Session,
    /// Counts the purchases that want or have locks, and whose first SKU this is. Too low after an eviction.
    buyers: Arc<()>,
}

/// The locks of one purchase, held.
pub(super) struct Held<'a> {
    guard: MultiGuard,
    fences: Fences,
    /// When the first lock was asked for.
    asked: Moment,
    granted: Instant,
    seat: Seat,
    /// Whether the loss was counted. The release reports the same loss again.
    is_loss_counted: AtomicBool,
    context: &'a Context,
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

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// Waits for the locks of the cart of a call, all or none, until the deadline for the lock.
    pub(super) async fn acquire_for(&self, call: &Call) -> Result<Held<'_>, Failure> {
        let goods = call.purchase.cart.goods_in_order(self.context.shared.settings.lock_order);
        self.acquire(&goods, self.context.lock_until(call), &call.client).await
    }

    /// Waits for the locks of these SKUs, all or none, until `until` or until `client` is cancelled.
    pub(super) async fn acquire(
        &self,
        goods: &[GoodsNo],
        until: Instant,
        client: &CancellationToken,
    ) -> Result<Held<'_>, Failure> {
        self.acquire_by(goods, |session, goods_no| self.lock(session, goods_no), until, client).await
    }

    /// Acquires as [`acquire`](Self::acquire) does, but locks that `make` makes.
    pub(super) async fn acquire_by(
        &self,
        goods: &[GoodsNo],
        make: impl Fn(&Session, GoodsNo) -> Result<AnyLock, zk_recipes::Error>,
        until: Instant,
        client: &CancellationToken,
    ) -> Result<Held<'_>, Failure> {
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
        Ok(Held {
            guard,
            fences,
            asked,
            granted: Instant::now(),
            seat,
            is_loss_counted: AtomicBool::new(false),
            context,
        })
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

impl ZkLock {
    pub(super) fn new(locks: Locks, sell: SellUnderLocks) -> Self {
        Self { locks, sell }
    }
}

impl Strategy for ZkLock {
    fn purchase<'a>(&'a self, call: &'a Call) -> Boxed<'a, Decided<'a>> {
        Box::pin(async move {
            let held = match self.locks.acquire_for(call).await {
                Ok(held) => held,
                Err(failure) => return Err(failure).into(),
            };
            let decision = held.run(call, (self.sell)(self.locks.context(), call, held.fences())).await;
            held.release_after_answer(call, decision)
        })
    }
}

impl Seat {
    fn is_connected(&self) -> bool {
        self.session.state() == ConnectionState::Connected
    }
}

impl<'a> Held<'a> {
    /// Returns the fences, one for each SKU.
    pub(super) fn fences(&self) -> Fences {
        self.fences.clone()
    }

    /// Runs the purchase under the locks, until the deadline for the database. A lost hold stops the purchase at
    /// once. Before the commit is sent, that rolls the purchase back. After that, the outcome is unknown.
    pub(super) async fn run(&self, call: &Call, purchase: impl Future<Output = Decision>) -> Decision {
        let mut visit = self.visit(call);
        let decision = match self.guard.run(call.in_time(purchase)).await {
            Ok(decision) => decision,
            Err(reason) => Err(call.stopped(self.lost(reason))),
        };
        note_order(&mut visit, &decision);
        decision
    }

    /// Runs a part that commits nothing under the locks, until `until`. A lost hold stops it at once.
    pub(super) async fn run_part<T>(
        &self,
        until: Instant,
        part: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        match self.guard.run(timeout_at(until, part)).await {
            Ok(part) => part.unwrap_or_else(|_| Err(Failure::database_unavailable())),
            Err(reason) => Err(self.lost(reason)),
        }
    }

    /// Waits until a lock is lost, and returns the failure of a purchase that this stops. The wait may outlive the hold.
    pub(super) fn loss(&self) -> impl Future<Output = Failure> + Send + use<> {
        loss(self.guard.watch())
    }

    /// Notes in the history that the purchase enters its critical section.
    pub(super) fn visit(&self, call: &Call) -> Visit {
        visit(self.context, call.purchase.cart.lines(), &self.fences, self.asked)
    }

    /// Counts a lost hold, and returns the failure of a purchase that it stops before the commit.
    fn lost(&self, reason: zk_recipes::Error) -> Failure {
        if !self.is_loss_counted.swap(true, Ordering::Relaxed) {
            self.context.metrics.count_lost(&reason);
        }
        hold_lost().caused_by(reason)
    }

    /// Returns the decision. The release of the locks is the work after the answer. If the outcome is unknown, the
    /// locks are kept until the commit is over. That includes locks that were lost: a hold is lost by our clock
    /// before it is lost by the server's, so its node may still keep the next holder out.
    pub(super) fn release_after_answer(self, call: &'a Call, decision: Decision) -> Decided<'a> {
        let release = async move {
            if call.is_committing() {
                settle(self.context, call).await;
            }
            self.release().await;
        };
        Decided { decision: decision.map(Receipt::Order), release: Some(Box::pin(release)) }
    }

    /// Releases the locks. A failure of the release does not affect a committed order.
    pub(super) async fn release(self) {
        self.context.metrics.record_hold(self.granted.elapsed());
        let mut release = pin!(timeout(RELEASE_WITHIN, self.guard.release()));
        // Sends the release. The next lone buyer need not wait for the confirmation: its requests follow over the same
        // connection.
        let sent = poll!(&mut release);
        drop(self.seat);
        let released = match sent {
            Poll::Ready(released) => released,
            Poll::Pending => release.await,
        };
        match released {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                if !self.is_loss_counted.into_inner() {
                    self.context.metrics.count_lost(&error);
                }
                // The span names the token.
                warn!(error = program::chain(&error), "a lock was not released cleanly");
            }
            Err(_) => warn!("a release was not confirmed in time, it goes on in the background"),
        }
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

fn hold_lost() -> Failure {
    let detail = "the hold on the lock was lost before the commit, which stopped the purchase; nothing was written";
    Failure::new(&failure::HOLD_LOST, detail)
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
