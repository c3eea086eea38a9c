//! The simulated drain of a queue-shaped recipe: its clock, its events, and who holds when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use loadgen::stats::median;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use zk_recipes::CohortMutex;
use zk_recipes_protocol::cohort::{Bounds, Entry, Standing, Step, Turns};
use zk_recipes_protocol::number_proof::NumberProof;
use zk_recipes_protocol::stat::ParentCzxid;

use super::model::Times;
use super::place::{Move, Place};
use super::server::{Answer, Ask, INCARNATION, Leave, Served, Server};
use super::{LatencyModel, Point, Recipe, ns_to_ms};

/// Something that happens at a moment.
#[derive(Debug)]
enum Event {
    /// A request comes to the server.
    Arrives {
        place: usize,
        ask: Ask,
    },
    /// The server is free again.
    Serves,
    Answered {
        place: usize,
        answer: Answer,
    },
    Notified {
        place: usize,
    },
    /// A holder passes the lock on to the place directly behind, of the same session.
    Passed {
        place: usize,
    },
    /// A holder hands the lock over to the next of its process.
    HandedOver {
        place: usize,
        waiter: usize,
    },
}

/// What the contenders of one session know together.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Whether the last contender that watched another found it there.
    pub(super) is_busy: bool,
    /// The number before which nobody is any more.
    pub(super) floor: Option<u32>,
    pub(super) number_proof: NumberProof,
    /// Whether the lock's node is watched.
    pub(super) watches_parent: bool,
    turns: Turns<usize>,
    /// How often a cohort has handed its hold over unasked, and since when.
    handovers_unasked: u32,
    unasked_since_ns: u64,
}

impl Session {
    /// The incarnation of the lock's node, if it is watched.
    pub(super) fn watched(&self) -> Option<ParentCzxid> {
        self.watches_parent.then_some(INCARNATION)
    }
}

/// A drain under way.
pub(super) struct Drain {
    pub(super) recipe: Recipe,
    pub(super) now_ns: u64,
    times: Times,
    server: Server,
    is_serving: bool,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    /// What happens, by the number of the event.
    what: std::collections::HashMap<u64, Event>,
    events_so_far: u64,
    pub(super) sessions: Vec<Session>,
    pub(super) places: Vec<Place>,
    /// The place of each number, from number 1 on.
    by_number: Vec<usize>,
    /// Those who have yet to ask, in the order in which they will.
    to_ask: Vec<usize>,
    /// The first holder, until everybody else waits.
    first: Option<usize>,
    released_ns: Option<u64>,
    began_ns: u64,
    ended_ns: u64,
    handovers_ms: Vec<f64>,
    granted: u32,
}

/// Simulates a drain of `waiters` over so many `sessions`. The seed decides in which order those ask who ask at once.
pub(super) fn drain(recipe: Recipe, waiters: u32, sessions: u32, seed: u32, model: &LatencyModel) -> Point {
    let sessions = sessions.min(waiters).max(1);
    let mut to_ask: Vec<usize> = (1..waiters as usize).collect();
    to_ask.shuffle(&mut ChaCha8Rng::seed_from_u64(u64::from(seed)));
    let mut drain = Drain {
        recipe,
        now_ns: 0,
        times: Times::of(model),
        server: Server::new(recipe, model),
        is_serving: false,
        events: BinaryHeap::new(),
        what: std::collections::HashMap::new(),
        events_so_far: 0,
        sessions: (0..sessions).map(|_| Session::default()).collect(),
        places: Vec::new(),
        by_number: vec![usize::MAX],
        to_ask,
        first: None,
        released_ns: None,
        began_ns: 0,
        ended_ns: 0,
        handovers_ms: Vec::new(),
        granted: 0,
    };
    drain.wants(0);
    drain.run();
    let tally = drain.server.tally;
    assert_eq!(drain.granted, waiters, "BUG: a simulated waiter was never granted the lock");
    Point {
        waiters,
        sessions,
        notifications: tally.notifications,
        requests: tally.requests,
        bytes: tally.bytes,
        handover_ms: median(&drain.handovers_ms),
        drain_ms: ns_to_ms(drain.ended_ns - drain.began_ns),
    }
}

impl Drain {
    fn run(&mut self) {
        loop {
            while let Some(Reverse((at_ns, number))) = self.events.pop() {
                self.now_ns = at_ns;
                if let Some(event) = self.what.remove(&number) {
                    self.happens(event);
                }
            }
            // Nothing is under way any more: everybody waits for the first holder.
            let Some(place) = self.first.take() else { return };
            self.began_ns = self.now_ns;
            self.lets_go(place, None);
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrives { place, ask } => {
                self.server.arrive(self.places[place].session, place, ask);
                if !std::mem::replace(&mut self.is_serving, true) {
                    self.at(0, Event::Serves);
                }
            }
            Event::Serves => self.serve(),
            Event::Answered { place, answer } => {
                if matches!(answer, Answer::Deleted) {
                    self.is_gone(place);
                } else if let Answer::Alone(is_alone) = answer {
                    self.lets_go(place, Some(is_alone));
                } else {
                    let step = self.answered(place, answer);
                    self.goes(place, step);
                }
            }
            Event::Notified { place } => {
                let step = self.notified(place);
                self.goes(place, step);
            }
            Event::Passed { place } => {
                self.places[place].is_passed = true;
                self.grant(place);
            }
            Event::HandedOver { place, waiter } => {
                let session = &mut self.sessions[self.places[place].session];
                session.handovers_unasked += 1;
                self.places[place].waiter = waiter;
                self.holds(place);
            }
        }
    }

