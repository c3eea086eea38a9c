//! The servers as one session reaches them.

use std::sync::Arc;
use std::time::Duration;

use futures_timer::Delay;
use zk_recipes_protocol::liveness::{Liveness, LostReason};
use zookeeper_client::Error as ClientError;

use crate::error::Error;
use crate::session::liveness_cell::LivenessCell;
use crate::session::proof::Proof;
use crate::session::replies::retry_lost_reply;
use crate::session::wire::Wire;

/// The requests and the liveness of one session. It does not keep the session open.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    session_id: i64,
    wire: Arc<Wire>,
    liveness: Arc<LivenessCell>,
}

/// Whether there was anything to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Deleted,
    NothingThere,
    /// There is, but it stands for another's hold, and goes with that.
    Kept,
}

impl Remote {
    pub(crate) fn new(session_id: i64, wire: Arc<Wire>, liveness: Arc<LivenessCell>) -> Self {
        Self { session_id, wire, liveness }
    }

    pub(crate) fn session_id(&self) -> i64 {
        self.session_id
    }

    pub(crate) fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }

    pub(crate) fn liveness_cell(&self) -> &Arc<LivenessCell> {
        &self.liveness
    }

    pub(crate) fn liveness(&self) -> Liveness {
        self.liveness.read()
    }

    /// The session timeout as the servers granted it.
    pub(crate) fn timeout(&self) -> Duration {
        self.liveness().margins().session_timeout()
    }

    /// Waits for a proof that the session lives, unless there was one lately.
    pub(crate) async fn prove(&self) -> Result<Proof, ClientError> {
        if let Some(proof) = Proof::of(&self.liveness) {
            return Ok(proof);
        }
        loop {
            retry_lost_reply(|| self.wire.prove()).await?;
            if let Some(proof) = Proof::of(&self.liveness) {
                return Ok(proof);
            }
            // The leader may not have heard of the session for long, as after a pause of this process.
            Delay::new(self.liveness().margins().look_after()).await;
        }
    }

    /// Asks for a proof that the session lives, unless there was one lately. Whoever relies on it asks for it in the end.
    pub(crate) async fn freshen(&self) {
        if !self.liveness().is_proved() {
            let _ = self.wire.prove().await;
        }
    }

    /// The names of the children of a node; none of a node that is missing.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<String>, ClientError> {
        match retry_lost_reply(|| self.wire.children(path)).await {
            Err(ClientError::NoNode) => Ok(Vec::new()),
            answered => answered,
        }
    }

    /// Deletes a node. One that is missing is none to delete.
    pub(crate) async fn delete(&self, path: &str) -> Result<Removal, ClientError> {
        match self.wire.delete(path).await {
            Ok(()) => Ok(Removal::Deleted),
            Err(ClientError::NoNode) => Ok(Removal::NothingThere),
            Err(error) => Err(error),
        }
    }

    /// Turns the client library's error into ours.
    pub(crate) fn explain(&self, operation: &'static str, path: &str, error: ClientError) -> Error {
        match error {
            ClientError::SessionExpired => Error::SessionEnded { reason: LostReason::Expired },
            ClientError::ClientClosed => self.ended(),
            ClientError::AuthFailed => {
                let reason = self.liveness().ended().unwrap_or(LostReason::CredentialsRefused);
                Error::SessionEnded { reason }
            }
            error => Error::refused(operation, path, error),
        }
    }

    /// The error of whatever is asked of a session that has ended.
    pub(crate) fn ended(&self) -> Error {
        Error::SessionEnded { reason: self.liveness().ended().unwrap_or(LostReason::Closed) }
    }
}
