//! What a contender does next, what it has, and what it knows.

use std::cmp::Ordering;
use std::fmt::Debug;

use zk_recipes_protocol::number_proof::Expected;
use zk_recipes_protocol::predecessors::Predecessors;

use super::server::{Kind, Node, Program, Slot};

/// What the contender has to delete, as far as it knows. The library's `Claim` and `Remains`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Claim {
    Disarmed,
    /// Armed before `create` is sent.
    Unnamed,
    /// The reaper has found the node by its prefix and is about to delete it.
    Found(u8),
    Named(u8),
}

/// The next thing that a contender does or waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    /// `try_acquire` reads before it writes.
    Look,
    Create(Slot),
    /// The reply to `create` was lost.
    Find(Slot),
    /// Reads the note of the last holder, in the flight of `create`. Since that was applied, others may have come or gone.
    ReadNote {
        changed: bool,
    },
    /// Lists and decides: of its place in the queue, or, `Second`, of what it wants once it has that.
    List(Slot),
    /// The one of this number that it watched has gone. It reads the note of the last holder.
    ReadNoteOf(u8),
    /// The note says that nobody is ahead. It asks whether its own node is there.
    CheckOwn,
    /// The predecessor has gone. It lists again, or asks for those whom it has seen ahead.
    Again,
    /// Asks for the contenders that it has seen ahead, one after the other, and then for its own node. The number of those found.
    Probe(Vec<bool>),
    /// Reads the predecessor with a watch.
    Watch(Kind, u8),
    Sleep(Kind, u8),
    /// Lists the leases with a watch.
    WatchLeases,
    SleepOnLeases {
        changed: bool,
    },
    Hold,
    /// Holds alone and shares, by a downgrade.
    HoldBoth,
    /// Deletes the first node and keeps the others.
    Unlock,
    /// Holds by the others.
    HoldSecond,
    /// Has passed the lock on, and keeps its node, as that of whoever has the lock by now is missing.
    Kept,
    /// Deletes whatever is claimed: released, withdrawn at a deadline, or by the reaper.
    Clean,
    /// Nothing will be sent any more.
    Done,
    /// The process died; its session has yet to expire.
    Dead,
}

/// As what somebody believes to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Alone,
    Shared,
    Permit,
}

/// One contender: what it does, what it knows, and its nodes on the server.
///
/// A contender is known by nothing but this, so that contenders can be sorted and states that differ only in who is who
/// are one state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Client {
    pub(super) program: Program,
    pub(super) phase: Phase,
    pub(super) claims: [Claim; 3],
    pub(super) nodes: Vec<Node>,
    /// The session it has now.
    pub(super) session: u8,
    /// Whether its session has ended and it has not been told.
    pub(super) ended: bool,
    /// Whether it has taken its hold for lost.
    pub(super) lost: bool,
    /// Whether it leaves a note when its node goes.
    pub(super) notes: bool,
    /// Whether it is of the session that several share, and whose holds are passed on.
    pub(super) kin: bool,
    /// The number of the first of those who have passed on the lock that it has.
    pub(super) run: Option<u8>,
    pub(super) heir: Option<Heir>,
    /// Whom it remembers ahead.
    pub(super) seen: Unordered<Predecessors>,
    /// Which grant it may turn out to follow, as known before its `create` is sent.
    pub(super) expected: Unordered<Option<Expected>>,
    /// In which node of the path its own is in the queue.
    pub(super) incarnation: u8,
}

/// To whom a contender has passed the lock on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Heir {
    pub(super) kind: Kind,
    pub(super) number: u8,
    /// The run that both are of.
    pub(super) run: u8,
}

/// Something of the library's that has no order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Unordered<T>(pub(super) T);

impl<T: Debug + Eq> Ord for Unordered<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        // Any order will do. Contenders that differ in nothing before this are rare.
        if self == other { Ordering::Equal } else { format!("{self:?}").cmp(&format!("{other:?}")) }
    }
}

impl<T: Debug + Eq> PartialOrd for Unordered<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Client {
    pub(super) fn new(program: Program) -> Self {
        let phase = if program.only_tries() { Phase::Look } else { Phase::Create(Slot::First) };
        Self {
            program,
            phase,
            claims: [Claim::Disarmed; 3],
            nodes: vec![],
            session: 0,
            ended: false,
            lost: false,
            notes: false,
            kin: false,
            run: None,
            heir: None,
            seen: Unordered(Predecessors::nobody()),
            expected: Unordered(None),
            incarnation: 0,
        }
    }

    /// What it would tell its user that it holds.
    pub(super) fn hold(&self) -> Option<Hold> {
        let by_second = if self.program == Program::Downgrade { Hold::Shared } else { Hold::Permit };
        let hold = match (&self.phase, self.program) {
            (Phase::Hold, Program::Read) => Hold::Shared,
            (Phase::Hold, Program::FlatPermit) => Hold::Permit,
            (Phase::Hold | Phase::HoldBoth, _) => Hold::Alone,
            (
                Phase::Create(Slot::Second) | Phase::Find(Slot::Second) | Phase::List(Slot::Second),
                Program::Downgrade,
            ) => Hold::Alone,
            (Phase::Unlock | Phase::HoldSecond, _) => by_second,
            _ => return None,
        };
        (!self.lost).then_some(hold)
    }

    pub(super) fn is_asleep(&self) -> bool {
        matches!(self.phase, Phase::Sleep(..) | Phase::SleepOnLeases { .. })
    }

    pub(super) fn claim(&self, slot: Slot) -> Claim {
        self.claims[slot as usize]
    }

    pub(super) fn set_claim(&mut self, slot: Slot, claim: Claim) {
        self.claims[slot as usize] = claim;
    }

    /// The node whose name the contender knows, if it is on the server.
    pub(super) fn node(&self, slot: Slot) -> Option<Node> {
        let claim = self.claim(slot);
        self.nodes.iter().copied().find(|node| node.slot == slot && claim == Claim::Named(node.number))
    }

    /// Gives up what it wants or has; whatever it may have created is cleaned up.
    pub(super) fn give_up(&mut self) {
        (self.phase, self.run) = (Phase::Clean, None);
        (self.seen, self.expected) = (Unordered(Predecessors::nobody()), Unordered(None));
        self.finish_cleaning();
    }

    pub(super) fn finish_cleaning(&mut self) {
        if self.phase == Phase::Clean && self.claims == [Claim::Disarmed; 3] {
            (self.phase, self.heir) = (Phase::Done, None);
        }
    }

    /// Learns that its session is gone, and with it everything that it had.
    pub(super) fn end(&mut self) {
        (self.phase, self.claims, self.ended) = (Phase::Done, [Claim::Disarmed; 3], false);
        self.run = None;
        // A node that outlives the process still is one of somebody who has passed the lock on.
        self.heir = self.heir.filter(|_| !self.nodes.is_empty());
        (self.seen, self.expected) = (Unordered(Predecessors::nobody()), Unordered(None));
    }

    /// Hears of what it has waited for.
    pub(super) fn wake(&mut self) {
        if let Phase::Sleep(_, number) | Phase::Watch(_, number) = self.phase {
            self.seen.0.pop();
            let notes = self.program == Program::Handoff;
            self.phase = if notes { Phase::ReadNoteOf(number) } else { Phase::Again };
        } else {
            self.phase = Phase::List(Slot::Second);
        }
    }
}
