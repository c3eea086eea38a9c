//! A hold, and the claim that becomes one.
//!
//! A claim stands for what an acquire has on the server, or may have. With a grant it becomes a hold. What it stands for is deleted in
//! the end: by its user, or by the session's reaper.
//!
//! | the end | called by | waits | the deletion is by |
//! |---|---|---|---|
//! | `Hold::release` | the last guard of the hold | for the server | `Claim::remove` |
//! | `withdraw` of a hold or a claim | an acquire that has not used it | at most a quarter of the session timeout | `Claim::remove` |
//! | `Claim::remove` | the two above | for the server | `Leftover::remove`, or the reaper after a later hold |
//! | `Claim::into_left` | a semaphore, for its lease lock | no | the caller |
//! | a drop of the claim | a drop of its guard or its acquire | no | the reaper, which gets it by `Session::abandon` |
//! | `Leftover::give_up` | the drop of the claim | no | nobody: it tells the queue, and whether anything is left |
//! | `Contender::leave` | its `remove` and its `give_up` | no | the queue, by the requests that the contender polls |
//! | `Engine::forget` | the drop of the contender | no | nobody: the contender is over, or the session has ended |

pub(crate) mod node_watch;
pub(crate) mod revoke;
pub(crate) mod state;
pub(crate) mod watch;

use std::fmt;
use std::ops::{Deref, DerefMut};

use tokio_util::sync::CancellationToken;
use zk_recipes_protocol::liveness::{LostReason, connection_timeout};
use zk_recipes_protocol::session_queue::ContenderId;

use crate::acquire::Deadline;
use crate::error::Error;
use crate::hold::state::HoldState;
use crate::hold::watch::{HoldEnd, HoldWatch};
use crate::session::Session;
use crate::session::liveness::hold_logs::{HoldLog, HoldName};
use crate::session::liveness::proof::Proof;
use crate::session::reaper::Leftover;
use crate::session::remote::Removal;
use crate::token::FencingToken;

/// A claim on something that exists on the server, or may exist. If the claim is dropped, the session's reaper deletes it.
#[derive(Debug)]
pub(crate) struct Claim<L: Leftover + ?Sized = dyn Leftover> {
    session: Session,
    /// `None` once it is gone, or somebody else is to delete it.
    left: Option<Box<L>>,
    /// The name of the hold, once the hold was dropped.
    dropped_hold: Option<HoldName>,
}

/// What comes with a grant: the transaction that created the node, the contender, and the proof that the session lives.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) czxid: i64,
    /// The contender that was granted the lock. `None` for a node that is in no queue.
    pub(crate) contender: Option<ContenderId>,
    pub(crate) proof: Proof,
}

/// A hold. Its guards share it, or have it one after the other. Its node is deleted after the last of them.
pub(crate) struct Hold {
    /// The first field, because fields are dropped in order: the watches are told before the node is given up.
    end: HoldEnd,
    claim: Claim,
    /// The transaction that created the node. Another node may have the same path.
    czxid: i64,
    contender: Option<ContenderId>,
    /// The token of the grant. Each later holder of a cohort derives its own token from it.
    token: FencingToken,
    proof: Proof,
    /// The log lines about the hold.
    log: HoldLog,
}

impl<L: Leftover> Claim<L> {
    pub(crate) fn new(session: &Session, left: L) -> Self {
        Self { session: session.clone(), left: Some(Box::new(left)), dropped_hold: None }
    }

    /// Takes out what is left. The caller must delete it.
    pub(crate) fn into_left(mut self) -> Option<L> {
        self.left.take().map(|left| *left)
    }

    fn erased(mut self) -> Claim {
        let left = self.left.take().map(|left| left as Box<dyn Leftover>);
        Claim { session: self.session.clone(), left, dropped_hold: None }
    }
}

impl<L: Leftover + ?Sized> Claim<L> {
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Deletes what is left, and waits for the confirmation. `hands_over`: the hold is handed over to the successor, if the successor
    /// belongs to the session. If the node then stands for a later hold ([`Removal::Kept`]), the reaper deletes it after that hold.
    /// If this fails or is dropped, the reaper continues once the claim is dropped.
    pub(crate) async fn remove(&mut self, hands_over: bool) -> Result<Removal, Error> {
        let Some(left) = &mut self.left else { return Ok(Removal::NothingThere) };
        let removal = left.remove(self.session.remote(), hands_over).await?;
        let left = self.left.take();
        if let (Removal::Kept, Some(left)) = (removal, left) {
            self.session.abandon(left.boxed(), None);
        }
        Ok(removal)
    }

    /// Deletes something that nothing relies on. When this returns `Ok`, it is gone. Waits at most a quarter of the session timeout.
    pub(crate) async fn withdraw(&mut self) -> Result<(), Error> {
        let Some(left) = &self.left else { return Ok(()) };
        let path = left.path().to_owned();
        let session = self.session.clone();
        withdrawal(&session, &path, async { self.remove(false).await.map(drop) }).await
    }
}

impl<L: Leftover + ?Sized> Deref for Claim<L> {
    type Target = L;

    fn deref(&self) -> &L {
        self.left.as_ref().expect("BUG: a claim that has ended is asked for")
    }
}

impl<L: Leftover + ?Sized> DerefMut for Claim<L> {
    fn deref_mut(&mut self) -> &mut L {
        self.left.as_mut().expect("BUG: a claim that has ended goes on")
    }
}

