//! The queue lock.

use std::sync::Arc;
use std::time::Duration;

use zk_recipes_protocol::names::{Mode, Names};

use crate::deadline::Deadline;
use crate::error::Error;
use crate::hold::guard::LockGuard;
use crate::hold::lock_queue::LockQueue;
use crate::hold::owner::Owner;
use crate::hold::waiter::Waiter;
use crate::locks::forms::{granted, queue_lock_forms};
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
#[derive(Clone, Debug)]
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

queue_lock_forms!(Mutex, Mode::Exclusive);
