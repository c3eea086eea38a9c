//! The assumption of the model of the queue, checked by itself: a hold is lost by the client's clock before the leader can
//! expire its session.
//!
//! The library's [`Liveness`] runs against a follower and a leader. The follower hears the session and tells the leader with
//! each ping. A proof is committed by the leader and does not renew the session. At any moment the follower stands still, the
//! leader is deposed, the process is paused, or the connection goes and the session connects to a server that grants less.
//! Clocks go at the same pace, in steps; whatever happens at all happens at such a step.

use std::collections::BTreeSet;
use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::liveness::{Event, Liveness, Margins};

/// The session timeout, the shortest that is granted.
const TIMEOUT: u32 = 48;
/// A longer one that another server has granted before.
const LONG_TIMEOUT: u32 = 96;
/// How far each run is followed: long enough to lose a session.
const END: u32 = TIMEOUT + 3 * STEP;
/// As often the client library sends something.
const STEP: u32 = TIMEOUT / 8;

const LOST: &str = "a hold is lost before its session expires";

/// A request on its way there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Request {
    /// From when on it counts.
    sent: u32,
    answered: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u32,
    live: Liveness,
    /// The session timeout at the leader, and when the leader heard the session last.
    timeout: u32,
    heard: u32,
    /// Whether the follower has heard the session since its last ping, and when that was.
    is_touched: bool,
    pinged: u32,
    /// Whether the follower, or the leader that it follows, can do nothing any more.
    is_still: bool,
    is_deposed: bool,
    is_paused: bool,
    proof: Option<Request>,
    /// A handshake with a server that grants less.
    handshake: Option<Request>,
    has_connected_anew: bool,
    /// The count of losses at the grant.
    hold: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Pass,
    Ping,
    Send,
    Commit,
    Receive,
    Grant,
    StandStill,
    Depose,
    Pause,
    Resume,
    /// The connection goes, and the session sends its handshake to another server.
    Attach,
    TakeIn,
    Attached,
}

/// The library's rules, or others.
#[derive(Clone, Copy)]
struct Clocks {
    /// How often the follower pings the leader, and the tick that the client was told.
    ping_after: u32,
    tick: Option<u32>,
    /// What may happen.
    pauses: bool,
    attaches: bool,
    /// From when on a proof counts, given when it was sent and when its answer was received.
    proof: fn(u32, u32) -> u32,
    /// Whether a leader that was deposed answers a proof.
    is_sync_proof: bool,
    /// Whether the client knows that it was paused.
    knows_pauses: bool,
    /// Whether the client asks a server what it grants before it connects.
    asks: bool,
}

const RULES: Clocks = Clocks {
    ping_after: TIMEOUT / 4,
    tick: None,
    pauses: false,
    attaches: false,
    proof: |sent, _| sent,
    is_sync_proof: false,
    knows_pauses: true,
    asks: true,
};

fn time(time: u32) -> Duration {
    Duration::from_secs(time.into())
}

impl State {
    fn is_expired(&self) -> bool {
        self.now - self.heard >= self.timeout
    }

    fn is_lost(&self, losses: u64) -> bool {
        self.live.at(time(self.now)).lost_since(losses).is_some()
    }
}

