//! The lock that readers share.

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
/// let writing = lock.write().acquire_as(&owner).await?;
/// let reading = lock.read().acquire_as(&owner).await?;
/// writing.release().await?; // other readers may come in now
/// reading.release().await
/// # }
/// ```
#[doc(alias = "InterProcessReadWriteLock")]
#[derive(Clone, Debug)]
pub struct RwLock {
    queue: Arc<LockQueue>,
}

/// The side of a [`RwLock`] that is shared with other readers. Made by [`RwLock::read`].
#[derive(Clone, Debug)]
pub struct ReadLock {
    queue: Arc<LockQueue>,
}

/// The side of a [`RwLock`] that excludes everybody. Made by [`RwLock::write`].
#[derive(Clone, Debug)]
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
    pub fn read(&self) -> ReadLock {
        ReadLock { queue: Arc::clone(&self.queue) }
    }

    /// The lock to write under.
    #[must_use]
    pub fn write(&self) -> WriteLock {
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
}

queue_lock_forms!(ReadLock, Mode::Shared);
queue_lock_forms!(WriteLock, Mode::Exclusive);

impl ReadLock {
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
