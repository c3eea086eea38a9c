//! What the users of a run do, what may go wrong meanwhile, and what has to hold.

use stateright::{Model, Property};
use zk_recipes_protocol::naive::{CreateError, Event, NaiveState, Taken};
use zk_recipes_protocol::session_queue::Failure;

use super::{Phase, User, World};

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
pub(crate) struct NaiveModel {
    pub(crate) users: Vec<(Program, usize)>,
    pub(crate) faults: Faults,
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

impl Model for NaiveModel {
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
                Some(NaiveState::Holding) if user.phase == Phase::Inside => user.phase = Phase::Holding,
                Some(NaiveState::Leaving(_)) if user.ask.is_none() => user.phase = Phase::Done,
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

impl NaiveModel {
    pub(crate) fn new(users: &[(Program, usize)], faults: Faults) -> Self {
        Self { users: users.to_vec(), faults }
    }
}
