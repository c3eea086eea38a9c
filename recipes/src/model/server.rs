//! What is on the server, and what each contender knows of it.

use std::cmp::Ordering;

use crate::ahead::Ahead;
use crate::node::{Mode, Names, Sequence};

/// What a node wants, as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Lock,
    /// As `Lock`, and its name is known to whoever has the next number.
    Numbered,
    Read,
    Write,
    Lease,
}

impl Kind {
    pub(super) fn names(self) -> Names {
        match self {
            Self::Lock | Self::Numbered => Names::MUTEX,
            Self::Read | Self::Write => Names::READ_WRITE,
            Self::Lease => Names::LEASES,
        }
    }

    pub(super) fn mode(self) -> Mode {
        match self {
            Self::Lock | Self::Numbered | Self::Write => Mode::Exclusive,
            Self::Read | Self::Lease => Mode::Shared,
        }
    }

    /// Whether both are children of one parent. A semaphore's leases have one of their own.
    fn has_parent_of(self, other: Self) -> bool {
        (self == Self::Lease) == (other == Self::Lease)
    }
}

/// A node of one contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    pub(super) slot: Slot,
    pub(super) kind: Kind,
    /// The number that the server appended to its name.
    pub(super) number: u8,
    /// Which of the contender's sessions created it.
    pub(super) session: u8,
}

impl Node {
    /// Whether it is ahead of `other` in the queue, and the two do not share. The specification, written without the
    /// library's code.
    pub(super) fn bars(&self, other: &Self) -> bool {
        let alone = |node: &Self| node.kind.mode() == Mode::Exclusive;
        self.kind != Kind::Lease && self.number < other.number && (alone(self) || alone(other))
    }
}

/// What a contender does from its first request to its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Program {
    /// `Mutex::acquire`.
    Lock,
    /// `Mutex::try_acquire`.
    TryLock,
    /// `HandoffMutex::acquire`.
    Handoff,
    /// `ReadLock::acquire`.
    Read,
    /// `WriteLock::acquire`.
    Write,
    /// `WriteLock::acquire_as`, then `ReadLock::acquire_as` of the same owner, then the release of the first.
    Downgrade,
    /// `Semaphore::acquire`.
    Permit,
    /// `Semaphore::try_acquire`.
    TryPermit,
    /// `Semaphore::acquire_many` of two.
    TwoPermits,
    /// A contender of a mutex's queue that several may hold at once. The library has no such recipe: this is the mistake
    /// that its semaphore avoids.
    FlatPermit,
}

/// Which of a contender's nodes: that in the queue, or that of a downgrade or lease. Each has a uuid of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Slot {
    First,
    Second,
    Third,
}

impl Slot {
    pub(super) const ALL: [Self; 3] = [Self::First, Self::Second, Self::Third];
}

impl Program {
    pub(super) fn kind(self, slot: Slot) -> Kind {
        match (self, slot) {
            (Self::Permit | Self::TryPermit | Self::TwoPermits, Slot::Second | Slot::Third) => Kind::Lease,
            (Self::Lock | Self::TryLock | Self::FlatPermit, _) => Kind::Lock,
            (Self::Handoff, _) => Kind::Numbered,
            (Self::Permit | Self::TryPermit | Self::TwoPermits, Slot::First) => Kind::Lock,
            (Self::Read, _) | (Self::Downgrade, Slot::Second) => Kind::Read,
            (Self::Write | Self::Downgrade, _) => Kind::Write,
        }
    }

