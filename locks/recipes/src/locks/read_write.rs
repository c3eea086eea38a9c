//! The lock that readers share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_recipes_protocol::names::{Mode, Names};

use crate::acquire::{Deadline, granted};
use crate::error::Error;
use crate::guard::LockGuard;
use crate::guard::waiter::Waiter;
use crate::lock_queue::LockQueue;
use crate::locks::participants::{self, Participant, ParticipantKind};
use crate::owner::Owner;
use crate::session::Session;

/// A fair lock that many readers share, or one writer holds alone. First come, first served: readers behind a waiting writer wait
/// for it, so neither side starves.
///
/// Node names and order are the same as in Apache Curator's `InterProcessReadWriteLock`, so both exclude each other on one path. A
/// waiting reader watches the nearest writer ahead of it. A waiting writer watches the contender directly ahead of it.
///
/// An [`Owner`] can turn its write hold into a read hold without another writer in between: acquire the read lock, then release
/// the write lock. The read hold has the writer's token. The other way round is refused with [`Error::Upgrade`], because two
/// readers that both wait to write would wait for ever. An owner can acquire the read lock again while it reads, even while a
/// writer waits.
///
/// ```no_run
/// use zk_recipes::{Owner, RwLock};
///
/// # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
/// let (lock, owner) = (RwLock::new(&session, "/locks/prices")?, Owner::new());
/// let writing = lock.write_lock().acquire_as(&owner).await?;
/// let reading = lock.read_lock().acquire_as(&owner).await?;
/// writing.release().await?; // other readers may be granted the lock now
/// reading.release().await
/// # }
/// ```
#[doc(alias = "InterProcessReadWriteLock")]
#[derive(Clone)]
pub struct RwLock {
    queue: Arc<LockQueue>,
}

/// The side of a [`RwLock`] that readers share. Made by [`RwLock::read_lock`].
#[derive(Clone)]
pub struct ReadLock {
    queue: Arc<LockQueue>,
}

/// The side of a [`RwLock`] that excludes every other contender. Made by [`RwLock::write_lock`].
#[derive(Clone)]
pub struct WriteLock {
    queue: Arc<LockQueue>,
}

impl RwLock {
    /// Returns the lock at `path`. The children of this node are the queue, so use it for nothing else. Missing parents are
    /// created at the first acquire, as [`SessionConfig::parents`](crate::SessionConfig::parents) says.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]. Nothing is sent.
    pub fn new(session: &Session, path: &str) -> Result<Self, Error> {
        Ok(Self { queue: Arc::new(LockQueue::new(session, path, Names::READ_WRITE)?) })
    }

    /// Sets the data of the nodes of its contenders: see [`Mutex::with_node_data`](crate::Mutex::with_node_data).
    ///
    /// # Errors
    /// As [`Mutex::with_node_data`](crate::Mutex::with_node_data). Nothing is sent.
    pub fn with_node_data(self, node_data: impl Into<Vec<u8>>) -> Result<Self, Error> {
        Ok(Self { queue: self.queue.with_node_data(node_data.into())? })
    }

    /// Counts the locks of kazoo, the Python client, as contenders: see [`Mutex::with_kazoo`](crate::Mutex::with_kazoo).
    #[must_use]
    pub fn with_kazoo(self) -> Self {
        Self { queue: self.queue.with_names(Names::READ_WRITE_AND_KAZOO) }
    }

    /// Returns the lock for readers.
    #[must_use]
    pub fn read_lock(&self) -> ReadLock {
        ReadLock { queue: Arc::clone(&self.queue) }
    }

    /// Returns the lock for writers.
    #[must_use]
    pub fn write_lock(&self) -> WriteLock {
        WriteLock { queue: Arc::clone(&self.queue) }
    }

    /// Returns the holders and the waiters, readers and writers, in the order of the queue.
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

    /// Returns the path of the lock. The children of this node are the queue.
    #[must_use]
    pub fn path(&self) -> &str {
        self.queue.parent()
    }

    /// Returns the session of the lock.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.queue.session()
    }
}

