//! The requests and the liveness of one session.

use std::sync::Arc;
use std::time::Duration;

use futures_timer::Delay;
use tokio::runtime::Handle;
use zk_recipes_protocol::liveness::{Liveness, LostReason};
use zk_recipes_protocol::session_queue::Made;
use zookeeper_client::{CreateMode, Error as ClientError, Stat};

use crate::error::Error;
use crate::node;
use crate::session::backoff::Backoff;
use crate::session::liveness::liveness_cell::LivenessCell;
use crate::session::liveness::proof::Proof;
use crate::session::replies::retry_lost_reply;
use crate::session::wire::Wire;

/// The requests and the liveness of one session. It keeps the connection open, but not the reaper: only a
/// [`Session`](crate::Session) does that.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    session_id: i64,
    wire: Arc<Wire>,
    liveness: Arc<LivenessCell>,
    runtime: Handle,
    /// Why the session ends if a server does not authenticate it.
    unauthenticated: LostReason,
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Deleted,
    NothingThere,
    /// The node exists, but stands for a later hold of the session. It is deleted when that hold no longer needs it.
    Kept,
}

impl Remote {
    pub(crate) fn new(
        session_id: i64,
        wire: Arc<Wire>,
        liveness: Arc<LivenessCell>,
        runtime: Handle,
        unauthenticated: LostReason,
    ) -> Self {
        Self { session_id, wire, liveness, runtime, unauthenticated }
    }

    /// Runs a task on the runtime of the session. So the task ends with the session at the latest.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    /// Returns the runtime of the session.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
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

    /// Returns the shortest session timeout that a server has granted so far.
    pub(crate) fn timeout(&self) -> Duration {
        self.liveness().margins().session_timeout()
    }

    /// Returns a proof that the session lives. If the last proof is too old, waits for a new one.
    pub(crate) async fn prove(&self) -> Result<Proof, ClientError> {
        if let Some(proof) = Proof::of(&self.liveness) {
            return Ok(proof);
        }
        loop {
            retry_lost_reply(|| self.wire.prove()).await?;
            if let Some(proof) = Proof::of(&self.liveness) {
                return Ok(proof);
            }
            // A commit after a long pause of this process may show only that the leader heard of the session long ago. A later
            // commit shows more.
            Delay::new(self.liveness().margins().look_after()).await;
        }
    }

    /// Asks for a proof that the session lives, if the last proof is too old. Errors are ignored: before a grant, the contender
    /// asks for the proof itself.
    pub(crate) async fn freshen(&self) {
        if !self.liveness().is_proved() {
            let _ = self.wire.prove().await;
        }
    }

    /// Lists the children of a node. Returns an empty list if the node is missing.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<String>, ClientError> {
        match retry_lost_reply(|| self.wire.children(path)).await {
            Err(ClientError::NoNode) => Ok(Vec::new()),
            answered => answered,
        }
    }

    /// Creates a persistent node, and its parents if they are missing. Returns whether this call certainly created it. It exists
    /// in any case.
    pub(crate) async fn create_persistent(&self, path: &str, data: &[u8]) -> Result<bool, Error> {
        let mut backoff = Backoff::to_repeat();
        loop {
            let error = match self.wire.create(path, data, CreateMode::Persistent).await {
                Ok(_) => return Ok(true),
                Err(ClientError::NodeExists) => return Ok(false),
                Err(error) => error,
            };
            match (error, node::parent(path)) {
                (ClientError::ConnectionLoss | ClientError::Throttled, _) => backoff.pause().await,
                (ClientError::NoNode, Some(parent)) => {
                    let created = self.wire.create_parents(parent).await;
                    created.map_err(|error| self.explain("create", parent, error))?;
                }
                (error, _) => return Err(self.explain("create", path, error)),
            }
        }
    }

    /// Deletes a node. Returns `NothingThere` if it is missing.
    pub(crate) async fn delete(&self, path: &str) -> Result<Removal, ClientError> {
        match self.wire.delete(path).await {
            Ok(()) => Ok(Removal::Deleted),
            Err(ClientError::NoNode) => Ok(Removal::NothingThere),
            Err(error) => Err(error),
        }
    }

    /// Converts an error of the client library into an [`Error`].
    pub(crate) fn explain(&self, operation: &'static str, path: &str, error: ClientError) -> Error {
        match error {
            ClientError::SessionExpired => Error::SessionEnded { reason: LostReason::Expired },
            ClientError::ClientClosed => self.ended(),
            ClientError::AuthFailed => {
                let reason = self.liveness().ended().unwrap_or(self.unauthenticated);
                Error::SessionEnded { reason }
            }
            error => Error::refused(operation, path, error),
        }
    }

    /// Returns the error for a request of a session that has ended.
    pub(crate) fn ended(&self) -> Error {
        Error::SessionEnded { reason: self.liveness().ended().unwrap_or(LostReason::Closed) }
    }
}

/// Returns a node in the form that the queue uses.
pub(crate) fn made(remote: &Remote, path: &str, stat: &Stat) -> Made {
    let is_ours = is_ours(stat, remote.session_id());
    Made { name: node::name(path).to_owned(), czxid: stat.czxid, is_ours }
}

/// Tells whether this session owns the node. An earlier session may have left nodes that are not deleted yet.
pub(crate) fn is_ours(stat: &Stat, session_id: i64) -> bool {
    stat.ephemeral_owner == session_id
}