    /// The leases that it wants.
    pub(super) fn leases(self) -> &'static [Slot] {
        match self {
            Self::Permit | Self::TryPermit => &[Slot::Second],
            Self::TwoPermits => &[Slot::Second, Slot::Third],
            _ => &[],
        }
    }

    /// Whether it may ask for those whom it has seen ahead instead of listing again. In a queue where others go on in
    /// their own place, as writers do that read, that would not be enough.
    pub(super) fn may_probe(self) -> bool {
        self.kind(Slot::First).names() == Names::MUTEX && self != Self::FlatPermit
    }

    /// Whether it gives up when it is not granted at once.
    pub(super) fn only_tries(self) -> bool {
        matches!(self, Self::TryLock | Self::TryPermit)
    }
}

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
    /// Was passed the lock, and asks whether its own node is there.
    CheckOwn,
    /// The predecessor has gone. It lists again, or asks for those whom it has seen ahead.
    Again,
    /// Asks for those whom it has seen ahead, one after the other, and then for its own node. So many have been found.
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
    pub(super) seen: Seen,
}

/// What a contender remembers of those ahead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seen(pub(super) Ahead);

impl Ord for Seen {
    fn cmp(&self, other: &Self) -> Ordering {
        // Any order will do. Contenders that differ in nothing before this are rare.
        format!("{self:?}").cmp(&format!("{other:?}"))
    }
}

impl PartialOrd for Seen {
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
            seen: Seen(Ahead::nobody()),
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
        self.phase = Phase::Clean;
        self.seen = Seen(Ahead::nobody());
        self.finish_cleaning();
    }

    pub(super) fn finish_cleaning(&mut self) {
        if self.phase == Phase::Clean && self.claims == [Claim::Disarmed; 3] {
            self.phase = Phase::Done;
        }
    }

    /// Learns that its session is gone, and with it everything that it had.
    pub(super) fn end(&mut self) {
        (self.phase, self.claims, self.ended) = (Phase::Done, [Claim::Disarmed; 3], false);
        self.seen = Seen(Ahead::nobody());
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

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) clients: Vec<Client>,
    /// The next number in the queue and among the leases.
    next_numbers: [u8; 2],
    /// The highest number that was granted to a contender that wants the lock alone.
    granted_last: Option<u8>,
    /// Whether somebody was granted who was not next.
    pub(super) overtaken: bool,
    pub(super) replies_lost: u8,
    pub(super) leases_deleted: u8,
    /// What the last holder that leaves notes has noted.
    pub(super) released: Option<u8>,
    /// The number before which nobody is any more, as contenders that were granted have told the others of their session.
    pub(super) floor: Option<u8>,
}

impl State {
    pub(super) fn new(programs: &[Program]) -> Self {
        let clients = programs.iter().copied().map(Client::new).collect();
        Self {
            clients,
            next_numbers: [0; 2],
            granted_last: None,
            overtaken: false,
            replies_lost: 0,
            leases_deleted: 0,
            released: None,
            floor: None,
        }
    }

    /// The nodes of the parent in which `kind` is, each with the index of its contender.
    pub(super) fn nodes(&self, kind: Kind) -> impl Iterator<Item = (usize, Node)> {
        self.clients.iter().enumerate().flat_map(move |(i, client)| {
            client.nodes.iter().filter(move |node| node.kind.has_parent_of(kind)).map(move |node| (i, *node))
        })
    }

    pub(super) fn has(&self, kind: Kind, number: u8) -> bool {
        self.nodes(kind).any(|(_, node)| (node.kind, node.number) == (kind, number))
    }

    /// A listing, as the server would send it.
    pub(super) fn children(&self, kind: Kind) -> Vec<String> {
        self.nodes(kind).map(|(i, node)| name(i, node.slot, node.kind, node.number)).collect()
    }

    /// Creates the contender's node and returns its number: the next one, or, for a downgrade, that of its hold.
    pub(super) fn create(&mut self, i: usize, slot: Slot) -> u8 {
        let client = &self.clients[i];
        let kind = client.program.kind(slot);
        let number = match (kind, client.claim(Slot::First)) {
            (Kind::Read, Claim::Named(number)) if slot == Slot::Second => number,
            _ => {
                let next = &mut self.next_numbers[usize::from(kind == Kind::Lease)];
                *next += 1;
                *next - 1
            }
        };
        let client = &mut self.clients[i];
        client.nodes.push(Node { slot, kind, number, session: client.session });
        client.nodes.sort_unstable();
        self.notify_of_leases(kind);
        self.note_change(i);
        number
    }

