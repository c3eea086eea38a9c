//! Every recipe on a real ZooKeeper: alone, and handing over among contenders. Compare within one run only, or two
//! revisions by `make bench-compare`.

#![allow(missing_docs, reason = "criterion's macros generate undocumented items")]

use std::time::Duration;

use bench::{ClosedLoop, Error, LockServer, Recipe, open_sessions};
use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use testbed::ZooKeeper;
use tokio::runtime::Runtime;
use zk_recipes::Session;
use zookeeper_client::{Acls, Client, CreateMode};

/// Number of sessions that the contenders share.
const SESSIONS: usize = 3;

/// Numbers of contenders for a lock.
const CONTENDERS: [usize; 4] = [2, 30, 300, 1500];

/// The most contenders for the naive lock. Each of its releases wakes all others, and all of them ask again. One hand-over
/// among 300 takes some 600 requests. As there is no order, thousands of hand-overs would pass until each has had its turn.
const HERD_MAX: usize = 30;

/// Upper bound of the contenders when the benches are only run once: gathering a crowd would take most of the time.
const TEST_CONTENDERS_MAX: usize = 6;

/// Times an acquire and a release without contention, and the least work of any lock: create a node, delete it.
fn uncontended(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let lock_server = runtime.block_on(LockServer::start(1)).expect("a ZooKeeper server");
    let mut group = c.benchmark_group("uncontended");
    let raw = runtime.block_on(Client::connect(&lock_server.server.connect_string())).expect("a client");
    group.bench_function("raw create and delete", |b| {
        b.to_async(&runtime).iter(async || {
            let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
            raw.create("/raw", &[], &options).await.expect("the node is created");
            raw.delete("/raw", None).await.expect("the node is deleted");
        });
    });
    for recipe in Recipe::ALL {
        let lock = recipe.lock(&lock_server.sessions[0]).expect("a valid path");
        group.bench_function(recipe.name(), |b| {
            b.to_async(&runtime).iter(async || lock.cycle().await.expect("the lock is acquired and released"));
        });
    }
    group.finish();
}

/// Times one cycle under contention. One cycle is one hand-over, except for readers and permits, which share the lock.
fn handover(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let LockServer { server, .. } = runtime.block_on(LockServer::start(0)).expect("a ZooKeeper server");
    let mut group = c.benchmark_group("handover");
    // Every sample takes the same time, however slow a hand-over is.
    group.sampling_mode(SamplingMode::Flat);
    for recipe in Recipe::ALL {
        for contenders in CONTENDERS.into_iter().filter(|&count| recipe != Recipe::Naive || count <= HERD_MAX) {
            // Criterion calls the function once for each sample. The crowd stays for all of them.
            let mut crowd = None;
            group.bench_function(BenchmarkId::new(recipe.name(), contenders), |b| {
                let crowd = crowd.get_or_insert_with(|| {
                    runtime.block_on(Crowd::gather(&server, recipe, contenders)).expect("everybody queues")
                });
                b.to_async(&runtime)
                    .iter_custom(async |rounds| crowd.contending.time(rounds).await.expect("the lock is handed over"));
            });
            if let Some(crowd) = crowd {
                runtime.block_on(crowd.disperse()).expect("the sessions are closed");
            }
        }
    }
    group.finish();
}

/// Contenders for one lock, over sessions of their own.
struct Crowd {
    sessions: Vec<Session>,
    contending: ClosedLoop,
}

impl Crowd {
    async fn gather(server: &ZooKeeper, recipe: Recipe, contenders: usize) -> Result<Self, Error> {
        let contenders = if is_test_mode() { contenders.min(TEST_CONTENDERS_MAX) } else { contenders };
        let sessions = open_sessions(server, SESSIONS).await?;
        let mut rounds = Vec::with_capacity(contenders);
        for session in sessions.iter().cycle().take(contenders) {
            let lock = recipe.lock(session)?;
            rounds.push(move || {
                let lock = lock.clone();
                async move { lock.cycle().await }
            });
        }
        Ok(Self { contending: ClosedLoop::start(rounds).await?, sessions })
    }

    /// Leaves the server as it was. It deletes the nodes of a session when that is closed.
    async fn disperse(self) -> Result<(), Error> {
        self.contending.stop().await;
        for session in self.sessions {
            session.close().await?;
        }
        Ok(())
    }
}

/// Returns whether the benches are only run once and not measured. Criterion does not tell, so this is its own condition.
fn is_test_mode() -> bool {
    let is_given = |flag: &str| std::env::args().any(|argument| argument == flag);
    is_given("--test") || !is_given("--bench")
}

criterion_group! {
    name = alone;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = uncontended
}
criterion_group! {
    name = crowded;
    // The crowd is warm when the first sample begins.
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3));
    targets = handover
}
criterion_main!(alone, crowded);
