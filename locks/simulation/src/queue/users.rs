//! The model of the queue: what users do, how much may go wrong, and how a run begins.

use campaign::Sights;
use zk_recipes_protocol::names::{Mode, Names, Naming, Sequence};
use zk_recipes_protocol::release_note::note;
use zk_recipes_protocol::session_queue::{Batching, ContenderId, Wish, WishKind};
use zk_recipes_protocol::stat::ParentCzxid;

use super::super::model::{Memory, Model, Rule, Wrongs};
use super::actions::Action;
use super::curator::Curator;
use super::rules::Sight;
use super::server::{ModelServer, SessionNo};
use super::{ModelSession, Phase, User, World};

/// What a user does, from its arrival to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// `Mutex::acquire`, then a release.
    Lock,
    /// `Mutex::try_acquire`.
    TryLock,
    /// `LeaderLatch::lead`.
    Lead,
    /// `HandoffMutex::acquire`.
    Handoff,
    /// `HandoffMutex::try_acquire`.
    TryHandoff,
    /// `ReadLock::acquire`.
    Read,
    /// `WriteLock::acquire`.
    Write,
    /// `Mutex::enqueue`, and later `Waiter::granted`.
    Place,
    /// `ReadLock::acquire_as` for the owner of the user before, while that user writes.
    Downgrade,
}

/// Upper bounds of the faults.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    pub cuts: u8,
    pub throttles: u8,
    /// Requests that a server refuses, and proofs of life that fail.
    pub refusals: u8,
    pub expiries: u8,
    /// Users that give up while they wait, or drop what they hold.
    pub drops: u8,
    pub deletions: u8,
    pub overwrites: u8,
    /// How often somebody deletes the lock's node.
    pub new_parents: u8,
    /// How often it then stays away until a contender creates it.
    pub parents_gone: u8,
}

/// The data of the lock's node at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// None.
    None,
    /// The note of a holder with this number, which names this lock's node.
    NoteOf(i32, i64),
    /// No note.
    Foreign,
}

/// Users, each with its session, and the faults.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Debug)]
pub struct QueueModel {
    pub users: Vec<(Program, SessionNo)>,
    /// How often each of them comes again.
    pub returns: u8,
    /// Whether the client of an expired session connects again, with a new session.
    pub connects_again: bool,
    /// Whether each session has a follower of its own, which lags behind.
    pub has_followers: bool,
    /// How often the first session has held the lock before.
    pub holds_before: u8,
    pub faults: Faults,
    pub first_number: i32,
    /// The next number of a lock's node that was deleted and created again.
    pub first_number_anew: i32,
    /// The data of the lock's node at the start.
    pub data: Data,
    pub has_foreign: bool,
    /// Whether a contender of Apache Curator queues up as well.
    pub has_curator: bool,
    pub batching: Batching,
}

#[allow(missing_docs, reason = "the names say it")]
impl Faults {
    pub const NONE: Self = Self {
        cuts: 0,
        throttles: 0,
        refusals: 0,
        expiries: 0,
        drops: 0,
        deletions: 0,
        overwrites: 0,
        new_parents: 0,
        parents_gone: 0,
    };
    /// All faults except a server that declines requests, and a lock's node that stays away.
    pub const ALL: Self =
        Self { cuts: 1, expiries: 1, drops: 1, deletions: 1, overwrites: 1, new_parents: 1, ..Self::NONE };
    pub const THROTTLED: Self = Self { throttles: 2, ..Self::NONE };
    /// All faults except an expired session and a lock's node that is created again.
    pub const MOST: Self = Self { expiries: 0, new_parents: 0, ..Self::ALL };
    pub const CUT: Self = Self { cuts: 1, ..Self::NONE };
    pub const DROP: Self = Self { drops: 1, ..Self::NONE };
    /// Somebody deletes nodes by hand.
    pub const DELETED: Self = Self { deletions: 1, new_parents: 1, ..Self::NONE };
}

impl Program {
    pub(super) fn mode(self) -> Mode {
        if matches!(self, Self::Read | Self::Downgrade) { Mode::Shared } else { Mode::Exclusive }
    }

