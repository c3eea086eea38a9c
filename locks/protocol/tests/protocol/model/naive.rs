//! A model of the naive lock as the library runs it: contenders ([`Naive`]) of several sessions and one server. It covers
//! every order of requests, answers, faults and users.
//!
//! # Faults
//!
//! Each may happen at any moment, as often as [`Faults`] says:
//!
//! * The reply to a write is lost. The write was applied or was not. A `create` may also arrive later.
//! * The server throttles a `create`, and does not carry it out.
//! * A session expires. Its client knows that before.
//! * A user gives up.
//! * Somebody overwrites the data of the node.
//! * Somebody deletes the node, if no contender knows it as its own or is about to learn of it.
//!
//! Before the server answers a `sync` of a user, or creates a node for it, it applies a late `create` of that user.

use stateright::{Model, Property};
use zk_recipes_protocol::naive::{Ask, CreateError, Event, Naive, NodeAtPath, State, Taken};
use zk_recipes_protocol::session_queue::Failure;

pub(crate) const EXCLUSION: &str = "at most one user holds";
pub(crate) const HELD: &str = "a holder has its node";
pub(crate) const SERVED: &str = "every user is served";
pub(crate) const CLEAN: &str = "finished users leave nothing behind";

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Program {
    /// It waits for the lock.
    Lock,
    /// It takes the lock if no other contender is in the way.
    Try,
}

/// Upper bounds of the faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    pub(crate) replies: u8,
    pub(crate) throttles: u8,
    pub(crate) expiries: u8,
    pub(crate) drops: u8,
    pub(crate) overwrites: u8,
    pub(crate) deletions: u8,
}

/// Users with their sessions, and their faults.
#[derive(Clone, Debug)]
pub(crate) struct Lab {
    pub(crate) users: Vec<(Program, usize)>,
    pub(crate) faults: Faults,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Outside,
    Inside,
    /// It has been told that it holds.
    Holding,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct User {
    program: Program,
    session: usize,
    phase: Phase,
    /// `None` before it comes.
    contender: Option<Naive>,
    /// What the contender asks for, until the answer is delivered.
    ask: Option<Ask>,
    answer: Option<Event>,
    /// Whether it has a watch that has not fired.
    is_watching: bool,
    /// Whether one of its `create`s may still arrive.
    is_late: bool,
}

/// The node at the lock's path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    maker: usize,
    czxid: i64,
    is_overwritten: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    users: Vec<User>,
    node: Option<Node>,
    created: i64,
    /// What the contenders of each session share.
    taken: Vec<Taken>,
    left: Faults,
}

/// The fate of a request whose reply is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Applied,
    NotApplied,
    Late,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Come(usize),
    /// The server carries out what the user's contender asks for.
    Apply(usize),
    Lose(usize, Fate),
    Throttle(usize),
    /// A `create` arrives late. Its reply was lost before.
    ArriveLate(usize),
    Deliver(usize),
    Release(usize),
    Drop(usize),
    Expire(usize),
    Overwrite,
    Delete,
}

impl User {
    fn state(&self) -> Option<State> {
        self.contender.as_ref().map(Naive::state)
    }

    fn czxid(&self) -> Option<i64> {
        self.contender.as_ref().and_then(Naive::czxid)
    }
}

impl World {
    fn come(&mut self, i: usize) {
        let user = &mut self.users[i];
        let mut asks = Vec::new();
        user.contender = Some(Naive::enter(user.program == Program::Try, &mut asks));
        user.ask = asks.pop();
        user.phase = Phase::Inside;
    }

    /// Tells whether the server can do something for a user.
    fn can_apply(&self, i: usize) -> bool {
        let user = &self.users[i];
        if user.answer.is_some() || !matches!(user.phase, Phase::Inside) {
            return false;
        }
        match user.ask {
            Some(Ask::Wait) => !user.is_watching,
            // The late `create` is applied first.
            Some(Ask::ReadLatest) => !user.is_late,
            Some(Ask::Create) => !(user.is_late && self.node.is_none()),
            Some(_) => true,
            None => false,
        }
    }

