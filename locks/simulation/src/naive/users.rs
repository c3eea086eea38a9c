//! The model of the naive lock: programs, faults, actions, rules and sights.

use campaign::{Sights, rules, sights};
use zk_recipes_protocol::naive::{CreateError, Event, Taken};
use zk_recipes_protocol::session_queue::Failure;

use super::super::model::{Memory, Model, Rule, Wrongs};
use super::{Phase, User, World};

rules! {
    EXCLUSION: "at most one user holds",
    HELD: "a holder has its node",
    SERVED: "every user is served",
    CLEAN: "finished users leave nothing behind",
    TOKENS: "the tokens of holders grow",
}

sights! {
    Waits: "a user waits while another one holds",
    AppliedLost: "a create was applied, and its reply was lost",
    Late: "a create arrives after its contender was told that its reply is lost",
    Recognised: "a contender recognises its own node after a lost reply",
    OverwrittenOwn: "a node whose reply was lost is overwritten",
    DeletionLost: "the reply to a deletion is lost",
    NoDeletion: "a deletion is lost before it was applied",
    InTheWay: "a try finds another contender in the way",
    Throttled: "a create is throttled",
    Refused: "a contender fails because the server refused its create",
    NoParent: "a contender finds no parent, and creates it",
    Herd: "one deletion wakes five waiters",
    ExpiredHolder: "the session of the holder expires",
    Crowd: "eight contenders are there at once",
}

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// It waits for the lock.
    Lock,
    /// It takes the lock if no other contender is in the way.
    Try,
}

/// Upper bounds of the faults.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    pub replies: u8,
    pub throttles: u8,
    pub refusals: u8,
    pub expiries: u8,
    pub drops: u8,
    pub overwrites: u8,
    pub deletions: u8,
    pub parents_gone: u8,
}

/// Users with their sessions, and their faults.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Debug)]
pub struct NaiveModel {
    pub users: Vec<(Program, usize)>,
    pub faults: Faults,
    /// How often each user comes again.
    pub returns: u8,
    /// Whether the client of an expired session connects again, with a new session.
    pub connects_again: bool,
}

/// The fate of a request whose reply is lost.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Applied,
    NotApplied,
    Late,
}

/// What may happen next.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
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
    /// The server refuses a `create`. Whether it certainly made nothing is known or not.
    Refuse {
        user: usize,
        is_certain: bool,
    },
    /// Somebody deletes the parent of the node.
    DeleteParent,
}

impl Model for NaiveModel {
    type State = World;
    type Action = Action;

