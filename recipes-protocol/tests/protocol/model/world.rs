//! The queue as the locks run it: [`SessionQueue`]s of several sessions against one server, in every order of requests, answers,
//! notifications, faults and users.
//!
//! Nothing of the protocol is written here. A session sends what its queue asks for and delivers what comes back, as the contract
//! of [`zk_recipes_protocol::session_queue`] says. The server applies the requests of a session in their order, at any time;
//! answers and notifications of a session arrive in the order in which the server sent them, at any later time.
//!
//! # Faults
//!
//! Each happens at any moment, as often as [`Faults`] says: a connection ends, with requests that were applied and not answered, or
//! never applied; a session expires, which its client knows before; a user gives up, or drops what it has; somebody deletes the
//! node of a waiter, overwrites the data of a node, or deletes the empty lock's node and creates it again with its old data or
//! with none. A child that is no contender may be there.
//!
//! # What is not modelled
//!
//! * Refused requests, and parents that are missing when a node is created.
//! * Servers that lag behind. Whoever sees the past of the queue sees at least what was ahead of its own node when that was
//!   created, so it waits too long, but is never granted too early.
//! * Time. That a hold is lost before its session expires is checked in [`clocks`](super::clocks).
//! * A hold whose node is deleted by hand: the guarantees do not cover it.

mod server;

use std::collections::{BTreeSet, VecDeque};

use stateright::{Checker, Model, Property};
use zk_recipes_protocol::names::{Mode, Names, Naming};
use zk_recipes_protocol::session_queue::{
    Ask, ContenderId, Event, Failure, FirstLook, NotCreated, NotDeleted, SessionQueue, State as Standing, Wish,
    WishKind,
};

use self::server::{Notifications, Request, Server, SessionNo};

/// What a user does from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Program {
    /// `Mutex::acquire`, then a release.
    Lock,
    /// `Mutex::try_acquire`.
    TryLock,
    /// `HandoffMutex::acquire`.
    Handoff,
    /// `HandoffMutex::try_acquire`.
    TryHandoff,
    /// `ReadLock::acquire`.
    Read,
    /// `WriteLock::acquire`.
    Write,
}

/// How often which fault may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Faults {
    cuts: u8,
    expiries: u8,
    /// Users that give up while they wait, or drop what they hold.
    drops: u8,
    deletions: u8,
    overwrites: u8,
    new_parents: u8,
}

/// One user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct User {
    program: Program,
    session: SessionNo,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// It has yet to come.
    Outside,
    /// It waits, holds or leaves.
    Inside(ContenderId),
    /// As `Inside`, and its hold was lost.
    Lost(ContenderId),
    Done,
}

/// What the server has sent and has not arrived yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Arriving {
    Answer(Box<(Request, Event)>),
    Notification(Event),
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Session {
    queue: SessionQueue,
    /// Requests that the server has not applied yet.
    requests: VecDeque<Request>,
    arriving: VecDeque<Arriving>,
    /// Who pauses.
    pauses: BTreeSet<ContenderId>,
    /// Who was not forgotten.
    known: BTreeSet<ContenderId>,
    is_over: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    server: Server,
    sessions: Vec<Session>,
    users: Vec<User>,
    left: Faults,
    /// Whether somebody was granted whose node was not there, or while another that bars its way was.
    is_granted_wrongly: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Come(usize),
    Release(usize),
    Apply(SessionNo),
    Deliver(SessionNo),
    Wake(SessionNo, ContenderId),
    Drop(usize),
    Cut(SessionNo),
    Expire(SessionNo),
    Delete(String),
    Overwrite(String),
    BeginAnew { keeps_data: bool },
}

/// Users, each with its session, and what may go wrong.
#[derive(Clone, Debug)]
struct Lab {
    users: Vec<(Program, SessionNo)>,
    faults: Faults,
    first_number: i32,
    /// The number and the lock's node that a note names which is there at the start.
    note: Option<(i32, i64)>,
    has_foreign: bool,
}

impl Program {
    fn wish(self) -> Wish {
        let (mode, naming, names, kind) = match self {
            Self::Lock => (Mode::Exclusive, Naming::Protected, Names::MUTEX, WishKind::Wait),
            Self::TryLock => (Mode::Exclusive, Naming::Protected, Names::MUTEX, WishKind::Try),
            Self::TryHandoff => (Mode::Exclusive, Naming::Numbered, Names::MUTEX, WishKind::Try),
            Self::Handoff => (Mode::Exclusive, Naming::Numbered, Names::MUTEX, WishKind::Wait),
            Self::Read => (Mode::Shared, Naming::Protected, Names::READ_WRITE, WishKind::Wait),
            Self::Write => (Mode::Exclusive, Naming::Protected, Names::READ_WRITE, WishKind::Wait),
        };
        Wish { mode, naming, names, kind }
    }
}