    /// Lets the server serve what has come, if anything has.
    fn serve(&mut self) {
        if !self.server.has_work() {
            self.is_serving = false;
            return;
        }
        let Served { until_ns, answers, notified } = self.server.serve(self.now_ns);
        let way_ns = self.times.way_ns;
        for (left_ns, place) in notified {
            self.at(left_ns - self.now_ns + way_ns, Event::Notified { place });
        }
        for (left_ns, place, answer) in answers {
            self.at(left_ns - self.now_ns + way_ns, Event::Answered { place, answer });
        }
        self.at(until_ns - self.now_ns, Event::Serves);
    }

    fn at(&mut self, in_ns: u64, event: Event) {
        self.events_so_far += 1;
        self.events.push(Reverse((self.now_ns + in_ns, self.events_so_far)));
        self.what.insert(self.events_so_far, event);
    }

    pub(super) fn send(&mut self, place: usize, ask: Ask) {
        self.at(self.times.way_ns, Event::Arrives { place, ask });
    }

    fn session_of(&mut self, place: usize) -> &mut Session {
        let session = self.places[place].session;
        &mut self.sessions[session]
    }

    /// A waiter asks for the lock: with a place of its own in the queue, or with the turn of its cohort.
    fn wants(&mut self, waiter: usize) {
        let session = waiter % self.sessions.len();
        if self.recipe == Recipe::Cohort {
            let turns = &mut self.sessions[session].turns;
            if turns.take() != Entry::Turn {
                turns.wait(waiter);
                return;
            }
        }
        self.queues(session, waiter);
    }

    fn queues(&mut self, session: usize, waiter: usize) {
        let place = self.places.len();
        self.places.push(Place::new(session, waiter));
        self.enqueue(place);
    }

    /// Does what a place has decided.
    fn goes(&mut self, place: usize, step: Move) {
        match step {
            Move::Wait => {}
            Move::Ask(ask) => self.send(place, ask),
            Move::Hold => self.grant(place),
        }
    }

    /// A place is granted the lock.
    fn grant(&mut self, place: usize) {
        self.note_grant(place);
        let now_ns = self.now_ns;
        let session = self.session_of(place);
        (session.handovers_unasked, session.unasked_since_ns) = (0, now_ns);
        self.holds(place);
    }

    /// The waiter of a place holds the lock, and gives it back at once: the first of all once everybody waits.
    fn holds(&mut self, place: usize) {
        self.granted += 1;
        if let Some(released_ns) = self.released_ns {
            self.handovers_ms.push(ns_to_ms(self.now_ns - released_ns));
            self.lets_go(place, None);
            return;
        }
        self.first = Some(place);
        for waiter in std::mem::take(&mut self.to_ask) {
            self.wants(waiter);
        }
    }

    /// The holder hands the lock over within its process, or releases it.
    fn lets_go(&mut self, place: usize, is_alone: Option<bool>) {
        if is_alone.is_none() {
            self.released_ns = Some(self.now_ns);
        }
        if self.recipe != Recipe::Cohort {
            self.release(place);
            return;
        }
        let (number, now_ns) = (self.places[place].number(), self.now_ns);
        let session = self.session_of(place);
        if is_alone == Some(true) {
            (session.handovers_unasked, session.unasked_since_ns) = (0, now_ns);
        }
        let bounds = Bounds { max_handovers: CohortMutex::MAX_HANDOVERS, max_hold: CohortMutex::MAX_HOLD };
        let held_for = Duration::from_nanos(now_ns - session.unasked_since_ns);
        let is_within_bounds = bounds.allow(session.handovers_unasked, held_for);
        match session.turns.let_go(Standing { is_lost: false, is_within_bounds, is_alone }) {
            Step::HandOver(waiter) => self.at(self.times.handover_ns, Event::HandedOver { place, waiter }),
            Step::Ask => self.send(place, Ask::Alone(number)),
            Step::Release => self.release(place),
        }
    }

    /// Deletes the node of a place, and passes the lock on if the place directly behind is of the same session.
    fn release(&mut self, place: usize) {
        let (number, follower) = (self.places[place].number(), self.places[place].follower.take());
        let leave = match self.recipe {
            _ if follower.is_some() => Leave::Beside,
            Recipe::Handoff => Leave::Note,
            Recipe::Naive | Recipe::Mutex | Recipe::Cohort => Leave::Nothing,
        };
        self.send(place, Ask::Delete(number, leave));
        if let Some(grant) = self.places[place].grant.take() {
            self.session_of(place).number_proof.released(grant);
        }
        if let Some(follower) = follower {
            self.at(self.times.handover_ns, Event::Passed { place: follower });
        }
    }

    /// The server has confirmed that the node of a place has gone.
    fn is_gone(&mut self, place: usize) {
        self.ended_ns = self.ended_ns.max(self.now_ns);
        self.places[place].is_gone = true;
        if self.recipe == Recipe::Cohort
            && let Some(waiter) = self.session_of(place).turns.pass()
        {
            let session = self.places[place].session;
            self.queues(session, waiter);
        }
    }

    /// Notes the number that the server gave to a place.
    pub(super) fn is_numbered(&mut self, place: usize, number: u32) {
        debug_assert_eq!(self.by_number.len(), number as usize, "the server numbers one after the other");
        self.by_number.push(place);
    }

    /// The place with the number before, if it is of the same session and has not been seen to go.
    pub(super) fn member_before(&self, place: usize) -> Option<usize> {
        let number = self.places[place].number().checked_sub(1)?;
        let before = *self.by_number.get(number as usize)?;
        let found = self.places.get(before)?;
        (found.session == self.places[place].session && !found.is_gone).then_some(before)
    }
}
