//! A contender: what it wants, what it is doing, and what it knows.

use super::ask::{ContenderId, Made, Pause};
use super::grant_proof::GrantProof;
use crate::names::{Mode, Names, Naming, Sequence};
use crate::number_proof::Expected;
use crate::queue::Predecessor;
use crate::release_note::Note;
use crate::stat::ParentCzxid;

/// What a contender wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wish {
    /// How it wants the lock.
    pub mode: Mode,
    /// How its node is named.
    pub naming: Naming,
    /// Which children of the lock's node are contenders.
    pub names: Names,
    /// Whether it waits, tries, takes a place or shares a hold.
    pub kind: WishKind,
}

/// The kind of a wish.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WishKind {
    /// It waits for the lock.
    Wait,
    /// It leaves if another contender is ahead. It looks before it creates a node.
    Try,
    /// It takes a place in the queue, and waits for the grant only after [`Event::Waits`](super::Event::Waits).
    Place,
    /// It shares the hold of this contender, which belongs to the same owner. Its node gets the same number.
    Beside(ContenderId),
}

/// The state of a contender, for its user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ContenderState {
    /// It has neither a place to report nor a hold yet.
    Contending,
    /// It has a place in the queue, and does not wait for the grant yet.
    Placed,
    /// It holds.
    Holding {
        /// The node of the hold.
        node: Made,
        /// The contender of the session that handed the hold over or shares it. Its proof that the session lives counts for this
        /// hold, too. `None`: the server granted the hold.
        handed_over_by: Option<ContenderId>,
    },
    /// It has failed. If it may have a node, the node is being deleted.
    Failed {
        /// How it failed.
        outcome: Outcome,
        /// Whether the server refused the deletion. The queue repeats the deletion after a pause.
        is_refused: bool,
    },
    /// It leaves: its node is being deleted.
    Leaving {
        /// Whether the server refused the deletion. The queue repeats the deletion after a pause.
        is_refused: bool,
    },
    /// It has released, but its node stands for a later hold of the session. The node is deleted when it is no longer needed.
    Kept,
    /// It is over: nothing is left to do.
    Over(Outcome),
}

/// How a contender ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Its own request deleted the node. The reply may have been lost.
    Gone,
    /// It had no node, or somebody else deleted it.
    NothingThere,
    /// Another contender was ahead of a `try`.
    InTheWay,
    /// Its own node was missing or belonged to another session, or the hold that it shares was gone.
    NodeDeleted,
    /// Its number is too close to the last number.
    NumbersExhausted(Sequence),
    /// The server refused one of its requests.
    Refused,
}

/// What a contender may have on the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum NodeClaim {
    /// Nothing.
    Nothing,
    /// Possibly a node, whose name is not known.
    Unnamed,
    /// This node.
    Node(OwnNode),
}

/// The node of a contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct OwnNode {
    pub(super) made: Made,
    pub(super) sequence: Sequence,
    /// Whether its name may belong to another node by now.
    pub(super) is_doubtful: bool,
    /// The note to write at the release.
    pub(super) note: Option<Note>,
}

/// What a contender does or waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// A `try` lists the queue before it writes.
    Trying,
    /// It waits for its batch to be complete.
    Batching,
    /// Its `create` is under way, and perhaps a look behind it.
    Creating(Creating),
    /// The server throttled its `create`. It pauses before it repeats the `create`.
    Throttled(Creating),
    /// The reply to its `create` was lost, or another contender adopted its node. It pauses, searches for a node, or checks
    /// the node that it adopts.
    Finding(NodeSearch),
    /// It has a place, and does not wait for the grant yet.
    Placed,
    /// It looks at the queue: by a listing, or by the note of the last holder.
    Looking,
    /// It sets the watch on its predecessor.
    SettingWatch,
    /// It watches its predecessor. `behind`: the predecessor, if it is directly ahead and belongs to this session.
    Watching {
        behind: Option<ContenderId>,
    },
    /// The watched node is younger than its own. It checks whether its own node exists. `fired`: whether the watched node was
    /// deleted, if the watch has fired meanwhile.
    Doubting {
        fired: Option<bool>,
    },
    /// Its predecessor, which has the number `gone`, is gone. It reads the note of the last holder.
    ReadingNote {
        gone: Sequence,
    },
    /// No contender is ahead, by this proof. It waits for a proof that the session lives.
    Proving(GrantProof),
    /// It holds by this proof. `chain`: the first contender of the chain, if the hold was handed over locally.
    Holding {
        proof: GrantProof,
        chain: Option<ContenderId>,
    },
    Leaving(Leaving),
    Over(Outcome),
}

