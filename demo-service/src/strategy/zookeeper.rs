//! Locks in ZooKeeper.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::field::display;
use tracing::{Span, warn};
use zk_recipes::{AnyLock, FencingToken, MultiGuard, MultiLock, Mutex, RwLock, Session};

use super::access::Access;
use super::section::{Section, Stop};
use super::{Call, Context, Deducting, DeductionStrategy, Ended, Looking};
use crate::clock::Moment;
use crate::error::Failure;
use crate::purchase::{LockOrder, Purchase};
use crate::sessions::SessionPool;
use crate::stock::{Goods, GoodsNo, Outcome, Token};

/// The folder of all locks of the service.
const ROOT: &str = "/seckill";

/// How long the confirmation that the lock is free is waited for, and the answer to the buyer with it. The outcome is
/// certain by then; a release that is not confirmed goes on in the background.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// Takes a lock that guards nothing and gives it back, which shows that the chroot exists and may be written to. That
/// another instance is just doing the same shows it as well.
///
/// # Errors
/// Whatever the recipe says.
///
/// # Cancel safety
/// Dropped, the lock is released in the background.
pub async fn probe(sessions: &SessionPool) -> Result<(), zk_recipes::Error> {
    let Some(session) = sessions.pick() else { return Ok(()) };
    match Mutex::new(&session, &format!("{ROOT}/probe"))?.try_acquire().await? {
        Some(held) => held.release().await,
        None => Ok(()),
    }
}

/// How a strategy locks in ZooKeeper.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Makes the lock of a SKU at a path: the very node of a naive lock, the parent of the others' queues. For permits,
    /// there is the number of them.
    pub lock: fn(&Session, &str, u32) -> Result<AnyLock, zk_recipes::Error>,
    /// What happens under it.
    pub access: Access,
    /// Whether buyers of one SKU share a session: those of one that hands over within itself.
    pub by_goods: bool,
    /// Whether the lock goes before the commit.
    pub releases_early: bool,
    /// Whether who only looks at the stock locks it for reading.
    pub locks_reads: bool,
}

impl Plan {
    /// Overwrites under the lock, and looks without it.
    pub(super) const fn new(lock: fn(&Session, &str, u32) -> Result<AnyLock, zk_recipes::Error>) -> Self {
        Self { lock, access: Access::Overwrite, by_goods: false, releases_early: false, locks_reads: false }
    }
}

struct ZooKeeperLock {
    context: Context,
    plan: Plan,
}

/// Makes the strategy that locks by `plan`.
pub(super) fn build(context: Context, plan: Plan) -> Box<dyn DeductionStrategy> {
    Box::new(ZooKeeperLock { context, plan })
}

impl ZooKeeperLock {
    fn path(&self, goods_no: GoodsNo) -> String {
        format!("{ROOT}/{}/{goods_no}", self.context.entry.name)
    }

    /// The session to lock these goods with. Without a connected one nothing is sold: never unguarded.
    fn session(&self, goods_no: GoodsNo) -> Result<Session, Failure> {
        let sessions = &self.context.sessions;
        let session = if self.plan.by_goods { sessions.pick_for(goods_no) } else { sessions.pick() };
        session.ok_or_else(|| Failure::LockServiceUnavailable("no ZooKeeper session is connected".to_owned()))
    }

    /// Waits for the locks of a cart.
    async fn acquire(&self, purchase: &Purchase, call: Call<'_>) -> Result<Held<'_>, Failure> {
        let lines = purchase.cart.in_order(self.context.lock_order);
        let session = self.session(lines[0].goods_no)?;
        let lock = |goods_no| (self.plan.lock)(&session, &self.path(goods_no), self.context.permits);
        let locks: Result<Vec<_>, _> = lines.iter().map(|line| lock(line.goods_no)).collect();
        self.acquire_all(&session, locks.and_then(MultiLock::new), call).await
    }

    async fn acquire_all(
        &self,
        session: &Session,
        locks: Result<MultiLock, zk_recipes::Error>,
        call: Call<'_>,
    ) -> Result<Held<'_>, Failure> {
        let wait = self.context.lock_wait_left(call);
        // Boxed, as the recipes' future is large, and every wrapper around it would take as much of the stack again.
        let acquire = Box::pin(async {
            Span::current().record("session", display(format_args!("{:#x}", session.id())));
            let (locks, asked) = (locks?, Moment::now());
            let held = locks.acquire_within(wait).await?;
            Ok(held.inspect(|held| record_tokens(&Span::current(), held)).map(|held| (held, asked)))
        });
        let acquired = self.context.metrics.waiting(call.wait(acquire)).await;
        let acquired = acquired.map_err(|_| Failure::ClientGone)?;
        let acquired =
            acquired.map_err(|error: zk_recipes::Error| Failure::LockServiceUnavailable(error.to_string()))?;
        let (held, asked) = acquired.ok_or_else(|| self.context.lock_timeout())?;
        Ok(Held::new(held, asked, &self.context))
    }

