//! The queue lock.

use std::sync::Arc;
use std::time::Duration;

use crate::acquire::{Deadline, LockQueue};
use crate::error::Error;
use crate::guard::LockGuard;
use crate::session::Session;

/// What Curator calls the nodes of its `InterProcessMutex`.
const LOCK_NAME: &str = "lock-";

/// A fair lock: first come, first served, and one waiter woken a release.
///
/// Every contender creates a sequential ephemeral node below the lock's path; the lowest number holds, and each other
/// watches the node directly ahead of it. Node names, order and waiting are those of Apache Curator's
/// `InterProcessMutex`, so both exclude each other on one path.
///
/// Cheap to clone. Every acquire is a contender of its own: a second `acquire` while a guard is held waits for that
/// guard.
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::{Mutex, Session, SessionConfig};
///
/// # async fn example() -> Result<(), zk_recipes::Error> {
/// let session = Session::connect("127.0.0.1:2181", SessionConfig::default()).await?;
/// let mutex = Mutex::new(&session, "/locks/goods-1")?;
/// if let Some(held) = mutex.acquire_within(Duration::from_secs(2)).await? {
///     held.run(async { /* read, decide, write */ }).await?;
///     held.release().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[doc(alias = "InterProcessMutex")]
#[derive(Clone, Debug)]
pub struct Mutex {
    queue: Arc<LockQueue>,
}

impl Mutex {
    /// The lock at `path`, which must be dedicated to it: its children are the queue. Missing parents are created as
    /// containers at the first acquire, and the server removes them once they have been empty for a while.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; nothing is sent.
    pub fn new(session: &Session, path: &str) -> Result<Self, Error> {
        Ok(Self { queue: Arc::new(LockQueue::new(session, path, LOCK_NAME)?) })
    }

    /// Waits for the lock, for as long as it takes or the session lives.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NodeDeleted`] when somebody deleted our place in the queue, or
    /// [`Error::Refused`].
    ///
    /// # Cancel safety
    /// Dropped, it loses its place in the queue; the session's reaper deletes the node, also one whose creation had
    /// not been answered yet.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        match self.queue.acquire(Deadline::never()).await? {
            Some(held) => Ok(held),
            None => unreachable!("BUG: a deadline that never comes has come"),
        }
    }

    /// Takes the lock if nobody holds it or waits for it. When somebody does, it has only read.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::NoAnswer`] when the server did not answer within half the session
    /// timeout. [`Error::Unconfirmed`] when somebody was quicker and the server did not confirm that our node is gone.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing behind: the session's reaper sees to that.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        self.queue.try_acquire().await
    }

    /// Waits for the lock, for at most `wait` in all. `None` when it was not had by then, and then our node is gone.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::Unconfirmed`] when the server did not confirm in time that our node
    /// is gone; the answer then comes a quarter of the session timeout after `wait` at the latest.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.queue.acquire(Deadline::after(wait)).await
    }
}