/// A `create` under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Creating {
    /// The grant that the contender directly follows, if its number is the next one.
    pub(super) expected: Option<Expected>,
    /// Whether a contender is probably ahead. Then no look was sent.
    pub(super) is_busy: bool,
    /// Whether the reply to an earlier `create` was lost.
    pub(super) is_repeated: bool,
}

/// The search for a node of unknown name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct NodeSearch {
    /// Nodes that the contender may take, the next one last.
    pub(super) candidates: Vec<Made>,
    /// The number of nodes that searches had taken when this one began.
    pub(super) adoptions: u32,
    /// The node that it takes, while it checks whether the node still exists.
    pub(super) adopting: Option<Box<Made>>,
}

/// The state of a contender that leaves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Leaving {
    pub(super) outcome: Outcome,
    pub(super) phase: LeavingPhase,
    /// Whether its user was told of a failure and not of a release.
    pub(super) is_failure: bool,
    /// Whether the reply to a deletion was lost.
    pub(super) is_reply_lost: bool,
    pub(super) is_refused: bool,
    /// The contender that got the hold. This node is deleted only if the node of that contender exists.
    pub(super) successor: Option<Box<Successor>>,
}

/// The contender that got the hold of its predecessor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Successor {
    pub(super) id: ContenderId,
    pub(super) made: Made,
    /// The chain of both, by its first contender.
    pub(super) chain: ContenderId,
}

/// The phase of a contender that leaves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum LeavingPhase {
    /// It waits for the answer to its `create`.
    AwaitingCreate,
    /// It searches for its node.
    Finding(NodeSearch),
    /// It asks whether the node of its name is still its own.
    Asking,
    /// The deletion is under way.
    Deleting,
    /// Its node is missing. It asks whether the node of its successor exists.
    AskingForSuccessor,
    /// Its node stands for a later hold of the session.
    Kept,
    /// It pauses for this reason.
    Pausing(Pause),
}

/// One contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Contender {
    pub(super) wish: Wish,
    pub(super) phase: Phase,
    pub(super) claim: NodeClaim,
    /// The contender that it watches, or watched last.
    pub(super) predecessor: Option<Predecessor>,
    /// The contender of this session that is directly ahead, if there is one.
    pub(super) before: Option<ContenderId>,
    /// The lock's node that is the parent of its own node, once that is known.
    pub(super) parent: Option<ParentCzxid>,
    /// The data version of the lock's node, if a note may replace the data.
    pub(super) note_version: Option<i32>,
}

impl Contender {
    pub(super) fn new(wish: Wish) -> Self {
        Self {
            wish,
            phase: Phase::Trying,
            claim: NodeClaim::Nothing,
            predecessor: None,
            before: None,
            parent: None,
            note_version: None,
        }
    }

    pub(super) fn state(&self) -> ContenderState {
        match (&self.phase, &self.claim) {
            (Phase::Placed, _) => ContenderState::Placed,
            (Phase::Holding { proof, .. }, NodeClaim::Node(node)) => {
                ContenderState::Holding { node: node.made.clone(), handed_over_by: proof.handed_over_by() }
            }
            (Phase::Leaving(Leaving { phase: LeavingPhase::Kept, .. }), _) => ContenderState::Kept,
            (Phase::Leaving(leaving), _) if leaving.is_failure => {
                ContenderState::Failed { outcome: leaving.outcome, is_refused: leaving.is_refused }
            }
            (Phase::Leaving(leaving), _) => ContenderState::Leaving { is_refused: leaving.is_refused },
            (Phase::Over(outcome), _) => ContenderState::Over(*outcome),
            _ => ContenderState::Contending,
        }
    }

    /// Returns its node. Only for a contender that has one.
    pub(super) fn node(&mut self) -> &mut OwnNode {
        match &mut self.claim {
            NodeClaim::Node(node) => node,
            NodeClaim::Nothing | NodeClaim::Unnamed => unreachable!("BUG: a contender without a node is in the queue"),
        }
    }

    /// Tells whether its number can prove that it holds. In a lock with notes, each note fires the watch of the lock's node.
    /// In a read-write lock, a reader may come in ahead later.
    pub(super) fn is_proved_by_numbers(&self) -> bool {
        self.wish.naming == Naming::Protected && !self.wish.names.may_downgrade()
    }

    /// Tells whether its `create` is under way.
    pub(super) fn is_creating(&self) -> bool {
        matches!(self.phase, Phase::Creating(_))
    }

    /// Tells whether it has a node in the queue and waits for the grant.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(
            self.phase,
            Phase::Looking
                | Phase::SettingWatch
                | Phase::Watching { .. }
                | Phase::Doubting { .. }
                | Phase::ReadingNote { .. }
                | Phase::Proving(_)
        )
    }
}