    async fn deduct_guarded<'a>(&'a self, purchase: &'a Purchase, call: Call<'a>) -> Ended<'a> {
        let held = match self.acquire(purchase, call).await {
            Ok(held) => held,
            Err(failure) => return Err(failure).into(),
        };
        record_tokens(&Span::current(), &held.held);
        let section = Section::new(&self.context, self.plan.access, purchase, call);
        let section = section.guarded(held.asked, held.tokens(purchase, self.context.lock_order));
        if self.plan.releases_early {
            return deduct_released_early(&section, held, call).await.into();
        }
        // A lost hold stops the section wherever it stands. Before the commit that rolls the transaction back; once the
        // commit is on its way nothing can call it back, and then the outcome is not known.
        let run = held.held.run(section.run()).await;
        let lost = run.is_err();
        let result = run.unwrap_or_else(|reason| Err(held.lost(&reason, &section)));
        if matches!(result, Err(Failure::OutcomeUnknown(_))) {
            // A lost hold is no exception: by our clock it is lost before the server's, so the session may yet live,
            // and with it the node that keeps the next holder out.
            return Ended::with_aftermath(result, async move {
                section.settle().await;
                held.release(Instant::now() + RELEASE_WITHIN).await;
            });
        }
        if lost {
            // The transaction is rolled back, and the session too far away to confirm anything soon.
            drop(held);
        } else {
            held.release(self.confirmed_by(call)).await;
        }
        result.into()
    }

    /// The time for the database bounds the release as well, so that a sale is never answered too late.
    fn confirmed_by(&self, call: Call<'_>) -> Instant {
        (Instant::now() + RELEASE_WITHIN).min(call.began + self.context.db_timeout)
    }

    async fn look_guarded(&self, goods_no: GoodsNo, call: Call<'_>) -> Result<Option<Goods>, Failure> {
        if !self.plan.locks_reads {
            return self.context.look(goods_no, call).await;
        }
        let session = self.session(goods_no)?;
        let lock = RwLock::new(&session, &self.path(goods_no)).map(|lock| lock.read());
        let held = self.acquire_all(&session, lock.and_then(|lock| MultiLock::new([lock])), call).await?;
        let looked = held.held.run(self.context.look(goods_no, call)).await;
        match looked {
            Ok(looked) => {
                held.release(self.confirmed_by(call)).await;
                looked
            }
            Err(reason) => {
                held.count_lost(&reason);
                Err(Failure::HoldLost(reason.to_string()))
            }
        }
    }
}

/// The locks of one deduction.
struct Held<'a> {
    held: MultiGuard,
    /// When the first of them was asked for.
    asked: Moment,
    granted: Instant,
    /// Whether its loss was counted: one that goes on until a commit is over is told of it again when it is released.
    is_loss_counted: AtomicBool,
    context: &'a Context,
}

fn record_tokens(span: &Span, held: &MultiGuard) {
    let tokens = || held.guards().iter().map(|guard| guard.token().to_string()).collect::<Vec<_>>().join(" ");
    if !span.is_disabled() {
        span.record("token", tokens());
    }
}

impl<'a> Held<'a> {
    fn new(held: MultiGuard, asked: Moment, context: &'a Context) -> Self {
        Self { held, asked, granted: Instant::now(), is_loss_counted: AtomicBool::new(false), context }
    }

    fn count_lost(&self, reason: &zk_recipes::Error) {
        if !self.is_loss_counted.swap(true, Ordering::Relaxed) {
            self.context.metrics.count_lost(reason);
        }
    }

    /// The tokens of the holds, which were granted in this order.
    fn tokens(&self, purchase: &Purchase, order: LockOrder) -> Vec<(GoodsNo, Token)> {
        let lines = purchase.cart.in_order(order);
        let tokens = self.held.guards().iter().map(|guard| Token::from(guard.token()));
        lines.iter().map(|line| line.goods_no).zip(tokens).collect()
    }

    /// What it means that a hold was lost during the section.
    fn lost(&self, reason: &zk_recipes::Error, section: &Section<'_>) -> Failure {
        self.count_lost(reason);
        Failure::of_lost_hold(reason, section.progress())
    }

    /// Releases after the section, whatever came of it. A failure changes nothing about an order that is committed.
    async fn release(self, confirmed_by: Instant) {
        self.context.metrics.record_hold(self.granted.elapsed());
        // The span has the token.
        match timeout_at(confirmed_by, self.held.release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                if !self.is_loss_counted.into_inner() {
                    self.context.metrics.count_lost(&error);
                }
                warn!(%error, "a lock was not released cleanly");
            }
            Err(_) => warn!("a release was not confirmed in time, it goes on in the background"),
        }
    }
}

/// The mistake: what was written is not seen by others before the commit, and by then the lock is gone.
async fn deduct_released_early(section: &Section<'_>, held: Held<'_>, call: Call<'_>) -> Result<Outcome, Failure> {
    let deadline = call.began + held.context.db_timeout;
    let released = async {
        let prepared = held.held.run(section.prepare()).await.map_err(|reason| {
            held.count_lost(&reason);
            Stop::HoldLost(reason)
        })?;
        held.release(deadline).await;
        section.commit(prepared?).await
    };
    section.bounded(released).await
}

impl From<FencingToken> for Token {
    fn from(token: FencingToken) -> Self {
        // Hand-overs are counted from the grant, and never come near the end of either type.
        Self { number: token.get(), handover: i64::try_from(token.handover()).unwrap_or(i64::MAX) }
    }
}

impl DeductionStrategy for ZooKeeperLock {
    fn deduct<'a>(&'a self, purchase: &'a Purchase, call: Call<'a>) -> Deducting<'a> {
        Box::pin(self.deduct_guarded(purchase, call))
    }

    fn look<'a>(&'a self, goods_no: GoodsNo, call: Call<'a>) -> Looking<'a> {
        Box::pin(self.look_guarded(goods_no, call))
    }
}