    /// Returns the wish of a user. `writer` holds for the same owner.
    pub(super) fn wish(self, writer: Option<ContenderId>) -> Wish {
        let beside = || WishKind::Beside(writer.expect("BUG: a downgrade without a hold"));
        let (mode, naming, names, kind) = match self {
            Self::Lock => (Mode::Exclusive, Naming::Protected, Names::MUTEX, WishKind::Wait),
            Self::Lead => (Mode::Exclusive, Naming::Protected, Names::LATCH, WishKind::Wait),
            Self::TryLock => (Mode::Exclusive, Naming::Protected, Names::MUTEX, WishKind::Try),
            Self::TryHandoff => (Mode::Exclusive, Naming::Numbered, Names::MUTEX, WishKind::Try),
            Self::Handoff => (Mode::Exclusive, Naming::Numbered, Names::MUTEX, WishKind::Wait),
            Self::Read => (Mode::Shared, Naming::Protected, Names::READ_WRITE, WishKind::Wait),
            Self::Write => (Mode::Exclusive, Naming::Protected, Names::READ_WRITE, WishKind::Wait),
            Self::Place => (Mode::Exclusive, Naming::Protected, Names::MUTEX, WishKind::Place),
            Self::Downgrade => (Mode::Shared, Naming::Protected, Names::READ_WRITE, beside()),
        };
        Wish { mode, naming, names, kind }
    }
}

impl Model for QueueModel {
    type State = World;
    type Action = Action;

    const SIGHTS: &'static [&'static str] = Sight::NAMES;
    const PATIENCE: u64 = 350;
    const RULES: &'static [Rule<Self>] = Self::RULES;

    fn starts(&self) -> Vec<World> {
        let sessions = self.users.iter().map(|(_, session)| session + 1).max().unwrap_or_default();
        let mut server = ModelServer::new(self.first_number, self.first_number_anew);
        match self.data {
            Data::None => {}
            Data::NoteOf(released, of_node) => server.write(note(Sequence::new(released), ParentCzxid(of_node))),
            Data::Foreign => server.write(b"of somebody else".to_vec()),
        }
        if self.has_foreign {
            server.add_foreign();
        }
        if self.has_followers {
            server.follow(sessions);
        }
        let user = |&(program, session): &(Program, SessionNo)| User {
            program,
            session,
            phase: Phase::Outside,
            returns: self.returns,
            standing: Memory::default(),
        };
        let mut world = World {
            server,
            sessions: (0..sessions).map(|_| ModelSession::new(self.batching)).collect(),
            users: Vec::new(),
            curator: None,
            left: Faults::NONE,
            batching: self.batching,
            is_granted_wrongly: false,
            is_told_deleted: false,
            wrongs: Wrongs::default(),
            past: Memory::default(),
        };
        for _ in 0..self.holds_before {
            world.users = vec![User { returns: 0, ..user(&(Program::Lock, 0)) }];
            self.run_to_the_end(&mut world);
        }
        let curator = self.has_curator.then_some(Curator::Outside);
        vec![World { users: self.users.iter().map(user).collect(), left: self.faults, curator, ..world }]
    }

    fn progress(&self, state: &World, actions: &mut Vec<Action>) {
        state.progress(actions);
    }

    fn faults(&self, state: &World, actions: &mut Vec<Action>) {
        state.delays(actions);
        state.faults(actions);
    }

    fn step(&self, state: &mut World, action: &Action) -> bool {
        state.step(self, *action)
    }

    fn kind(action: &Action) -> usize {
        action.kind()
    }

    fn subject(state: &World, action: &Action) -> usize {
        state.subject(action)
    }

    fn visits(&self, state: &World) -> u64 {
        state.visits()
    }

    fn is_over(&self, state: &World) -> bool {
        state.is_over()
    }

    fn sights(state: &World) -> Sights {
        state.past.sights
    }
}

#[allow(missing_docs, reason = "the names say it")]
impl QueueModel {
    /// Runs the world to its end. The first of all possible actions always happens.
    fn run_to_the_end(&self, world: &mut World) {
        loop {
            let mut actions = Vec::new();
            world.progress(&mut actions);
            let Some(next) = actions.into_iter().next() else { return };
            assert!(world.step(self, next), "BUG: what may happen does not");
        }
    }
    pub fn new(users: &[(Program, SessionNo)], faults: Faults) -> Self {
        Self {
            users: users.to_vec(),
            returns: 0,
            connects_again: false,
            has_followers: false,
            holds_before: 0,
            faults,
            first_number: 0,
            first_number_anew: 0,
            data: Data::None,
            has_foreign: false,
            has_curator: false,
            batching: Batching::default(),
        }
    }
}
