//! What the users of a run do, what may go wrong meanwhile, and what has to hold.

use stateright::{Model, Property};
use zk_recipes_protocol::names::{Mode, Names, Naming};
use zk_recipes_protocol::session_queue::{Batching, ContenderId, Event, Wish, WishKind};

use super::actions::Action;
use super::curator::Curator;
use super::server::{ModelServer, SessionNo};
use super::{ModelSession, Phase, User, World};

pub(crate) const EXCLUSION: &str = "holds exclude each other";
pub(crate) const GRANTED_IN_TURN: &str = "a granted contender has a node, and no contender is ahead of it";
pub(crate) const CAUSED: &str = "a contender is told of a deleted node only if somebody deleted one";
pub(crate) const AWAKE: &str = "no contender sleeps that could hold";
pub(crate) const SERVED: &str = "every user is served";
pub(crate) const CLEAN: &str = "finished users leave no node behind";

/// What a user does, from its arrival to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Program {
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    pub(crate) cuts: u8,
    pub(crate) throttles: u8,
    pub(crate) expiries: u8,
    /// Users that give up while they wait, or drop what they hold.
    pub(crate) drops: u8,
    pub(crate) deletions: u8,
    pub(crate) overwrites: u8,
    pub(crate) new_parents: u8,
}

/// Users, each with its session, and the faults.
#[derive(Clone, Debug)]
pub(crate) struct QueueModel {
    pub(crate) users: Vec<(Program, SessionNo)>,
    /// How often the first session has held the lock before.
    pub(crate) holds_before: u8,
    pub(crate) faults: Faults,
    pub(crate) first_number: i32,
    /// The next number of a lock's node that was deleted and created again.
    pub(crate) first_number_anew: i32,
    /// The number and the lock's node in a note that exists at the start.
    pub(crate) note: Option<(i32, i64)>,
    pub(crate) has_foreign: bool,
    /// Whether a contender of Apache Curator queues up as well.
    pub(crate) has_curator: bool,
    pub(crate) batching: Batching,
}

impl Faults {
    pub(crate) const NONE: Self =
        Self { cuts: 0, throttles: 0, expiries: 0, drops: 0, deletions: 0, overwrites: 0, new_parents: 0 };
    /// All faults except a server that throttles.
    pub(crate) const ALL: Self =
        Self { cuts: 1, throttles: 0, expiries: 1, drops: 1, deletions: 1, overwrites: 1, new_parents: 1 };
    pub(crate) const THROTTLED: Self = Self { throttles: 2, ..Self::NONE };
    /// All faults except an expired session and a lock's node that is created again.
    pub(crate) const MOST: Self = Self { expiries: 0, new_parents: 0, ..Self::ALL };
    pub(crate) const CUT: Self = Self { cuts: 1, ..Self::NONE };
    pub(crate) const DROP: Self = Self { drops: 1, ..Self::NONE };
    /// Somebody deletes nodes by hand.
    pub(crate) const DELETED: Self = Self { deletions: 1, new_parents: 1, ..Self::NONE };
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

