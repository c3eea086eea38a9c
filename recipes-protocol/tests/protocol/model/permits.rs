//! A model of a semaphore as the library runs it: attempts to take permits ([`Permits`]) and one server. It covers every order of
//! requests, answers, faults and users.
//!
//! Each attempt has a session of its own. The queue for the turn has only the properties that [`world`](super::world) shows of it.
//! The first to come is the first to be served, and an attempt has the turn until its node is deleted.
//!
//! # Faults
//!
//! Each may happen at any moment, as often as [`Faults`] says:
//!
//! * The reply to a request is lost. The request was applied or was not.
//! * A session expires. Its client knows that before.
//! * A user gives up.
//! * Somebody deletes a lease of a waiter.
//! * Somebody deletes the place of a waiter in the queue for the turn.

use std::collections::{BTreeMap, BTreeSet};

use stateright::{Checker, Model, Property};
use zk_recipes_protocol::permits::{Ask, Event, Flight, Permits};
use zk_recipes_protocol::session_queue::Made;

pub(crate) const COUNTED: &str = "no more hold than there are permits";
pub(crate) const HELD: &str = "every permit that is held has its lease";
pub(crate) const SERVED: &str = "everybody is served";
pub(crate) const CLEAN: &str = "whoever is finished has left nothing behind";

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
    pub(crate) expiries: u8,
    pub(crate) drops: u8,
    pub(crate) leases: u8,
    pub(crate) turns: u8,
}

/// Users, the number of permits, and the faults.
#[derive(Clone, Debug)]
pub(crate) struct Lab {
    pub(crate) programs: Vec<Program>,
    pub(crate) permits: usize,
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

/// One user with its attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct User {
    program: Program,
    phase: Phase,
    attempt: Permits,
    /// The leases of the last ask that were created.
    created: Vec<Made>,
    answer: Option<Event>,
    /// Whether its watch has fired.
    has_changed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    permits: usize,
    users: Vec<User>,
    /// The leases by name, each with its user.
    leases: BTreeMap<String, usize>,
    created: i32,
    /// The users whose watch is set.
    watches: BTreeSet<usize>,
    /// The users that queue for the turn, in order.
    turns: Vec<usize>,
    left: Faults,
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
    Deliver(usize),
    Release(usize),
    Drop(usize),
    Expire(usize),
    DeleteLease(String),
    DeleteTurn(usize),
}

impl World {
    fn ask(&self, i: usize) -> Ask {
        self.users[i].attempt.clone().ask()
    }

    /// Tells whether the server can do something for a user.
    fn can_apply(&self, i: usize) -> bool {
        let user = &self.users[i];
        if user.answer.is_some() || user.phase == Phase::Outside {
            return false;
        }
        match self.ask(i) {
            // The first in the queue has the turn.
            Ask::TakeTurn if self.turns.contains(&i) => self.turns.first() == Some(&i),
            Ask::Wait => user.has_changed,
            Ask::Hold | Ask::End(_) => false,
            _ => true,
        }
    }

    fn apply(&mut self, i: usize) {
        let ask = self.users[i].attempt.ask();
        let name = |number: i32| format!("_c_{i}-lease-{number:010}");
        self.users[i].answer = Some(match ask {
            Ask::Reach(_) => Event::Reached,
            Ask::List => self.listed(),
            Ask::Watch => {
                self.watches.insert(i);
                self.users[i].has_changed = false;
                self.listed()
            }
            Ask::Wait => Event::Changed,
            Ask::TakeTurn if self.turns.contains(&i) => Event::Turn(true),
            Ask::TakeTurn => return self.turns.push(i),
            Ask::TryTurn if !self.turns.is_empty() => Event::Turn(false),
            Ask::TryTurn => {
                self.turns.push(i);
                Event::Turn(true)
            }
            Ask::Create(count) => {
                let name = name(self.created);
                self.created += 1;
                self.leases.insert(name.clone(), i);
                self.changed();
                let user = &mut self.users[i];
                user.created.push(Made { name, czxid: i64::from(self.created), is_ours: true });
                if user.created.len() < count {
                    return;
                }
                Event::Created(Flight { made: std::mem::take(&mut user.created), ..Flight::default() })
            }
            Ask::CreateParent => Event::ParentCreated,
            Ask::Pause => Event::Paused,
            Ask::Find => Event::Found(self.unnamed(i)),
            Ask::Prove => Event::Proved,
            Ask::LeaveTurn => {
                self.turns.retain(|other| *other != i);
                Event::TurnLeft
            }
            Ask::Delete(names) => {
                names.iter().for_each(|name| self.delete(name));
                Event::Deleted(names)
            }
            Ask::Hold | Ask::End(_) => unreachable!("BUG: nothing is asked for"),
        });
    }

