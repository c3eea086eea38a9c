//! The queue lock with hand-overs at a cost that does not grow with the queue.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_recipes_protocol::names::{Mode, Names};

use crate::acquire::{Deadline, granted};
use crate::error::Error;
use crate::guard::LockGuard;
use crate::guard::waiter::Waiter;
use crate::lock_queue::LockQueue;
use crate::locks::participants::{self, Participant};
use crate::owner::Owner;
use crate::session::Session;

/// A fair lock, as [`Mutex`](crate::Mutex). A hand-over costs the same number of requests and bytes for any number of waiters.
///
/// The nodes are numbered without a prefix, so each waiter knows the name of its predecessor and need not list the queue. A
/// release writes the holder's number into the data of the lock's node, in the transaction that deletes the holder's node. The
/// waiter that is woken reads this note and its own node. If the note has the number of its predecessor, or a later number below
/// its own, the waiter holds.
///
/// Otherwise the waiter lists the queue once, as a `Mutex` does. This happens if the predecessor has given up, has crashed, or is
/// a client of another kind.
///
/// It queues with [`Mutex`](crate::Mutex), Apache Curator's `InterProcessMutex`, and every lock that these exclude, on one path
/// and in one order. These locks leave no notes, so each of their releases costs the next `HandoffMutex` waiter a listing. If the
/// data of the lock's node is something other than a note, it is never overwritten. Then every hand-over needs a listing, and a
/// warning is logged.
///
/// A release that leaves a note is a transaction of two writes, where a `Mutex` sends one deletion. So use a `Mutex` if there are
/// few waiters. With both, if the successor belongs to the same session, it holds before the server has answered the release.
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::{HandoffMutex, Session, SessionConfig};
///
/// # async fn example() -> Result<(), zk_recipes::Error> {
/// let session = Session::connect("127.0.0.1:2181", SessionConfig::default()).await?;
/// let mutex = HandoffMutex::new(&session, "/locks/goods-1")?;
/// if let Some(held) = mutex.acquire_within(Duration::from_secs(2)).await? {
///     held.run(async { /* read, decide, write */ }).await?;
///     held.release().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct HandoffMutex {
    queue: Arc<LockQueue>,
}

impl HandoffMutex {
    /// Returns the lock at `path`. The children of this node are the queue, and its data is the note of the last holder. Use it
    /// for nothing else. Missing parents are created at the first acquire, as
    /// [`SessionConfig::parents`](crate::SessionConfig::parents) says.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]. Nothing is sent.
    pub fn new(session: &Session, path: &str) -> Result<Self, Error> {
        Ok(Self { queue: Arc::new(LockQueue::with_handoff(session, path, Names::MUTEX)?) })
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
        Self { queue: self.queue.with_names(Names::MUTEX_AND_KAZOO) }
    }

    pub(crate) fn into_queue(self) -> Arc<LockQueue> {
        self.queue
    }

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

    /// Returns the holder and the waiters, in the order of the queue.
    ///
    /// # Errors
    /// As [`participants`](crate::participants()).
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants::of_queue(self.queue.session(), self.queue.parent(), self.queue.names()).await
    }
}

impl fmt::Debug for HandoffMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.describe("HandoffMutex", f)
    }
}
