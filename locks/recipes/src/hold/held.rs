//! A hold of a lock: the node that stands for it on the server, and whether it can be relied on.

use std::fmt;

use tokio_util::sync::CancellationToken;
use zk_recipes_protocol::liveness::LostReason;

use crate::engine::{Contender, Granted};
use crate::error::Error;
use crate::hold::evidence::Evidence;
use crate::hold::node_claim::NodeClaim;
use crate::hold::state::HoldState;
use crate::hold::watch::{HoldEnd, HoldWatch};
use crate::session::Session;
use crate::session::liveness::hold_reports::{HoldName, HoldReport};
use crate::session::liveness::proof::Proof;
use crate::session::remote::Removal;
use crate::token::FencingToken;

/// A hold. Its guards share it, or have it one after the other. Its node is deleted after the last of them.
pub(crate) struct Hold {
    /// The first field, because fields are dropped in order: the watches are told before the node is given up.
    end: HoldEnd,
    evidence: Evidence,
    token: FencingToken,
    proof: Proof,
    /// The log lines about the hold.
    report: HoldReport,
}

impl Hold {
    /// Returns the hold of a contender that was granted the lock.
    pub(crate) fn of(contender: Contender, granted: Granted) -> Self {
        let Granted { made, proof } = granted;
        Self::new(Evidence::Place(contender), FencingToken::new(made.czxid), proof)
    }

    /// Returns the hold of a contender with a node that is in no queue.
    pub(crate) fn of_node(claim: NodeClaim, token: FencingToken, proof: Proof) -> Self {
        Self::new(Evidence::Node(claim), token, proof)
    }

    /// Returns a hold that shares the place of this one and has its token. `proof`: a clone of the proof of this hold, so both
    /// are lost together.
    pub(crate) fn derive(&self, contender: Contender, proof: Proof) -> Self {
        Self::new(Evidence::Place(contender), self.token, proof)
    }

    fn new(evidence: Evidence, token: FencingToken, proof: Proof) -> Self {
        let report = proof.report(HoldName::new(evidence.lock(), evidence.path(), token));
        Self { end: HoldEnd::default(), evidence, token, proof, report }
    }

    /// Returns the contender that holds.
    pub(crate) fn contender(&self) -> &Contender {
        self.evidence.contender()
    }

    /// Notes that somebody else deleted the node: the hold is lost.
    pub(crate) fn note_gone(&self) {
        self.proof.lose(self.path());
    }

    /// Notes the token that the hold has after a hand-over.
    pub(crate) fn note_handover(&self, token: FencingToken) {
        self.report.set_token(token);
    }

    /// Notes that the hold lingers. A loss need not be logged then, because nothing relies on the hold. It ends with
    /// [`note_handover`](Self::note_handover).
    pub(crate) fn note_lingering(&self) {
        self.report.set_lingering();
    }

    pub(crate) fn session(&self) -> &Session {
        self.evidence.session()
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns the path of the lock.
    pub(crate) fn lock(&self) -> &str {
        self.evidence.lock()
    }

    /// Returns the path of the node.
    pub(crate) fn path(&self) -> &str {
        self.evidence.path()
    }

    /// Returns the transaction that created the node, if another node may have the same path. Otherwise `None`.
    pub(crate) fn czxid(&self) -> Option<i64> {
        match &self.evidence {
            Evidence::Place(contender) => contender.czxid(),
            Evidence::Node { .. } => Some(self.token.czxid()),
        }
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

    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        self.lost_error_of(self.token, reason)
    }

    /// As [`lost_error`](Self::lost_error), for the holder with this token.
    pub(crate) fn lost_error_of(&self, token: FencingToken, reason: LostReason) -> Error {
        Error::HoldLost { path: self.lock().to_owned(), node_path: self.path().to_owned(), token, reason }
    }

    /// Returns the end of this hold.
    pub(crate) fn end(&self) -> &HoldEnd {
        &self.end
    }

    /// Returns a watch of this hold that ends with `end`.
    pub(crate) fn watch_until(&self, end: &HoldEnd) -> HoldWatch {
        end.watch(&self.proof)
    }

    /// Returns a cancellation token of this hold that is cancelled with `end`, too.
    pub(crate) fn cancellation_token_until(&self, end: &HoldEnd) -> CancellationToken {
        end.cancellation_token(&self.proof, self.session().remote())
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        let token = self.token;
        self.release_by(token).await
    }

    /// As [`release`](Self::release), for the holder with this token.
    pub(crate) async fn release_by(mut self, token: FencingToken) -> Result<(), Error> {
        // Before the request is sent or the hold is handed over: from then on another contender may hold.
        self.end.tell();
        let is_held = self.state() == HoldState::Held;
        let (path, node_path) = (self.lock().to_owned(), self.path().to_owned());
        // A hold that is or may be lost is not handed over.
        let reason = match self.evidence.remove(is_held).await {
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
                self.report.lost(reason);
                Err(Error::HoldLost { path, node_path, token, reason })
            }
            None => {
                self.report.end();
                Ok(())
            }
        }
    }

    /// Deletes the node of a hold that nothing relies on. Waits at most as long as [`withdrawal`](crate::engine::withdrawal).
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
