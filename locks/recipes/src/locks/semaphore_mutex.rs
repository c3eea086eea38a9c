//! The lock that is a semaphore with one permit.

use std::fmt;
use std::time::Duration;

use crate::error::Error;
use crate::guard::LockGuard;
use crate::locks::participants::Participant;
use crate::locks::semaphore::Semaphore;
use crate::session::Session;

/// A fair lock that is a [`Semaphore`] with one permit. There are no owners: a second acquire always waits for the first hold,
/// and any task may release it.
///
/// Nodes and rules are the same as in Apache Curator's `InterProcessSemaphoreMutex`, so both exclude each other on one path. Use it to
/// share a lock with that class. Otherwise use [`Mutex`](crate::Mutex), which needs half the requests.
///
/// Cheap to clone. It costs as much as a [`Semaphore`] with one permit.
///
/// ```no_run
/// use zk_recipes::{SemaphoreMutex, Session, SessionConfig};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let session = Session::connect("127.0.0.1:2181", SessionConfig::default()).await?;
/// let held = SemaphoreMutex::new(&session, "/locks/goods-1")?.acquire().await?;
/// tokio::spawn(held.release()).await??;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "InterProcessSemaphoreMutex")]
#[derive(Clone)]
pub struct SemaphoreMutex {
    semaphore: Semaphore,
}

impl SemaphoreMutex {
    /// Returns the lock at `path`. Use this path for nothing else. Missing parents are created at the first acquire, as
    /// [`SessionConfig::parents`](crate::SessionConfig::parents) says.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]. Nothing is sent.
    pub fn new(session: &Session, path: &str) -> Result<Self, Error> {
        Ok(Self { semaphore: Semaphore::new(session, path, 1)?.named("semaphore-mutex") })
    }

    /// Sets the data of its leases: see [`Semaphore::with_node_data`].
    ///
    /// # Errors
    /// As [`Semaphore::with_node_data`]. Nothing is sent.
    pub fn with_node_data(self, node_data: impl Into<Vec<u8>>) -> Result<Self, Error> {
        Ok(Self { semaphore: self.semaphore.with_node_data(node_data)? })
    }

    /// Waits for the lock, without a deadline.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NumbersExhausted`], [`Error::NotAuthorized`] or [`Error::Refused`].
    /// [`Error::NodeDeleted`] if somebody deleted our place in the queue.
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.semaphore.acquire().await
    }

    /// Takes the lock if it is free and no contender waits. Otherwise returns `None` after reads only. If another contender comes
    /// in between, deletes our nodes again and returns `None`.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::NoAnswer`] if the server did not answer within half the session timeout.
    /// [`Error::NoRoom`] if the session has no room for the node now.
    /// [`Error::Unconfirmed`] if another contender came in between and the server did not confirm that our nodes are gone.
    ///
    /// # Cancel safety
    /// As [`Semaphore::try_acquire`].
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        self.semaphore.try_acquire().await
    }

    /// Waits for the lock for at most `wait`, over all its requests. At the deadline, deletes our nodes, which takes at most a
    /// quarter of the session timeout. When it returns `None`, our nodes are gone.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::Unconfirmed`] if the server did not confirm in time that our nodes are gone.
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.semaphore.acquire_within(wait).await
    }

    /// Returns the holder and the next contender: see [`Semaphore::participants`].
    ///
    /// # Errors
    /// As [`participants`](crate::participants()).
    ///
    /// # Cancel safety
    /// It only reads.
    #[doc(alias = "getParticipantNodes")]
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.semaphore.participants().await
    }

    /// Returns the path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        self.semaphore.path()
    }

    /// Returns the room that an acquire takes.
    pub(crate) fn room(&self) -> usize {
        self.semaphore.room()
    }

    /// Returns the session of the lock.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.semaphore.session()
    }
}

impl fmt::Debug for SemaphoreMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.semaphore.describe("SemaphoreMutex", f)
    }
}