    const SIGHTS: &'static [&'static str] = Sight::NAMES;
    const PATIENCE: u64 = 45;
    const RULES: &'static [Rule<Self>] = &[
        Rule::new(EXCLUSION, |_, state: &World| state.holders().count() <= 1),
        Rule::new(HELD, |_, state: &World| {
            let node = state.node.as_ref().map(|node| node.czxid);
            state.holders().all(|holder| holder.czxid() == node)
        }),
        Rule::new(SERVED, |model: &Self, state: &World| {
            let mut actions = Vec::new();
            state.progress(&mut actions);
            let is_stuck = actions.is_empty() && !model.is_over(state);
            !is_stuck && !state.wrongs.has_ended_without_reason
        }),
        Rule::new(CLEAN, |_, state: &World| {
            let is_done = state.users.iter().all(|user| user.phase == Phase::Done && !user.is_late);
            !is_done || state.node.is_none()
        }),
        Rule::new(TOKENS, |_, state: &World| !state.wrongs.has_token_shrunk),
    ];

    fn starts(&self) -> Vec<World> {
        let user = |&(program, session): &(Program, usize)| User {
            program,
            session,
            phase: Phase::Outside,
            contender: None,
            ask: None,
            answer: None,
            is_watching: false,
            is_late: false,
            returns: self.returns,
        };
        let users: Vec<User> = self.users.iter().map(user).collect();
        let sessions = self.users.iter().map(|(_, session)| session + 1).max().unwrap_or_default();
        let taken = vec![Taken::default(); sessions];
        let wrongs = Wrongs::default();
        let past = Memory::default();
        vec![World { users, node: None, has_parent: true, created: 0, taken, left: self.faults, wrongs, past }]
    }

    fn progress(&self, state: &World, actions: &mut Vec<Action>) {
        state.progress(actions);
    }

    fn faults(&self, state: &World, actions: &mut Vec<Action>) {
        state.faults(actions);
    }

    fn step(&self, state: &mut World, action: &Action) -> bool {
        state.step(self, *action);
        true
    }

    fn kind(action: &Action) -> usize {
        match action {
            Action::Come(_) => 0,
            Action::Apply(_) => 1,
            Action::Lose(..) => 2,
            Action::Throttle(_) => 3,
            Action::ArriveLate(_) => 4,
            Action::Deliver(_) => 5,
            Action::Release(_) => 6,
            Action::Drop(_) => 7,
            Action::Expire(_) => 8,
            Action::Overwrite => 9,
            Action::Delete => 10,
            Action::Refuse { .. } => 11,
            Action::DeleteParent => 12,
        }
    }

    fn visits(&self, state: &World) -> u64 {
        let left = state.users.iter().map(|user| u64::from(user.returns) + u64::from(user.phase != Phase::Done));
        // Each release wakes all of them.
        left.sum::<u64>() * self.users.len() as u64
    }

    fn is_over(&self, state: &World) -> bool {
        state.users.iter().all(|user| user.phase == Phase::Done)
    }

    fn sights(state: &World) -> Sights {
        state.past.sights
    }
}

impl World {
    fn step(&mut self, model: &NaiveModel, action: Action) {
        let left = &mut self.left;
        match action {
            Action::Come(i) => self.come(i),
            Action::Apply(i) => self.apply(i),
            Action::Lose(i, fate) => {
                left.replies -= 1;
                self.lose(i, fate);
            }
            Action::Throttle(i) => {
                left.throttles -= 1;
                self.users[i].answer = Some(Event::Created(Err(CreateError::Failed(Failure::Throttled))));
            }
            Action::Refuse { user, is_certain } => {
                left.refusals -= 1;
                self.refuse(user, is_certain);
            }
            Action::ArriveLate(i) => {
                self.users[i].is_late = false;
                // No user waits for the answer.
                let is_made = self.create(i).is_ok();
                self.past.note(is_made, Sight::Late);
            }
            Action::Deliver(i) => {
                if let Some(answer) = self.users[i].answer.take() {
                    self.tell(i, answer);
                }
            }
            Action::Release(i) => {
                self.users[i].phase = Phase::Inside;
                self.tell(i, Event::Leaves);
            }
            Action::Drop(i) => {
                left.drops -= 1;
                self.tell(i, Event::Leaves);
                let user = &mut self.users[i];
                user.answer = None;
                user.is_watching = false;
            }
            Action::Expire(session) => {
                left.expiries -= 1;
                self.expire(session, model.connects_again);
            }
            Action::Overwrite => {
                left.overwrites -= 1;
                self.overwrite();
            }
            Action::Delete => {
                left.deletions -= 1;
                self.delete();
            }
            Action::DeleteParent => {
                left.parents_gone -= 1;
                self.has_parent = false;
            }
        }
        self.move_users();
    }
}

#[allow(missing_docs, reason = "the names say it")]
impl Faults {
    pub const NONE: Self = Self {
        replies: 0,
        throttles: 0,
        refusals: 0,
        expiries: 0,
        drops: 0,
        overwrites: 0,
        deletions: 0,
        parents_gone: 0,
    };
    /// All faults except a server that declines requests, and a missing parent.
    pub const ALL: Self = Self { replies: 1, expiries: 1, drops: 1, overwrites: 1, deletions: 1, ..Self::NONE };
}

#[allow(missing_docs, reason = "the names say it")]
impl NaiveModel {
    pub fn new(users: &[(Program, usize)], faults: Faults) -> Self {
        Self { users: users.to_vec(), faults, returns: 0, connects_again: false }
    }
}