    fn listed(&self) -> Event {
        Event::Listed(self.leases.keys().cloned().collect(), self.permits)
    }

    /// Returns the leases of a user that the user does not know.
    fn unnamed(&self, i: usize) -> Vec<Made> {
        let known: Vec<&String> = self.users[i].attempt.leases().iter().map(|lease| &lease.name).collect();
        let of_user = self.leases.iter().filter(|(name, user)| **user == i && !known.contains(name));
        of_user.map(|(name, _)| Made { name: name.clone(), czxid: 1, is_ours: true }).collect()
    }

    fn delete(&mut self, name: &str) {
        if self.leases.remove(name).is_some() {
            self.changed();
        }
    }

    fn changed(&mut self) {
        for i in std::mem::take(&mut self.watches) {
            self.users[i].has_changed = true;
        }
    }

    /// Loses a reply. The part of a write that was applied stays.
    fn lose(&mut self, i: usize, is_applied: bool) {
        let ask = self.ask(i);
        if is_applied {
            self.apply(i);
        }
        let user = &mut self.users[i];
        user.attempt.ask();
        user.answer = match ask {
            Ask::Create(_) => {
                user.created.clear();
                Some(Event::Created(Flight { is_reply_lost: true, has_unnamed: true, ..Flight::default() }))
            }
            // The attempt asks for it again.
            _ => None,
        };
    }

    /// Lets a user give up. Its last ask is not answered. If that was for the turn, its place in the queue is deleted.
    fn give_up(&mut self, i: usize) {
        let is_queued = matches!(self.ask(i), Ask::TakeTurn | Ask::TryTurn);
        let user = &mut self.users[i];
        user.attempt.leave();
        (user.answer, user.has_changed) = (None, false);
        user.created.clear();
        if is_queued {
            self.turns.retain(|other| *other != i);
        }
    }

    /// Tells whether a user waits, even after the answer on its way has arrived.
    fn waits(&self, i: usize) -> bool {
        let user = &self.users[i];
        let mut attempt = user.attempt.clone();
        if let Some(answer) = user.answer.clone() {
            attempt.on(answer);
        }
        let is_granted = matches!(attempt.ask(), Ask::Prove | Ask::LeaveTurn | Ask::Hold);
        user.phase == Phase::Inside && attempt.outcome().is_none() && !is_granted
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
        }
    }

    fn faults(&self, actions: &mut Vec<Action>) {
        let left = &self.left;
        for (i, user) in self.users.iter().enumerate() {
            let is_inside = user.phase == Phase::Inside;
            if left.replies > 0
                && is_inside
                && self.can_apply(i)
                && matches!(self.ask(i), Ask::Create(_) | Ask::Delete(_))
            {
                actions.extend([true, false].map(|is_applied| Action::Lose { user: i, is_applied }));
            }
            if left.drops > 0 && is_inside && user.attempt.outcome().is_none() {
                actions.push(Action::Drop(i));
            }
            if left.expiries > 0 && matches!(user.phase, Phase::Inside | Phase::Holding) {
                actions.push(Action::Expire(i));
            }
            if left.turns > 0 && self.turns.contains(&i) && self.waits(i) {
                actions.push(Action::DeleteTurn(i));
            }
        }
        if left.leases > 0 {
            let of_waiters = self.leases.iter().filter(|(_, user)| self.waits(**user));
            actions.extend(of_waiters.map(|(name, _)| Action::DeleteLease(name.clone())));
        }
    }

    fn holding(&self) -> usize {
        let holding = self.users.iter().filter(|user| user.phase == Phase::Holding);
        holding.map(|user| user.attempt.leases().len()).sum()
    }
}