    fn apply(&mut self, i: usize) {
        let Some(ask) = self.users[i].ask else { unreachable!("BUG: nothing is asked for") };
        self.users[i].answer = Some(match ask {
            Ask::Read | Ask::ReadLatest => Event::Read(self.found(i)),
            Ask::Create => Event::Created(self.create(i)),
            Ask::CreateParents => Event::ParentsCreated(true),
            Ask::Pause => Event::Paused,
            Ask::Watch => {
                self.users[i].is_watching = self.node.is_some();
                Event::Watching(self.found(i))
            }
            Ask::Wait => Event::Fired,
            Ask::Prove => Event::Proved,
            Ask::Delete => {
                self.delete();
                Event::Deleted
            }
        });
    }

    fn create(&mut self, i: usize) -> Result<NodeAtPath, CreateError> {
        if self.node.is_some() {
            return Err(CreateError::Exists);
        }
        self.created += 1;
        self.node = Some(Node { maker: i, czxid: self.created, is_overwritten: false });
        Ok(NodeAtPath { czxid: self.created, is_ours: true, may_be_own: true })
    }

    fn found(&self, i: usize) -> Option<NodeAtPath> {
        let node = self.node.as_ref()?;
        Some(NodeAtPath {
            czxid: node.czxid,
            is_ours: self.users[node.maker].session == self.users[i].session,
            may_be_own: node.is_overwritten || node.maker == i,
        })
    }

    fn delete(&mut self) {
        if self.node.take().is_some() {
            self.changed();
        }
    }

    fn changed(&mut self) {
        self.users.iter_mut().for_each(|user| user.is_watching = false);
    }

    fn lose(&mut self, i: usize, fate: Fate) {
        if fate == Fate::Applied {
            self.apply(i);
        }
        let user = &mut self.users[i];
        user.is_late |= fate == Fate::Late;
        user.answer = None;
        if user.ask == Some(Ask::Create) {
            user.answer = Some(Event::Created(Err(CreateError::Failed(Failure::ReplyLost))));
        } else {
            // The shell asks again what is left to delete.
            self.tell(i, Event::Leaves);
        }
    }

    /// Delivers an event to the contender of a user.
    fn tell(&mut self, i: usize, event: Event) {
        let user = &mut self.users[i];
        let contender = user.contender.as_mut().expect("a user that is told an event is there");
        let mut asks = Vec::new();
        contender.on(event, &mut self.taken[user.session], &mut asks);
        user.ask = asks.pop();
    }

    /// Tells whether somebody may delete the node: no contender knows it as its own or is about to learn of it.
    fn is_unknown(&self) -> bool {
        let Some(node) = &self.node else { return false };
        self.users.iter().all(|user| {
            let knows = user.czxid() == Some(node.czxid);
            let is_told = match user.answer {
                Some(Event::Created(Ok(found)) | Event::Read(Some(found)) | Event::Watching(Some(found))) => {
                    found.czxid == node.czxid
                }
                _ => false,
            };
            !knows && !is_told
        })
    }

    fn holders(&self) -> impl Iterator<Item = &User> {
        self.users.iter().filter(|user| user.phase == Phase::Holding)
    }

    pub(crate) fn progress(&self, actions: &mut Vec<Action>) {
        for (i, user) in self.users.iter().enumerate() {
            match user.phase {
                Phase::Outside => actions.push(Action::Come(i)),
                Phase::Holding => actions.push(Action::Release(i)),
                _ if user.answer.is_some() => actions.push(Action::Deliver(i)),
                _ if self.can_apply(i) => actions.push(Action::Apply(i)),
                _ => {}
            }
            if user.is_late {
                actions.push(Action::ArriveLate(i));
            }
        }
    }

    fn faults(&self, actions: &mut Vec<Action>) {
        let left = &self.left;
        for (i, user) in self.users.iter().enumerate() {
            let is_inside = user.phase == Phase::Inside;
            if left.replies > 0 && self.can_apply(i) {
                let fates: &[Fate] = match user.ask {
                    Some(Ask::Create) => &[Fate::Applied, Fate::NotApplied, Fate::Late],
                    Some(Ask::Delete) => &[Fate::Applied, Fate::NotApplied],
                    _ => &[],
                };
                actions.extend(fates.iter().map(|fate| Action::Lose(i, *fate)));
            }
            if left.throttles > 0 && self.can_apply(i) && user.ask == Some(Ask::Create) {
                actions.push(Action::Throttle(i));
            }
            if left.drops > 0 && is_inside && !matches!(user.state(), Some(State::Leaving(_))) {
                actions.push(Action::Drop(i));
            }
            if left.expiries > 0 && matches!(user.phase, Phase::Inside | Phase::Holding) {
                actions.push(Action::Expire(user.session));
            }
        }
        if left.overwrites > 0 && self.node.as_ref().is_some_and(|node| !node.is_overwritten) {
            actions.push(Action::Overwrite);
        }
        if left.deletions > 0 && self.is_unknown() {
            actions.push(Action::Delete);
        }
    }

