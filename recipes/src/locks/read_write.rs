//! The lock that readers share.

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
use crate::locks::participants::{self, Participant, ParticipantKind};
use crate::options::LockOptions;
use crate::session::Session;

/// A fair lock that many readers share and one writer has alone. First come, first served: readers that come behind a
/// waiting writer wait for it, so that neither side starves.
///
/// Node names and order are those of Apache Curator's `InterProcessReadWriteLock`, so both exclude each other on one
/// path. A waiting reader watches the nearest writer ahead of it, a waiting writer whoever is directly ahead.
///
/// For an [`Owner`], a write hold may be turned into a read hold without letting another writer in between: acquire the
/// read lock, then release the write lock. The read hold has the writer's token. The other way round is refused with
/// [`Error::Upgrade`], as two readers that both wait to write would wait for ever. What an owner reads it may read
/// again, also while a writer waits.
///
/// ```no_run
/// use zk_recipes::{Owner, RwLock};
///
/// # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
/// let (lock, owner) = (RwLock::new(&session, "/locks/prices")?, Owner::new());
/// let writing = lock.write_lock().acquire_as(&owner).await?;
/// let reading = lock.read_lock().acquire_as(&owner).await?;
/// writing.release().await?; // other readers may come in now
/// reading.release().await
/// # }
/// ```
#[doc(alias = "InterProcessReadWriteLock")]
#[derive(Clone)]
pub struct RwLock {
    queue: Arc<LockQueue>,
}

/// The side of a [`RwLock`] that is shared with other readers. Made by [`RwLock::read_lock`].
#[derive(Clone)]
pub struct ReadLock {
    queue: Arc<LockQueue>,
}

/// The side of a [`RwLock`] that excludes everybody. Made by [`RwLock::write_lock`].
#[derive(Clone)]
pub struct WriteLock {
    queue: Arc<LockQueue>,
}

impl RwLock {
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
        let names = if options.kazoo { Names::READ_WRITE_AND_KAZOO } else { Names::READ_WRITE };
        Ok(Self { queue: Arc::new(LockQueue::new(session, path, names, options.node_data)?) })
    }

    /// The lock to read under.
    #[must_use]
    pub fn read_lock(&self) -> ReadLock {
        ReadLock { queue: Arc::clone(&self.queue) }
    }

    /// The lock to write under.
    #[must_use]
    pub fn write_lock(&self) -> WriteLock {
        WriteLock { queue: Arc::clone(&self.queue) }
    }

    /// Who holds the lock and who waits for it, readers and writers, in the order of the queue.
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
}

impl ReadLock {
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
        self.queue.acquire(Mode::Shared, Deadline::never()).await.map(granted)
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
        self.queue.try_acquire(Mode::Shared).await
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
        self.queue.acquire(Mode::Shared, Deadline::after(wait)).await
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
        owner.acquire(&self.queue, Mode::Shared).await
    }

    /// As [`try_acquire`](Self::try_acquire), for an [`Owner`] that may hold the lock already.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire) and [`acquire_as`](Self::acquire_as).
    ///
    /// # Cancel safety
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_as(&self, owner: &Owner) -> Result<Option<LockGuard>, Error> {
        owner.try_acquire(&self.queue, Mode::Shared).await
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
        owner.acquire_within(&self.queue, Mode::Shared, wait).await
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
        Waiter::take(&self.queue, Mode::Shared).await
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

    /// The readers, holding or waiting, in the order of the queue.
    ///
    /// # Errors
    /// As [`participants`](crate::participants()).
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants_of(&self.queue, ParticipantKind::Shared).await
    }
}

impl WriteLock {
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
    /// was lost: drop that first. [`Error::Upgrade`] when the owner wants to write what it reads.
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

    /// The writers, holding or waiting, in the order of the queue.
    ///
    /// # Errors
    /// As [`participants`](crate::participants()).
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants_of(&self.queue, ParticipantKind::Exclusive).await
    }
}

async fn participants_of(queue: &LockQueue, kind: ParticipantKind) -> Result<Vec<Participant>, Error> {
    let mut all = participants::of_queue(queue.session(), queue.parent(), queue.names()).await?;
    all.retain(|participant| participant.kind == kind);
    Ok(all)
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.describe("RwLock", f)
    }
}

impl fmt::Debug for ReadLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.describe("ReadLock", f)
    }
}

impl fmt::Debug for WriteLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.describe("WriteLock", f)
    }
}