impl Model for Clocks {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let timeout = if self.attaches { LONG_TIMEOUT } else { TIMEOUT };
        let margins = Margins::new(time(timeout), self.tick.map(time));
        // The first ping comes sooner or later.
        let created_at = |created: u32| State {
            now: created,
            live: Liveness::new(margins, time(created)),
            timeout,
            heard: created,
            is_touched: false,
            pinged: 0,
            is_still: false,
            is_deposed: false,
            is_paused: false,
            proof: None,
            handshake: None,
            has_connected_anew: false,
            hold: None,
        };
        (0..self.ping_after).step_by(STEP as usize).map(created_at).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let State { now, is_still, is_deposed, is_paused, proof, handshake, .. } = *state;
        let runs = !is_paused && handshake.is_none();
        let is_ping_due = !is_still && now + STEP > state.pinged + self.ping_after;
        if now < END && !is_ping_due {
            actions.push(Action::Pass);
        }
        if !is_still {
            actions.extend([Action::StandStill, Action::Depose]);
            if now >= state.pinged + self.ping_after {
                actions.push(Action::Ping);
            }
        }
        if runs {
            actions.extend(proof.is_none().then_some(Action::Send));
            if state.hold.is_none() && state.live.at(time(now)).is_proved() {
                actions.push(Action::Grant);
            }
            if self.attaches && !state.has_connected_anew {
                actions.push(Action::Attach);
            }
        }
        if let Some(Request { answered, .. }) = proof {
            let may_commit = !is_still || is_deposed && self.is_sync_proof;
            if !answered && handshake.is_none() && may_commit && !state.is_expired() {
                actions.push(Action::Commit);
            }
            if answered && !is_paused {
                actions.push(Action::Receive);
            }
        }
        match handshake {
            Some(Request { answered: false, .. }) if !state.is_expired() => actions.push(Action::TakeIn),
            Some(Request { answered: true, .. }) if !is_paused => actions.push(Action::Attached),
            _ => {}
        }
        if self.pauses {
            actions.push(if is_paused { Action::Resume } else { Action::Pause });
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        let now = last.now;
        match action {
            Action::Pass => {
                next.now += STEP;
                // The client library sends something.
                next.is_touched |= !next.is_still && !next.is_paused && next.handshake.is_none();
                if !next.is_paused || !self.knows_pauses {
                    next.live.on_look(time(next.now));
                }
            }
            Action::Ping => {
                if next.is_touched && !next.is_expired() {
                    next.heard = now;
                }
                (next.is_touched, next.pinged) = (false, now);
            }
            Action::Send => {
                let sent = next.live.on_send(time(now)).as_secs().try_into().expect("BUG: a time beyond the end");
                next.proof = Some(Request { sent, answered: false });
            }
            Action::Commit => {
                next.proof.as_mut()?.answered = true;
                next.is_touched |= !next.is_still;
            }
            Action::Receive => {
                let Request { sent, .. } = next.proof.take()?;
                next.live.on_proof(time(now), time((self.proof)(sent, now)));
            }
            Action::Grant => next.hold = Some(next.live.at(time(now)).losses()),
            Action::StandStill => next.is_still = true,
            Action::Depose => {
                // The new leader gives every session a whole timeout.
                (next.is_still, next.is_deposed, next.heard) = (true, true, now);
            }
            Action::Pause => next.is_paused = true,
            Action::Resume => {
                next.is_paused = false;
                // The ping of the client library is overdue.
                next.is_touched |= !next.is_still && next.handshake.is_none();
                next.live.on_look(time(now));
            }
            Action::Attach => {
                next.live.on_event(time(now), Event::Disconnected);
                if self.asks {
                    next.live.on_event(time(now), Event::Attaching(Some(time(TIMEOUT))));
                }
                next.handshake = Some(Request { sent: now, answered: false });
                (next.proof, next.has_connected_anew) = (None, true);
            }
            Action::TakeIn => {
                next.handshake.as_mut()?.answered = true;
                (next.timeout, next.heard, next.pinged) = (TIMEOUT, now, now);
                (next.is_touched, next.is_still, next.is_deposed) = (false, false, false);
            }
            Action::Attached => {
                next.handshake = None;
                if self.asks {
                    next.live.on_event(time(now), Event::Attached(time(TIMEOUT)));
                }
                next.live.on_event(time(now), Event::Connected);
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
                state.now > state.timeout && state.hold.is_some_and(|losses| !state.is_lost(losses))
            }),
        ]
    }
}

fn expect_loss_in_time(clocks: Clocks, states_min: usize) {
    let checker = clocks.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    let states = checker.unique_state_count();
    assert!(states >= states_min, "only {states} states");
}

fn expect_loss_too_late(clocks: Clocks) {
    let found = HasDiscoveries::AllOf(BTreeSet::from([LOST]));
    clocks.checker().finish_when(found).spawn_bfs().join().assert_any_discovery(LOST);
}

#[test]
fn a_hold_is_lost_by_the_clock_of_its_client_before_the_leader_expires_the_session() {
    expect_loss_in_time(RULES, 60_000);
}

#[test]
fn a_hold_is_lost_in_time_although_the_process_is_paused() {
    expect_loss_in_time(Clocks { pauses: true, ..RULES }, 3_000_000);
}

#[test]
fn a_hold_is_lost_in_time_although_the_next_server_grants_less() {
    expect_loss_in_time(Clocks { attaches: true, ..RULES }, 750_000);
}

#[test]
fn a_tick_longer_than_half_the_timeout_is_covered_if_it_is_given() {
    expect_loss_in_time(Clocks { ping_after: TIMEOUT * 3 / 8, tick: Some(TIMEOUT * 3 / 4), ..RULES }, 75_000);
}

#[test]
fn planted_a_tick_longer_than_half_the_timeout_that_nobody_gave_is_found() {
    expect_loss_too_late(Clocks { ping_after: TIMEOUT * 3 / 8, ..RULES });
}

#[test]
fn planted_a_proof_that_counts_from_when_its_answer_was_read_is_found() {
    expect_loss_too_late(Clocks { proof: |_, received| received, ..RULES });
}

#[test]
fn planted_a_leader_that_was_deposed_and_whose_answer_counts_is_found() {
    expect_loss_too_late(Clocks { is_sync_proof: true, ..RULES });
}

#[test]
fn planted_a_pause_in_which_the_client_believes_to_have_sent_pings_is_found() {
    expect_loss_too_late(Clocks { pauses: true, knows_pauses: false, ..RULES });
}

#[test]
fn planted_a_shorter_timeout_that_the_client_does_not_know_is_found() {
    expect_loss_too_late(Clocks { attaches: true, asks: false, ..RULES });
}
