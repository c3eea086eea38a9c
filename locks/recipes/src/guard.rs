//! The guard of a hold.

pub(crate) mod multi;
pub(crate) mod waiter;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio_util::sync::CancellationToken;
use tracing::{Span, debug};
use zk_recipes_protocol::liveness::LostReason;

use crate::acquire::LogGrant;
use crate::cohort::member::Member;
use crate::error::Error;
use crate::hold::revoke::Revocation;
use crate::hold::state::HoldState;
use crate::hold::watch::{HoldEnd, HoldWatch};
use crate::hold::{Hold, withdrawal};
use crate::owner::owned_lock::OwnedLock;
use crate::session::remote::Remote;
use crate::token::FencingToken;

/// The guard of a hold. It holds the lock until [`release`](Self::release) or drop, and may move between tasks and threads.
///
/// A drop hands the node to the session's reaper, and does not wait until the lock is free. Use [`release`](Self::release) if the
/// order matters. An [`Owner`](crate::Owner) may have several guards of one lock. They share the hold, which ends with the last
/// of them.
///
/// A drop of the guard of a [`CohortMutex`](crate::CohortMutex) hands the hold over to the next contender of the process. If none
/// waits, or the hold is lost or has reached its bounds, the reaper deletes the node instead. Only a `release` lets the hold
/// [linger](crate::CohortMutex::with_linger).
///
/// A guard reports a loss before the server can grant the lock to another session. But it cannot stop a holder that is paused
/// between the check and the write. For that, the storage must check the [fencing token](Self::token).
#[must_use = "if unused the lock is released immediately"]
pub struct LockGuard {
    by: By,
}

/// How a guard holds.
#[derive(Debug)]
enum By {
    /// By its own hold.
    Hold(Box<Hold>),
    /// By a hold that all guards of an owner share.
    Owner(Arc<Hold>, Arc<OwnedLock>),
    /// By a hold that may be handed over to the next contender of the same process.
    Member(Member),
}

impl LockGuard {
    pub(crate) fn new(hold: Hold) -> Self {
        Self { by: By::Hold(Box::new(hold)) }
    }

    /// Returns one more guard of a hold that an owner has.
    pub(crate) fn of_owner(hold: Arc<Hold>, owned: &Arc<OwnedLock>) -> Self {
        Self { by: By::Owner(hold, Arc::clone(owned)) }
    }

    /// Returns the guard of a hold that may be handed over.
    pub(crate) fn of_member(member: Member) -> Self {
        Self { by: By::Member(member) }
    }

    fn hold(&self) -> &Hold {
        match &self.by {
            By::Hold(hold) => hold,
            By::Owner(hold, _) => hold,
            By::Member(member) => member.hold(),
        }
    }

    fn end(&self) -> &HoldEnd {
        match &self.by {
            By::Member(member) => member.end(),
            By::Hold(_) | By::Owner(..) => self.hold().end(),
        }
    }

    pub(crate) fn remote(&self) -> &Remote {
        self.hold().session().remote()
    }

