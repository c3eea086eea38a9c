//! A model of the naive lock as the library runs it: contenders ([`Naive`]) of several sessions and one server. It covers
//! every order of requests, answers, faults and users.
//!
//! # Faults
//!
//! Each may happen at any moment, as often as [`Faults`] says:
//!
//! * The reply to a write is lost. The write was applied or was not. A `create` may also arrive later.
//! * The server throttles or refuses a `create`, and does not carry it out.
//! * A session expires. Its client knows that before.
//! * A user gives up.
//! * Somebody overwrites the data of the node.
//! * Somebody deletes the node, if no contender knows it as its own or is about to learn of it.
//! * Somebody deletes the parent of the node, while there is no node.
//!
//! Before the server answers a `sync` of a user, or creates a node for it, it applies a late `create` of that user.

mod users;

use campaign::Sights;
use zk_recipes_protocol::naive::{Ask, CreateError, Event, Naive, NaiveOutcome, NaiveState, NodeAtPath, Taken};
use zk_recipes_protocol::session_queue::Failure;

pub use self::users::{Action, CLEAN, EXCLUSION, Fate, Faults, HELD, NaiveModel, Program, SERVED, Sight, TOKENS};
use super::model::{Memory, Wrongs};

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
    /// How often it comes again.
    returns: u8,
}

/// The node at the lock's path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MadeNode {
    maker: usize,
    czxid: i64,
    is_overwritten: bool,
}

/// The server and the users.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    users: Vec<User>,
    node: Option<MadeNode>,
    has_parent: bool,
    created: i64,
    /// What the contenders of each session share.
    taken: Vec<Taken>,
    left: Faults,
    wrongs: Wrongs,
    past: Memory<Past>,
}

/// What the rules and sights need to know of the past.
#[derive(Clone, Debug, Default)]
struct Past {
    sights: Sights,
    newest: i64,
    /// Whether a request of any contender was refused.
    has_refused: bool,
}

impl Past {
    fn note(&mut self, is_seen: bool, sight: Sight) {
        self.sights.note(is_seen, sight as usize);
    }
}

