//! A closed loop: each of N contenders begins its next round as soon as it has finished one.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use program::chain;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use crate::Error;

/// Contenders that go on between the samples of a bench. So each sample has only rounds of a full queue.
#[derive(Debug)]
pub struct ClosedLoop {
    tally: Arc<Tally>,
    contenders: JoinSet<()>,
}

/// The progress of the contenders. A failure closes both semaphores.
#[derive(Debug)]
struct Tally {
    /// A permit for every contender that has finished its first round.
    settled: Semaphore,
    /// A permit for every round that was finished.
    finished: Semaphore,
    failure: OnceLock<Error>,
}

impl ClosedLoop {
    /// Starts one contender per item of `contenders`, which makes the future of a round. Returns when each contender
    /// has finished its first round: by then all of them have queued.
    ///
    /// # Errors
    /// The first failure of a round.
    ///
    /// # Cancel safety
    /// Dropped, the rounds under way are dropped.
    pub async fn start<R, F>(contenders: impl IntoIterator<Item = R>) -> Result<Self, Error>
    where
        R: Fn() -> F + Send + 'static,
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let tally =
            Arc::new(Tally { settled: Semaphore::new(0), finished: Semaphore::new(0), failure: OnceLock::new() });
        let mut tasks = JoinSet::new();
        for round in contenders {
            let tally = Arc::clone(&tally);
            tasks.spawn(async move { tally.fail(contend(round, &tally).await) });
        }
        let contenders = tasks.len();
        let running = Self { tally, contenders: tasks };
        running.tally.wait_for(&running.tally.settled, contenders).await?;
        Ok(running)
    }

    /// Returns how long the contenders take together for `rounds` rounds, from the end of one round to the end of another.
    ///
    /// # Errors
    /// The first failure of a round.
    ///
    /// # Cancel safety
    /// Dropped, the rounds of this sample are not counted.
    pub async fn time(&self, rounds: u64) -> Result<Duration, Error> {
        let finished = &self.tally.finished;
        // Rounds that were finished since the last sample belong to no sample.
        self.tally.wait_for(finished, finished.available_permits() + 1).await?;
        let began = Instant::now();
        self.tally.wait_for(finished, usize::try_from(rounds)?).await?;
        Ok(began.elapsed())
    }

    /// Drops the rounds under way, and returns when that is done.
    ///
    /// # Cancel safety
    /// Dropped, the rounds under way are dropped all the same.
    pub async fn stop(mut self) {
        self.contenders.shutdown().await;
    }
}

/// Does one round after the other, until one fails.
async fn contend<R, F>(round: R, tally: &Tally) -> Error
where
    R: Fn() -> F,
    F: Future<Output = Result<(), Error>>,
{
    if let Err(failure) = round().await {
        return failure;
    }
    tally.settled.add_permits(1);
    loop {
        if let Err(failure) = round().await {
            return failure;
        }
        tally.finished.add_permits(1);
    }
}

impl Tally {
    /// Stores a failure and wakes the waiting tasks. The first failure is the cause: later ones may follow from it.
    fn fail(&self, failure: Error) {
        // Stored before the semaphores are closed: a task that they wake reads it at once.
        self.failure.set(failure).ok();
        self.settled.close();
        self.finished.close();
    }

    /// Waits for `count` permits, and uses them up.
    async fn wait_for(&self, permits: &Semaphore, count: usize) -> Result<(), Error> {
        let acquired = permits.acquire_many(u32::try_from(count)?).await;
        let reason = || self.failure.get().map_or_else(|| "the loop has ended".to_owned(), |failure| chain(failure));
        acquired.map(SemaphorePermit::forget).map_err(|_| Error::Failed(reason()))
    }
}
