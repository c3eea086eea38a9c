//! `redis-lock` and `redis-lock-fenced`: a lock in Redis, as it is widely used. The key of the SKU gets a random value and a time to
//! live, if there is no such key. The holder renews it, and deletes the key if it still has that value.
//!
//! Redis tells nobody that a lock is free. A waiter asks again after 5 ms to 50 ms, so it sends about 36 commands a second, and the
//! lock is idle until the first of them asks. Nobody queues: a waiter may be overtaken again and again.
//!
//! A hold is lost by the clock: [`RedisHold`] counts the time to live from when the last successful command was sent. The server counts
//! it by its own clock from when it carried the command out, which is later. So the hold is lost here first, as long as both clocks run
//! alike. It is lost at the server alone if the server forgets the key: after a crash without a durable log, a failover to a replica
//! that lags, or a jump of its clock. Then a second buyer gets the lock, and under `redis-lock` overwrites what the first one writes.
//!
//! # Where the token of `redis-lock-fenced` comes from
//!
//! Redis has no number that grows with each grant. So the script that takes the lock increments a counter beside it. That counter is
//! data like any other. A Redis that was restored from a backup, or lost its log, counts from an older value: it grants tokens that it
//! has granted before, and tokens below the fence of the row.
//!
//! * A token below the fence raises no fence, so its holder is refused.
//! * An equal token comes from another hold. Each hold has a random identity, which the fence keeps with the token. So of two holds with
//!   one token, only the first raises the fence.
//!
//! Nothing is oversold, and nothing is sold until the counter is above the fence. Each attempt raises the counter by one, so the sale
//! stands still for as many attempts as the counter is behind. The next sale begins with a fence of zero, so
//! `{"stock":"remaining"}` ends it at once.

use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::Span;

use super::held::{Held, Hold, LockKind};
use crate::failure::{self, Failure};
use crate::redis_store::{Key, RedisLoss, RedisStore, RedisTrouble};
use crate::sale::{Fence, GoodsNo, Token};
use crate::strategy::attempt::Fences;
use crate::strategy::call::Call;
use crate::strategy::context::Context;
use crate::telemetry::clock::Moment;
use crate::telemetry::{LockMetrics, in_acquire_span};

/// The pause of a waiter, at random between these bounds. Waiters with equal pauses would ask at the same instants.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// A hold is renewed after this part of its time to live, so one renewal may fail.
const RENEWALS: u32 = 3;

/// The pause after a renewal or a release that Redis did not carry out.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Locks in Redis, one for each SKU.
pub(in crate::strategy) struct RedisLocks {
    context: Context,
    is_fenced: bool,
}

/// The lock of one purchase.
struct RedisLock {
    redis: RedisStore,
    key: Key,
    /// What no other purchase writes.
    value: String,
    ttl: Duration,
}

/// A lock in Redis, held. A task renews it, and releases it as soon as this is dropped.
pub(in crate::strategy) struct RedisHold {
    life: watch::Receiver<Life>,
    /// Dropped, it tells the task to release the lock.
    kept: oneshot::Sender<()>,
    keeper: JoinHandle<Result<(), HoldTrouble>>,
}

/// How long a hold lives.
#[derive(Debug, Clone, Copy)]
enum Life {
    /// Until this instant, unless it is renewed before.
    Until(Instant),
    Lost(RedisLoss),
}