impl Model for Lab {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let user = |program: &Program| {
            let (wanted, is_try) = match *program {
                Program::Take(wanted) => (wanted, false),
                Program::Try(wanted) => (wanted, true),
            };
            let attempt = Permits::new(wanted, is_try, 2, true);
            User {
                program: *program,
                phase: Phase::Outside,
                attempt,
                created: Vec::new(),
                answer: None,
                has_changed: false,
            }
        };
        let (users, leases) = (self.programs.iter().map(user).collect(), BTreeMap::new());
        vec![World {
            permits: self.permits,
            users,
            leases,
            created: 0,
            watches: BTreeSet::new(),
            turns: Vec::new(),
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
            Action::Come(i) => next.users[i].phase = Phase::Inside,
            Action::Apply(i) => next.apply(i),
            Action::Lose { user, is_applied } => {
                next.left.replies -= 1;
                next.lose(user, is_applied);
            }
            Action::Deliver(i) => {
                let answer = next.users[i].answer.take()?;
                next.users[i].attempt.on(answer);
            }
            Action::Release(i) => {
                next.users[i].phase = Phase::Inside;
                next.users[i].attempt.leave();
            }
            Action::Drop(i) => {
                next.left.drops -= 1;
                next.give_up(i);
            }
            Action::Expire(i) => {
                next.left.expiries -= 1;
                next.users[i].phase = Phase::Done;
                next.users[i].attempt = Permits::ended();
                (next.users[i].answer, next.users[i].has_changed) = (None, false);
                next.turns.retain(|other| *other != i);
                next.watches.remove(&i);
                let of_user: Vec<String> =
                    next.leases.iter().filter(|(_, user)| **user == i).map(|(name, _)| name.clone()).collect();
                of_user.iter().for_each(|name| next.delete(name));
            }
            Action::DeleteLease(name) => {
                next.left.leases -= 1;
                next.delete(&name);
            }
            Action::DeleteTurn(i) => {
                next.left.turns -= 1;
                next.turns.retain(|other| *other != i);
                if next.ask(i) == Ask::TakeTurn {
                    // The user is told, and fails.
                    next.give_up(i);
                }
            }
        }
        for user in &mut next.users {
            match user.attempt.clone().ask() {
                Ask::Hold if user.phase == Phase::Inside => user.phase = Phase::Holding,
                Ask::End(_) => (user.phase, user.answer) = (Phase::Done, None),
                _ => {}
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(COUNTED, |lab: &Self, state: &World| state.holding() <= lab.permits),
            Property::always(HELD, |_, state: &World| {
                let holders = state.users.iter().filter(|user| user.phase == Phase::Holding);
                holders.flat_map(|user| user.attempt.leases()).all(|lease| state.leases.contains_key(&lease.name))
            }),
            Property::always(SERVED, |_, state: &World| {
                let mut actions = Vec::new();
                state.progress(&mut actions);
                !actions.is_empty() || state.users.iter().all(|user| user.phase == Phase::Done)
            }),
            Property::always(CLEAN, |_, state: &World| {
                let is_done = state.users.iter().all(|user| user.phase == Phase::Done);
                !is_done || state.leases.is_empty() && state.turns.is_empty()
            }),
            Property::sometimes("somebody waits while another holds", |_, state: &World| {
                state.holding() > 0 && (0..state.users.len()).any(|i| state.waits(i) && state.ask(i) == Ask::Wait)
            }),
        ]
    }
}

impl Faults {
    pub(crate) const NONE: Self = Self { replies: 0, expiries: 0, drops: 0, leases: 0, turns: 0 };
    pub(crate) const ALL: Self = Self { replies: 1, expiries: 1, drops: 1, leases: 1, turns: 1 };
    pub(crate) const FEW: Self = Self { replies: 1, drops: 1, ..Self::NONE };
}

impl Lab {
    pub(crate) fn new(programs: &[Program], permits: usize, faults: Faults) -> Self {
        Self { programs: programs.to_vec(), permits, faults }
    }

    /// Checks every run. The number of states is pinned, so that a change of the model is noticed.
    #[track_caller]
    pub(crate) fn check(&self, states: usize) {
        let checker = self.clone().checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        assert_eq!(checker.unique_state_count(), states, "{self:?}");
    }
}