impl Arriving {
    fn answer(request: Request, event: Event) -> Self {
        Self::Answer(Box::new((request, event)))
    }
}

impl Session {
    fn new() -> Self {
        let (requests, arriving) = (VecDeque::new(), VecDeque::new());
        let (pauses, known) = (BTreeSet::new(), BTreeSet::new());
        Self { queue: SessionQueue::default(), requests, arriving, pauses, known, is_over: false }
    }
}

impl World {
    /// Does what a queue has asked for. Events that come of that at once are delivered, too.
    fn carry_out(&mut self, session: SessionNo, asks: Vec<Ask>) {
        for ask in asks {
            match ask {
                Ask::Prove(id) => self.tell(session, Event::Proved(id, Ok(()))),
                Ask::Pause(id, _) => {
                    self.sessions[session].pauses.insert(id);
                }
                Ask::Lose(id) => {
                    let of_contender = |user: &&mut User| user.session == session && user.phase == Phase::Inside(id);
                    self.users.iter_mut().filter(of_contender).for_each(|user| user.phase = Phase::Lost(id));
                }
                Ask::Tell(id) => self.note_grant(session, id),
                Ask::Warn(_) => {}
                ask => {
                    let of = &mut self.sessions[session];
                    let id = contender_of(&ask);
                    let own = id.and_then(|id| of.queue.node(id).cloned());
                    let wish = id.map(|id| of.queue.wish(id).clone());
                    let viewpoint = id.map(|id| of.queue.viewpoint(id));
                    of.requests.push_back(Request { ask, own, wish, viewpoint, created: None });
                }
            }
        }
    }

    /// Delivers an event to the queue of a session.
    fn tell(&mut self, session: SessionNo, event: Event) {
        let (mut asks, of) = (Vec::new(), &mut self.sessions[session]);
        of.queue.on(event, &mut asks);
        self.carry_out(session, asks);
    }

    fn come(&mut self, i: usize) {
        let User { program, session, .. } = self.users[i];
        let (mut asks, of) = (Vec::new(), &mut self.sessions[session]);
        let id = of.queue.enter(program.wish(), &mut asks);
        of.known.insert(id);
        self.users[i].phase = Phase::Inside(id);
        self.carry_out(session, asks);
    }

    /// Whether a user holds, as far as it can know.
    fn holds(&self, user: &User) -> bool {
        let Phase::Inside(id) = user.phase else { return false };
        matches!(self.sessions[user.session].queue.state(id), Standing::Holding(_))
    }

    /// Whether a user waits for its grant, with a node in the queue or without.
    fn waits(&self, user: &User) -> bool {
        let Phase::Inside(id) = user.phase else { return false };
        self.sessions[user.session].queue.state(id) == Standing::Contending
    }

    /// Notes whether a contender was granted by the server that should not have been.
    fn note_grant(&mut self, session: SessionNo, id: ContenderId) {
        let queue = &self.sessions[session].queue;
        let Standing::Holding(grant) = queue.state(id) else { return };
        if grant.passed_by.is_none() {
            let own = self.server.children.get(&grant.node.name);
            self.is_granted_wrongly |= own.is_none_or(|own| own.czxid != grant.node.czxid);
        }
    }

    /// Forgets what is over.
    fn tidy(&mut self) {
        for user in &mut self.users {
            let (Phase::Inside(id) | Phase::Lost(id)) = user.phase else { continue };
            let standing = self.sessions[user.session].queue.state(id);
            if let Standing::Over(_) | Standing::Kept | Standing::Failed(_) | Standing::Leaving { .. } = standing {
                user.phase = Phase::Done;
            }
        }
        for Session { queue, known, pauses, .. } in &mut self.sessions {
            known.iter().for_each(|id| queue.forget(*id));
            known.retain(|id| queue.has(*id));
            pauses.retain(|id| queue.has(*id));
        }
    }