/// Why a hold in Redis was lost, or not released.
#[derive(Debug, thiserror::Error)]
pub(in crate::strategy) enum HoldTrouble {
    #[error(transparent)]
    Lost(#[from] RedisLoss),
    #[error("the lock was not released, and ends with its time to live: {0}")]
    NotReleased(#[source] RedisTrouble),
    #[error("the task that keeps the lock has ended: {0}")]
    NoKeeper(#[from] JoinError),
}

impl RedisLocks {
    pub(in crate::strategy) fn new(context: Context) -> Self {
        Self { context, is_fenced: false }
    }

    /// Gives each hold a token.
    pub(in crate::strategy) fn fenced(self) -> Self {
        Self { is_fenced: true, ..self }
    }

    /// Waits for the lock of a purchase. The hold has a fence if its lock gives tokens.
    async fn acquire(&self, call: &Call, goods_no: GoodsNo) -> Result<(RedisHold, Option<Fence>), Failure> {
        let context = &self.context;
        let lock = self.lock(goods_no)?;
        let until = context.lock_until(call);
        call.still_wanted()?;
        loop {
            let sent = Instant::now();
            let take = timeout_at(context.database_until(until), self.try_take(&lock));
            match take.await.unwrap_or(Err(RedisTrouble::Silent)) {
                Ok(Some(fence)) => return Ok((lock.keep(sent), fence)),
                Ok(None) => {}
                Err(trouble) => {
                    if trouble.is_unanswered() {
                        lock.forget();
                    }
                    return Err(unavailable(trouble));
                }
            }
            let again = Instant::now() + rand::random_range(PAUSE_MIN..=PAUSE_MAX);
            call.wait(sleep_until(again.min(until))).await?;
            if again >= until {
                return Err(context.lock_timeout());
            }
        }
    }

    fn lock(&self, goods_no: GoodsNo) -> Result<RedisLock, Failure> {
        let shared = &self.context.shared;
        let redis = shared.redis.clone().ok_or_else(|| Failure::of(&failure::LOCK_SERVICE_UNAVAILABLE))?;
        let key = redis.lock_key(self.context.family, goods_no);
        let value = format!("{:032x}", rand::random::<u128>());
        Ok(RedisLock { redis, key, value, ttl: shared.settings.redis_lock_ttl })
    }

    /// Takes the lock if it is free. Returns the fence of the hold, which only a lock with tokens has.
    async fn try_take(&self, lock: &RedisLock) -> Result<Option<Option<Fence>>, RedisTrouble> {
        let RedisLock { redis, key, value, ttl } = lock;
        if !self.is_fenced {
            return Ok(redis.take(key, value, *ttl).await?.then_some(None));
        }
        let number = redis.take_with_token(key, value, *ttl).await?;
        Ok(number.map(|number| Some(Fence { token: Token { number, handover: 0 }, hold: rand::random() })))
    }
}

impl LockKind for RedisLocks {
    type Hold = RedisHold;

    fn context(&self) -> &Context {
        &self.context
    }

    async fn acquire_for(&self, call: &Call) -> Result<Held<'_, RedisHold>, Failure> {
        // The row of the table says that the strategy sells no carts.
        let goods_no = call.purchase.cart.lines()[0].goods_no;
        let asked = Moment::now();
        let acquire = Box::pin(async {
            let acquired = self.acquire(call, goods_no).await;
            acquired.inspect(|(_, fence)| record_token(*fence))
        });
        let (hold, fence) = in_acquire_span(Some(self.context.metrics.wait()), acquire).await?;
        // The future of the acquire has a span of its own, so the token is recorded for the purchase once more.
        record_token(fence);
        let fences: Fences = fence.map(|fence| (goods_no, fence)).into_iter().collect();
        Ok(Held::new(&self.context, hold, fences, asked))
    }
}

impl Hold for RedisHold {
    type Error = HoldTrouble;

    async fn run<F: Future + Send>(&self, part: F) -> Result<F::Output, HoldTrouble> {
        tokio::select! {
            // A process that stood still finds the loss before it goes on.
            biased;
            loss = self.lost() => Err(loss.into()),
            done = part => Ok(done),
        }
    }

    async fn release(self) -> Result<(), HoldTrouble> {
        drop(self.kept);
        self.keeper.await?
    }

    fn count_lost(metrics: &LockMetrics, error: &HoldTrouble) {
        if let HoldTrouble::Lost(loss) = error {
            metrics.count_redis_loss(*loss);
        }
    }
}

impl RedisHold {
    /// Waits until the hold is lost.
    async fn lost(&self) -> RedisLoss {
        let mut life = self.life.clone();
        loop {
            let until = match *life.borrow_and_update() {
                Life::Lost(loss) => return loss,
                Life::Until(until) if until <= Instant::now() => return RedisLoss::Silence,
                Life::Until(until) => until,
            };
            // The wait ends early if the hold is renewed or lost.
            timeout_at(until, life.wait_for(|life| !matches!(life, Life::Until(same) if *same == until))).await.ok();
        }
    }
}

impl RedisLock {
    /// Keeps the lock, which the command sent at `sent` has taken.
    fn keep(self, sent: Instant) -> RedisHold {
        let (lives, life) = watch::channel(Life::Until(sent + self.ttl));
        let (kept, released) = oneshot::channel();
        let keeper = tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = released => {}
                loss = self.renew(&lives) => {
                    lives.send_replace(Life::Lost(loss));
                    return Err(loss.into());
                }
            }
            let until = match *lives.borrow() {
                Life::Until(until) => until,
                Life::Lost(loss) => return Err(loss.into()),
            };
            self.release(until).await
        });
        RedisHold { life, kept, keeper }
    }

    /// Renews the lock until another holder has it, or nobody.
    async fn renew(&self, lives: &watch::Sender<Life>) -> RedisLoss {
        let mut pause = self.ttl / RENEWALS;
        loop {
            sleep(pause).await;
            let sent = Instant::now();
            pause = match self.redis.renew(&self.key, &self.value, self.ttl).await {
                Ok(Ok(())) => {
                    lives.send_replace(Life::Until(sent + self.ttl));
                    self.ttl / RENEWALS
                }
                Ok(Err(loss)) => return loss,
                Err(_) => RETRY_PAUSE,
            };
        }
    }

    /// Deletes the key if it still has our value. Tries until `until`: after that, the key is gone by itself.
    async fn release(&self, until: Instant) -> Result<(), HoldTrouble> {
        let mut may_be_released = false;
        loop {
            match self.redis.release(&self.key, &self.value).await {
                Ok(Err(loss)) if !may_be_released => return Err(loss.into()),
                Ok(Ok(()) | Err(_)) => return Ok(()),
                Err(trouble) if Instant::now() + RETRY_PAUSE >= until => {
                    return Err(HoldTrouble::NotReleased(trouble));
                }
                Err(trouble) => may_be_released |= trouble.is_unanswered(),
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Releases a lock that may have been taken, as soon as Redis answers. Gives up when the lock is likely to have ended by itself.
    fn forget(self) {
        tokio::spawn(async move {
            let until = Instant::now() + 2 * self.ttl;
            // That there is none is the usual answer.
            self.release(until).await.ok();
        });
    }
}

fn record_token(fence: Option<Fence>) {
    if let Some(fence) = fence {
        Span::current().record("token", fence.token.number);
    }
}

fn unavailable(trouble: RedisTrouble) -> Failure {
    let detail = if trouble.is_refusal() {
        "Redis refused a request for the lock, and nothing is sold unguarded; nothing was written"
    } else {
        "Redis did not answer, and nothing is sold unguarded; nothing was written"
    };
    Failure::new(&failure::LOCK_SERVICE_UNAVAILABLE, detail).caused_by(trouble)
}
