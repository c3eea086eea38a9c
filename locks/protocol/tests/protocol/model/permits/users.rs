//! What the users of a run do, what may go wrong meanwhile, and what has to hold.

use std::collections::{BTreeMap, BTreeSet};

use stateright::{Model, Property};
use zk_recipes_protocol::permits::{Ask, AttemptState, Event};

use super::{Phase, User, World};

pub(crate) const COUNTED: &str = "no more permits are held than exist";
pub(crate) const HELD: &str = "every user that holds has a lease for each permit";
pub(crate) const SERVED: &str = "every user is served";
pub(crate) const CLEAN: &str = "finished users leave nothing behind";

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Program {
    /// It waits for this number of permits.
    Take(usize),
    /// It takes this number of permits if no other attempt is in the way.
    Try(usize),
}

/// Upper bounds of the faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    pub(crate) replies: u8,
    pub(crate) throttles: u8,
    pub(crate) expiries: u8,
    pub(crate) drops: u8,
    pub(crate) leases: u8,
    pub(crate) lease_locks: u8,
    pub(crate) lowered: u8,
}

/// Users, the number of permits, and the faults.
#[derive(Clone, Debug)]
pub(crate) struct PermitsModel {
    pub(crate) programs: Vec<Program>,
    pub(crate) permits: usize,
    pub(crate) faults: Faults,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Come(usize),
    /// The server carries out a part of what was asked for, or all of it.
    Apply(usize),
    /// The reply is lost. The request is applied as by `Apply`, or not at all.
    Lose {
        user: usize,
        is_applied: bool,
    },
    Throttle(usize),
    Deliver(usize),
    Release(usize),
    Drop(usize),
    Expire(usize),
    DeleteLease(String),
    DeleteLeaseLock(usize),
    Lower,
}

impl Model for PermitsModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let user = |program: &Program| User {
            program: *program,
            phase: Phase::Outside,
            attempt: None,
            ask: None,
            created: Vec::new(),
            answer: None,
            has_changed: false,
            is_outdated: false,
            is_beyond: false,
        };
        let users = self.programs.iter().map(user).collect();
        vec![World {
            permits: self.permits,
            users,
            leases: BTreeMap::new(),
            created: 0,
            watches: BTreeSet::new(),
            lease_lock_queue: Vec::new(),
            left: self.faults,
        }]
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
            Action::Lose { user, is_applied } => {
                next.left.replies -= 1;
                next.lose(user, is_applied);
            }
            Action::Throttle(i) => {
                next.left.throttles -= 1;
                next.throttle(i);
            }
            Action::Deliver(i) => {
                let answer = next.users[i].answer.take()?;
                next.users[i].tell(answer);
            }
            Action::Release(i) => {
                next.users[i].phase = Phase::Inside;
                next.users[i].tell(Event::Leaves);
            }
            Action::Drop(i) => {
                next.left.drops -= 1;
                next.give_up(i);
            }
            Action::Expire(i) => {
                next.left.expiries -= 1;
                let user = &mut next.users[i];
                *user = User {
                    phase: Phase::Done,
                    attempt: None,
                    ask: None,
                    answer: None,
                    has_changed: false,
                    ..user.clone()
                };
                next.lease_lock_queue.retain(|other| *other != i);
                next.watches.remove(&i);
                let of_user: Vec<String> =
                    next.leases.iter().filter(|(_, user)| **user == i).map(|(name, _)| name.clone()).collect();
                of_user.iter().for_each(|name| next.delete(name));
            }
            Action::DeleteLease(name) => {
                next.left.leases -= 1;
                next.delete(&name);
            }
            Action::Lower => {
                next.left.lowered -= 1;
                next.lower();
            }
            Action::DeleteLeaseLock(i) => {
                next.left.lease_locks -= 1;
                next.lease_lock_queue.retain(|other| *other != i);
                if next.users[i].ask == Some(Ask::TakeLeaseLock) {
                    // The user is told, and fails.
                    next.give_up(i);
                }
            }
        }
        for user in &mut next.users {
            match user.state() {
                Some(AttemptState::Holding) if user.phase == Phase::Inside => user.phase = Phase::Holding,
                Some(AttemptState::Leaving(_)) if user.ask.is_none() => user.phase = Phase::Done,
                _ => {}
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(COUNTED, |lab: &Self, state: &World| {
                let mut holders = state.users.iter().filter(|user| user.phase == Phase::Holding);
                state.holding() <= lab.permits && holders.all(|user| !user.is_beyond)
            }),
            Property::always(HELD, |_, state: &World| {
                let mut holders = state.users.iter().filter(|user| user.phase == Phase::Holding);
                holders.all(|user| {
                    let (Program::Take(wanted) | Program::Try(wanted)) = user.program;
                    let leases = user.leases();
                    leases.len() == wanted && leases.iter().all(|lease| state.leases.contains_key(&lease.name))
                })
            }),
            Property::always(SERVED, |_, state: &World| {
                let mut actions = Vec::new();
                state.progress(&mut actions);
                !actions.is_empty() || state.users.iter().all(|user| user.phase == Phase::Done)
            }),
            Property::always(CLEAN, |_, state: &World| {
                let is_done = state.users.iter().all(|user| user.phase == Phase::Done);
                !is_done || state.leases.is_empty() && state.lease_lock_queue.is_empty()
            }),
            Property::sometimes("a user waits while another one holds", |_, state: &World| {
                state.holding() > 0
                    && (0..state.users.len()).any(|i| state.waits(i) && state.users[i].ask == Some(Ask::Wait))
            }),
        ]
    }
}

impl Faults {
    pub(crate) const NONE: Self =
        Self { replies: 0, throttles: 0, expiries: 0, drops: 0, leases: 0, lease_locks: 0, lowered: 0 };
    /// All faults except a server that throttles and a lowered number.
    pub(crate) const ALL: Self = Self { replies: 1, expiries: 1, drops: 1, leases: 1, lease_locks: 1, ..Self::NONE };
    pub(crate) const FEW: Self = Self { replies: 1, drops: 1, ..Self::NONE };
}

impl PermitsModel {
    pub(crate) fn new(programs: &[Program], permits: usize, faults: Faults) -> Self {
        Self { programs: programs.to_vec(), permits, faults }
    }
}
