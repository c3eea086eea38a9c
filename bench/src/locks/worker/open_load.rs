//! Acquires that arrive at a rate, whether or not earlier ones were granted.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bench::Error;
use program::chain;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::contender::{Contender, Sessions};
use super::{counts, lock};
use crate::arrivals::Arrivals;
use crate::protocol::{Arrived, OpenLoad};

/// The state that the acquires share.
#[derive(Default)]
struct OpenLoadShared {
    outstanding: AtomicU32,
    is_held: AtomicBool,
    /// The waits of the timed arrivals that were granted, in microseconds.
    waits_us: Mutex<Vec<u64>>,
    /// The error of the first acquire that failed.
    failure: Mutex<Option<String>>,
}

/// The acquires that have arrived.
struct Offered {
    tasks: JoinSet<()>,
    dropped: u64,
    elapsed: Duration,
}

/// Puts the load on the lock and waits for the outstanding acquires.
pub(super) async fn serve(load: OpenLoad) -> Result<Arrived, Error> {
    let contest = &load.contest;
    let sessions = Sessions::open(contest).await?;
    let contenders =
        (0..usize::try_from(contest.sessions)?).map(|i| sessions.contender(i, &contest.path).map(Arc::new));
    let contenders = contenders.collect::<Result<Vec<_>, _>>()?;
    let shared = Arc::new(OpenLoadShared::default());
    let within = Duration::from_millis(load.within_ms);
    let arrived = u64::from(load.timed);
    let offered = {
        let shared = Arc::clone(&shared);
        // A thread of its own: the timers of the runtime are too coarse.
        tokio::task::spawn_blocking(move || offer(&load, &contenders, &shared, &Handle::current())).await?
    };
    let Offered { mut tasks, dropped, elapsed } = offered;
    // The only error is the time limit. The acquires that are left are cut off below.
    let _ = tokio::time::timeout(within, async { while tasks.join_next().await.is_some() {} }).await;
    let waits_us = counts(std::mem::take(&mut *lock(&shared.waits_us)));
    if let Some(reason) = lock(&shared.failure).clone() {
        return Err(Error::Failed(reason));
    }
    // Acquires that are left would go on with the lock until their sessions end.
    tasks.shutdown().await;
    sessions.close().await?;
    Ok(Arrived { arrived, dropped, elapsed_us: u64::try_from(elapsed.as_micros())?, waits_us })
}

/// Starts each acquire at its moment, or drops it.
fn offer(load: &OpenLoad, contenders: &[Arc<Contender>], shared: &Arc<OpenLoadShared>, runtime: &Handle) -> Offered {
    let mut tasks = JoinSet::new();
    let mut dropped = 0;
    let mut first_timed = Instant::now();
    let began = Instant::now();
    let moments = Arrivals::new(load.rate_per_s, load.seed).zip(0..load.untimed.saturating_add(load.timed));
    for ((at, i), contender) in moments.zip(contenders.iter().cycle()) {
        let due = began + at;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let is_timed = i >= load.untimed;
        if i == load.untimed {
            first_timed = due;
        }
        // Only this thread adds acquires, so the look and the addition need not be one step.
        if shared.outstanding.load(Ordering::Relaxed) >= load.contest.contenders {
            dropped += u64::from(is_timed);
            continue;
        }
        shared.outstanding.fetch_add(1, Ordering::Relaxed);
        let contender = Arc::clone(contender);
        let shared = Arc::clone(shared);
        let acquire = async move {
            if let Err(failure) = acquire(&contender, &shared, due, is_timed).await {
                lock(&shared.failure).get_or_insert(chain(&failure));
            }
            shared.outstanding.fetch_sub(1, Ordering::Relaxed);
        };
        tasks.spawn_on(acquire, runtime);
    }
    Offered { tasks, dropped, elapsed: first_timed.elapsed() }
}

/// Waits for the grant, and releases at once.
async fn acquire(contender: &Contender, shared: &OpenLoadShared, due: Instant, is_timed: bool) -> Result<(), Error> {
    let held = contender.acquire().await?;
    let wait = due.elapsed();
    contender.check_alone(&shared.is_held)?;
    if is_timed {
        lock(&shared.waits_us).push(u64::try_from(wait.as_micros())?);
    }
    held.release().await
}
