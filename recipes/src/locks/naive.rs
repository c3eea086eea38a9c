//! The herd, on purpose.

mod attempt;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::attempt::Attempt;
use crate::deadline::{Deadline, granted};
use crate::error::Error;
use crate::hold::acquire_span::AcquireSpan;
use crate::hold::guard::LockGuard;
use crate::locks::participants::{Participant, participants};
use crate::node;
use crate::session::Session;

/// One fixed ephemeral node: who creates it holds, everyone else watches it. **For comparison, not for use**: a release
/// wakes all waiters, all try again, and all but one wait again, N(N−1)/2 notifications for N contenders. There is no
/// order either; a waiter may starve.
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
    inner: Arc<Inner>,
}

struct Inner {
    session: Session,
    path: String,
}

impl NaiveLock {
    /// The lock whose node is `path`. Missing parents are created at the first acquire.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; nothing is sent.
    pub fn new(session: &Session, path: &str) -> Result<Self, Error> {
        node::validate_path(path)?;
        Ok(Self { inner: Arc::new(Inner { session: session.clone(), path: path.to_owned() }) })
    }

    /// Waits for the lock, for as long as it takes or the session lives.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NotAuthorized`] or [`Error::Refused`].
    ///
    /// # Cancel safety
    /// Dropped, it stops waiting; the session's reaper deletes the node if it was created meanwhile.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.take(None, Deadline::never()).await.map(granted)
    }

    /// Takes the lock if nobody holds it. When somebody does, it has only read.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::NoAnswer`] when the server did not answer within half the session
    /// timeout. [`Error::Unconfirmed`] when somebody was quicker and the server did not confirm that our node is gone.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing behind: the session's reaper sees to that.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        let within = self.session().timeout() / 2;
        self.take(Some(within), Deadline::after(within)).await
    }

    /// Waits for the lock, for at most `wait` in all. `None` when it was not had by then.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::Unconfirmed`] when the server did not confirm in time that no node
    /// of ours is left; the answer then comes a quarter of the session timeout after `wait` at the latest.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.take(None, Deadline::after(wait)).await
    }

    /// Who holds the lock. Who waits has no node.
    ///
    /// # Errors
    /// As [`participants`](crate::participants()).
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants(self.session(), self.path()).await
    }

    /// The path of the lock's node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    /// The session of the lock.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.inner.session
    }

    async fn take(&self, try_within: Option<Duration>, deadline: Deadline) -> Result<Option<LockGuard>, Error> {
        let span = AcquireSpan::new("naive", self.path(), Some(self.session()));
        span.run(async { Attempt::new(self.session(), self.path(), try_within).take(deadline).await }).await
    }
}

impl fmt::Debug for NaiveLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NaiveLock").field("path", &self.path()).finish_non_exhaustive()
    }
}
