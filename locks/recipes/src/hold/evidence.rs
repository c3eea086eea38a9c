//! The node that stands for a hold on the server.

use crate::engine::Contender;
use crate::error::Error;
use crate::hold::node_claim::NodeClaim;
use crate::session::Session;
use crate::session::liveness::hold_reports::HoldName;
use crate::session::remote::Removal;

/// The node that stands for a hold on the server. If it is dropped, the reaper deletes the node.
#[derive(Debug)]
pub(crate) enum Evidence {
    /// A place in the queue.
    Place(Contender),
    /// A node that is in no queue.
    Node(NodeClaim),
}

impl Evidence {
    /// Returns the contender that holds.
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

    /// Returns the path of the lock.
    pub(crate) fn lock(&self) -> &str {
        match self {
            Self::Place(contender) => contender.lock(),
            Self::Node(claim) => claim.lock(),
        }
    }

    /// Returns the path of the node.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Place(contender) => contender.path(),
            Self::Node(claim) => claim.path(),
        }
    }

    /// Deletes the node, and waits for the confirmation. `hands_over`: the hold is handed over to the successor, if the successor
    /// belongs to the session.
    pub(crate) async fn remove(&mut self, hands_over: bool) -> Result<Removal, Error> {
        match self {
            Self::Place(contender) => contender.leave(hands_over).await,
            Self::Node(claim) => claim.remove().await,
        }
    }

    /// Deletes the node of a hold that nothing relies on. When this returns `Ok`, the node is gone. Waits at most as long as
    /// [`withdrawal`](crate::engine::withdrawal).
    pub(crate) async fn withdraw(&mut self) -> Result<(), Error> {
        match self {
            Self::Place(contender) => contender.withdraw().await,
            Self::Node(claim) => claim.withdraw().await,
        }
    }

    /// Notes that the hold is being dropped. The evidence is dropped next.
    pub(crate) fn note_dropped(&mut self, hold: Option<HoldName>) {
        match self {
            Self::Place(contender) => contender.note_dropped(hold),
            Self::Node(claim) => claim.note_dropped(hold),
        }
    }
}
