//! The lock with a herd, on purpose.

mod attempt;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::{AcquireSpan, Deadline, granted};
use crate::error::Error;
use crate::guard::LockGuard;
use crate::locks::participants::{Participant, participants};
use crate::node;
use crate::session::Session;

/// A lock that is one ephemeral node at a fixed path. The contender that creates it holds, and all others watch it. **For
/// comparison, not for use.**
///
/// A release wakes all waiters. All try again, and all but one wait again: N(N−1)/2 notifications for N contenders. There is no
/// order, so a waiter may starve.
///
/// It excludes as well as [`Mutex`](crate::Mutex) does, and its holds are guarded in the same way.
///
/// ```no_run
/// use zk_recipes::{NaiveLock, Session, SessionConfig};
///
/// # async fn example() -> Result<(), zk_recipes::Error> {
/// let session = Session::connect("127.0.0.1:2181", SessionConfig::default()).await?;
/// let held = NaiveLock::new(&session, "/naive/goods-1")?.acquire().await?;
/// held.release().await
/// # }
/// ```
#[derive(Clone)]
pub struct NaiveLock {
    inner: Arc<NaiveInner>,
}

struct NaiveInner {
    session: Session,
    path: String,
}

impl NaiveLock {
    /// Returns the lock with the node at `path`. Missing parents are created at the first acquire.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]. Nothing is sent.
    pub fn new(session: &Session, path: &str) -> Result<Self, Error> {
        node::validate_path(path)?;
        Ok(Self { inner: Arc::new(NaiveInner { session: session.clone(), path: path.to_owned() }) })
    }

    /// Waits for the lock, without a deadline.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NotAuthorized`] or [`Error::Refused`].
    ///
    /// # Cancel safety
    /// If the future is dropped, it stops waiting. If its node was created meanwhile, the session's reaper deletes it.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.take(None, Deadline::never()).await.map(granted)
    }

    /// Takes the lock if no other contender holds it. Otherwise returns `None` after one read. If another contender comes in
    /// between, returns `None`, too.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::NoAnswer`] if the server did not answer within half the session timeout.
    /// [`Error::NoRoom`] if the session has no room for the node now.
    /// [`Error::Unconfirmed`] if another contender came in between and the server did not confirm that no node of ours is left.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is left behind: the session's reaper deletes our node.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        let within = self.session().timeout() / 2;
        self.take(Some(within), Deadline::after(within)).await
    }

    /// Waits for the lock for at most `wait`, over all its requests. At the deadline, makes sure that no node of ours is left,
    /// which takes at most a quarter of the session timeout. Then returns `None`.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::Unconfirmed`] if the server did not confirm in time that no node of ours is left.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.take(None, Deadline::after(wait)).await
    }

    /// Returns the holder. Waiters have no node.
    ///
    /// # Errors
    /// As [`participants`](crate::participants()).
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants(self.session(), self.path()).await
    }

    /// Returns the path of the lock's node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    /// Returns the room that an acquire takes.
    pub(crate) fn room(&self) -> usize {
        self.session().room_of(self.path().len())
    }

    /// Returns the session of the lock.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.inner.session
    }

    async fn take(&self, try_within: Option<Duration>, deadline: Deadline) -> Result<Option<LockGuard>, Error> {
        let span = AcquireSpan::new("naive", self.path(), Some(self.session().id()));
        span.run(attempt::take(self.session(), self.path(), try_within, deadline)).await
    }
}

impl fmt::Debug for NaiveLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NaiveLock").field("path", &self.path()).finish_non_exhaustive()
    }
}