    /// The server carries out the next request of a session.
    fn apply(&mut self, session: SessionNo) {
        let Some(request) = self.sessions[session].requests.pop_front() else { return };
        if let Some(Event::Created(id, Ok((made, _)))) = &request.created {
            // The `create` was applied. This is the look behind it.
            let Ask::Create(_, _, look) = request.ask else { unreachable!("BUG: {request:?}") };
            let seen = self.server.look(look, &Request { own: Some(made.clone()), ..request.clone() });
            let event = Event::Created(*id, Ok((made.clone(), seen)));
            return self.sessions[session].arriving.push_back(Arriving::answer(request, event));
        }
        let (event, told) = self.server.apply(session, &request);
        self.notify(told);
        match request.ask {
            Ask::Create(_, _, FirstLook::List | FirstLook::Note) => {
                self.sessions[session].requests.push_front(Request { created: Some(event), ..request });
            }
            _ => self.sessions[session].arriving.push_back(Arriving::answer(request, event)),
        }
    }

    fn notify(&mut self, told: Notifications) {
        for (session, event) in told {
            self.sessions[session].arriving.push_back(Arriving::Notification(event));
        }
    }

    /// The connection of a session ends: what was not applied never will be, and what has not arrived is lost.
    fn cut(&mut self, session: SessionNo) {
        let watches = self.server.unwatch(session);
        let of = &mut self.sessions[session];
        let mut events: Vec<Event> = watches.into_iter().map(|(_, event)| event).collect();
        let mut unanswered = Vec::new();
        for arriving in of.arriving.drain(..) {
            match arriving {
                Arriving::Answer(answer) => unanswered.push(answer.0),
                Arriving::Notification(Event::Fired(id, _)) => events.push(Event::Fired(id, false)),
                Arriving::Notification(event) => events.push(event),
            }
        }
        unanswered.extend(of.requests.drain(..));
        for request in unanswered {
            match lost_reply(&request.ask) {
                Some(event) => events.push(event),
                // Reads are repeated.
                None => of.requests.push_back(request),
            }
        }
        for event in events {
            self.tell(session, event);
        }
    }

    fn expire(&mut self, session: SessionNo) {
        let told = self.server.expire(session);
        self.sessions[session] = Session { is_over: true, ..Session::new() };
        let of_session = self.users.iter_mut().filter(|user| user.session == session);
        of_session.for_each(|user| user.phase = Phase::Done);
        self.notify(told.into_iter().filter(|(other, _)| *other != session).collect());
    }

    /// What happens sooner or later.
    fn progress(&self, actions: &mut Vec<Action>) {
        for (i, user) in self.users.iter().enumerate() {
            match user.phase {
                Phase::Outside if !self.sessions[user.session].is_over => actions.push(Action::Come(i)),
                Phase::Inside(_) if self.holds(user) => actions.push(Action::Release(i)),
                Phase::Lost(_) => actions.push(Action::Release(i)),
                _ => {}
            }
        }
        for (session, of) in self.sessions.iter().enumerate() {
            if !of.requests.is_empty() {
                actions.push(Action::Apply(session));
            }
            if !of.arriving.is_empty() {
                actions.push(Action::Deliver(session));
            }
            actions.extend(of.pauses.iter().map(|id| Action::Wake(session, *id)));
        }
    }

    fn faults(&self, actions: &mut Vec<Action>) {
        let left = &self.left;
        for (i, user) in self.users.iter().enumerate() {
            if left.drops > 0 && matches!(user.phase, Phase::Inside(_)) {
                actions.push(Action::Drop(i));
            }
        }
        for session in 0..self.sessions.len() {
            let is_used = !self.sessions[session].is_over && !self.sessions[session].known.is_empty();
            if left.cuts > 0 && is_used {
                actions.push(Action::Cut(session));
            }
            if left.expiries > 0 && is_used {
                actions.push(Action::Expire(session));
            }
        }
        for (name, child) in &self.server.children {
            if left.overwrites > 0 && child.mark.is_some() {
                actions.push(Action::Overwrite(name.clone()));
            }
            if left.deletions > 0 && self.is_of_a_waiter(name) {
                actions.push(Action::Delete(name.clone()));
            }
        }
        if left.new_parents > 0 && self.server.children.is_empty() {
            actions.extend([true, false].map(|keeps_data| Action::BeginAnew { keeps_data }));
        }
    }

    /// Whether a node is that of somebody who waits, also when all answers that are on their way have arrived. Who holds as soon
    /// as they arrive is a holder: the server has let it in.
    fn is_of_a_waiter(&self, name: &str) -> bool {
        let is_of = |user: &&User| match user.phase {
            Phase::Inside(id) => self.sessions[user.session].queue.node(id).is_some_and(|node| node.name == name),
            _ => false,
        };
        let Some(user) = self.users.iter().position(|user| is_of(&user) && self.waits(user)) else { return false };
        let mut later = self.clone();
        let session = self.users[user].session;
        while let Some(arriving) = later.sessions[session].arriving.pop_front() {
            later.deliver(session, arriving);
        }
        later.waits(&later.users[user])
    }

