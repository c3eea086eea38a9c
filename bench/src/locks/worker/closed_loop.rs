//! Contenders that acquire and release without a pause.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::Error;
use program::chain;
use tokio::task::JoinSet;

use super::contender::{Contender, Sessions};
use super::{counts, lock};
use crate::protocol::{Contest, ContestProgress, Measured};

/// The contenders of one lock, at work.
pub(super) struct WorkerLoop {
    sessions: Sessions,
    shared: Arc<WorkerLoopShared>,
    contenders: JoinSet<()>,
}

/// The state that the contenders share.
#[derive(Default)]
struct WorkerLoopShared {
    begun: AtomicU32,
    finished: AtomicU64,
    is_stopping: AtomicBool,
    is_held: AtomicBool,
    is_measuring: AtomicBool,
    /// Times of the cycles that have finished in the window, in microseconds.
    times_us: Mutex<Vec<u64>>,
    /// The error of the first contender that failed.
    failure: Mutex<Option<String>>,
}

impl WorkerLoop {
    /// Opens the sessions and starts every contender.
    pub(super) async fn start(contest: &Contest) -> Result<Self, Error> {
        let sessions = Sessions::open(contest).await?;
        let shared = Arc::new(WorkerLoopShared::default());
        let mut contenders = JoinSet::new();
        for i in 0..usize::try_from(contest.contenders)? {
            let contender = sessions.contender(i, &contest.path)?;
            let shared = Arc::clone(&shared);
            contenders.spawn(async move {
                if let Err(failure) = contend(&contender, &shared).await {
                    lock(&shared.failure).get_or_insert(chain(&failure));
                }
            });
        }
        Ok(Self { sessions, shared, contenders })
    }

    pub(super) fn progress(&self) -> Result<ContestProgress, Error> {
        self.shared.check()?;
        Ok(ContestProgress {
            begun: self.shared.begun.load(Ordering::Relaxed),
            finished: self.shared.finished.load(Ordering::Relaxed),
        })
    }

    /// Times the cycles that finish within a window that begins now.
    pub(super) async fn measure(&self, window: Duration) -> Result<Measured, Error> {
        let started = Instant::now();
        self.shared.is_measuring.store(true, Ordering::Relaxed);
        tokio::time::sleep(window).await;
        self.shared.is_measuring.store(false, Ordering::Relaxed);
        let elapsed_us = u64::try_from(started.elapsed().as_micros())?;
        let times_us = std::mem::take(&mut *lock(&self.shared.times_us));
        self.shared.check()?;
        Ok(Measured { elapsed_us, times_us: counts(times_us) })
    }

    /// Lets the contenders finish their cycles within a time, and ends the sessions. Returns how many were cut off.
    pub(super) async fn stop(mut self, within: Duration) -> Result<u32, Error> {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        let all_ended = async { while self.contenders.join_next().await.is_some() {} };
        // The only error is the time limit. The contenders that are left are cut off below.
        let _ = tokio::time::timeout(within, all_ended).await;
        let cut_off = u32::try_from(self.contenders.len())?;
        self.shared.check()?;
        // Contenders that are left would go on with the lock until their sessions end.
        self.contenders.shutdown().await;
        self.sessions.close().await?;
        Ok(cut_off)
    }
}

impl WorkerLoopShared {
    /// Fails once a contender has failed.
    fn check(&self) -> Result<(), Error> {
        lock(&self.failure).clone().map_or(Ok(()), |reason| Err(Error::Failed(reason)))
    }
}

async fn contend(contender: &Contender, shared: &WorkerLoopShared) -> Result<(), Error> {
    shared.begun.fetch_add(1, Ordering::Relaxed);
    while !shared.is_stopping.load(Ordering::Relaxed) {
        let called = Instant::now();
        let held = contender.acquire().await?;
        contender.check_alone(&shared.is_held)?;
        held.release().await?;
        shared.finished.fetch_add(1, Ordering::Relaxed);
        if shared.is_measuring.load(Ordering::Relaxed) {
            let time_us = u64::try_from(called.elapsed().as_micros())?;
            lock(&shared.times_us).push(time_us);
        }
    }
    Ok(())
}