impl ReadLock {
    /// Waits for the lock, without a deadline.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NumbersExhausted`], [`Error::NotAuthorized`] or [`Error::Refused`].
    /// [`Error::NodeDeleted`] if somebody deleted our place in the queue.
    ///
    /// # Cancel safety
    /// If the future is dropped, it loses its place in the queue. The session's reaper deletes the node, even if the reply to
    /// `create` has not arrived yet.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.queue.acquire(Mode::Shared, Deadline::never()).await.map(granted)
    }

    /// Takes the lock if no writer holds or waits. Otherwise returns `None` after one read. If another contender comes in
    /// between, deletes our node again and returns `None`.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::NoAnswer`] if the server did not answer within half the session timeout.
    /// [`Error::NoRoom`] if the session has no room for the node now.
    /// [`Error::Unconfirmed`] if another contender came in between and the server did not confirm that our node is gone.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is left behind: the session's reaper deletes our node.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        self.queue.try_acquire(Mode::Shared).await
    }

    /// Waits for the lock for at most `wait`, over all its requests. At the deadline, deletes our node, which takes at most a
    /// quarter of the session timeout. When it returns `None`, our node is gone.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::Unconfirmed`] if the server did not confirm in time that our node is gone.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.queue.acquire(Mode::Shared, Deadline::after(wait)).await
    }

    /// As [`acquire`](Self::acquire), for an [`Owner`] that may hold the lock already. If it holds the read lock, it gets it
    /// again at once, without a request and with the same token. If it only holds the write lock, it gets a read hold in the same
    /// place of the queue, with the writer's token. While its hold is suspect, the call waits until the hold is held or lost.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::HoldLost`] if the owner still has a guard of a lost hold: drop that guard first.
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
    /// As [`acquire_within`](Self::acquire_within) and [`acquire_as`](Self::acquire_as). [`Error::NoAnswer`] if the owner holds
    /// the lock and no server confirmed that within `wait`.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within_as(&self, owner: &Owner, wait: Duration) -> Result<Option<LockGuard>, Error> {
        owner.acquire_within(&self.queue, Mode::Shared, wait).await
    }

    /// Takes a place in the queue, and does not wait for the grant. Meanwhile, the caller can look at the queue, or wait for a
    /// request to give up the place.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn enqueue(&self) -> Result<Waiter, Error> {
        Waiter::take(&self.queue, Mode::Shared).await
    }

    /// Returns the path of the lock. The children of this node are the queue.
    #[must_use]
    pub fn path(&self) -> &str {
        self.queue.parent()
    }

    /// Returns the room that an acquire takes.
    pub(crate) fn room(&self) -> usize {
        self.queue.node_room(Mode::Shared)
    }

    /// Returns the session of the lock.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.queue.session()
    }

    /// Returns the readers, holding or waiting, in the order of the queue.
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
    /// Waits for the lock, without a deadline.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NumbersExhausted`], [`Error::NotAuthorized`] or [`Error::Refused`].
    /// [`Error::NodeDeleted`] if somebody deleted our place in the queue.
    ///
    /// # Cancel safety
    /// If the future is dropped, it loses its place in the queue. The session's reaper deletes the node, even if the reply to
    /// `create` has not arrived yet.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.queue.acquire(Mode::Exclusive, Deadline::never()).await.map(granted)
    }

    /// Takes the lock if no other contender holds or waits. Otherwise returns `None` after one read. If another contender comes
    /// in between, deletes our node again and returns `None`.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::NoAnswer`] if the server did not answer within half the session timeout.
    /// [`Error::NoRoom`] if the session has no room for the node now.
    /// [`Error::Unconfirmed`] if another contender came in between and the server did not confirm that our node is gone.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is left behind: the session's reaper deletes our node.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        self.queue.try_acquire(Mode::Exclusive).await
    }

    /// Waits for the lock for at most `wait`, over all its requests. At the deadline, deletes our node, which takes at most a
    /// quarter of the session timeout. When it returns `None`, our node is gone.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::Unconfirmed`] if the server did not confirm in time that our node is gone.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.queue.acquire(Mode::Exclusive, Deadline::after(wait)).await
    }

    /// As [`acquire`](Self::acquire), for an [`Owner`] that may hold the lock already. If it does, it gets the lock again at
    /// once, without a request and with the same token. While its hold is suspect, the call waits until the hold is held or lost.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::HoldLost`] if the owner still has a guard of a lost hold: drop that guard first.
    /// [`Error::Upgrade`] if the owner holds the read lock only.
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
    /// As [`acquire_within`](Self::acquire_within) and [`acquire_as`](Self::acquire_as). [`Error::NoAnswer`] if the owner holds
    /// the lock and no server confirmed that within `wait`.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within_as(&self, owner: &Owner, wait: Duration) -> Result<Option<LockGuard>, Error> {
        owner.acquire_within(&self.queue, Mode::Exclusive, wait).await
    }

    /// Takes a place in the queue, and does not wait for the grant. Meanwhile, the caller can look at the queue, or wait for a
    /// request to give up the place.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn enqueue(&self) -> Result<Waiter, Error> {
        Waiter::take(&self.queue, Mode::Exclusive).await
    }

    /// Returns the path of the lock. The children of this node are the queue.
    #[must_use]
    pub fn path(&self) -> &str {
        self.queue.parent()
    }

    /// Returns the room that an acquire takes.
    pub(crate) fn room(&self) -> usize {
        self.queue.node_room(Mode::Exclusive)
    }

    /// Returns the session of the lock.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.queue.session()
    }

    /// Returns the writers, holding or waiting, in the order of the queue.
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
