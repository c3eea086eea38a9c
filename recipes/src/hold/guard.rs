//! A hold of a lock.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use zk_recipes_protocol::liveness::LostReason;

use crate::engine::{Contender, Granted, withdrawal};
use crate::error::Error;
use crate::hold::evidence::Evidence;
use crate::hold::node_claim::NodeClaim;
use crate::hold::owner::Slot;
use crate::hold::revoke::Revocation;
use crate::hold::state::HoldState;
use crate::hold::turn::Turn;
use crate::hold::watch::{HoldEnd, HoldWatch};
use crate::session::Session;
use crate::session::hold_reports::{HoldName, HoldReport};
use crate::session::proof::Proof;
use crate::session::reaper::Removal;
use crate::token::FencingToken;

/// What the guards of one hold share, or have one after the other. The node goes with the last of them.
pub(crate) struct Hold {
    /// Before the others: the watches are told before the node is given up.
    end: HoldEnd,
    evidence: Evidence,
    token: FencingToken,
    proof: Proof,
    /// What the log says of it.
    report: HoldReport,
    /// Of the owner that it was granted to.
    slot: Option<Arc<Slot>>,
}

impl Hold {
    /// The hold of a contender that was granted the lock.
    pub(crate) fn of(contender: Contender, granted: Granted) -> Self {
        let Granted { made, proof } = granted;
        Self::new(Evidence::Place(contender), FencingToken::new(made.czxid), proof)
    }

    /// The hold of whoever has a node that is in no queue.
    pub(crate) fn of_node(claim: NodeClaim, token: FencingToken, proof: Proof) -> Self {
        Self::new(Evidence::Node(claim), token, proof)
    }

    /// Another hold that is as old as this one: whatever loses the one loses the other.
    pub(crate) fn derive(&self, contender: Contender, proof: Proof) -> Self {
        Self::new(Evidence::Place(contender), self.token, proof)
    }

    fn new(evidence: Evidence, token: FencingToken, proof: Proof) -> Self {
        let report = proof.report(HoldName::new(evidence.lock(), evidence.path(), token));
        Self { end: HoldEnd::default(), evidence, token, proof, report, slot: None }
    }

    /// The contender that holds.
    pub(crate) fn contender(&self) -> &Contender {
        self.evidence.contender()
    }

    /// The same hold, of an owner.
    pub(crate) fn owned(mut self, slot: &Arc<Slot>) -> Self {
        self.slot = Some(Arc::clone(slot));
        self
    }

    /// Notes that somebody else has deleted the node. The hold is lost.
    pub(crate) fn note_gone(&self) {
        self.contender().note_missing_node();
        self.proof.lose(self.path());
    }

    /// Notes the token that the hold has after a hand-over.
    pub(crate) fn note_handover(&self, token: FencingToken) {
        self.report.set_token(token);
    }

    pub(crate) fn session(&self) -> &Session {
        self.evidence.session()
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.token
    }

    /// The path of the lock.
    pub(crate) fn lock(&self) -> &str {
        self.evidence.lock()
    }

    /// The path of the node.
    pub(crate) fn path(&self) -> &str {
        self.evidence.path()
    }

    /// The transaction that created the node, where the path alone does not tell it from others.
    fn czxid(&self) -> Option<i64> {
        match &self.evidence {
            Evidence::Place(contender) => contender.czxid(),
            Evidence::Node { .. } => Some(self.token.czxid()),
        }
    }

    pub(crate) fn state(&self) -> HoldState {
        HoldState::of(self.proof.view().state())
    }

    async fn lost(&self) -> LostReason {
        self.proof.view().until_lost().await
    }

    /// Waits until the hold is not suspect: until it is known whether it has survived.
    pub(crate) async fn settled(&self) {
        if self.state() != HoldState::Suspect {
            return;
        }
        let mut states = self.session().states();
        while self.state() == HoldState::Suspect {
            tokio::select! {
                _ = states.changed() => {}
                _ = self.lost() => {}
            }
        }
    }

    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        self.lost_error_of(self.token, reason)
    }

    /// As [`lost_error`](Self::lost_error), of a holder by this token.
    pub(crate) fn lost_error_of(&self, token: FencingToken, reason: LostReason) -> Error {
        Error::HoldLost { path: self.lock().to_owned(), node_path: self.path().to_owned(), token, reason }
    }

    /// A watch that ends when `end` says so.
    pub(crate) fn watch_until(&self, end: &HoldEnd) -> HoldWatch {
        end.watch(&self.proof)
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        let token = self.token;
        self.release_by(token).await
    }

    /// As [`release`](Self::release), by the holder of this token.
    pub(crate) async fn release_by(mut self, token: FencingToken) -> Result<(), Error> {
        // Before the request is sent, or the hold passed on: then another contender may hold.
        self.end.tell();
        let is_held = self.state() == HoldState::Held;
        let (path, node_path) = (self.lock().to_owned(), self.path().to_owned());
        // A hold that is lost, or may be, is not passed on.
        let reason = match self.evidence.remove(is_held).await {
            // It was deleted, possibly by an attempt whose reply was lost.
            Ok(removal) => self.proof.view().lost_with_session().or(match removal {
                Removal::Deleted | Removal::Kept => None,
                Removal::NothingThere => Some(LostReason::NodeDeleted),
            }),
            Err(Error::SessionEnded { reason }) => Some(reason),
            Err(error) => return Err(error),
        };
        match reason {
            Some(reason) => {
                self.report.lost(reason);
                Err(Error::HoldLost { path, node_path, token, reason })
            }
            None => {
                self.report.end();
                Ok(())
            }
        }
    }

    /// Deletes the node of a hold that nobody relies on. Waits only as long as [`withdrawal`].
    pub(crate) async fn withdraw(mut self) -> Result<(), Error> {
        self.report.end();
        self.evidence.withdraw().await
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let lost = match self.state() {
            HoldState::Lost(reason) => Some(reason),
            HoldState::Held | HoldState::Suspect => None,
        };
        self.evidence.note_dropped(self.report.dropped(lost));
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("node", &self.path())
            .field("token", &format_args!("{}", self.token))
            .finish_non_exhaustive()
    }
}

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
    /// By a hold that the guards of one owner share.
    Share(Arc<Hold>),
    /// By a hold that goes to the next of the same process.
    Turn(Turn),
}

impl LockGuard {
    pub(crate) fn new(hold: Hold) -> Self {
        Self::sharing(Arc::new(hold))
    }

    /// One more guard of a hold.
    pub(crate) fn sharing(hold: Arc<Hold>) -> Self {
        Self { stake: Stake::Share(hold) }
    }

    /// The guard of a hold that may be handed over.
    pub(crate) fn in_turn(turn: Turn) -> Self {
        Self { stake: Stake::Turn(turn) }
    }

    fn hold(&self) -> &Hold {
        match &self.stake {
            Stake::Share(hold) => hold,
            Stake::Turn(turn) => turn.hold(),
        }
    }

    /// The fencing token: greater than that of every hold that ended before this one was granted. Holders that share the
    /// lock, readers or those of a semaphore, hold together, and may have been granted in another order than that of
    /// their tokens.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        match &self.stake {
            Stake::Share(hold) => hold.token(),
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
            Stake::Share(hold) => hold.watch_until(&hold.end),
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
        let hold = match self.stake {
            Stake::Share(hold) => hold,
            Stake::Turn(turn) => return turn.release().await,
        };
        let Some(slot) = hold.slot.clone() else {
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
