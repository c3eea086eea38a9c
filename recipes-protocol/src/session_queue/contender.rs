//! A contender: what it wants, what it is doing, and what it knows.

use super::ContenderId;
use super::ask::Made;
use crate::names::{Mode, Names, Naming, Sequence};
use crate::number_proof::Expected;
use crate::predecessors::Predecessors;
use crate::release_note::Note;
use crate::stat::ParentCzxid;

/// What a contender wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wish {
    /// How it wants the lock.
    pub mode: Mode,
    /// How its node is named.
    pub naming: Naming,
    /// Who else queues.
    pub names: Names,
    /// How far it goes.
    pub kind: WishKind,
}

/// How far a contender goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WishKind {
    /// It waits for the lock.
    Wait,
    /// It leaves if somebody is in the way. It looks before it writes.
    Try,
    /// It takes a place in the queue, and waits for the lock when it is told to.
    Place,
    /// It shares the lock in the place of this one, which holds and is of the same owner.
    Beside(ContenderId),
}

/// What a contender has, for whoever waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It has not got there yet.
    Contending,
    /// It has a place in the queue, and nobody has said that it is to wait for the lock.
    Placed,
    /// It holds.
    Holding(Grant),
    /// It has failed. What may be there of it is deleted.
    Failed {
        /// How it has failed.
        outcome: Outcome,
        /// Whether the server has refused the deletion, and is asked again after a pause.
        is_refused: bool,
    },
    /// It leaves: its node is being deleted.
    Leaving {
        /// Whether the server has refused that, and is asked again after a pause.
        is_refused: bool,
    },
    /// Its node stands for the hold of another. It is deleted when nobody needs it any more.
    Kept,
    /// Nothing of it is left to do.
    Over(Outcome),
}

/// What was granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The node of the hold.
    pub node: Made,
    /// From whom the hold was passed on, whose proof of life counts for it. `None`: it was granted by the server.
    pub passed_by: Option<ContenderId>,
}

/// How a contender has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Its node was deleted, or stands for the hold of another.
    Gone,
    /// It had no node, or somebody else has deleted it.
    NothingThere,
    /// Somebody was in the way.
    InTheWay,
    /// Its own node was missing while it waited.
    NodeDeleted,
    /// Its number is too near the end of the numbers.
    NumbersExhausted(Sequence),
    /// A request of it was refused.
    Refused,
}

/// What may be on the server of a contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Claim {
    /// Nothing.
    Nothing,
    /// A node, perhaps. Its name is not known.
    Unnamed,
    /// This node.
    Node(Node),
}

/// The node of a contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) made: Made,
    pub(super) sequence: Sequence,
    /// Whether its name may be another node's by now.
    pub(super) is_doubtful: bool,
    /// What to leave for whoever comes next.
    pub(super) note: Option<Note>,
}

/// What a contender does or waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// A `try` lists the queue before it writes.
    Trying,
    /// It waits for others to join the queue with.
    Batching,
    /// Its `create` is under way, and perhaps a look behind it.
    Creating(Creating),
    /// The reply to its `create` was lost. It pauses, looks for its node, or asks once more for the one that it takes.
    Finding(Finding),
    /// It has a place and waits to be told to wait.
    Placed,
    /// It looks at the queue: by a listing, or by the note of the last holder.
    Looking,
    /// It sets the watch on whoever is directly ahead.
    SettingWatch,
    /// It waits for whoever is directly ahead. `behind`: that one is of this session.
    Watching {
        behind: Option<ContenderId>,
    },
    /// The node that it watches is younger than its own. It asks whether its own is there. `fired`: the watch has fired, and
    /// whether the node was deleted.
    Doubting {
        fired: Option<bool>,
    },
    /// The one ahead has gone. It reads the note of the last holder, or asks for those that it has seen ahead.
    LookingAgain {
        /// The number of whoever has gone.
        gone: Sequence,
    },
    /// Nobody is ahead. It waits for a proof that the session lives.
    Proving,
    /// It holds. `chain`: the hold was passed on, from the one that this contender is the first of.
    Holding {
        chain: Option<ContenderId>,
        passed_by: Option<ContenderId>,
    },
    Leaving(Leaving),
    Over(Outcome),
}

