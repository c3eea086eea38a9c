//! A closed loop: each of N contenders begins its next round as soon as it has finished one.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Why a round failed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Contenders that go on contending between the samples of a bench, so that a sample is rounds of a full queue and
/// nothing else.
#[derive(Debug)]
pub struct ClosedLoop {
    tally: Arc<Tally>,
    contenders: JoinSet<()>,
}

/// What the contenders report. A failure closes both semaphores.
#[derive(Debug)]
struct Tally {
    /// A permit for every contender that has finished its first round.
    settled: Semaphore,
    /// A permit for every round that was finished.
    finished: Semaphore,
    failure: OnceLock<BoxError>,
}

impl ClosedLoop {
    /// Starts a contender for each of `contenders`, which makes the future of a round, and returns once each has
    /// finished its first: all of them have queued up by then.
    ///
    /// # Errors
    /// The first failure of a round.
    ///
    /// # Cancel safety
    /// Dropped, the rounds under way are dropped.
    pub async fn start<R, F>(contenders: impl IntoIterator<Item = R>) -> Result<Self, BoxError>
    where
        R: Fn() -> F + Send + 'static,
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
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

    /// How long the contenders take for that many rounds in all, from the end of one round to the end of another.
    ///
    /// # Errors
    /// The first failure of a round.
    ///
    /// # Cancel safety
    /// Dropped, the rounds of this sample are not counted.
    pub async fn time(&self, rounds: u64) -> Result<Duration, BoxError> {
        let finished = &self.tally.finished;
        // Those that were finished since the last sample count for none.
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
async fn contend<R, F>(round: R, tally: &Tally) -> BoxError
where
    R: Fn() -> F,
    F: Future<Output = Result<(), BoxError>>,
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
    /// Wakes the waiting tasks. Others may fail at the same time or because of it; the first failure is the cause.
    fn fail(&self, failure: BoxError) {
        self.failure.set(failure).ok();
        self.settled.close();
        self.finished.close();
    }

    /// Waits for `count` permits, and uses them up.
    async fn wait_for(&self, permits: &Semaphore, count: usize) -> Result<(), BoxError> {
        match permits.acquire_many(u32::try_from(count)?).await {
            Ok(acquired) => {
                acquired.forget();
                Ok(())
            }
            Err(closed) => Err(self.failure.get().map_or_else(|| closed.into(), |failure| failure.to_string().into())),
        }
    }
}