    fn init_states(&self) -> Vec<World> {
        let sessions = self.users.iter().map(|(_, session)| session + 1).max().unwrap_or_default();
        let mut server = ModelServer::new(self.first_number);
        if let Some((number, of_node)) = self.note {
            server.leave_note(number, of_node);
        }
        if self.has_foreign {
            server.add_foreign();
        }
        let user = |(program, session): &(Program, SessionNo)| User {
            program: *program,
            session: *session,
            phase: Phase::Outside,
        };
        let sessions = (0..sessions).map(|_| ModelSession::new(self.batching)).collect();
        let mut world = World {
            server,
            sessions,
            users: Vec::new(),
            curator: None,
            left: Faults::NONE,
            is_granted_wrongly: false,
            is_told_deleted: false,
        };
        for _ in 0..self.holds_before {
            world.users = vec![user(&(Program::Lock, 0))];
            world = self.run_to_the_end(world);
        }
        let curator = self.has_curator.then_some(Curator::Outside);
        vec![World { users: self.users.iter().map(user).collect(), left: self.faults, curator, ..world }]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        state.progress(actions);
        state.delays(actions);
        state.faults(actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut next = last.clone();
        let mut told = Vec::new();
        match action {
            Action::Come(i) => next.come(i),
            Action::Curator => {
                let curator = next.curator.take()?;
                next.curator = Some(curator.go(&mut next.server, &mut told));
            }
            Action::Wait(i) => {
                let User { session, phase: Phase::Inside(id), .. } = next.users[i] else { return None };
                next.tell(session, Event::Waits(id));
            }
            Action::Release(i) => {
                let User { session, phase, .. } = next.users[i];
                let (Phase::Inside(id) | Phase::Lost(id)) = phase else { return None };
                let hands_over = matches!(phase, Phase::Inside(_));
                next.tell(session, Event::Leaves { id, hands_over, is_node_gone: false });
            }
            Action::Drop(i) => {
                let User { session, phase: Phase::Inside(id), .. } = next.users[i] else { return None };
                next.left.drops -= 1;
                next.drop_contender(session, id);
            }
            Action::Connect(session) => next.sessions[session].is_away = false,
            Action::Send(session, i) => next.send(session, i, false),
            Action::SendLookFirst(session, i) => next.send(session, i, true),
            Action::Apply(session) => next.apply(session),
            Action::ApplyTogether(session) => next.apply_together(session),
            Action::Postpone(session) => next.postpone(session),
            Action::Deliver(session, i) => {
                let event = next.sessions[session].arriving.take(i);
                next.tell(session, event);
            }
            Action::Prove(session, id) => {
                next.sessions[session].proving.remove(&id);
                next.tell(session, Event::Proved(id, Ok(())));
            }
            Action::Wake(session, id, pause) => {
                next.sessions[session].pauses.remove(&(id, pause));
                next.tell(session, Event::Woke(id, pause));
            }
            Action::Cut(session, told) => {
                next.left.cuts -= 1;
                next.cut(session, told);
            }
            Action::Throttle(session) => {
                next.left.throttles -= 1;
                next.throttle(session);
            }
            Action::Expire(session) => {
                next.left.expiries -= 1;
                next.expire(session);
            }
            Action::Delete(name) => {
                next.left.deletions -= 1;
                next.server.delete(&name, &mut told);
            }
            Action::Overwrite(name) => {
                next.left.overwrites -= 1;
                next.server.overwrite(&name, &mut told);
            }
            Action::BeginAnew { keeps_data } => {
                next.left.new_parents -= 1;
                next.server.begin_anew(keeps_data, self.first_number_anew, &mut told);
            }
        }
        next.notify(told);
        next.tidy();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSION, |_, state: &World| {
                let holders = (0..state.users.len()).filter(|i| state.holds(&state.users[*i]));
                let (alone, mut shared): (Vec<usize>, Vec<usize>) =
                    holders.partition(|i| state.users[*i].program.mode() == Mode::Exclusive);
                // One owner may write and read at once.
                shared.retain(|i| state.users[*i].program != Program::Downgrade || state.writer(*i).is_none());
                let of_curator = usize::from(matches!(state.curator, Some(Curator::Holding(_))));
                alone.len() + usize::from(!shared.is_empty()) + of_curator <= 1
            }),
            Property::always(GRANTED_IN_TURN, |_, state: &World| !state.is_granted_wrongly),
            Property::always(CAUSED, |lab: &Self, state: &World| {
                let count = |faults: &Faults| faults.deletions + faults.new_parents;
                !state.is_told_deleted || count(&state.left) < count(&lab.faults)
            }),
            Property::always(AWAKE, |_, state: &World| {
                state.is_busy() || !state.users.iter().any(|user| state.might_hold(user))
            }),
            Property::always(SERVED, |_, state: &World| {
                let mut actions = Vec::new();
                state.is_busy() || {
                    state.progress(&mut actions);
                    !actions.is_empty() || state.is_over()
                }
            }),
            Property::always(CLEAN, |_, state: &World| {
                let is_quiet = state.sessions.iter().all(|session| session.known.is_empty());
                !is_quiet || state.server.children.values().all(|child| child.owner.is_none())
            }),
            Property::sometimes("a user waits while another one holds", |_, state: &World| {
                state.users.iter().any(|user| state.holds(user)) && state.users.iter().any(|user| state.waits(user))
            }),
        ]
    }
}

impl QueueModel {
    /// Runs the world to its end. The first of all possible actions always happens.
    fn run_to_the_end(&self, mut world: World) -> World {
        loop {
            let mut actions = Vec::new();
            world.progress(&mut actions);
            let Some(next) = actions.into_iter().next() else { return world };
            world = self.next_state(&world, next).expect("BUG: what may happen does not");
        }
    }

    pub(crate) fn new(users: &[(Program, SessionNo)], faults: Faults) -> Self {
        Self {
            users: users.to_vec(),
            holds_before: 0,
            faults,
            first_number: 0,
            first_number_anew: 0,
            note: None,
            has_foreign: false,
            has_curator: false,
            batching: Batching::default(),
        }
    }
}
