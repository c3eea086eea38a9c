//! The queue lock whose hand-over costs the same however many wait.

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

/// A fair lock as [`Mutex`](crate::Mutex), at the same number of requests and bytes a hand-over, however many wait.
///
/// The nodes are numbered without a prefix, so that each waiter knows the name of the one ahead and need not list the
/// queue. Whoever releases notes its number in the data of the lock's node, in the transaction that deletes its own;
/// whoever is woken reads that note. From the number ahead it follows that it holds. Anything else, because the one
/// ahead has given up, has crashed, or is a client of another kind, makes it list the queue once, as a `Mutex` does.
///
/// It queues with [`Mutex`](crate::Mutex), Apache Curator's `InterProcessMutex`, and what excludes those, on one path, in
/// one order. Those leave no notes, so each of them costs the one behind it a listing. Data of the lock's node that are
/// not such a note are never overwritten: then every hand-over needs a listing, and a warning is logged.
///
/// Its release is a transaction of two writes, where that of a `Mutex` is one deletion: where few wait, take that. Both
/// go on to the next in the queue at once if that is of the same session, before the server has answered the release.
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
    /// The lock at `path`, which must be dedicated to it: its children are the queue, its data the note of the last
    /// holder. Missing parents are created at the first acquire, as
    /// [`SessionConfig::parents`](crate::SessionConfig::parents) says.
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
        Ok(Self { queue: Arc::new(LockQueue::with_handoff(session, path, names, options.node_data)?) })
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
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants::of_queue(self.queue.session(), self.queue.parent(), self.queue.names()).await
    }
}

impl fmt::Debug for HandoffMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.describe("HandoffMutex", f)
    }
}
