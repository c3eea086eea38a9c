//! A model of a semaphore as the library runs it: attempts to take permits ([`Permits`]) and one server. It covers every order of
//! requests, answers, faults and users.
//!
//! Each attempt has a session of its own. The queue for the lease lock has only the properties that [`queue`](super::queue) shows of it.
//! The first to come is the first to be served, and an attempt has the lease lock until its node is deleted.
//!
//! # Faults
//!
//! Each may happen at any moment, as often as [`Faults`] says:
//!
//! * The reply to a request is lost. The request was applied or was not.
//! * The server throttles `create`s, and does not carry them out.
//! * A session expires. Its client knows that before.
//! * A user gives up.
//! * Somebody deletes a lease of a waiter.
//! * Somebody deletes the place of a waiter in the queue for the lease lock.
//! * Somebody lowers the number of permits, perhaps behind the back of an attempt that has just read it.

mod users;

use std::collections::{BTreeMap, BTreeSet};

use campaign::Sights;
use zk_recipes_protocol::permits::{Ask, AttemptOutcome, AttemptState, Event, Flight, Permits};
use zk_recipes_protocol::session_queue::Made;

pub use self::users::{Action, CLEAN, COUNTED, Faults, HELD, PermitsModel, Program, SERVED, Sight};
use super::model::{Memory, Wrongs};

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
    /// `None` before it comes, and after its session has expired.
    attempt: Option<Permits>,
    /// What the attempt asks for, until the answer is delivered.
    ask: Option<Ask>,
    /// The leases of the last ask that were created.
    created: Vec<Made>,
    answer: Option<Event>,
    /// Whether its watch has fired.
    has_changed: bool,
    /// Whether the number of permits was lowered since it listed the leases.
    is_outdated: bool,
    /// Whether there were too few permits for it when a quorum decided its grant.
    is_beyond: bool,
    /// How often it comes again.
    returns: u8,
}

/// The server and the users.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    permits: usize,
    users: Vec<User>,
    /// The leases by name, each with its user.
    leases: BTreeMap<String, usize>,
    created: i32,
    /// The users whose watch is set.
    watches: BTreeSet<usize>,
    /// The users that queue for the lease lock, in order.
    lease_lock_queue: Vec<usize>,
    left: Faults,
    wrongs: Wrongs,
    past: Memory<Past>,
}

/// What the rules and sights need to know of the past.
#[derive(Clone, Debug, Default)]
struct Past {
    sights: Sights,
}

impl Past {
    fn note(&mut self, is_seen: bool, sight: Sight) {
        self.sights.note(is_seen, sight as usize);
    }
}

impl User {
    fn leases(&self) -> &[Made] {
        self.attempt.as_ref().map_or(&[], Permits::leases)
    }

    fn state(&self) -> Option<AttemptState> {
        self.attempt.as_ref().map(Permits::state)
    }

    /// Delivers an event to the attempt.
    fn tell(&mut self, event: Event) {
        let mut asks = Vec::new();
        self.attempt.as_mut().expect("a user that is told an event is there").on(event, &mut asks);
        self.ask = asks.pop();
    }
}

impl World {
    fn come(&mut self, i: usize) {
        let user = &mut self.users[i];
        let (wanted, is_try) = match user.program {
            Program::Take(wanted) => (wanted, false),
            Program::Try(wanted) => (wanted, true),
        };
        let mut asks = Vec::new();
        user.attempt = Some(Permits::enter(wanted, is_try, 2, true, &mut asks));
        user.ask = asks.pop();
        user.phase = Phase::Inside;
    }

    /// Tells whether the server can do something for a user.
    fn can_apply(&self, i: usize) -> bool {
        let user = &self.users[i];
        if user.answer.is_some() || user.phase == Phase::Outside {
            return false;
        }
        match user.ask {
            // The first in the queue has the lease lock.
            Some(Ask::TakeLeaseLock) if self.lease_lock_queue.contains(&i) => self.lease_lock_queue.first() == Some(&i),
            Some(Ask::Wait) => user.has_changed,
            Some(_) => true,
            None => false,
        }
    }

