//! What strategies work with: the servers, the settings, and the other instances.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::call::Call;
use crate::failure::{self, Failure};
use crate::instances::{Address, Instances};
use crate::redis_store::RedisStore;
use crate::sale::{BusinessTime, LockSequence};
use crate::sessions::SessionPool;
use crate::store::Store;
use crate::telemetry::history::History;
use crate::telemetry::{LockMetrics, Outcomes};

/// What a strategy works with.
#[derive(Clone)]
pub struct Context {
    /// The name of the strategy, for orders, metrics and the history.
    pub strategy: &'static str,
    /// The family of the strategy. The strategy writes only sales that this family guards.
    pub family: &'static str,
    /// Whether the strategy keeps the limit per buyer of a sale.
    pub keeps_limit: bool,
    /// The metrics of the waits and holds.
    pub metrics: LockMetrics,
    /// Where decisions are counted that are made beside the requests.
    pub outcomes: Outcomes,
    /// What it shares with the other strategies of the instance.
    pub shared: Arc<Shared>,
}

/// What all strategies of an instance share.
pub struct Shared {
    /// The database.
    pub store: Store,
    /// The ZooKeeper sessions.
    pub sessions: SessionPool,
    /// Redis, if the instance has one.
    pub redis: Option<RedisStore>,
    /// The history, in which critical sections are recorded.
    pub history: Arc<History>,
    /// The name of the instance, for its orders.
    pub instance: Box<str>,
    /// The settings.
    pub settings: Settings,
    /// How buyers are handed over between instances.
    pub hand_over: HandOver,
    /// Wakes the worker of `pg-queue`, if a ticket waits.
    pub tickets: Notify,
    /// Wakes the sweeper of reservations, if one was made.
    pub reserved: Notify,
    /// The tasks that a shutdown waits for.
    pub tasks: TaskTracker,
    /// Cancelled when the service shuts down. That ends waits.
    pub closing: CancellationToken,
}

/// The settings of an instance that its strategies use.
pub struct Settings {
    /// The simulated business time of a purchase.
    pub business_time: BusinessTime,
    /// The deadline for the lock, counted from the arrival of the request.
    pub lock_wait: Duration,
    /// The deadline for the database, counted from the arrival of the request.
    pub db_timeout: Duration,
    /// The order in which the locks of a cart are taken.
    pub lock_order: LockSequence,
    /// Permits of the semaphore of a SKU.
    pub permits: u32,
    /// The time to live of a lock in Redis.
    pub redis_lock_ttl: Duration,
    /// How long a reservation holds its units.
    pub reservation_ttl: Duration,
    /// How long an idempotency key is kept.
    pub key_lifetime: Duration,
    /// Upper bound of the attempts of a purchase that other purchases overtake.
    pub attempts_max: u32,
}

/// How buyers are handed over between instances. Only `zk-owner` does so.
pub struct HandOver {
    /// The identity of the database.
    pub database: Box<str>,
    /// How the other instances reach this one.
    pub address: Arc<Address>,
    /// The connections to the other instances.
    pub instances: Instances,
}

impl Context {
    /// Returns the deadline for the lock.
    pub(super) fn lock_until(&self, call: &Call) -> Instant {
        call.arrived + self.shared.settings.lock_wait
    }

    /// Returns the deadline for the database of a purchase whose deadline for the lock is `lock_until`.
    pub(super) fn database_until(&self, lock_until: Instant) -> Instant {
        let Settings { lock_wait, db_timeout, .. } = self.shared.settings;
        lock_until - lock_wait + db_timeout
    }

    /// Waits for `wait` until the service shuts down.
    pub(super) async fn until_closing<T>(&self, wait: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            had = wait => had,
            () = self.shared.closing.cancelled() => Err(Failure::client_gone()),
        }
    }

    /// Waits until a buyer gives up: hangs up, or has waited for the lock until `until`. Returns why.
    pub(super) async fn leaving(&self, call: &Call, until: Instant) -> Failure {
        tokio::select! {
            biased;
            () = call.client.cancelled() => Failure::client_gone(),
            () = sleep_until(until) => {
                if until < call.until { self.lock_timeout() } else { Failure::database_unavailable() }
            }
        }
    }

    /// Returns the failure of a purchase whose lock was not granted in time.
    pub(super) fn lock_timeout(&self) -> Failure {
        let within = self.shared.settings.lock_wait;
        let detail = format!("the lock was not acquired within {within:?} of the request; nothing was written");
        Failure::new(&failure::LOCK_TIMEOUT, detail)
    }
}
