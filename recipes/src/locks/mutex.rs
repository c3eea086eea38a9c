//! The queue lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_recipes_protocol::names::{Mode, Names};

use crate::deadline::Deadline;
use crate::deadline::granted;
use crate::error::Error;
use crate::hold::guard::LockGuard;
use crate::hold::lock_queue::LockQueue;
use crate::hold::owner::Owner;
use crate::hold::waiter::Waiter;
use crate::locks::participants::{self, Participant};
use crate::options::LockOptions;
use crate::session::Session;

/// A fair lock: first come, first served, and one waiter woken a release.
///
/// Every contender creates a sequential ephemeral node below the lock's path; the lowest number holds, and each other
/// watches the node directly ahead of it. Node names, order and waiting are those of Apache Curator's
/// `InterProcessMutex`, so both exclude each other on one path.
///
/// A lock that is used again and again had best be kept, or a clone of it: from the third acquire in a row that nobody
/// comes in between, the lock is had by one request, without a look at the queue. For that the session watches the lock's
/// node until the last clone has gone.
///
/// Cheap to clone. Every acquire is a contender of its own: a second `acquire` while a guard is held waits for that
/// guard, unless both are made for one [`Owner`].
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
#[derive(Clone)]
pub struct Mutex {
    queue: Arc<LockQueue>,
}

impl Mutex {
    /// The lock at `path`, which must be dedicated to it: its children are the queue. Missing parents are created at the
    /// first acquire, as [`SessionConfig::parents`](crate::SessionConfig::parents) says.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; nothing is sent.
    pub fn new(session: &Session, path: &str) -> Result<Self, Error> {
        Self::with_options(session, path, LockOptions::default())
    }

    /// The lock at `path`, with options.
    ///
    /// # Errors
    /// [`Error::InvalidPath`], [`Error::NodeDataTooLong`] or [`Error::NodeDataReserved`]; nothing is sent.
    pub fn with_options(session: &Session, path: &str, options: LockOptions) -> Result<Self, Error> {
        let names = if options.kazoo { Names::MUTEX_AND_KAZOO } else { Names::MUTEX };
        Ok(Self { queue: Arc::new(LockQueue::new(session, path, names, options.node_data)?) })
    }

    pub(crate) fn into_queue(self) -> Arc<LockQueue> {
        self.queue
    }

    /// Waits for the lock, for as long as it takes or the session lives.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NodeDeleted`] when somebody deleted our place in the queue,
    /// [`Error::NumbersExhausted`], [`Error::NotAuthorized`] or [`Error::Refused`].
    ///
    /// # Cancel safety
    /// Dropped, it loses its place in the queue; the session's reaper deletes the node, also one whose creation
    /// had not been answered yet.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.queue.acquire(Mode::Exclusive, Deadline::never()).await.map(granted)
    }

    /// Takes the lock if nobody is in the way. When somebody is, it has only read.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::NoAnswer`] when the server did not answer within half the
    /// session timeout. [`Error::Unconfirmed`] when somebody was quicker and the server did not confirm that our
    /// node is gone.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing behind: the session's reaper sees to that.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        self.queue.try_acquire(Mode::Exclusive).await
    }

    /// Waits for the lock, for at most `wait` in all. `None` when it was not had by then, and then our node is
    /// gone.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::Unconfirmed`] when the server did not confirm in time that our
    /// node is gone; the answer then comes a quarter of the session timeout after `wait` at the latest.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.queue.acquire(Mode::Exclusive, Deadline::after(wait)).await
    }

    /// As [`acquire`](Self::acquire), for an [`Owner`] that may hold the lock already: then it has it again at
    /// once, without a request, with the same token. While its hold is suspect it waits until that is settled.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::HoldLost`] when the owner still has a guard of a hold that
    /// was lost: drop that first.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_as(&self, owner: &Owner) -> Result<LockGuard, Error> {
        owner.acquire(&self.queue, Mode::Exclusive).await
    }

    /// As [`try_acquire`](Self::try_acquire), for an [`Owner`] that may hold the lock already.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire) and [`acquire_as`](Self::acquire_as).
    ///
    /// # Cancel safety
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_as(&self, owner: &Owner) -> Result<Option<LockGuard>, Error> {
        owner.try_acquire(&self.queue, Mode::Exclusive).await
    }

    /// As [`acquire_within`](Self::acquire_within), for an [`Owner`] that may hold the lock already.
    ///
    /// # Errors
    /// As [`acquire_within`](Self::acquire_within) and [`acquire_as`](Self::acquire_as). [`Error::NoAnswer`] when the owner
    /// holds the lock, and no server has confirmed that within `wait`.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within_as(&self, owner: &Owner, wait: Duration) -> Result<Option<LockGuard>, Error> {
        owner.acquire_within(&self.queue, Mode::Exclusive, wait).await
    }

    /// Takes a place in the queue without waiting for the grant, for whoever wants to do something meanwhile:
    /// look at the queue, or hear that somebody asks for the place.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn enqueue(&self) -> Result<Waiter, Error> {
        Waiter::take(&self.queue, Mode::Exclusive).await
    }

    /// The path of the lock: its children are the queue.
    #[must_use]
    pub fn path(&self) -> &str {
        self.queue.parent()
    }

    /// The session of the lock.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.queue.session()
    }

    /// Who holds the lock and who waits for it, in the order of the queue.
    ///
    /// # Errors
    /// As [`participants`](crate::participants()).
    ///
    /// # Cancel safety
    /// It only reads.
    #[doc(alias = "getParticipantNodes")]
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants::of_queue(self.queue.session(), self.queue.parent(), self.queue.names()).await
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.describe("Mutex", f)
    }
}