impl<L: Leftover + ?Sized> Drop for Claim<L> {
    fn drop(&mut self) {
        if let Some(mut left) = self.left.take()
            && left.give_up()
        {
            self.session.abandon(left.boxed(), self.dropped_hold.take());
        }
    }
}

impl Hold {
    pub(crate) fn new<L: Leftover>(claim: Claim<L>, grant: Grant) -> Self {
        let token = FencingToken::new(grant.czxid);
        Self::with_token(claim, grant, token)
    }

    /// Returns a hold of `claim` that shares the place of this one and has its token. The proof of its grant is a clone of the proof of
    /// this hold, so both are lost together.
    pub(crate) fn share<L: Leftover>(&self, claim: Claim<L>, grant: Grant) -> Self {
        Self::with_token(claim, grant, self.token)
    }

    fn with_token<L: Leftover>(claim: Claim<L>, grant: Grant, token: FencingToken) -> Self {
        let Grant { czxid, contender, proof } = grant;
        let log = proof.log(HoldName::new(claim.lock(), claim.path(), token));
        Self { end: HoldEnd::default(), claim: claim.erased(), czxid, contender, token, proof, log }
    }

    /// Returns the contender that holds.
    pub(crate) fn contender(&self) -> ContenderId {
        self.contender.expect("BUG: a hold in no queue is shared")
    }

    /// Notes that somebody else deleted the node: the hold is lost.
    pub(crate) fn note_gone(&self) {
        self.proof.lose(self.path());
    }

    /// Notes the token that the hold has after a hand-over.
    pub(crate) fn note_handover(&self, token: FencingToken) {
        self.log.set_token(token);
    }

    /// Notes that the hold lingers. A loss need not be logged then, because nothing relies on the hold. It ends with
    /// [`note_handover`](Self::note_handover).
    pub(crate) fn note_lingering(&self) {
        self.log.set_lingering();
    }

    pub(crate) fn session(&self) -> &Session {
        self.claim.session()
    }

    /// Returns the token of the grant. In a cohort, it is the token of the first holder.
    pub(crate) fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns the path of the lock.
    pub(crate) fn lock(&self) -> &str {
        self.claim.lock()
    }

    /// Returns the path of the node.
    pub(crate) fn path(&self) -> &str {
        self.claim.path()
    }

    /// Returns the transaction that created the node. Another node may have the same path.
    pub(crate) fn czxid(&self) -> i64 {
        self.czxid
    }

    pub(crate) fn state(&self) -> HoldState {
        HoldState::of(self.proof.view().state())
    }

    pub(crate) async fn lost(&self) -> LostReason {
        self.proof.view().until_lost().await
    }

    /// Waits until the hold is no longer suspect: it is held or lost.
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

    /// Returns the error of the holder with this token.
    pub(crate) fn lost_error(&self, token: FencingToken, reason: LostReason) -> Error {
        Error::HoldLost { path: self.lock().to_owned(), node_path: self.path().to_owned(), token, reason }
    }

    pub(crate) fn end(&self) -> &HoldEnd {
        &self.end
    }

    /// Returns a watch of this hold that ends with `end`: the hold's own end, or the end of a member's turn. The turn of a member
    /// ends at a hand-over, and the hold goes on.
    pub(crate) fn watch_until(&self, end: &HoldEnd) -> HoldWatch {
        end.watch(&self.proof)
    }

    /// Returns a cancellation token of this hold that is cancelled with `end`, too.
    pub(crate) fn cancellation_token_until(&self, end: &HoldEnd) -> CancellationToken {
        end.cancellation_token(&self.proof, self.session().remote())
    }

    /// Releases the hold of the holder with this token.
    pub(crate) async fn release(mut self, token: FencingToken) -> Result<(), Error> {
        // Before the request is sent or the hold is handed over: from then on another contender may hold.
        self.end.tell();
        let is_held = self.state() == HoldState::Held;
        let path = self.lock().to_owned();
        let node_path = self.path().to_owned();
        // A hold that is or may be lost is not handed over.
        let reason = match self.claim.remove(is_held).await {
            // The request succeeded, but the hold may have been lost before.
            Ok(removal) => self.proof.view().lost_with_session().or(match removal {
                Removal::Deleted | Removal::Kept => None,
                Removal::NothingThere => Some(LostReason::NodeDeleted),
            }),
            Err(Error::SessionEnded { reason }) => Some(reason),
            Err(error) => return Err(error),
        };
        match reason {
            Some(reason) => {
                self.log.lost(reason);
                Err(Error::HoldLost { path, node_path, token, reason })
            }
            None => {
                self.log.end();
                Ok(())
            }
        }
    }

    /// Deletes the node of a hold that nothing relies on. Waits at most a quarter of the session timeout.
    pub(crate) async fn withdraw(mut self) -> Result<(), Error> {
        self.log.end();
        self.claim.withdraw().await
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let lost = match self.state() {
            HoldState::Lost(reason) => Some(reason),
            HoldState::Held | HoldState::Suspect => None,
        };
        self.claim.dropped_hold = self.log.dropped(lost);
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

/// Waits for `removal`, for at most a quarter of the session timeout. The client waits that long for a silent connection. So a
/// server that does not answer does not delay a caller whose deadline has passed. `path` is the path of the node for the error, or of
/// its lock.
pub(crate) async fn withdrawal(
    session: &Session,
    path: &str,
    removal: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let within = connection_timeout(session.timeout());
    let removed = Deadline::after(within).bound(removal).await;
    removed.unwrap_or_else(|| Err(Error::Unconfirmed { path: path.to_owned(), within }))
}
