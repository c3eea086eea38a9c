//! Any lock of the library behind one face, with every form of acquire.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use zk_recipes::{AnyLock, Error, HoldState, LockGuard, MultiGuard, MultiLock, Semaphore};

/// What a contender wants.
#[derive(Clone, Debug)]
pub(crate) enum Contended {
    One(AnyLock),
    Several(MultiLock),
    /// This number of permits at once.
    Permits(Semaphore, u32),
}

/// What a contender was granted.
#[derive(Debug)]
pub(crate) enum GrantedHold {
    One(LockGuard),
    Several(MultiGuard),
}

impl Contended {
    pub(crate) async fn acquire(&self) -> Result<GrantedHold, Error> {
        match self {
            Self::One(lock) => lock.acquire().await.map(GrantedHold::One),
            Self::Several(locks) => locks.acquire().await.map(GrantedHold::Several),
            Self::Permits(semaphore, permits) => semaphore.acquire_many(*permits).await.map(GrantedHold::Several),
        }
    }

    pub(crate) async fn acquire_within(&self, wait: Duration) -> Result<Option<GrantedHold>, Error> {
        Ok(match self {
            Self::One(lock) => lock.acquire_within(wait).await?.map(GrantedHold::One),
            Self::Several(locks) => locks.acquire_within(wait).await?.map(GrantedHold::Several),
            Self::Permits(semaphore, permits) => {
                semaphore.acquire_many_within(*permits, wait).await?.map(GrantedHold::Several)
            }
        })
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<GrantedHold>, Error> {
        Ok(match self {
            Self::One(lock) => lock.try_acquire().await?.map(GrantedHold::One),
            Self::Several(locks) => locks.try_acquire().await?.map(GrantedHold::Several),
            Self::Permits(semaphore, permits) => semaphore.try_acquire_many(*permits).await?.map(GrantedHold::Several),
        })
    }

    /// Takes a place in the queue, and waits for the grant after `pause`. Other locks than those with an `enqueue` are
    /// acquired.
    pub(crate) async fn enqueue(&self, pause: Duration) -> Result<GrantedHold, Error> {
        let waiter = match self {
            Self::One(AnyLock::Mutex(lock)) => lock.enqueue().await?,
            Self::One(AnyLock::Handoff(lock)) => lock.enqueue().await?,
            Self::One(AnyLock::Read(lock)) => lock.enqueue().await?,
            Self::One(AnyLock::Write(lock)) => lock.enqueue().await?,
            Self::One(AnyLock::Leader(latch)) => latch.enqueue().await?,
            _ => return self.acquire().await,
        };
        tokio::time::sleep(pause).await;
        waiter.granted().await.map(GrantedHold::One)
    }
}

impl GrantedHold {
    pub(crate) fn guards(&self) -> &[LockGuard] {
        match self {
            Self::One(guard) => std::slice::from_ref(guard),
            Self::Several(guards) => guards.guards(),
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.guards().iter().any(|guard| matches!(guard.state(), HoldState::Lost(_)))
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        match self {
            Self::One(guard) => guard.release().await,
            Self::Several(guards) => guards.release().await,
        }
    }
}

/// Polls a future at most `polls` times, and then drops it.
pub(crate) async fn within_polls<F: Future>(polls: u32, work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    let mut left = polls;
    std::future::poll_fn(|cx| {
        let Some(rest) = left.checked_sub(1) else { return Poll::Ready(None) };
        left = rest;
        match work.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // The waker wakes for the next poll; the last one is not waited for.
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
