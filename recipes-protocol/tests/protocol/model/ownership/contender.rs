//! What a contender does next, and what it knows.

use zk_recipes_protocol::predecessors::Predecessors;

use super::server::{Made, Naming, Parent, Zxid};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Program {
    /// `HandoffMutex::acquire`.
    Handoff,
    /// `Mutex::acquire`.
    Lock,
    /// Curator's `InterProcessMutex`: it lists the queue after every step.
    Curator,
}

impl Program {
    pub(super) fn naming(self) -> Naming {
        if self == Self::Handoff { Naming::Numbered } else { Naming::Protected }
    }
}

/// The library's `Claim` with its `Remains` and `Handoff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Claim {
    Disarmed,
    /// There may be a node, whose name is not known.
    Unnamed,
    Named {
        node: Made,
        /// Whether the node may have gone, and its name be another's.
        asked: bool,
        /// The lock's node that the note of this holder names, and the version of the data that the note replaces.
        note: Option<(Zxid, u8)>,
    },
}

/// The search for a node of unknown name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Search {
    /// The nodes whose data are still to be read. `None` before the listing.
    pub(super) unread: Option<Vec<Zxid>>,
    /// The node whose data were found to begin with the contender's mark.
    pub(super) marked: Option<Made>,
    /// The nodes whose data were found overwritten.
    pub(super) overwritten: Vec<Made>,
    /// The node that was taken and is asked for once more.
    pub(super) adopting: Option<Made>,
    /// Whether another search of the session has taken a node since the listing.
    pub(super) is_outdated: bool,
    /// Whether to delete the node that is found.
    pub(super) cleans: bool,
    /// The answer to the first look, which only a mistake still believes.
    pub(super) old: Option<Parent>,
}

/// The next thing that a contender does or waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Sends `create`, and a look right behind the first one.
    Create {
        again: bool,
        old: Option<Parent>,
    },
    /// The node is created. The look is under way.
    Looking(Made),
    /// The answers have arrived and were not handled yet: to the `create`, and to the look that was sent with it.
    Answered(Made, Option<Parent>),
    /// As `Answered`. Nothing was asked with the `create`, as somebody is likely to be ahead.
    AnsweredAlone(Made),
    Search(Search),
    /// Looks for the first time, after a `create` that told nothing of the queue.
    Look,
    /// Reads the predecessor with a watch.
    Watch,
    Sleep(Zxid),
    /// The predecessor is gone.
    Again,
    /// The note was read. The contender asks for its own node.
    CheckOwn(Parent),
    List,
    /// Asks for the contenders that it has seen ahead, one after the other, and then for its own node. The number of those found.
    Probe(Vec<bool>),
    Hold,
    /// Deletes what is claimed.
    Clean,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) program: Program,
    pub(super) session: u8,
    pub(super) phase: Phase,
    pub(super) claim: Claim,
    pub(super) ahead: Predecessors,
    /// The lock's node in which its own node is, once it knows.
    pub(super) incarnation: Option<Zxid>,
    /// The version of the data that its note may replace.
    pub(super) noted_version: Option<u8>,
}

impl Client {
    pub(super) fn new(program: Program, session: u8) -> Self {
        Self {
            program,
            session,
            phase: Phase::Create { again: false, old: None },
            claim: Claim::Disarmed,
            ahead: Predecessors::nobody(),
            incarnation: None,
            noted_version: None,
        }
    }

    /// Whether the claim keeps others of its session from taking the node.
    pub(super) fn has_taken(&self, czxid: Zxid) -> bool {
        let is_named = matches!(self.claim, Claim::Named { node, .. } if node.czxid == czxid);
        let adopts =
            matches!(&self.phase, Phase::Search(search) if search.adopting.is_some_and(|node| node.czxid == czxid));
        self.program == Program::Handoff && (is_named || adopts)
    }

    /// Its node, as far as it knows.
    pub(super) fn own(&self) -> Made {
        match self.claim {
            Claim::Named { node, .. } => node,
            claim => unreachable!("BUG: {claim:?} has no node"),
        }
    }

    /// Whether it may own a node of its session that nobody has named.
    pub(super) fn may_own_unnamed(&self) -> bool {
        self.claim == Claim::Unnamed
    }

    /// Ends with nothing left to do.
    pub(super) fn finish(&mut self) {
        (self.phase, self.claim) = (Phase::Done, Claim::Disarmed);
        (self.ahead, self.incarnation, self.noted_version) = (Predecessors::nobody(), None, None);
    }

    /// Gives up what it wants or has. What it may have created is deleted.
    pub(super) fn give_up(&mut self) {
        (self.ahead, self.incarnation, self.noted_version) = (Predecessors::nobody(), None, None);
        match self.claim {
            Claim::Disarmed => self.finish(),
            Claim::Unnamed => self.phase = Phase::Search(Search { cleans: true, ..Search::default() }),
            Claim::Named { .. } => self.phase = Phase::Clean,
        }
    }

    /// Notes that another node may have the name by now, so that the contender asks before it deletes.
    pub(super) fn doubt(&mut self) {
        if let Claim::Named { asked, .. } = &mut self.claim {
            *asked = true;
        }
    }
}