    /// Returns the fencing token. It is greater than the token of every hold that ended before this one was granted.
    ///
    /// Holders that share a lock, such as readers or the holders of a semaphore, hold at the same time. They may be granted in
    /// another order than the order of their tokens.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        match &self.by {
            By::Member(member) => member.token(),
            By::Hold(_) | By::Owner(..) => self.hold().token(),
        }
    }

    /// Returns the path that the lock was made with. For a semaphore, the path of the semaphore.
    #[must_use]
    pub fn path(&self) -> &str {
        self.hold().lock()
    }

    /// Returns the path of the node that stands for this hold.
    #[must_use]
    pub fn node_path(&self) -> &str {
        self.hold().path()
    }

    /// Returns the state of the hold now: whether it can be relied on.
    #[must_use]
    pub fn state(&self) -> HoldState {
        self.hold().state()
    }

    /// Waits until the hold is lost. Returns the reason.
    ///
    /// # Cancel safety
    /// Nothing is lost: call it again.
    pub async fn lost(&self) -> LostReason {
        self.hold().lost().await
    }

    /// Returns a watch of this hold, for tasks that do not have the guard. The watch may outlive the guard, and does not hold the
    /// lock.
    #[must_use]
    pub fn watch(&self) -> HoldWatch {
        self.hold().watch_until(self.end())
    }

    /// Returns a cancellation token for the work that other tasks and threads do under this hold. It is cancelled when the hold is
    /// lost or ends. If the hold is lost already, so is the token.
    ///
    /// * [`release`](Self::release) and a drop of the guard cancel it before they send anything. The guards of an
    ///   [`Owner`](crate::Owner) share their hold, so the last of them does. For a [`CohortMutex`](crate::CohortMutex), a hand-over does.
    /// * A task on the Tokio runtime of the session notices a loss. If that runtime is blocked, the token is cancelled late. After a
    ///   pause of the process, other tasks may run first. [`run`](Self::run), [`state`](Self::state) and [`lost`](Self::lost) are not
    ///   late: look at the state before anything that cannot be undone.
    /// * It keeps neither the lock nor the session, and a drop of it changes nothing. Each call returns a token of its own: a caller
    ///   that cancels it cancels no other. A [`watch`](Self::watch) tells whether the hold was lost or given back.
    ///
    /// ```no_run
    /// # async fn example(held: zk_recipes::LockGuard) -> Result<(), zk_recipes::Error> {
    /// let token = held.cancellation_token();
    /// let worker = std::thread::spawn(move || {
    ///     while !token.is_cancelled() { /* the next piece of work */ }
    /// });
    /// # worker.join().ok();
    /// held.release().await
    /// # }
    /// ```
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.hold().cancellation_token_until(self.end())
    }

    /// Returns the error that says why this hold is lost.
    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        self.hold().lost_error(self.token(), reason)
    }

    /// Returns a handle that reports when somebody asks for the lock. It may outlive the guard, so another task can wait on it.
    #[doc(alias = "makeRevocable")]
    #[must_use]
    pub fn revocation(&self) -> Revocation {
        let hold = self.hold();
        Revocation::of(hold.session(), hold.path(), hold.czxid())
    }

    /// Runs a critical section. Stops it, by dropping it, when the hold is lost.
    ///
    /// ```no_run
    /// # async fn example(held: zk_recipes::LockGuard) -> Result<(), zk_recipes::Error> {
    /// let sold = held.run(async { /* read, decide, write */ 1 }).await?;
    /// held.release().await?;
    /// # let _ = sold; Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::HoldLost`] if the hold was lost before the section was done.
    ///
    /// # Cancel safety
    /// If the future is dropped, the section is dropped with it, and the hold goes on.
    pub async fn run<F: Future>(&self, section: F) -> Result<F::Output, Error> {
        run_while_held(section, || self.state(), self.lost(), |reason| self.lost_error(reason)).await
    }

    /// Releases the lock and waits for the server's confirmation. While the owner has other guards of the hold, nothing is sent.
    /// The hold of a [`CohortMutex`](crate::CohortMutex) may be handed over to the next contender of this process instead, or
    /// [linger](crate::CohortMutex::with_linger).
    ///
    /// The wait has no deadline. Without a connection, it lasts until the session has connected again or has ended. To bound it,
    /// use `tokio::time::timeout`: a drop of the future is safe.
    ///
    /// # Errors
    /// [`Error::HoldLost`] if the hold was lost before: the guarded work may have run at the same time as another holder's. If
    /// this was the last guard of the hold, the node is deleted all the same, by this call or by the server.
    /// [`Error::NotAuthorized`] or [`Error::Refused`] if the server did not delete the node: the reaper then continues to ask.
    /// [`Error::SessionEnded`] does not occur, because a session that has ended is a lost hold.
    ///
    /// # Cancel safety
    /// If the future is dropped, the reaper releases the lock. Before the first poll, the guard of a `CohortMutex` may hand the
    /// hold over instead, as any drop of the guard does.
    pub async fn release(self) -> Result<(), Error> {
        let token = self.token();
        match self.by {
            By::Hold(hold) => hold.release(token).await,
            By::Owner(hold, owned) => owned.release(hold).await,
            By::Member(member) => member.release().await,
        }
    }

    /// Releases a lock that was not used. As [`release`](Self::release), but no hold lingers, and it waits at most a quarter of the
    /// session timeout.
    pub(crate) async fn withdraw(self) -> Result<(), Error> {
        let session = self.hold().session().clone();
        let path = self.node_path().to_owned();
        let removal = async {
            match self.by {
                By::Member(member) => member.give_back().await,
                by => Self { by }.release().await,
            }
        };
        withdrawal(&session, &path, removal).await
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("node", &self.node_path())
            .field("token", &format_args!("{}", self.token()))
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl LogGrant for LockGuard {
    fn log(&self, span: &Span) {
        span.record("node", self.node_path());
        debug!(node = self.node_path(), token = %self.token(), "granted");
    }
}

/// The permits of one acquire.
impl LogGrant for Vec<LockGuard> {
    fn log(&self, span: &Span) {
        self.iter().for_each(|guard| guard.log(span));
    }
}

/// Polls a section until it is done or `state` says that the hold is lost.
pub(crate) async fn run_while_held<F: Future>(
    section: F,
    state: impl Fn() -> HoldState,
    lost: impl Future<Output = LostReason>,
    error: impl Fn(LostReason) -> Error,
) -> Result<F::Output, Error> {
    let mut section = pin!(section);
    let mut lost = pin!(lost);
    poll_fn(|cx| {
        // The state is read before every step of the section. The waker alone is not enough: after a pause of the process, the
        // section may be polled before the loss is noticed.
        let reason = match (state(), lost.as_mut().poll(cx)) {
            (HoldState::Lost(reason), _) | (_, Poll::Ready(reason)) => reason,
            _ => return section.as_mut().poll(cx).map(Ok),
        };
        Poll::Ready(Err(error(reason)))
    })
    .await
}
