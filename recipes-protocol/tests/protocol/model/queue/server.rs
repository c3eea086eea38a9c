//! What is on the server, and what contenders of one session know of it together.

use zk_recipes_protocol::names::{Mode, Names, Sequence};
use zk_recipes_protocol::number_proof::{Grant, NumberProof};
use zk_recipes_protocol::stat::ParentCzxid;

use super::contender::{Claim, Client, Phase};

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

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) clients: Vec<Client>,
    /// The next number in the queue and among the leases.
    next_numbers: [u8; 2],
    /// The highest number that was granted to a contender that wants the lock alone.
    granted_last: Option<u8>,
    /// Whether somebody was granted who was not next, or had no node.
    pub(super) overtaken: bool,
    pub(super) replies_lost: u8,
    pub(super) leases_deleted: u8,
    /// The last note: the number of its holder, and the incarnation of the lock's node that it names.
    pub(super) released: Option<(u8, u8)>,
    /// Which node of the path the queue is in: how often it was deleted and created again.
    pub(super) incarnation: u8,
    /// The number before which nobody is any more, as contenders that were granted have told the others of their session,
    /// and the incarnation that it is of.
    pub(super) floor: Option<(u8, u8)>,
    /// What else they have told.
    pub(super) uncontended: NumberProof,
}

impl State {
    pub(super) fn new(programs: &[Program], kin: usize) -> Self {
        let mut clients: Vec<Client> = programs.iter().copied().map(Client::new).collect();
        clients[..kin].iter_mut().for_each(|client| client.kin = true);
        clients.sort_unstable();
        Self {
            clients,
            next_numbers: [0; 2],
            granted_last: None,
            overtaken: false,
            replies_lost: 0,
            leases_deleted: 0,
            released: None,
            incarnation: 0,
            floor: None,
            uncontended: NumberProof::default(),
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

    /// Whether the contender would find the node that it knows by this number. Only a name that is nothing but a number is
    /// used again when the numbers begin anew.
    pub(super) fn has_for(&self, i: usize, kind: Kind, number: u8) -> bool {
        let is_named_anew = kind != Kind::Numbered && self.clients[i].incarnation != self.incarnation;
        !is_named_anew && self.has(kind, number)
    }

    /// Deletes the node whose children queue, which is empty, and creates it again.
    pub(super) fn begin_anew(&mut self) {
        self.incarnation += 1;
        self.next_numbers[0] = 0;
        (self.granted_last, self.released) = (None, None);
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
        let incarnation = self.incarnation;
        let client = &mut self.clients[i];
        if slot == Slot::First {
            client.incarnation = incarnation;
        }
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

    fn notify_of_leases(&mut self, kind: Kind) {
        for client in self.clients.iter_mut().filter(|_| kind == Kind::Lease) {
            if let Phase::SleepOnLeases { changed } = &mut client.phase {
                *changed = true;
            }
        }
    }

    /// Notes that the contender was granted the place that it has in the queue.
    pub(super) fn note_grant(&mut self, i: usize) {
        let Some(own) = self.granted(i) else { return };
        let has_let_go = |other: usize| {
            self.clients[other].heir.is_some() || matches!(self.clients[other].phase, Phase::Clean | Phase::Dead)
        };
        let overtaken = self.nodes(own.kind).any(|(other, node)| node.bars(&own) && !has_let_go(other));
        self.overtaken |= overtaken || self.clients[i].node(Slot::First).is_none();
        let client = &mut self.clients[i];
        client.run = client.kin.then_some(own.number);
        if own.kind.mode() == Mode::Exclusive {
            self.floor =
                self.granted_last.filter(|_| own.kind.names() == Names::MUTEX).map(|last| (self.incarnation, last));
        }
    }

    /// Notes that the contender was passed the lock, by one of the run. Those before it in the run need not have gone.
    pub(super) fn note_pass(&mut self, i: usize, run: u8) {
        let Some(own) = self.granted(i) else { return };
        let is_of_run = |other: usize| self.clients[other].heir.is_some_and(|heir| heir.run == run);
        let overtaken = self.nodes(own.kind).any(|(other, node)| node.bars(&own) && !is_of_run(other));
        self.overtaken |= overtaken;
        self.clients[i].run = Some(run);
    }

    /// The place that was granted to the contender, noted as the last one.
    fn granted(&mut self, i: usize) -> Option<Node> {
        let client = &self.clients[i];
        let (kind, Claim::Named(number)) = (client.program.kind(Slot::First), client.claim(Slot::First)) else {
            return None;
        };
        if kind.mode() == Mode::Exclusive {
            self.overtaken |= self.granted_last.is_some_and(|last| last > number);
            self.granted_last = self.granted_last.max(Some(number));
        }
        Some(Node { slot: Slot::First, kind, number, session: client.session })
    }

    /// Lets a contender give up what it wants or has.
    pub(super) fn give_up(&mut self, i: usize) {
        // A note would have disturbed the watch.
        if let (Claim::Named(number), true) =
            (self.clients[i].claim(Slot::First), self.clients[i].program != Program::Handoff)
        {
            self.uncontended.released(grant(self.clients[i].incarnation, number));
        }
        self.clients[i].give_up();
    }

    /// Whether somebody of the run holds.
    pub(super) fn goes_on(&self, run: u8) -> bool {
        self.clients.iter().any(|client| client.run == Some(run))
    }

    /// The contenders that share the session of this one.
    pub(super) fn session_of(&self, i: usize) -> Vec<usize> {
        if !self.clients[i].kin {
            return vec![i];
        }
        (0..self.clients.len()).filter(|other| self.clients[*other].kin).collect()
    }

    /// The contender of the same session that is directly behind this one and watches it.
    pub(super) fn follower(&self, i: usize) -> Option<usize> {
        let own = self.clients[i].node(Slot::First).filter(|_| self.clients[i].kin)?;
        let follows = |client: &Client| {
            client.kin
                && client.phase == Phase::Sleep(own.kind, own.number)
                && client.claim(Slot::First) == Claim::Named(own.number + 1)
        };
        self.clients.iter().position(follows)
    }
}

/// What the library remembers of the grant of a number.
pub(super) fn grant(incarnation: u8, number: u8) -> Grant {
    Grant { parent: ParentCzxid(incarnation.into()), sequence: sequence(number) }
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
