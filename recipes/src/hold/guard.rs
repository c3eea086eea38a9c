//! The guard of a hold.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use zk_recipes_protocol::liveness::LostReason;

use crate::engine::withdrawal;
use crate::error::Error;
use crate::hold::held::Hold;
use crate::hold::revoke::Revocation;
use crate::hold::slot::Slot;
use crate::hold::state::HoldState;
use crate::hold::turn::Turn;
use crate::hold::watch::HoldWatch;
use crate::token::FencingToken;

/// A hold. It owns the lock until [`release`](Self::release) or drop, wherever it is moved; a task is not a thread, so
/// neither task nor thread matters.
///
/// Dropped, it hands its node to the session's reaper: the lock becomes free soon after, but not before `drop`
/// returns. Use [`release`](Self::release) when the order matters. The guards by which one [`Owner`](crate::Owner) holds
/// a lock several times share the hold, which ends with the last of them. The guard of a [`CohortMutex`](crate::CohortMutex)
/// hands the lock over when it is dropped, if the next contender of the process may have it; otherwise the reaper deletes
/// the node.
///
/// A guard says truthfully when it was lost, by its own clock and before the server could grant to another, but it
/// cannot stop a holder that is paused between the check and the write. Only a [fencing token](Self::token) that the
/// storage checks does that.
#[must_use = "if unused the lock is released immediately"]
pub struct LockGuard {
    stake: Stake,
}

/// By what a guard holds.
#[derive(Debug)]
enum Stake {
    /// By a hold of its own, or by one that the guards of an owner share.
    Share { hold: Arc<Hold>, slot: Option<Arc<Slot>> },
    /// By a hold that goes to the next of the same process.
    Turn(Turn),
}

impl LockGuard {
    pub(crate) fn new(hold: Hold) -> Self {
        Self { stake: Stake::Share { hold: Arc::new(hold), slot: None } }
    }

    /// One more guard of a hold that an owner has.
    pub(crate) fn sharing(hold: Arc<Hold>, slot: &Arc<Slot>) -> Self {
        Self { stake: Stake::Share { hold, slot: Some(Arc::clone(slot)) } }
    }

    /// The guard of a hold that may be handed over.
    pub(crate) fn in_turn(turn: Turn) -> Self {
        Self { stake: Stake::Turn(turn) }
    }

    fn hold(&self) -> &Hold {
        match &self.stake {
            Stake::Share { hold, .. } => hold,
            Stake::Turn(turn) => turn.hold(),
        }
    }

    /// The fencing token: greater than that of every hold that ended before this one was granted. Holders that share the
    /// lock, readers or those of a semaphore, hold together, and may have been granted in another order than that of
    /// their tokens.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        match &self.stake {
            Stake::Share { hold, .. } => hold.token(),
            Stake::Turn(turn) => turn.token(),
        }
    }

    /// The path of the lock, as the lock was made with. For a semaphore, the path of the semaphore.
    #[must_use]
    pub fn path(&self) -> &str {
        self.hold().lock()
    }

    /// The path of the node that stands for this hold.
    #[must_use]
    pub fn node_path(&self) -> &str {
        self.hold().path()
    }

    /// Whether the hold can be relied on now.
    #[must_use]
    pub fn state(&self) -> HoldState {
        self.hold().state()
    }

    /// Waits until the hold is lost.
    ///
    /// # Cancel safety
    /// Nothing is lost; call it again.
    pub async fn lost(&self) -> LostReason {
        self.hold().lost().await
    }

    /// A watch of this hold, for tasks that do not have the guard. It outlives the guard and does not hold.
    #[must_use]
    pub fn watch(&self) -> HoldWatch {
        match &self.stake {
            Stake::Share { hold, .. } => hold.watch(),
            Stake::Turn(turn) => turn.watch(),
        }
    }

    /// The error that says why this hold is lost.
    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        self.hold().lost_error_of(self.token(), reason)
    }

    /// Tells when somebody asks for the lock back. It outlives the guard, so that another task can wait on it.
    #[doc(alias = "makeRevocable")]
    #[must_use]
    pub fn revocation(&self) -> Revocation {
        let hold = self.hold();
        Revocation::of(hold.session(), hold.path(), hold.czxid())
    }

    /// Runs a critical section and stops it, by dropping it, when the hold is lost.
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
    /// [`Error::HoldLost`] when the hold was lost before the section was done.
    ///
    /// # Cancel safety
    /// Dropped, the section is dropped wherever it stands; the hold goes on.
    pub async fn run<F: Future>(&self, section: F) -> Result<F::Output, Error> {
        run_while_held(section, || self.state(), self.lost(), |reason| self.lost_error(reason)).await
    }

    /// Gives the lock back and waits for the server's confirmation. While the owner has other guards of the hold,
    /// nothing is sent. Of a [`CohortMutex`](crate::CohortMutex) it may go to the next contender of this process instead.
    ///
    /// The wait has no bound of its own: without a connection it lasts until the session has connected again or has ended.
    /// `tokio::time::timeout` around it is safe, as a drop of it is.
    ///
    /// # Errors
    /// [`Error::HoldLost`] when the hold had been lost before: what it guarded may have run beside another holder. The
    /// node is gone then, too. [`Error::SessionEnded`] does not occur here; an ended session is a lost hold.
    /// [`Error::NotAuthorized`] or [`Error::Refused`] when the server does not delete the node; the reaper goes on asking.
    ///
    /// # Cancel safety
    /// Dropped, the reaper releases the lock. The guard of a `CohortMutex` hands the lock over instead, if the next contender
    /// may have it.
    pub async fn release(self) -> Result<(), Error> {
        let (hold, slot) = match self.stake {
            Stake::Share { hold, slot } => (hold, slot),
            Stake::Turn(turn) => return turn.release().await,
        };
        let Some(slot) = slot else {
            return match Arc::into_inner(hold) {
                Some(hold) => hold.release().await,
                None => unreachable!("BUG: a hold of no owner's has several guards"),
            };
        };
        // The owner may just be making another hold of this one, in another task.
        let _turn = slot.turn().await;
        let lost = match hold.state() {
            HoldState::Lost(reason) => Err(hold.lost_error(reason)),
            HoldState::Held | HoldState::Suspect => Ok(()),
        };
        match slot.take_last(hold) {
            Some(hold) => hold.release().await,
            // The owner has other guards.
            None => lost,
        }
    }

    /// Gives the lock back unused: as [`release`](Self::release), but waits only as long as
    /// [`withdrawal`].
    pub(crate) async fn withdraw(self) -> Result<(), Error> {
        let (session, path) = (self.hold().session().clone(), self.node_path().to_owned());
        withdrawal(&session, &path, self.release()).await
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

/// Polls a section for as long as `state` says that it is not lost.
pub(crate) async fn run_while_held<F: Future>(
    section: F,
    state: impl Fn() -> HoldState,
    lost: impl Future<Output = LostReason>,
    error: impl Fn(LostReason) -> Error,
) -> Result<F::Output, Error> {
    let mut section = pin!(section);
    let mut lost = pin!(lost);
    poll_fn(|cx| {
        // Asked before every step of the section, and not left to the waker: after a pause of the process the section
        // may be polled before anybody has noted the loss.
        let reason = match (state(), lost.as_mut().poll(cx)) {
            (HoldState::Lost(reason), _) | (_, Poll::Ready(reason)) => reason,
            _ => return section.as_mut().poll(cx).map(Ok),
        };
        Poll::Ready(Err(error(reason)))
    })
    .await
}
