//! The metrics of the locks of one strategy.

use std::collections::HashMap;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use tokio::time::Instant;
use zk_recipes::LostReason;

/// Why a hold was lost, as a label.
const REASONS: [(&str, LostReason); 4] = [
    ("expired", LostReason::Expired),
    ("silence", LostReason::Silence),
    ("closed", LostReason::Closed),
    ("node_deleted", LostReason::NodeDeleted),
];

/// The waits and holds of one strategy.
#[derive(Clone)]
pub struct LockMetrics {
    wait_seconds: Histogram,
    hold_seconds: Histogram,
    queue_depth: Gauge,
    retries: Counter,
    lost: HashMap<LostReason, Counter>,
}

/// One who waits. Dropped, it does not any more.
struct Waiting<'a>(&'a LockMetrics, Instant);

impl LockMetrics {
    pub(super) fn new(strategy: &'static str) -> Self {
        let lost = |label| counter!("seckill_lock_lost_total", "strategy" => strategy, "reason" => label);
        Self {
            wait_seconds: histogram!("seckill_lock_wait_seconds", "strategy" => strategy),
            hold_seconds: histogram!("seckill_lock_hold_seconds", "strategy" => strategy),
            queue_depth: gauge!("seckill_queue_depth", "strategy" => strategy),
            retries: counter!("seckill_retries_total", "strategy" => strategy),
            lost: REASONS.iter().map(|(label, reason)| (*reason, lost(*label))).collect(),
        }
    }

    /// Waits for a lock, had or not, and is counted among those who do.
    ///
    /// # Cancel safety
    /// That of what is waited for; the wait is recorded.
    pub async fn waiting<F: Future>(&self, acquire: F) -> F::Output {
        self.queue_depth.increment(1.0);
        let _waiting = Waiting(self, Instant::now());
        acquire.await
    }

    /// Records how long a lock was held.
    pub fn record_hold(&self, duration: Duration) {
        self.hold_seconds.record(duration);
    }

    /// Counts a hold that was lost, if that is what `error` says.
    pub fn count_lost(&self, error: &zk_recipes::Error) {
        if let zk_recipes::Error::HoldLost { reason, .. } = error
            && let Some(counter) = self.lost.get(reason)
        {
            counter.increment(1);
        }
    }

    /// Counts an attempt that was overtaken and is made again.
    pub fn count_retry(&self) {
        self.retries.increment(1);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Self(metrics, since) = self;
        metrics.queue_depth.decrement(1.0);
        metrics.wait_seconds.record(since.elapsed());
    }
}