impl User {
    fn state(&self) -> Option<NaiveState> {
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
            Ask::CreateParents => {
                self.has_parent = true;
                Event::ParentsCreated(true)
            }
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
        if !self.has_parent {
            self.past.note(true, Sight::NoParent);
            return Err(CreateError::NoParent);
        }
        self.created += 1;
        self.node = Some(MadeNode { maker: i, czxid: self.created, is_overwritten: false });
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

    fn overwrite(&mut self) {
        let Some(node) = &mut self.node else { return };
        node.is_overwritten = true;
        let maker = &self.users[node.maker];
        let is_told = matches!(maker.answer, Some(Event::Created(Ok(_))));
        let is_unknown = maker.phase == Phase::Inside && maker.czxid() != Some(node.czxid) && !is_told;
        self.past.note(is_unknown, Sight::OverwrittenOwn);
        self.changed();
    }

    fn changed(&mut self) {
        let woken = self.users.iter().filter(|user| user.is_watching).count();
        self.past.note(woken >= 5, Sight::Herd);
        self.users.iter_mut().for_each(|user| user.is_watching = false);
    }

    fn lose(&mut self, i: usize, fate: Fate) {
        let is_create = self.users[i].ask == Some(Ask::Create);
        self.past.note(!is_create && fate == Fate::Applied, Sight::DeletionLost);
        self.past.note(!is_create && fate == Fate::NotApplied, Sight::NoDeletion);
        if fate == Fate::Applied {
            self.apply(i);
            let is_made = matches!(self.users[i].answer, Some(Event::Created(Ok(_))));
            self.past.note(is_made, Sight::AppliedLost);
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

    /// Refuses the `create` of a user. If it is not certain that this made nothing, an earlier one without a reply may have.
    fn refuse(&mut self, i: usize, is_certain: bool) {
        self.past.has_refused = true;
        self.users[i].answer = Some(Event::Created(Err(CreateError::Failed(Failure::Refused { is_certain }))));
    }

    /// Lets users hold, end and come again, as far as their contenders are.
    fn move_users(&mut self) {
        let newest = &mut self.past.newest;
        for user in &mut self.users {
            match user.state() {
                Some(NaiveState::Holding) if user.phase == Phase::Inside => {
                    user.phase = Phase::Holding;
                    let token = user.czxid().unwrap_or_default();
                    self.wrongs.has_token_shrunk |= token <= *newest;
                    *newest = token;
                }
                Some(NaiveState::Leaving(_)) if user.ask.is_none() => user.phase = Phase::Done,
                _ => {}
            }
        }
        for i in 0..self.users.len() {
            let user = &self.users[i];
            if let (Phase::Done, Some(NaiveState::Leaving(outcome))) = (user.phase, user.state()) {
                let has_reason = match outcome {
                    NaiveOutcome::Left => true,
                    NaiveOutcome::InTheWay => user.program == Program::Try,
                    NaiveOutcome::Refused => self.past.has_refused,
                };
                self.wrongs.has_ended_without_reason |= !has_reason;
                self.past.note(outcome == NaiveOutcome::InTheWay, Sight::InTheWay);
                self.past.note(outcome == NaiveOutcome::Refused, Sight::Refused);
            }
            let user = &mut self.users[i];
            if user.phase == Phase::Done && user.returns > 0 && !user.is_late {
                *user = User { phase: Phase::Outside, contender: None, returns: user.returns - 1, ..user.clone() };
            }
        }
        let is_waiting = self.users.iter().any(|user| user.is_watching);
        let is_held = self.holders().next().is_some();
        let inside = self.users.iter().filter(|user| matches!(user.phase, Phase::Inside | Phase::Holding)).count();
        self.past.note(is_held && is_waiting, Sight::Waits);
        self.past.note(inside >= 8, Sight::Crowd);
    }

    /// Delivers an event to the contender of a user.
    fn tell(&mut self, i: usize, event: Event) {
        let user = &mut self.users[i];
        let contender = user.contender.as_mut().expect("a user that is told an event is there");
        let mut asks = Vec::new();
        let was_unknown = contender.czxid().is_none();
        contender.on(event, &mut self.taken[user.session], &mut asks);
        user.ask = asks.pop();
        let is_recognised = was_unknown && contender.czxid().is_some() && matches!(event, Event::Read(_));
        self.past.note(is_recognised, Sight::Recognised);
        self.past.note(event == Event::Created(Err(CreateError::Failed(Failure::Throttled))), Sight::Throttled);
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

    fn progress(&self, actions: &mut Vec<Action>) {
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
            if left.refusals > 0 && self.can_apply(i) && user.ask == Some(Ask::Create) {
                actions.extend([true, false].map(|is_certain| Action::Refuse { user: i, is_certain }));
            }
            if left.drops > 0 && is_inside && !matches!(user.state(), Some(NaiveState::Leaving(_))) {
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
        if left.parents_gone > 0 && self.node.is_none() && self.has_parent {
            actions.push(Action::DeleteParent);
        }
    }

    /// Ends a session, and all that its users want. If its client connects again, its users go on in a new session.
    fn expire(&mut self, session: usize, connects_again: bool) {
        let is_holder = self.holders().any(|holder| holder.session == session);
        self.past.note(is_holder, Sight::ExpiredHolder);
        if self.node.as_ref().is_some_and(|node| self.users[node.maker].session == session) {
            self.delete();
        }
        let next = self.taken.len();
        for user in self.users.iter_mut().filter(|user| user.session == session) {
            if user.phase != Phase::Outside {
                *user = User {
                    phase: Phase::Done,
                    ask: None,
                    answer: None,
                    is_watching: false,
                    is_late: false,
                    // It was told that its session has expired.
                    contender: user.contender.take().filter(|_| !connects_again),
                    ..user.clone()
                };
            }
            if connects_again {
                user.session = next;
            }
        }
        if connects_again {
            self.taken.push(Taken::default());
        }
    }
}