    fn apply(&mut self, i: usize) {
        let Some(ask) = self.users[i].ask.clone() else { unreachable!("BUG: nothing is asked for") };
        let visit = self.users[i].returns;
        let name = |number: i32| format!("_c_{i}.{visit}-lease-{number:010}");
        self.users[i].answer = Some(match ask {
            Ask::Reach(_) => Event::Reached,
            Ask::List => self.listed(i),
            Ask::Watch => {
                self.watches.insert(i);
                self.users[i].has_changed = false;
                self.listed(i)
            }
            Ask::Wait => Event::Changed,
            Ask::TakeLeaseLock if self.lease_lock_queue.contains(&i) => Event::LeaseLock(true),
            Ask::TakeLeaseLock => return self.lease_lock_queue.push(i),
            Ask::TryLeaseLock if !self.lease_lock_queue.is_empty() => Event::LeaseLock(false),
            Ask::TryLeaseLock => {
                self.lease_lock_queue.push(i);
                Event::LeaseLock(true)
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
            Ask::Find => {
                let found = self.unnamed(i);
                self.past.note(true, if found.is_empty() { Sight::FoundNone } else { Sight::Found });
                Event::Found(found)
            }
            Ask::Prove => {
                let leases = self.users[i].leases().len();
                self.users[i].is_beyond = self.granted() + leases > self.permits;
                self.past.note(self.users[i].is_outdated, Sight::Outdated);
                if self.users[i].is_outdated { Event::Changed } else { Event::Proved }
            }
            Ask::LeaveLeaseLock => {
                self.lease_lock_queue.retain(|other| *other != i);
                Event::LeaseLockLeft
            }
            Ask::Delete(names) => {
                names.iter().for_each(|name| self.delete(name));
                Event::Deleted(names)
            }
        });
    }

    fn listed(&mut self, i: usize) -> Event {
        self.users[i].is_outdated = false;
        Event::Listed(self.leases.keys().cloned().collect(), self.permits)
    }

    /// Returns the leases of a user that the user does not know.
    fn unnamed(&self, i: usize) -> Vec<Made> {
        let known: Vec<&String> = self.users[i].leases().iter().map(|lease| &lease.name).collect();
        let prefix = format!("_c_{i}.{}-", self.users[i].returns);
        let of_user = self.leases.keys().filter(|name| name.starts_with(&prefix) && !known.contains(name));
        of_user.map(|name| Made { name: name.clone(), czxid: 1, is_ours: true }).collect()
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

    /// Lowers the number of permits by one.
    fn lower(&mut self) {
        self.permits -= 1;
        self.changed();
        for user in &mut self.users {
            // Only a number that is relied on can be outdated.
            user.is_outdated = user.phase == Phase::Inside && !matches!(user.state(), Some(AttemptState::Leaving(_)));
            self.past.note(user.is_outdated, Sight::Lowered);
        }
    }

    /// Loses a reply. The part of a write that was applied stays.
    fn lose(&mut self, i: usize, is_applied: bool) {
        if is_applied {
            self.apply(i);
        }
        let user = &mut self.users[i];
        user.answer = None;
        if let Some(Ask::Create(count)) = user.ask {
            self.past.note(is_applied && count == 1, Sight::AppliedLost);
            self.past.note(!user.created.is_empty(), Sight::PartlyApplied);
            user.created.clear();
            let flight = Flight { is_to_repeat: true, has_unnamed: true, ..Flight::default() };
            user.answer = Some(Event::Created(flight));
        } else {
            // The shell asks again what is left to delete.
            user.tell(Event::Leaves);
        }
    }

    /// Throttles the `create`s of an ask that were not applied yet.
    fn throttle(&mut self, i: usize) {
        let user = &mut self.users[i];
        let made = std::mem::take(&mut user.created);
        self.past.note(!made.is_empty(), Sight::Throttled);
        user.answer = Some(Event::Created(Flight { made, is_to_repeat: true, ..Flight::default() }));
    }

    /// Lets a user give up. Its last ask is not answered. If that was for the lease lock, its place in the queue is deleted.
    fn give_up(&mut self, i: usize) {
        let user = &mut self.users[i];
        let is_queued = matches!(user.ask, Some(Ask::TakeLeaseLock | Ask::TryLeaseLock));
        user.tell(Event::Leaves);
        user.answer = None;
        user.has_changed = false;
        user.created.clear();
        if is_queued {
            self.lease_lock_queue.retain(|other| *other != i);
        }
    }

    /// Ends the session of a user, and all that the user wants.
    fn expire(&mut self, i: usize) {
        self.past.note(self.users[i].phase == Phase::Holding, Sight::ExpiredHolder);
        self.past.note(self.lease_lock_queue.first() == Some(&i), Sight::ExpiredWithLeaseLock);
        let user = &mut self.users[i];
        *user = User { phase: Phase::Done, attempt: None, ask: None, answer: None, has_changed: false, ..user.clone() };
        self.lease_lock_queue.retain(|other| *other != i);
        self.watches.remove(&i);
        let of_user = self.leases.iter().filter(|(_, user)| **user == i);
        let names: Vec<String> = of_user.map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.delete(name));
    }

    /// Lets users hold, end and come again, as far as their attempts are.
    fn move_users(&mut self) {
        for user in &mut self.users {
            match user.state() {
                Some(AttemptState::Holding) if user.phase == Phase::Inside => user.phase = Phase::Holding,
                Some(AttemptState::Leaving(outcome)) if user.ask.is_none() => {
                    user.phase = Phase::Done;
                    let is_try = matches!(user.program, Program::Try(_));
                    let has_reason = match outcome {
                        AttemptOutcome::Left => true,
                        AttemptOutcome::InTheWay => is_try,
                        AttemptOutcome::NotOwned | AttemptOutcome::NumbersExhausted(_) => false,
                    };
                    self.wrongs.has_ended_without_reason |= !has_reason;
                    self.past.note(outcome == AttemptOutcome::InTheWay, Sight::InTheWay);
                }
                _ => {}
            }
            if user.phase == Phase::Done && user.returns > 0 {
                let returns = user.returns - 1;
                *user = User { phase: Phase::Outside, attempt: None, created: Vec::new(), returns, ..user.clone() };
            }
        }
        self.note_sights();
    }

    fn note_sights(&mut self) {
        let waits = |i: &usize| self.users[*i].ask == Some(Ask::Wait) && self.waits(*i);
        let holding = self.holding();
        let is_waiting = holding > 0 && (0..self.users.len()).any(|i| waits(&i));
        let inside = self.users.iter().filter(|user| matches!(user.phase, Phase::Inside | Phase::Holding)).count();
        let several = self.holders().any(|user| user.leases().len() >= 3);
        self.past.note(is_waiting, Sight::Waits);
        self.past.note(several, Sight::Several);
        self.past.note(inside >= 8, Sight::Crowd);
        self.past.note(self.lease_lock_queue.len() >= 5, Sight::LongQueue);
        self.past.note(self.permits >= 5 && holding == self.permits, Sight::AllHeld);
    }

    /// Tells whether a user waits, even after the answer on its way has arrived.
    fn waits(&self, i: usize) -> bool {
        let mut user = self.users[i].clone();
        if let Some(answer) = user.answer.take() {
            user.tell(answer);
        }
        let is_granted = matches!(user.ask, Some(Ask::Prove | Ask::LeaveLeaseLock));
        user.phase == Phase::Inside && user.state() == Some(AttemptState::Contending) && !is_granted
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
                && matches!(user.ask, Some(Ask::Create(_) | Ask::Delete(_)))
            {
                actions.extend([true, false].map(|is_applied| Action::Lose { user: i, is_applied }));
            }
            if left.throttles > 0 && is_inside && self.can_apply(i) && matches!(user.ask, Some(Ask::Create(_))) {
                actions.push(Action::Throttle(i));
            }
            if left.drops > 0 && is_inside && !matches!(user.state(), Some(AttemptState::Leaving(_))) {
                actions.push(Action::Drop(i));
            }
            if left.expiries > 0 && matches!(user.phase, Phase::Inside | Phase::Holding) {
                actions.push(Action::Expire(i));
            }
            if left.lease_locks > 0 && self.lease_lock_queue.contains(&i) && self.waits(i) {
                actions.push(Action::DeleteLeaseLock(i));
            }
        }
        if left.lowered > 0 {
            actions.push(Action::Lower);
        }
        if left.leases > 0 {
            let of_waiters = self.leases.iter().filter(|(_, user)| self.waits(**user));
            actions.extend(of_waiters.map(|(name, _)| Action::DeleteLease(name.clone())));
        }
    }

    /// Returns the number of permits that were granted, also if the user has not been told yet.
    fn granted(&self) -> usize {
        let is_granted = |user: &&User| match user.phase {
            Phase::Outside | Phase::Done => false,
            Phase::Holding => true,
            Phase::Inside => {
                let is_decided =
                    user.ask == Some(Ask::LeaveLeaseLock) && user.state() == Some(AttemptState::Contending);
                user.answer == Some(Event::Proved) || is_decided || user.state() == Some(AttemptState::Holding)
            }
        };
        self.users.iter().filter(is_granted).map(|user| user.leases().len()).sum()
    }

    fn holders(&self) -> impl Iterator<Item = &User> {
        self.users.iter().filter(|user| user.phase == Phase::Holding)
    }

    fn holding(&self) -> usize {
        self.holders().map(|user| user.leases().len()).sum()
    }
}