    /// Ends a session, and all that its users want.
    fn expire(&mut self, session: usize) {
        for user in self.users.iter_mut().filter(|user| user.session == session && user.phase != Phase::Outside) {
            *user = User {
                phase: Phase::Done,
                ask: None,
                answer: None,
                is_watching: false,
                is_late: false,
                ..user.clone()
            };
        }
        if self.node.as_ref().is_some_and(|node| self.users[node.maker].session == session) {
            self.delete();
        }
    }
}

impl Model for Lab {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let user = |&(program, session): &(Program, usize)| User {
            program,
            session,
            phase: Phase::Outside,
            contender: None,
            ask: None,
            answer: None,
            is_watching: false,
            is_late: false,
        };
        let users: Vec<User> = self.users.iter().map(user).collect();
        let taken = vec![Taken::default(); users.len()];
        vec![World { users, node: None, created: 0, taken, left: self.faults }]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        state.progress(actions);
        state.faults(actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut next = last.clone();
        match action {
            Action::Come(i) => next.come(i),
            Action::Apply(i) => next.apply(i),
            Action::Lose(i, fate) => {
                next.left.replies -= 1;
                next.lose(i, fate);
            }
            Action::Throttle(i) => {
                next.left.throttles -= 1;
                next.users[i].answer = Some(Event::Created(Err(CreateError::Failed(Failure::Throttled))));
            }
            Action::ArriveLate(i) => {
                next.users[i].is_late = false;
                // No user waits for the answer.
                let _ = next.create(i);
            }
            Action::Deliver(i) => {
                let answer = next.users[i].answer.take()?;
                next.tell(i, answer);
            }
            Action::Release(i) => {
                next.users[i].phase = Phase::Inside;
                next.tell(i, Event::Leaves);
            }
            Action::Drop(i) => {
                next.left.drops -= 1;
                next.tell(i, Event::Leaves);
                let user = &mut next.users[i];
                user.answer = None;
                user.is_watching = false;
            }
            Action::Expire(session) => {
                next.left.expiries -= 1;
                next.expire(session);
            }
            Action::Overwrite => {
                next.left.overwrites -= 1;
                next.node.as_mut()?.is_overwritten = true;
                next.changed();
            }
            Action::Delete => {
                next.left.deletions -= 1;
                next.delete();
            }
        }
        for user in &mut next.users {
            match user.state() {
                Some(State::Holding) if user.phase == Phase::Inside => user.phase = Phase::Holding,
                Some(State::Leaving(_)) if user.ask.is_none() => user.phase = Phase::Done,
                _ => {}
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSION, |_, state: &World| state.holders().count() <= 1),
            Property::always(HELD, |_, state: &World| {
                let node = state.node.as_ref().map(|node| node.czxid);
                state.holders().all(|holder| holder.czxid() == node)
            }),
            Property::always(SERVED, |_, state: &World| {
                let mut actions = Vec::new();
                state.progress(&mut actions);
                !actions.is_empty() || state.users.iter().all(|user| user.phase == Phase::Done)
            }),
            Property::always(CLEAN, |_, state: &World| {
                let is_done = state.users.iter().all(|user| user.phase == Phase::Done && !user.is_late);
                !is_done || state.node.is_none()
            }),
            Property::sometimes("a user waits while another one holds", |_, state: &World| {
                state.holders().next().is_some() && state.users.iter().any(|user| user.is_watching)
            }),
        ]
    }
}

impl Faults {
    pub(crate) const NONE: Self = Self { replies: 0, throttles: 0, expiries: 0, drops: 0, overwrites: 0, deletions: 0 };
    /// All faults except a server that throttles.
    pub(crate) const ALL: Self = Self { replies: 1, expiries: 1, drops: 1, overwrites: 1, deletions: 1, ..Self::NONE };
}

impl Lab {
    pub(crate) fn new(users: &[(Program, usize)], faults: Faults) -> Self {
        Self { users: users.to_vec(), faults }
    }
}
