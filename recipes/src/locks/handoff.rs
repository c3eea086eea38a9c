//! The queue lock whose hand-over costs the same however many wait.

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
#[derive(Clone, Debug)]
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

queue_lock_forms!(HandoffMutex, Mode::Exclusive);