    fn deliver(&mut self, session: SessionNo, arriving: Arriving) {
        let event = match arriving {
            Arriving::Answer(answer) => answer.1,
            Arriving::Notification(event) => event,
        };
        self.tell(session, event);
    }
}

/// The contender that an ask is for.
fn contender_of(ask: &Ask) -> Option<ContenderId> {
    match ask {
        Ask::Create(id, ..)
        | Ask::CreateParents(id)
        | Ask::Find(id)
        | Ask::List(id)
        | Ask::ReadNote(id)
        | Ask::ReadNoteBeside(id)
        | Ask::Probe(id, _)
        | Ask::Watch(id, _)
        | Ask::Prove(id)
        | Ask::Identify(id, _)
        | Ask::Delete(id, _)
        | Ask::Pause(id, _)
        | Ask::Lose(id)
        | Ask::Tell(id) => Some(*id),
        Ask::WatchParent(_) | Ask::Warn(_) => None,
    }
}

/// What a queue is told of a request whose connection has ended; nothing of a read, which is repeated.
fn lost_reply(ask: &Ask) -> Option<Event> {
    match ask {
        Ask::Create(id, ..) => Some(Event::Created(*id, Err(NotCreated::Failed(Failure::ReplyLost)))),
        Ask::Delete(id, _) => Some(Event::Deleted(*id, Err(NotDeleted::Failed(Failure::ReplyLost)))),
        Ask::WatchParent(names) => Some(Event::ParentWatchSet(*names, None)),
        _ => None,
    }
}

impl Model for Lab {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let sessions = self.users.iter().map(|(_, session)| session + 1).max().unwrap_or_default();
        let mut server = Server::new(self.first_number);
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
        let users = self.users.iter().map(user).collect();
        let sessions = (0..sessions).map(|_| Session::new()).collect();
        vec![World { server, sessions, users, left: self.faults, is_granted_wrongly: false }]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        state.progress(actions);
        state.faults(actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut next = last.clone();
        let mut told = Vec::new();
        match action {
            Action::Come(i) => next.come(i),
            Action::Release(i) | Action::Drop(i) => {
                let User { session, phase, .. } = next.users[i];
                let (Phase::Inside(id) | Phase::Lost(id)) = phase else { return None };
                let passes_on = matches!(action, Action::Release(_)) && matches!(phase, Phase::Inside(_));
                next.left.drops -= u8::from(matches!(action, Action::Drop(_)));
                next.tell(session, Event::Leaves(id, passes_on));
            }
            Action::Apply(session) => next.apply(session),
            Action::Deliver(session) => {
                let arriving = next.sessions[session].arriving.pop_front()?;
                next.deliver(session, arriving);
            }
            Action::Wake(session, id) => {
                next.sessions[session].pauses.remove(&id);
                next.tell(session, Event::Woke(id));
            }
            Action::Cut(session) => {
                next.left.cuts -= 1;
                next.cut(session);
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
                next.server.begin_anew(keeps_data, &mut told);
            }
        }
        next.notify(told);
        next.tidy();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("holds exclude each other", |_, state: &World| {
                let holders = state.users.iter().filter(|user| state.holds(user));
                let (alone, shared): (Vec<_>, Vec<_>) =
                    holders.partition(|user| user.program.wish().mode == Mode::Exclusive);
                alone.len() + usize::from(!shared.is_empty()) <= 1
            }),
            Property::always("whoever is granted has a node", |_, state: &World| !state.is_granted_wrongly),
            Property::always("everybody is served", |_, state: &World| {
                let mut actions = Vec::new();
                state.progress(&mut actions);
                !actions.is_empty() || state.users.iter().all(|user| user.phase == Phase::Done)
            }),
            Property::always("whoever is finished has left no node behind", |_, state: &World| {
                let is_quiet = state.sessions.iter().all(|session| session.known.is_empty());
                !is_quiet || state.server.children.values().all(|child| child.owner.is_none())
            }),
            Property::sometimes("somebody waits while another holds", |_, state: &World| {
                state.users.iter().any(|user| state.holds(user)) && state.users.iter().any(|user| state.waits(user))
            }),
        ]
    }
}

impl Lab {
    fn new(users: &[(Program, SessionNo)], faults: Faults) -> Self {
        Self { users: users.to_vec(), faults, first_number: 0, note: None, has_foreign: false }
    }