/// A `create` under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Creating {
    /// The grant that the contender may turn out to follow.
    pub(super) expected: Option<Expected>,
    /// Whether somebody is likely to be ahead, so that no look was sent.
    pub(super) is_busy: bool,
    /// Whether the reply to an earlier `create` was lost.
    pub(super) is_repeated: bool,
}

/// The search for a node of unknown name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Finding {
    /// Nodes that the contender may take, the next one last.
    pub(super) candidates: Vec<Made>,
    /// How often searches had taken a node when this one began.
    pub(super) adoptions: u32,
    /// The node that it takes and asks for once more.
    pub(super) adopting: Option<Box<Made>>,
}

/// How a contender leaves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Leaving {
    pub(super) outcome: Outcome,
    pub(super) stage: LeavingStage,
    /// Whether whoever waits was told of a failure and of no release.
    pub(super) is_failure: bool,
    /// Whether the reply to a deletion was lost.
    pub(super) is_reply_lost: bool,
    pub(super) is_refused: bool,
    /// To whom the hold was passed on, whose node has to be there before this one goes.
    pub(super) successor: Option<Box<Successor>>,
}

/// To whom a hold was passed on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Successor {
    pub(super) id: ContenderId,
    pub(super) made: Made,
    /// The chain that both are of.
    pub(super) chain: ContenderId,
}

/// Where a contender stands that leaves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum LeavingStage {
    /// The answer to its `create` has yet to come.
    AwaitingCreate,
    /// It looks for its node.
    Finding(Finding),
    /// It asks whether the node of its name is still its own.
    Asking,
    /// The deletion is under way.
    Deleting,
    /// Its node is missing. It asks whether that of its successor is there.
    AskingForSuccessor,
    /// Its node stands for the hold of another.
    Kept,
    /// It pauses.
    Pausing,
}

/// One contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Contender {
    pub(super) wish: Wish,
    pub(super) phase: Phase,
    pub(super) claim: Claim,
    /// Who may still be ahead.
    pub(super) ahead: Predecessors,
    /// The contender of this session that is directly ahead, if there is one.
    pub(super) before: Option<ContenderId>,
    /// The lock's node in which its own node is, once that is known.
    pub(super) parent: Option<ParentCzxid>,
    /// The version of the data of the lock's node, if a note may replace them.
    pub(super) note_version: Option<i32>,
}

impl Contender {
    pub(super) fn new(wish: Wish) -> Self {
        Self {
            wish,
            phase: Phase::Trying,
            claim: Claim::Nothing,
            ahead: Predecessors::nobody(),
            before: None,
            parent: None,
            note_version: None,
        }
    }

    pub(super) fn state(&self) -> State {
        match (&self.phase, &self.claim) {
            (Phase::Placed, _) => State::Placed,
            (Phase::Holding { passed_by, .. }, Claim::Node(node)) => {
                State::Holding(Grant { node: node.made.clone(), passed_by: *passed_by })
            }
            (Phase::Leaving(Leaving { stage: LeavingStage::Kept, .. }), _) => State::Kept,
            (Phase::Leaving(leaving), _) if leaving.is_failure => {
                State::Failed { outcome: leaving.outcome, is_refused: leaving.is_refused }
            }
            (Phase::Leaving(leaving), _) => State::Leaving { is_refused: leaving.is_refused },
            (Phase::Over(outcome), _) => State::Over(*outcome),
            _ => State::Contending,
        }
    }

    /// Its node.
    pub(super) fn node(&mut self) -> &mut Node {
        match &mut self.claim {
            Claim::Node(node) => node,
            Claim::Nothing | Claim::Unnamed => unreachable!("BUG: a contender without a node is in the queue"),
        }
    }

    /// Whether its number may prove that it holds: it wants the lock alone, nobody comes in ahead of others later, and no note
    /// disturbs the watch of the lock's node.
    pub(super) fn is_proved_by_numbers(&self) -> bool {
        self.wish.naming == Naming::Protected && !self.wish.names.may_downgrade()
    }

    /// Whether it waits, in the queue or about to be.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(
            self.phase,
            Phase::Looking
                | Phase::SettingWatch
                | Phase::Watching { .. }
                | Phase::Doubting { .. }
                | Phase::LookingAgain { .. }
                | Phase::Proving
        )
    }
}
