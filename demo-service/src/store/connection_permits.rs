//! How many connections of a pool may be in use. A server that has no connection left refuses further ones, and then the callers
//! share those that are open.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};

/// The pause between two attempts at a connection more than the server has accepted. Each attempt costs the server a process.
const GROW_PAUSE: Duration = Duration::from_secs(1);

/// The pause between two attempts at the only connection of a pool.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The permits of a pool. A refusal takes one away, and time gives it back.
pub(super) struct ConnectionPermits {
    open: Arc<Semaphore>,
    taken_away: Mutex<TakenAway>,
    max: usize,
}

struct TakenAway {
    count: usize,
    since: Instant,
}

impl ConnectionPermits {
    /// Makes `max` permits.
    pub(super) fn new(max: usize) -> Self {
        let taken_away = Mutex::new(TakenAway { count: 0, since: Instant::now() });
        Self { open: Arc::new(Semaphore::new(max)), taken_away, max }
    }

    /// Waits for a permit, in the order of arrival.
    pub(super) async fn take(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.give_back(GROW_PAUSE);
        Arc::clone(&self.open).acquire_owned().await
    }

    /// Takes a permit away, because the server refused a connection. The last permit stays, and its next taker waits a moment.
    pub(super) async fn refused(&self, permit: OwnedSemaphorePermit) {
        let is_last = {
            let mut taken_away = self.taken_away.lock();
            taken_away.since = Instant::now();
            let is_last = taken_away.count + 1 == self.max;
            taken_away.count += usize::from(!is_last);
            is_last
        };
        if is_last {
            sleep(FIRST_PAUSE).await;
        } else {
            permit.forget();
        }
    }

    /// Gives one more permit back, because the server accepted a connection.
    pub(super) fn accepted(&self) {
        self.give_back(Duration::ZERO);
    }

    fn give_back(&self, after: Duration) {
        let mut taken_away = self.taken_away.lock();
        if taken_away.count > 0 && taken_away.since.elapsed() >= after {
            *taken_away = TakenAway { count: taken_away.count - 1, since: Instant::now() };
            self.open.add_permits(1);
        }
    }

    /// Fails everybody who waits.
    pub(super) fn close(&self) {
        self.open.close();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    // S89
    #[tokio::test]
    async fn refusals_take_permits_away_but_not_the_last() {
        let permits = ConnectionPermits::new(3);
        for _ in 0..5 {
            permits.refused(permits.take().await.unwrap()).await;
        }
        let last = permits.take().await.unwrap();
        assert!(permits.take().now_or_never().is_none());
        permits.accepted();
        let second = permits.take().await.unwrap();
        permits.accepted();
        let third = permits.take().await.unwrap();
        permits.accepted();
        assert!(permits.take().now_or_never().is_none(), "there are never more than at first");
        drop((last, second, third));
    }
}
