//! The assumption of the model of the queue, checked by itself: a hold is lost by the client's clock before the server
//! can expire its session, whenever requests are sent, applied and answered, or their replies read.
//!
//! The library's [`Liveness`] runs against a server that expires a session after the session timeout. Reads are answered
//! by a follower that may be cut off from it: they do not reach it, and are answered after the session has expired, too.
//! Clocks go at the same pace, in steps; whatever happens at all happens at such a step.

use std::collections::BTreeSet;
use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::liveness::{ConnectionState, Event, Liveness};

const TIMEOUT_TICKS: u32 = 10;
/// How far each run is followed: long enough to lose a session, get a hold from a late answer, and lose that.
const END_TICKS: u32 = 27;
/// A divisor of the end; together with the timeout it hits both sides of each bound of the library.
const STEP_TICKS: u32 = 3;

const LOST: &str = "a hold is lost before its session expires";

/// A request on its way there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Request {
    sent: u32,
    /// Whether it goes to the leader, and is no read.
    is_proof: bool,
    /// Whether the server has answered.
    answered: bool,
    /// The client's count of losses when it was sent.
    losses: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u32,
    live: Liveness,
    /// When the server last heard the session.
    heard: u32,
    /// A sign of life that was asked for, and a listing that will grant, or the sign of life that it is held back for.
    probe: Option<Request>,
    listing: Option<Request>,
    /// The count of losses from before the grant.
    hold: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Probe,
    Listing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Pass,
    Send(Kind),
    Answer(Kind),
    Receive(Kind),
    /// The connection breaks, and the client gives up the request.
    Break(Kind),
}

fn ticks(ticks: u32) -> Duration {
    Duration::from_secs(ticks.into())
}

impl State {
    fn is_expired(&self) -> bool {
        self.now - self.heard >= TIMEOUT_TICKS
    }

    fn request(&mut self, kind: Kind) -> &mut Option<Request> {
        match kind {
            Kind::Probe => &mut self.probe,
            Kind::Listing => &mut self.listing,
        }
    }

    fn is_lost(&self, losses: u64) -> bool {
        self.live.at(ticks(self.now)).lost_since(losses).is_some()
    }
}

/// A client and a server, and the library's rule or another for what an answer proves.
struct Clocks {
    /// From when on an answer proves that the session lived, given when its request was sent and when it was received.
    proof: fn(u32, u32) -> u32,
    /// Whether the answer to a read proves that, too.
    is_read_proof: bool,
}

impl Model for Clocks {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let live = Liveness::new(ticks(TIMEOUT_TICKS), ticks(0));
        vec![State { now: 0, live, heard: 0, probe: None, listing: None, hold: None }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < END_TICKS {
            actions.push(Action::Pass);
        }
        for (kind, request) in [(Kind::Probe, state.probe), (Kind::Listing, state.listing)] {
            match request {
                None if kind == Kind::Probe || state.hold.is_none() => actions.push(Action::Send(kind)),
                None => {}
                Some(request) => {
                    actions.push(Action::Break(kind));
                    if request.answered {
                        actions.push(Action::Receive(kind));
                    } else if !request.is_proof || !state.is_expired() {
                        actions.push(Action::Answer(kind));
                    }
                }
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        let now = ticks(last.now);
        match action {
            Action::Pass => {
                next.now += STEP_TICKS;
                // A session that has expired hears nothing any more, so that this goes on to be so.
                next.live = next.live.at(ticks(next.now));
            }
            Action::Send(kind) => {
                let losses = next.live.at(now).losses();
                let is_proof = kind == Kind::Probe;
                *next.request(kind) = Some(Request { sent: last.now, is_proof, answered: false, losses });
            }
            Action::Answer(kind) => {
                let request = next.request(kind).as_mut()?;
                request.answered = true;
                if request.is_proof {
                    next.heard = last.now;
                }
            }
            Action::Receive(kind) => {
                let request = next.request(kind).take()?;
                if request.is_proof || self.is_read_proof {
                    next.live.on_answer(now, ticks((self.proof)(request.sent, last.now)));
                } else if next.live.at(now).state() == ConnectionState::Lost {
                    next.listing = Some(Request { sent: last.now, is_proof: true, answered: false, ..request });
                    return Some(next);
                }
                if kind == Kind::Listing {
                    next.hold = Some(request.losses);
                }
            }
            Action::Break(kind) => {
                *next.request(kind) = None;
                next.live.on_event(now, Event::Disconnected);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(LOST, |_, state: &State| {
                !state.is_expired() || state.hold.is_none_or(|losses| state.is_lost(losses))
            }),
            Property::sometimes("a hold outlives a timeout", |_, state: &State| {
                state.now > 2 * TIMEOUT_TICKS && state.hold.is_some_and(|losses| !state.is_lost(losses))
            }),
            Property::sometimes("a hold is had after a loss", |_, state: &State| {
                state.hold.is_some_and(|losses| losses > 0 && !state.is_lost(losses))
            }),
        ]
    }
}

#[test]
fn a_hold_is_lost_by_the_clock_of_its_client_before_the_server_expires_the_session() {
    let checker = Clocks { proof: |sent, _| sent, is_read_proof: false }.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    let states = checker.unique_state_count();
    assert!(states >= 400_000, "only {states} states");
}

fn expect_loss_too_late(clocks: Clocks) {
    let found = HasDiscoveries::AllOf(BTreeSet::from([LOST]));
    clocks.checker().finish_when(found).spawn_bfs().join().assert_any_discovery(LOST);
}

#[test]
fn planted_an_answer_that_counts_from_when_it_was_read_is_found() {
    expect_loss_too_late(Clocks { proof: |_, received| received, is_read_proof: false });
}

#[test]
fn planted_a_read_that_counts_as_a_sign_of_life_is_found() {
    expect_loss_too_late(Clocks { proof: |sent, _| sent, is_read_proof: true });
}
