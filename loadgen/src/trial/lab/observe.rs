//! The observations of a trial that its audit does not need: counters, waits, processor time. If an observer fails, the
//! trial goes on. The report leaves the figures out, and says which and why.

use std::time::Duration;

use program::chain;
use tokio::time::{Instant, MissedTickBehavior, timeout};

use crate::error::Error;
use crate::lab::counters::Snapshot;
use crate::lab::cpu::CpuTimes;
use crate::lab::deployment::Deployment;
use crate::lab::postgres::Database;
use crate::lab::postgres_load::{LockWaits, PostgresCounters, PostgresLoad};
use crate::trial::lab::settle::snapshot_of;

/// Upper bound of the time of an observation.
const OBSERVE_WITHIN: Duration = Duration::from_secs(30);
/// Interval between samples of the waits for locks of Postgres.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// The observations of a trial that failed.
#[derive(Debug, Default)]
pub(super) struct LeftOut(Vec<String>);

impl LeftOut {
    /// Returns what was observed. If that failed or took too long, notes what the report leaves out and why.
    pub(super) async fn unless<T>(
        &mut self,
        what: &str,
        observation: impl Future<Output = Result<T, Error>>,
    ) -> Option<T> {
        match timeout(OBSERVE_WITHIN, observation).await {
            Ok(Ok(observed)) => return Some(observed),
            Ok(Err(error)) => self.note(what, &chain(&error)),
            Err(_) => self.note(what, &too_long()),
        }
        None
    }

    /// Notes what the report leaves out and why, once.
    pub(super) fn note(&mut self, what: &str, reason: &str) {
        let line = format!("{what}: {reason}");
        if !self.0.contains(&line) {
            self.0.push(line);
        }
    }

    /// Returns one line for each failure.
    pub(super) fn lines(self) -> Vec<String> {
        self.0
    }
}

fn too_long() -> String {
    format!("no answer within {} s", OBSERVE_WITHIN.as_secs())
}

/// All counters at one moment.
pub(super) struct Counted {
    pub(super) snapshot: Snapshot,
    pub(super) postgres: Option<PostgresCounters>,
    pub(super) cpu: CpuTimes,
}

/// Reads every counter.
pub(super) async fn count(deployment: &Deployment, left_out: &mut LeftOut) -> Counted {
    let of_instances = "traffic on ZooKeeper and processor time of the instances";
    let (snapshot, instances) = left_out.unless(of_instances, snapshot_of(deployment)).await.unwrap_or_default();
    let cpu = CpuTimes::now(instances, &deployment.server_processes);
    let postgres = left_out.unless("transactions and log of Postgres", deployment.database.counters()).await;
    Counted { snapshot, postgres, cpu }
}

/// Returns the cost of the trial for Postgres.
pub(super) async fn postgres_load(
    database: &Database,
    (before, after): (Option<&PostgresCounters>, Option<&PostgresCounters>),
    lock_waits: LockWaits,
    (goods_nos, sales): (&[i64], &[i64]),
    left_out: &mut LeftOut,
) -> PostgresLoad {
    let transactions = match (before, after) {
        (Some(before), Some(after)) => {
            left_out.unless("transactions of Postgres", database.transactions(before, after)).await.flatten()
        }
        _ => None,
    };
    let batches = left_out.unless("orders of each transaction", database.batches(goods_nos, sales)).await.flatten();
    let grown = |(before, after): (&PostgresCounters, &PostgresCounters)| after.wal_bytes - before.wal_bytes;
    PostgresLoad {
        commits: transactions.map(|(commits, _)| commits),
        rollbacks: transactions.map(|(_, rollbacks)| rollbacks),
        wal_bytes: before.zip(after).map(grown).and_then(|bytes| u64::try_from(bytes).ok()),
        lock_wait_ms: (lock_waits.looks > 0).then_some(lock_waits.waited_ms),
        lock_waiting_max: (lock_waits.looks > 0).then_some(lock_waits.waiting_max),
        lock_looks: lock_waits.looks,
        batch_mean: batches.map(|(mean, _)| mean),
        batch_max: batches.map(|(_, most)| most),
    }
}

/// Samples the waits for locks of the database while the load runs. If a sample fails, all are dropped, because their sum
/// would lack waits.
pub(super) async fn with_lock_waits<T>(
    database: &Database,
    load: impl Future<Output = T>,
    left_out: &mut LeftOut,
) -> (T, LockWaits) {
    let mut waits = LockWaits::default();
    tokio::pin!(load);
    tokio::select! {
        // If both are ready, the load has ended, and the failed sample came too late to matter.
        biased;
        ended = &mut load => (ended, waits),
        reason = sample_lock_waits(database, &mut waits) => {
            left_out.note("waits for locks of Postgres", &reason);
            (load.await, LockWaits::default())
        }
    }
}

/// Samples until a sample fails, and returns the reason.
async fn sample_lock_waits(database: &Database, waits: &mut LockWaits) -> String {
    let mut poll = tokio::time::interval(LOCK_POLL);
    // By default, the ticks that a slow sample has missed would all come at once, and the database is busy already.
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looked = Instant::now();
    loop {
        poll.tick().await;
        match timeout(OBSERVE_WITHIN, database.waiting()).await {
            // A busy database delays samples, so each is weighted by the time since the last one.
            Ok(Ok(waiting)) => waits.add(waiting, looked.elapsed()),
            Ok(Err(error)) => return chain(&error),
            Err(_) => return too_long(),
        }
        looked = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use sqlx::ConnectOptions;
    use sqlx::postgres::PgConnectOptions;
    use testbed::TestDatabase;

    use super::*;

    // C24
    #[tokio::test]
    async fn a_sample_of_lock_waits_that_fails_says_why() {
        let server = TestDatabase::create().await.unwrap();
        let database = Database::connect(server.url()).await.unwrap();
        let options: PgConnectOptions = server.url().parse().unwrap();
        let name = options.get_database().unwrap().to_owned();
        let mut other = options.database("postgres").connect().await.unwrap();
        let mut execute = async |statements: String| {
            sqlx::raw_sql(sqlx::AssertSqlSafe(statements)).execute(&mut other).await.unwrap();
        };
        execute(format!("alter database \"{name}\" allow_connections false")).await;
        let reason = sample_lock_waits(&database, &mut LockWaits::default()).await;
        assert!(reason.starts_with("could not look who waits in postgres: "), "{reason}");
        execute(format!("alter database \"{name}\" allow_connections true")).await;
    }
}
