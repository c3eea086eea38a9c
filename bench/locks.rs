//! Every recipe on a real ZooKeeper: alone, and handing over among contenders. Compare within one run only.

#![allow(missing_docs, reason = "criterion's macros generate undocumented items")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::{Recipe, Stage};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tokio::runtime::Runtime;
use zk_recipes::Session;
use zookeeper_client::{Acls, Client, CreateMode};

/// Sessions that the contenders share out among themselves.
const SESSIONS: usize = 3;

/// Acquire and release with nobody else there, beside the least that any lock must do: create a node, delete it.
fn uncontended(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let stage = runtime.block_on(Stage::set(1)).expect("a ZooKeeper server");
    let mut group = c.benchmark_group("uncontended");
    let raw = runtime.block_on(Client::connect(&stage.server.connect_string())).expect("a client");
    group.bench_function("raw create and delete", |b| {
        b.to_async(&runtime).iter(async || {
            let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
            raw.create("/raw", &[], &options).await.expect("the node is created");
            raw.delete("/raw", None).await.expect("the node is deleted");
        });
    });
    for recipe in Recipe::ALL {
        let lock = recipe.lock(&stage.sessions[0]).expect("a valid path");
        group.bench_function(recipe.name(), |b| {
            b.to_async(&runtime).iter(async || lock.cycle().await.expect("the lock is acquired and released"));
        });
    }
    group.finish();
}

/// The time of one cycle while many contend: that of a hand-over, but for readers and permits, which share the lock.
fn handover(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let stage = runtime.block_on(Stage::set(SESSIONS)).expect("a ZooKeeper server");
    let mut group = c.benchmark_group("handover");
    group.sample_size(10).measurement_time(Duration::from_secs(10));
    for recipe in Recipe::ALL {
        for contenders in [2, 30] {
            group.bench_function(BenchmarkId::new(recipe.name(), contenders), |b| {
                b.to_async(&runtime).iter_custom(|rounds| contend(recipe, &stage.sessions, contenders, rounds));
            });
        }
    }
    group.finish();
}

/// How long `contenders` take for `rounds` cycles in all.
async fn contend(recipe: Recipe, sessions: &[Session], contenders: usize, rounds: u64) -> Duration {
    let begun = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let contenders: Vec<_> = (0..contenders)
        .map(|i| {
            let lock = recipe.lock(&sessions[i % sessions.len()]).expect("a valid path");
            let begun = Arc::clone(&begun);
            tokio::spawn(async move {
                while begun.fetch_add(1, Ordering::Relaxed) < rounds {
                    lock.cycle().await.expect("the lock is acquired and released");
                }
            })
        })
        .collect();
    for contender in contenders {
        contender.await.expect("a contender finishes");
    }
    started.elapsed()
}

criterion_group!(benches, uncontended, handover);
criterion_main!(benches);
