//! A lock of any recipe.

use std::time::Duration;

use crate::error::Error;
use crate::guard::LockGuard;
use crate::locks::cohort::CohortMutex;
use crate::locks::handoff::HandoffMutex;
use crate::locks::leader_latch::LeaderLatch;
use crate::locks::mutex::Mutex;
use crate::locks::naive::NaiveLock;
use crate::locks::participants::Participant;
use crate::locks::read_write::{ReadLock, WriteLock};
use crate::locks::semaphore::Semaphore;
use crate::locks::semaphore_mutex::SemaphoreMutex;
use crate::session::Session;

/// A lock of any recipe, chosen at run time.
///
/// An acquire for an [`Owner`](crate::Owner) and a place in the queue ([`Waiter`](crate::Waiter)) need the concrete type.
///
/// ```
/// use zk_recipes::{AnyLock, Error, Mutex, RwLock, Session};
///
/// fn lock(session: &Session, path: &str, is_read_only: bool) -> Result<AnyLock, Error> {
///     Ok(if is_read_only { RwLock::new(session, path)?.read_lock().into() } else { Mutex::new(session, path)?.into() })
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyLock {
    /// See [`NaiveLock`].
    Naive(NaiveLock),
    /// See [`Mutex`].
    Mutex(Mutex),
    /// See [`HandoffMutex`].
    Handoff(HandoffMutex),
    /// See [`CohortMutex`].
    Cohort(CohortMutex),
    /// See [`ReadLock`].
    Read(ReadLock),
    /// See [`WriteLock`].
    Write(WriteLock),
    /// See [`SemaphoreMutex`].
    SemaphoreMutex(SemaphoreMutex),
    /// One permit; see [`Semaphore`].
    Semaphore(Semaphore),
    /// An acquire leads; see [`LeaderLatch`].
    Leader(LeaderLatch),
}

/// Does the same with a lock of any recipe. A latch may differ, because it has other verbs.
macro_rules! each {
    ($any:expr, $lock:ident => $work:expr) => {
        each!($any, $lock => $work, $lock => $work)
    };
    ($any:expr, $lock:ident => $work:expr, $latch:ident => $lead:expr) => {
        match $any {
            AnyLock::Naive($lock) => $work,
            AnyLock::Mutex($lock) => $work,
            AnyLock::Handoff($lock) => $work,
            AnyLock::Cohort($lock) => $work,
            AnyLock::Read($lock) => $work,
            AnyLock::Write($lock) => $work,
            AnyLock::SemaphoreMutex($lock) => $work,
            AnyLock::Semaphore($lock) => $work,
            AnyLock::Leader($latch) => $lead,
        }
    };
}

impl AnyLock {
    /// Waits for the lock, without a deadline.
    ///
    /// # Errors
    /// As the recipe's `acquire`.
    ///
    /// # Cancel safety
    /// As the recipe's `acquire`.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        each!(self, lock => lock.acquire().await, latch => latch.lead().await)
    }

    /// Takes the lock if no other contender is ahead.
    ///
    /// # Errors
    /// As the recipe's `try_acquire`.
    ///
    /// # Cancel safety
    /// As the recipe's `try_acquire`.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        each!(self, lock => lock.try_acquire().await, latch => latch.try_lead().await)
    }

    /// Waits for the lock for at most `wait`, over all its requests. The clean-up after the deadline is the recipe's.
    ///
    /// # Errors
    /// As the recipe's `acquire_within`.
    ///
    /// # Cancel safety
    /// As the recipe's `acquire_within`.
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        each!(self, lock => lock.acquire_within(wait).await, latch => latch.lead_within(wait).await)
    }

    /// Returns the holders and the waiters that have a node.
    ///
    /// # Errors
    /// As the recipe's `participants`.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        each!(self, lock => lock.participants().await)
    }

    /// Returns the path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        each!(self, lock => lock.path())
    }

    /// Returns the room that an acquire takes.
    pub(crate) fn room(&self) -> usize {
        each!(self, lock => lock.room())
    }

    /// Returns the session of the lock.
    #[must_use]
    pub fn session(&self) -> &Session {
        each!(self, lock => lock.session())
    }
}

macro_rules! from_recipe {
    ($($variant:ident($lock:ident)),+ $(,)?) => {
        $(impl From<$lock> for AnyLock {
            fn from(lock: $lock) -> Self {
                Self::$variant(lock)
            }
        })+
    };
}

from_recipe!(
    Naive(NaiveLock),
    Mutex(Mutex),
    Handoff(HandoffMutex),
    Cohort(CohortMutex),
    Read(ReadLock),
    Write(WriteLock),
    SemaphoreMutex(SemaphoreMutex),
    Semaphore(Semaphore),
    Leader(LeaderLatch),
);