    /// Deletes those of a contender's nodes that `goes` picks.
    pub(super) fn delete(&mut self, i: usize, goes: impl Fn(&Node) -> bool) {
        let (mut any_goes, mut leases_go) = (false, false);
        self.clients[i].nodes.retain(|node| {
            any_goes |= goes(node);
            leases_go |= node.kind == Kind::Lease && goes(node);
            !goes(node)
        });
        if leases_go {
            self.notify_of_leases(Kind::Lease);
        }
        if any_goes {
            self.note_change(self.clients.len());
        }
    }

    /// Tells those whose look is still to come that the queue is no longer what it was when their nodes were created.
    /// Contender `i` is not told.
    fn note_change(&mut self, i: usize) {
        for (_, client) in self.clients.iter_mut().enumerate().filter(|(other, _)| *other != i) {
            if let Phase::ReadNote { changed } = &mut client.phase {
                *changed = true;
            }
        }
    }

    /// How many contenders have been created in the queue.
    pub(super) fn created(&self) -> u8 {
        self.next_numbers[0]
    }

    fn notify_of_leases(&mut self, kind: Kind) {
        for client in self.clients.iter_mut().filter(|_| kind == Kind::Lease) {
            if let Phase::SleepOnLeases { changed } = &mut client.phase {
                *changed = true;
            }
        }
    }

    /// Notes that the contender was granted the place that it has in the queue.
    pub(super) fn note_grant(&mut self, i: usize) {
        let client = &self.clients[i];
        let (kind, Claim::Named(number)) = (client.program.kind(Slot::First), client.claim(Slot::First)) else {
            return;
        };
        let own = Node { slot: Slot::First, kind, number, session: client.session };
        let mut overtaken = self.nodes(kind).any(|(_, other)| other.bars(&own));
        if kind.mode() == Mode::Exclusive {
            overtaken |= self.granted_last.is_some_and(|last| last > number);
            self.granted_last = self.granted_last.max(Some(number));
            self.floor = self.granted_last.filter(|_| kind.names() == Names::MUTEX);
        }
        self.overtaken |= overtaken;
    }
}

/// The number of a node, as the library reads it from its name.
pub(super) fn sequence(number: u8) -> Sequence {
    let name = name_for_others(Kind::Lock, number);
    Names::MUTEX.parse(&name).map(|(_, sequence)| sequence).expect("BUG: a name that was built is not read")
}

/// The name of a node as another contender remembers it: without what stands for the uuid, which says nothing to it.
pub(super) fn name_for_others(kind: Kind, number: u8) -> String {
    format!("{kind:?}-{}{number:010}", kind.names().marker(kind.mode()))
}

/// What such a name says.
pub(super) fn remembered(name: &str) -> (Kind, u8) {
    let kind = if name.starts_with("Numbered-") { Kind::Numbered } else { Kind::Lock };
    let number = name.rsplit_once('-').and_then(|(_, digits)| digits.parse().ok());
    // The number before the first, which no node has.
    (kind, number.unwrap_or(u8::MAX))
}

/// The name of a node, as the library and the server together build it. The contender and the slot stand for the uuid.
pub(super) fn name(i: usize, slot: Slot, kind: Kind, number: u8) -> String {
    format!("{}{number:010}", prefix(i, slot, kind))
}

pub(super) fn prefix(i: usize, slot: Slot, kind: Kind) -> String {
    if kind == Kind::Numbered {
        return kind.names().marker(kind.mode()).to_owned();
    }
    format!("_c_{i}{}-{}", slot as u8, kind.names().marker(kind.mode()))
}
