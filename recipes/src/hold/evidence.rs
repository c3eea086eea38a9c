//! What stands for a hold on the server.

use crate::engine::Contender;
use crate::error::Error;
use crate::hold::node_claim::NodeClaim;
use crate::session::Session;
use crate::session::liveness::hold_reports::HoldName;
use crate::session::remote::Removal;

/// What stands for a hold on the server. Dropped, it is left to the reaper.
#[derive(Debug)]
pub(crate) enum Evidence {
    /// A place in the queue.
    Place(Contender),
    /// A node of another kind.
    Node(NodeClaim),
}

impl Evidence {
    /// The contender that holds.
    pub(crate) fn contender(&self) -> &Contender {
        match self {
            Self::Place(contender) => contender,
            Self::Node(_) => unreachable!("BUG: a hold of another recipe is in a queue"),
        }
    }

    pub(crate) fn session(&self) -> &Session {
        match self {
            Self::Place(contender) => contender.session(),
            Self::Node(claim) => claim.session(),
        }
    }

    /// The path of the lock.
    pub(crate) fn lock(&self) -> &str {
        match self {
            Self::Place(contender) => contender.lock(),
            Self::Node(claim) => claim.lock(),
        }
    }

    /// The path of the node.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Place(contender) => contender.path(),
            Self::Node(claim) => claim.path(),
        }
    }

    /// Deletes the node, and waits for the confirmation. `passes_on`: the hold goes to the contender of the session that is directly
    /// behind.
    pub(crate) async fn remove(&mut self, passes_on: bool) -> Result<Removal, Error> {
        match self {
            Self::Place(contender) => contender.leave(passes_on).await,
            Self::Node(claim) => claim.remove().await,
        }
    }

    /// Gives up what nobody relies on: the node is gone when this returns `Ok`.
    pub(crate) async fn withdraw(&mut self) -> Result<(), Error> {
        match self {
            Self::Place(contender) => contender.withdraw().await,
            Self::Node(claim) => claim.withdraw().await,
        }
    }

    /// Notes that the hold is being dropped, and the evidence with it.
    pub(crate) fn note_dropped(&mut self, hold: Option<HoldName>) {
        match self {
            Self::Place(contender) => contender.note_dropped(hold),
            Self::Node(claim) => claim.note_dropped(hold),
        }
    }
}
