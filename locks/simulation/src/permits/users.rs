//! The model of the semaphore: programs, faults, actions, rules and sights.

use std::collections::{BTreeMap, BTreeSet};

use campaign::{Sights, rules, sights};
use zk_recipes_protocol::permits::{Ask, Event};

use super::super::model::{Memory, Model, Rule, Wrongs};
use super::{Phase, User, World};

rules! {
    COUNTED: "no more permits are held than exist",
    HELD: "every user that holds has a lease for each permit",
    SERVED: "every user is served",
    CLEAN: "finished users leave nothing behind",
}

sights! {
    Waits: "a user waits while another one holds",
    AppliedLost: "leases were created, and the reply was lost",
    PartlyApplied: "a part of the leases was created when the reply was lost",
    Found: "a search finds leases of a lost reply",
    FoundNone: "a search finds no lease of a lost reply",
    Throttled: "a part of the leases was throttled",
    Lowered: "the number of permits is lowered while an attempt relies on it",
    Outdated: "a quorum answers that the number of permits has changed",
    LeaseDeleted: "somebody deletes the lease of a waiter",
    LeaseLockDeleted: "somebody deletes a place in the queue for the lease lock",
    Several: "an attempt holds three permits",
    InTheWay: "a try finds too few permits",
    Crowd: "eight attempts are there at once",
    LongQueue: "five attempts queue for the lease lock",
    ExpiredHolder: "the session of a holder expires",
    ExpiredWithLeaseLock: "the session with the lease lock expires",
    AllHeld: "all permits of five are held",
}

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// It waits for this number of permits.
    Take(usize),
    /// It takes this number of permits if no other attempt is in the way.
    Try(usize),
}

/// Upper bounds of the faults.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    pub replies: u8,
    pub throttles: u8,
    pub expiries: u8,
    pub drops: u8,
    pub leases: u8,
    pub lease_locks: u8,
    pub lowered: u8,
}

/// Users, the number of permits, and the faults.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Debug)]
pub struct PermitsModel {
    pub programs: Vec<Program>,
    pub permits: usize,
    pub faults: Faults,
    /// How often each user comes again.
    pub returns: u8,
}

/// What may happen next.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
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

    const SIGHTS: &'static [&'static str] = Sight::NAMES;
    const PATIENCE: u64 = 120;
    const RULES: &'static [Rule<Self>] = &[
        Rule::new(COUNTED, |model: &Self, state: &World| {
            state.holding() <= model.permits && state.holders().all(|user| !user.is_beyond)
        }),
        Rule::new(HELD, |_, state: &World| {
            state.holders().all(|user| {
                let (Program::Take(wanted) | Program::Try(wanted)) = user.program;
                let leases = user.leases();
                leases.len() == wanted && leases.iter().all(|lease| state.leases.contains_key(&lease.name))
            })
        }),
        Rule::new(SERVED, |model: &Self, state: &World| {
            let mut actions = Vec::new();
            state.progress(&mut actions);
            let is_stuck = actions.is_empty() && !model.is_over(state);
            !is_stuck && !state.wrongs.has_ended_without_reason
        }),
        Rule::new(CLEAN, |model: &Self, state: &World| {
            !model.is_over(state) || state.leases.is_empty() && state.lease_lock_queue.is_empty()
        }),
    ];

    fn starts(&self) -> Vec<World> {
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
            returns: self.returns,
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
            wrongs: Wrongs::default(),
            past: Memory::default(),
        }]
    }

    fn progress(&self, state: &World, actions: &mut Vec<Action>) {
        state.progress(actions);
    }

    fn faults(&self, state: &World, actions: &mut Vec<Action>) {
        state.faults(actions);
    }

    fn step(&self, state: &mut World, action: &Action) -> bool {
        state.step(action);
        true
    }

    fn kind(action: &Action) -> usize {
        match action {
            Action::Come(_) => 0,
            Action::Apply(_) => 1,
            Action::Lose { .. } => 2,
            Action::Throttle(_) => 3,
            Action::Deliver(_) => 4,
            Action::Release(_) => 5,
            Action::Drop(_) => 6,
            Action::Expire(_) => 7,
            Action::DeleteLease(_) => 8,
            Action::DeleteLeaseLock(_) => 9,
            Action::Lower => 10,
        }
    }

    fn visits(&self, state: &World) -> u64 {
        let left = state.users.iter().map(|user| u64::from(user.returns) + u64::from(user.phase != Phase::Done));
        // Each lease that goes wakes all of them.
        left.sum::<u64>() * self.programs.len() as u64
    }

    fn is_over(&self, state: &World) -> bool {
        state.users.iter().all(|user| user.phase == Phase::Done)
    }

    fn sights(state: &World) -> Sights {
        state.past.sights
    }
}

impl World {
    fn step(&mut self, action: &Action) {
        let left = &mut self.left;
        match *action {
            Action::Come(i) => self.come(i),
            Action::Apply(i) => self.apply(i),
            Action::Lose { user, is_applied } => {
                left.replies -= 1;
                self.lose(user, is_applied);
            }
            Action::Throttle(i) => {
                left.throttles -= 1;
                self.throttle(i);
            }
            Action::Deliver(i) => {
                if let Some(answer) = self.users[i].answer.take() {
                    self.users[i].tell(answer);
                }
            }
            Action::Release(i) => {
                self.users[i].phase = Phase::Inside;
                self.users[i].tell(Event::Leaves);
            }
            Action::Drop(i) => {
                left.drops -= 1;
                self.give_up(i);
            }
            Action::Expire(i) => {
                left.expiries -= 1;
                self.expire(i);
            }
            Action::DeleteLease(ref name) => {
                left.leases -= 1;
                self.past.note(true, Sight::LeaseDeleted);
                self.delete(name);
            }
            Action::Lower => {
                left.lowered -= 1;
                self.lower();
            }
            Action::DeleteLeaseLock(i) => {
                left.lease_locks -= 1;
                self.past.note(true, Sight::LeaseLockDeleted);
                self.lease_lock_queue.retain(|other| *other != i);
                if self.users[i].ask == Some(Ask::TakeLeaseLock) {
                    // The user is told, and fails.
                    self.give_up(i);
                }
            }
        }
        self.move_users();
    }
}

#[allow(missing_docs, reason = "the names say it")]
impl Faults {
    pub const NONE: Self =
        Self { replies: 0, throttles: 0, expiries: 0, drops: 0, leases: 0, lease_locks: 0, lowered: 0 };
    /// All faults except a server that throttles and a lowered number.
    pub const ALL: Self = Self { replies: 1, expiries: 1, drops: 1, leases: 1, lease_locks: 1, ..Self::NONE };
    pub const FEW: Self = Self { replies: 1, drops: 1, ..Self::NONE };
}

#[allow(missing_docs, reason = "the names say it")]
impl PermitsModel {
    pub fn new(programs: &[Program], permits: usize, faults: Faults) -> Self {
        Self { programs: programs.to_vec(), permits, faults, returns: 0 }
    }
}
