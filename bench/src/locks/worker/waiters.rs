//! Many waiters that queue behind one holder and are served once each.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bench::Error;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use zk_recipes::{Session, Traffic};

use super::contender::Sessions;
use crate::protocol::{Contest, ContestProgress, Drained};

/// A queue whose first holder releases when told to.
pub(super) struct WaitingQueue {
    // Dropped before the sessions, which the waiters use.
    tasks: JoinSet<Result<String, Error>>,
    release: oneshot::Sender<()>,
    shared: Arc<WaitersShared>,
    sessions: Sessions,
    waiters: u32,
}

#[derive(Default)]
struct WaitersShared {
    begun: AtomicU32,
    is_held: AtomicBool,
}

impl WaitingQueue {
    /// Opens the sessions, acquires the lock, and lets the waiters queue behind it.
    pub(super) async fn queue(contest: &Contest) -> Result<Self, Error> {
        let sessions = Sessions::open(contest).await?;
        let shared = Arc::new(WaitersShared::default());
        let mut tasks = JoinSet::new();
        let (release, released) = oneshot::channel();
        let (acquired, is_acquired) = oneshot::channel();
        let first = sessions.contender(0, &contest.path)?;
        tasks.spawn(async move {
            let held = first.acquire().await?;
            let token = held.token().unwrap_or_default();
            // If the send or the wait fails, the queue was dropped, and this task ends with it.
            let _ = acquired.send(());
            let _ = released.await;
            held.release().await.map(|()| token)
        });
        if is_acquired.await.is_err() {
            return Err(match tasks.join_next().await {
                Some(Ok(Err(failure))) => failure,
                _ => Error::Failed("the first holder ended early".to_owned()),
            });
        }
        for i in 0..usize::try_from(contest.contenders)? {
            let contender = sessions.contender(i, &contest.path)?;
            let shared = Arc::clone(&shared);
            tasks.spawn(async move {
                shared.begun.fetch_add(1, Ordering::Relaxed);
                let held = contender.acquire().await?;
                if shared.is_held.swap(true, Ordering::AcqRel) {
                    return Err(Error::Failed("two waiters held the lock at once".to_owned()));
                }
                let token = held.token().unwrap_or_default();
                shared.is_held.store(false, Ordering::Release);
                held.release().await.map(|()| token)
            });
        }
        Ok(Self { tasks, release, shared, sessions, waiters: contest.contenders })
    }

    /// Fails when a waiter has failed or ended: no waiter ends before the drain.
    pub(super) fn progress(&mut self) -> Result<ContestProgress, Error> {
        match self.tasks.try_join_next() {
            None => Ok(ContestProgress { begun: self.shared.begun.load(Ordering::Relaxed), finished: 0 }),
            Some(Ok(Err(failure))) => Err(failure),
            Some(_) => Err(Error::Failed("a waiter got the lock while another held it".to_owned())),
        }
    }

    /// Releases the lock and waits until all waiters have been served, for at most `within`.
    pub(super) async fn drain(self, within: Duration) -> Result<Drained, Error> {
        let Self { mut tasks, release, sessions, waiters, .. } = self;
        let before = traffic(sessions.of_recipes());
        let started = Instant::now();
        // A failed send means that the first holder has failed. Its result says why.
        let _ = release.send(());
        let mut tokens = BTreeSet::new();
        let mut finished = 0_u32;
        let everybody = async {
            while let Some(result) = tasks.join_next().await {
                tokens.insert(result??);
                finished += 1;
            }
            Ok::<_, Error>(())
        };
        let in_time = tokio::time::timeout(within, everybody).await;
        let elapsed_us = u64::try_from(started.elapsed().as_micros())?;
        match in_time {
            Ok(drained) => drained?,
            Err(_) => return Err(Error::Failed(format!("{finished} of {waiters} were served within {within:?}"))),
        }
        let traffic = traffic(sessions.of_recipes()).since(before);
        sessions.close().await?;
        Ok(Drained {
            // The first holder is not one of the waiters.
            served: finished.saturating_sub(1),
            tokens: u32::try_from(tokens.len())?.saturating_sub(1),
            elapsed_us,
            requests: traffic.requests,
            notifications: traffic.notifications,
            bytes: traffic.bytes_sent + traffic.bytes_received,
        })
    }
}

fn traffic(sessions: &[Session]) -> Traffic {
    sessions.iter().map(Session::traffic).sum()
}