    /// Follows every run. The number of states is pinned, lest the model change without anybody noticing.
    fn check(&self, states: usize) {
        let checker = self.clone().checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        assert_eq!(checker.unique_state_count(), states, "{self:?}");
    }
}

use Program::{Handoff, Lock, Read, TryHandoff, TryLock, Write};

const NONE: Faults = Faults { cuts: 0, expiries: 0, drops: 0, deletions: 0, overwrites: 0, new_parents: 0 };
const CUT: Faults = Faults { cuts: 1, ..NONE };
const DROP: Faults = Faults { drops: 1, ..NONE };
/// Somebody deletes nodes by hand.
const DELETED: Faults = Faults { deletions: 1, new_parents: 1, ..NONE };

#[test]
fn two_contenders_stand_a_fault_of_every_kind_together() {
    let all = Faults { cuts: 1, expiries: 1, drops: 1, deletions: 1, overwrites: 1, new_parents: 1 };
    Lab::new(&[(Lock, 0), (Lock, 1)], all).check(86_208);
    Lab::new(&[(Lock, 0), (Handoff, 0)], all).check(213_196);
    Lab::new(&[(Handoff, 0), (Handoff, 0)], all).check(237_930);
    Lab::new(&[(Handoff, 0), (Handoff, 1)], all).check(308_130);
    Lab::new(&[(Lock, 0), (TryLock, 1)], all).check(65_035);
    Lab::new(&[(Write, 0), (Read, 1)], all).check(78_257);
}

#[test]
fn three_contenders_stand_the_end_of_a_connection() {
    Lab::new(&[(Lock, 0), (Lock, 1), (Lock, 2)], CUT).check(139_958);
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 1)], CUT).check(123_908);
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 0)], CUT).check(179_211);
    Lab::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], CUT).check(105_886);
    Lab::new(&[(Handoff, 0), (Lock, 0), (Handoff, 1)], CUT).check(184_666);
    Lab::new(&[(Lock, 0), (Handoff, 0), (TryHandoff, 1)], CUT).check(193_727);
    Lab::new(&[(Write, 0), (Read, 1), (Read, 1)], CUT).check(73_494);
}

#[test]
fn three_contenders_stand_one_that_gives_up() {
    Lab::new(&[(Lock, 0), (Lock, 1), (Lock, 2)], DROP).check(128_348);
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 1)], DROP).check(46_752);
    Lab::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], DROP).check(76_374);
    Lab::new(&[(Handoff, 0), (Lock, 0), (Handoff, 1)], DROP).check(110_984);
    Lab::new(&[(Lock, 0), (Lock, 0), (TryLock, 1)], DROP).check(35_755);
    Lab::new(&[(Write, 0), (Write, 1), (Read, 1)], DROP).check(40_622);
}

#[test]
fn three_contenders_stand_nodes_that_are_deleted_by_hand() {
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 1)], DELETED).check(63_591);
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 0)], DELETED).check(22_746);
    Lab::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], DELETED).check(121_458);
    Lab::new(&[(Handoff, 0), (Lock, 0), (Handoff, 1)], DELETED).check(178_195);
    Lab::new(&[(Lock, 0), (Handoff, 0), (TryHandoff, 1)], DELETED).check(127_263);
    Lab::new(&[(Write, 0), (Read, 1), (Read, 1)], DELETED).check(36_663);
}

#[test]
fn four_contenders_of_one_session_pass_the_lock_on_or_rely_on_their_numbers() {
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 0), (Lock, 0)], NONE).check(77_175);
    Lab::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 0), (Handoff, 0)], NONE).check(65_556);
}

#[test]
fn a_child_that_is_no_contender_and_a_note_of_another_lock_s_node_let_nobody_in() {
    let faults = Faults { deletions: 1, drops: 1, ..NONE };
    let handoffs = Lab::new(&[(Handoff, 0), (Handoff, 1)], faults);
    Lab { has_foreign: true, ..handoffs.clone() }.check(7_845);
    Lab { note: Some((1, 99)), ..handoffs.clone() }.check(5_821);
    let three = Lab::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], DROP);
    Lab { note: Some((1, 99)), ..three }.check(76_374);
    Lab { has_foreign: true, ..Lab::new(&[(Lock, 0), (Lock, 1)], faults) }.check(1_513);
}

#[test]
fn contenders_with_the_last_numbers_are_refused() {
    let last = Lab::new(&[(Handoff, 0), (Lock, 0), (Lock, 1)], CUT);
    Lab { first_number: 2_099_999_999, ..last }.check(59_516);
}
