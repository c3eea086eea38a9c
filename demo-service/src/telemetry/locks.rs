//! The metrics of the locks of one strategy.

use std::collections::HashMap;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, debug, info_span};
use zk_recipes::LostReason;

use crate::redis_store::RedisLoss;

/// Why a hold in ZooKeeper was lost, as a label.
const REASONS: [(&str, LostReason); 7] = [
    ("expired", LostReason::Expired),
    ("silence", LostReason::Silence),
    ("closed", LostReason::Closed),
    ("credentials_refused", LostReason::CredentialsRefused),
    ("credentials_missing", LostReason::CredentialsMissing),
    ("runtime_ended", LostReason::RuntimeEnded),
    ("node_deleted", LostReason::NodeDeleted),
];

/// Why a hold in Redis was lost, as a label.
const REDIS_REASONS: [(&str, RedisLoss); 3] =
    [("silence", RedisLoss::Silence), ("key_gone", RedisLoss::KeyGone), ("taken", RedisLoss::Taken)];

/// The metrics of the waits and holds of one strategy.
#[derive(Clone)]
pub struct LockMetrics {
    wait_seconds: Histogram,
    hold_seconds: Histogram,
    queue_depth: Gauge,
    gate_backlog: Gauge,
    retries: Counter,
    lost: HashMap<LostReason, Counter>,
    lost_in_redis: HashMap<RedisLoss, Counter>,
}

/// One wait for a lock. Its first pause or its drop records its duration, if it is the whole wait of a purchase.
pub struct Waiting {
    queue_depth: Gauge,
    is_counted: bool,
    wait_seconds: Option<Histogram>,
    since: Instant,
}

impl LockMetrics {
    pub(super) fn new(strategy: &'static str) -> Self {
        let lost = |label| counter!("seckill_lock_lost_total", "strategy" => strategy, "reason" => label);
        let gate_backlog = gauge!("seckill_gate_backlog", "strategy" => strategy);
        gate_backlog.set(f64::NAN);
        Self {
            wait_seconds: histogram!("seckill_lock_wait_seconds", "strategy" => strategy),
            hold_seconds: histogram!("seckill_lock_hold_seconds", "strategy" => strategy),
            queue_depth: gauge!("seckill_queue_depth", "strategy" => strategy),
            gate_backlog,
            retries: counter!("seckill_retries_total", "strategy" => strategy),
            lost: REASONS.iter().map(|(label, reason)| (*reason, lost(*label))).collect(),
            lost_in_redis: REDIS_REASONS.iter().map(|(label, reason)| (*reason, lost(*label))).collect(),
        }
    }

    /// Waits for `acquire`. The wait is counted while it lasts, and its duration is recorded, whether the lock was
    /// acquired or not.
    ///
    /// # Cancel safety
    /// As `acquire`. The wait is recorded even if it is dropped.
    pub async fn waiting<F: Future>(&self, acquire: F) -> F::Output {
        in_acquire_span(Some(self.wait()), acquire).await
    }

    /// Shows how many orders a gate has promised that are not settled. `None` if Redis does not tell.
    pub fn set_gate_backlog(&self, orders: Option<u32>) {
        self.gate_backlog.set(orders.map_or(f64::NAN, f64::from));
    }

    /// Starts a wait that is counted until it is dropped.
    pub fn wait(&self) -> Waiting {
        let mut waiting = self.wait_on();
        waiting.wait_seconds = Some(self.wait_seconds.clone());
        waiting
    }

    /// Starts a further wait of a purchase that has waited before, here or at another instance. It is counted until it is
    /// dropped. Its duration is not recorded: a purchase records one duration.
    pub fn wait_on(&self) -> Waiting {
        let queue_depth = self.queue_depth.clone();
        let mut waiting = Waiting { queue_depth, is_counted: false, wait_seconds: None, since: Instant::now() };
        waiting.go_on();
        waiting
    }

    /// Records how long a lock was held.
    pub fn record_hold(&self, duration: Duration) {
        self.hold_seconds.record(duration);
    }

    /// Counts each lost hold that `error` reports. Ignores other errors.
    pub fn count_lost(&self, error: &zk_recipes::Error) {
        for error in error.errors() {
            if let zk_recipes::Error::HoldLost { reason, .. } = error {
                self.count_loss(*reason);
            }
        }
    }

    /// Counts a hold that was lost in Redis.
    pub fn count_redis_loss(&self, reason: RedisLoss) {
        if let Some(counter) = self.lost_in_redis.get(&reason) {
            counter.increment(1);
        }
    }

    /// Counts a hold that was lost in ZooKeeper.
    pub fn count_loss(&self, reason: LostReason) {
        if let Some(counter) = self.lost.get(&reason) {
            counter.increment(1);
        }
    }

    /// Counts an attempt that was overtaken and will be repeated.
    pub fn count_retry(&self) {
        self.retries.increment(1);
    }
}

/// Waits for `acquire`, which is counted by `waiting`. It has its own span, `acquire`, in which the session and the token
/// may be recorded.
///
/// # Cancel safety
/// As `acquire`. The wait is recorded even if it is dropped.
pub async fn in_acquire_span<F: Future>(waiting: Option<Waiting>, acquire: F) -> F::Output {
    let since = Instant::now();
    let acquire = async {
        let had = acquire.await;
        debug!(waited = ?since.elapsed(), "the wait for a lock is over");
        drop(waiting);
        had
    };
    acquire.instrument(info_span!("acquire", session = Empty, token = Empty)).await
}

impl Waiting {
    /// Counts the wait no longer.
    pub fn pause(&mut self) {
        if self.is_counted {
            self.is_counted = false;
            self.queue_depth.decrement(1.0);
        }
        if let Some(wait_seconds) = self.wait_seconds.take() {
            wait_seconds.record(self.since.elapsed());
        }
    }

    /// Counts the wait again. Its duration was recorded at the pause.
    pub fn go_on(&mut self) {
        if !self.is_counted {
            self.is_counted = true;
            self.queue_depth.increment(1.0);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.pause();
    }
}

#[cfg(test)]
mod tests {
    use zk_recipes::Error;

    use super::*;
    use crate::telemetry::{Levels, Metrics};

    #[test]
    fn each_loss_is_counted_under_its_reason_only() {
        let metrics = Metrics::new(["zk-multi"].into_iter());
        let locks = metrics.locks("zk-multi");
        locks.count_lost(&Error::NoLocks);
        for reason in [LostReason::Silence, LostReason::Closed, LostReason::Silence, LostReason::RuntimeEnded] {
            locks.count_loss(reason);
        }
        let rendered = metrics.render(&Levels::default());
        let counts = [("expired", 0), ("silence", 2), ("closed", 1), ("credentials_refused", 0), ("runtime_ended", 1)];
        for (reason, count) in counts {
            let line = format!(r#"seckill_lock_lost_total{{strategy="zk-multi",reason="{reason}"}} {count}"#);
            assert!(rendered.contains(&line), "{line} in {rendered}");
        }
    }
}
