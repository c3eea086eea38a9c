//! The lock that is a semaphore with one permit.

use std::fmt;
use std::time::Duration;

use crate::error::Error;
use crate::hold::guard::LockGuard;
use crate::locks::participants::Participant;
use crate::locks::semaphore::Semaphore;
use crate::session::Session;

/// A fair lock that is a [`Semaphore`] with one permit. There are no owners: a second acquire always waits for the first
/// hold, and any task may release it.
///
/// Nodes and rules are those of Apache Curator's `InterProcessSemaphoreMutex`, so both exclude each other on one path. Use
/// it to share a lock with those; [`Mutex`](crate::Mutex) does the same with half the requests.
///
/// Cheap to clone. Without contention an acquire is 5 requests one after the other and a release 1.
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
    /// The lock at `path`, which must be dedicated to it. Missing parents are created at the first acquire, as
    /// [`SessionConfig::parents`](crate::SessionConfig::parents) says.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; nothing is sent.
    pub fn new(session: &Session, path: &str) -> Result<Self, Error> {
        Ok(Self { semaphore: Semaphore::new(session, path, 1)?.named("semaphore-mutex") })
    }

    /// The same lock, whose nodes say this of themselves from now on, to whoever looks at the
    /// [`participants`](Self::participants).
    ///
    /// # Errors
    /// As [`Semaphore::with_node_data`]; nothing is sent.
    pub fn with_node_data(self, node_data: Vec<u8>) -> Result<Self, Error> {
        Ok(Self { semaphore: self.semaphore.with_node_data(node_data)? })
    }

    /// Waits for the lock, for as long as it takes or the session lives.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NumbersExhausted`], [`Error::NotAuthorized`], [`Error::Refused`], or
    /// [`Error::NodeDeleted`] when somebody deleted our place in the queue.
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.semaphore.acquire().await
    }

    /// Takes the lock if nobody is in the way. When somebody is, it has only read.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::NoAnswer`] when the server did not answer within half the session
    /// timeout. [`Error::Unconfirmed`] when somebody was quicker and the server did not confirm that our nodes are gone.
    ///
    /// # Cancel safety
    /// As [`Semaphore::try_acquire`].
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        self.semaphore.try_acquire().await
    }

    /// Waits for the lock, for at most `wait` in all. `None` when it was not had by then, and then our nodes are gone.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::Unconfirmed`] when the server did not confirm in time that our nodes
    /// are gone; the answer then comes a quarter of the session timeout after `wait` at the latest.
    ///
    /// # Cancel safety
    /// As [`Semaphore::acquire`].
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.semaphore.acquire_within(wait).await
    }

    /// Who holds the lock, and who is next; see [`Semaphore::participants`].
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

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        self.semaphore.path()
    }

    /// The session of the lock.
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
