//! A model of clocks. It checks an assumption of the queue's model: a hold is lost by the client's clock before the leader can
//! expire its session.
//!
//! The library's [`Liveness`] runs against a follower and a leader. The follower hears the session by its messages, reads and
//! proofs, and tells the leader with each ping. A proof is committed by the leader and does not renew the session. Each message
//! and each answer may take any time, which stands for slow links and for pauses of the process, too. At any moment the
//! follower may stand still, the leader may be deposed, or the connection may be lost. A session that lost its connection
//! connects to a server that grants less. All clocks run at the same pace, in steps. Every event happens at such a step.

// L36

use std::collections::BTreeSet;
use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model, Property};
use zk_recipes_protocol::liveness::{Event, Liveness, LossEpoch, Margins, Sent};

/// The session timeout: the shortest one that a server grants.
const TIMEOUT: u32 = 48;
/// A longer session timeout that another server granted before.
const LONG_TIMEOUT: u32 = 96;
/// The end of each run, which leaves time to lose a session.
const END: u32 = TIMEOUT + 3 * STEP;
/// The time between two steps.
const STEP: u32 = TIMEOUT / 8;

const LOST: &str = "a hold is lost before its session expires";

/// A message on its way there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Message {
    sent: Sent,
    answered: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClockState {
    now: u32,
    live: Liveness,
    /// The session timeout at the leader, and when the leader heard the session last.
    timeout: u32,
    heard: u32,
    /// Whether the follower has heard the session since its last ping, and when it sent that ping.
    is_touched: bool,
    pinged: u32,
    /// Whether the leader hears nothing of the follower any more.
    is_still: bool,
    /// Whether the reason is that the leader was deposed. Then the follower still answers reads.
    is_deposed: bool,
    read: Option<Message>,
    proof: Option<Message>,
    /// How many reads and proofs the session may still send.
    reads_left: u8,
    proofs_left: u8,
    /// A handshake with a server that grants less, and whether it is answered.
    handshake: Option<bool>,
    has_connected_anew: bool,
    /// The epoch of the grant.
    hold: Option<LossEpoch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Pass,
    Ping,
    SendRead,
    AnswerRead,
    ReceiveRead,
    SendProof,
    Commit,
    ReceiveProof,
    StandStill,
    Depose,
    /// The connection is lost, and the session sends its handshake to another server.
    Attach,
    TakeIn,
    Attached,
}

/// The library's rules, or wrong ones.
#[derive(Clone, Copy)]
struct Clocks {
    /// The interval of the follower's pings, and the tick that the client was told.
    ping_after: u32,
    tick: Option<u32>,
    /// Upper bounds of the reads and proofs that the session sends.
    reads_max: u8,
    proofs_max: u8,
    /// Whether messages are answered at once, if at all.
    is_prompt: bool,
    /// Whether the connection may be lost.
    attaches: bool,
    /// The messages that wrongly count from their answer.
    counted_from_answer: Messages,
    /// Whether a leader that was deposed answers a proof.
    is_sync_proof: bool,
    /// Whether the client asks a server what it grants before it connects.
    asks: bool,
}

/// The messages that a rule applies to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Messages {
    None,
    Reads,
    Proofs,
}

const RULES: Clocks = Clocks {
    ping_after: TIMEOUT / 4,
    tick: None,
    reads_max: 1,
    proofs_max: 1,
    is_prompt: false,
    attaches: false,
    counted_from_answer: Messages::None,
    is_sync_proof: false,
    asks: true,
};

fn time(time: u32) -> Duration {
    Duration::from_secs(time.into())
}

impl ClockState {
    fn is_expired(&self) -> bool {
        self.now - self.heard >= self.timeout
    }

    fn is_lost(&self, granted: LossEpoch) -> bool {
        self.live.at(time(self.now)).lost_since(granted).is_some()
    }

    /// Loses the connection, and sends a handshake to another server. `asks`: the session knows what that server grants.
    fn attach(&mut self, asks: bool) {
        let now = time(self.now);
        self.live.on_event(now, Event::Disconnected);
        if asks {
            self.live.on_event(now, Event::Attaching(time(TIMEOUT)));
        }
        self.handshake = Some(false);
        self.read = None;
        self.proof = None;
        self.has_connected_anew = true;
    }

    /// Receives the answer to the handshake.
    fn finish_handshake(&mut self, asks: bool) {
        let now = time(self.now);
        self.handshake = None;
        if asks {
            self.live.on_event(now, Event::Attached(time(TIMEOUT)));
        }
        self.live.on_event(now, Event::Connected);
    }
}

impl Clocks {
    /// Returns the time from which a message counts: when it was sent, unless the rules are wrong.
    fn counted_from(&self, message: Message, kind: Messages, live: &mut Liveness, now: Duration) -> Sent {
        if self.counted_from_answer == kind { live.on_send(now) } else { message.sent }
    }
}

impl Model for Clocks {
    type State = ClockState;
    type Action = Action;

    fn init_states(&self) -> Vec<ClockState> {
        let timeout = if self.attaches { LONG_TIMEOUT } else { TIMEOUT };
        let margins = Margins::new(time(timeout), self.tick.map(time));
        // The time from the creation of the session to the first ping varies.
        let created_at = |created: u32| ClockState {
            now: created,
            live: Liveness::new(margins, time(created)),
            timeout,
            heard: created,
            is_touched: false,
            pinged: 0,
            is_still: false,
            is_deposed: false,
            read: None,
            proof: None,
            reads_left: self.reads_max,
            proofs_left: self.proofs_max,
            handshake: None,
            has_connected_anew: false,
            hold: None,
        };
        (0..self.ping_after).step_by(STEP as usize).map(created_at).collect()
    }

    fn actions(&self, state: &ClockState, actions: &mut Vec<Action>) {
        let ClockState { now, is_still, is_deposed, read, proof, handshake, .. } = *state;
        let is_ping_due = !is_still && now + STEP > state.pinged + self.ping_after;
        if state.is_expired() {
            // A hold that is lost by now stays lost. Only an answer under way could grant another.
            let is_under_way = |message: Option<Message>| message.is_some_and(|message| message.answered);
            actions.extend(is_under_way(read).then_some(Action::ReceiveRead));
            actions.extend(is_under_way(proof).then_some(Action::ReceiveProof));
            actions.extend((handshake == Some(true)).then_some(Action::Attached));
            return;
        }
        let is_waiting = read.is_some() || proof.is_some();
        if now < END && !is_ping_due && !(self.is_prompt && is_waiting && !is_still) {
            actions.push(Action::Pass);
        }
        if !is_still {
            actions.extend([Action::StandStill, Action::Depose]);
            if now >= state.pinged + self.ping_after {
                actions.push(Action::Ping);
            }
        }
        match handshake {
            Some(false) => actions.push(Action::TakeIn),
            Some(true) => actions.push(Action::Attached),
            None => {
                match read {
                    None => actions.extend((state.reads_left > 0).then_some(Action::SendRead)),
                    Some(Message { answered: true, .. }) => actions.push(Action::ReceiveRead),
                    Some(_) if !is_still || is_deposed => actions.push(Action::AnswerRead),
                    Some(_) => {}
                }
                match proof {
                    None => actions.extend((state.proofs_left > 0).then_some(Action::SendProof)),
                    Some(Message { answered: true, .. }) => actions.push(Action::ReceiveProof),
                    Some(_) if !is_still || is_deposed && self.is_sync_proof => {
                        actions.push(Action::Commit);
                    }
                    Some(_) => {}
                }
                if self.attaches && !state.has_connected_anew {
                    actions.push(Action::Attach);
                }
            }
        }
    }

    fn next_state(&self, last: &ClockState, action: Action) -> Option<ClockState> {
        let mut next = last.clone();
        let now = time(last.now);
        match action {
            Action::Pass => {
                next.now += STEP;
                next.live = next.live.at(time(next.now));
            }
            Action::Ping => {
                if next.is_touched && !next.is_expired() {
                    next.heard = last.now;
                }
                next.is_touched = false;
                next.pinged = last.now;
            }
            Action::SendRead => {
                next.reads_left -= 1;
                next.read = Some(Message { sent: next.live.on_send(now), answered: false });
            }
            Action::AnswerRead => {
                next.read.as_mut()?.answered = true;
                next.is_touched |= !next.is_still;
            }
            Action::ReceiveRead => {
                let message = next.read.take()?;
                let sent = self.counted_from(message, Messages::Reads, &mut next.live, now);
                next.live.on_answer(now, sent);
            }
            Action::SendProof => {
                next.proofs_left -= 1;
                next.proof = Some(Message { sent: next.live.on_send(now), answered: false });
            }
            Action::Commit => {
                next.proof.as_mut()?.answered = true;
                next.is_touched |= !next.is_still;
            }
            Action::ReceiveProof => {
                let message = next.proof.take()?;
                let sent = self.counted_from(message, Messages::Proofs, &mut next.live, now);
                next.live.on_proof(now, sent);
            }
            Action::StandStill => next.is_still = true,
            Action::Depose => {
                // The new leader gives every session a whole timeout.
                next.is_still = true;
                next.is_deposed = true;
                next.heard = last.now;
            }
            Action::Attach => next.attach(self.asks),
            Action::TakeIn => {
                next.handshake = Some(true);
                next.timeout = TIMEOUT;
                next.heard = last.now;
                next.pinged = last.now;
                next.is_touched = false;
                next.is_still = false;
                next.is_deposed = false;
            }
            Action::Attached => next.finish_handshake(self.asks),
        }
        // The session holds whenever it may. A later grant would be lost together with an earlier one.
        let live = next.live.at(time(next.now));
        if live.is_proved() && next.hold.is_none_or(|granted| next.is_lost(granted)) {
            next.hold = Some(live.loss_epoch());
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(LOST, |_, state: &ClockState| {
                !state.is_expired() || state.hold.is_none_or(|granted| state.is_lost(granted))
            }),
            Property::sometimes("a hold outlives a timeout", |_, state: &ClockState| {
                state.now > state.timeout && state.hold.is_some_and(|granted| !state.is_lost(granted))
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
fn a_hold_is_lost_before_the_leader_expires_the_session() {
    expect_loss_in_time(RULES, 1_300_000);
}

#[test]
fn a_hold_is_lost_in_time_if_all_messages_are_answered_at_once() {
    expect_loss_in_time(Clocks { reads_max: 1, proofs_max: 2, is_prompt: true, ..RULES }, 590_000);
}

#[test]
fn a_hold_is_lost_in_time_although_the_next_server_grants_less() {
    expect_loss_in_time(Clocks { attaches: true, is_prompt: true, reads_max: 0, proofs_max: 2, ..RULES }, 1_000_000);
}

#[test]
fn a_tick_beyond_half_the_timeout_is_covered_if_given() {
    expect_loss_in_time(Clocks { ping_after: TIMEOUT * 3 / 8, tick: Some(TIMEOUT * 3 / 4), ..RULES }, 1_380_000);
}

#[test]
fn planted_an_unknown_tick_beyond_half_the_timeout_is_found() {
    expect_loss_too_late(Clocks { ping_after: TIMEOUT * 3 / 8, ..RULES });
}

#[test]
fn planted_a_message_that_counts_before_the_ping_is_found() {
    expect_loss_too_late(Clocks { tick: Some(0), ..RULES });
}

#[test]
fn planted_a_proof_that_counts_from_its_answer_is_found() {
    expect_loss_too_late(Clocks { counted_from_answer: Messages::Proofs, ..RULES });
}

#[test]
fn planted_a_message_that_counts_from_its_answer_is_found() {
    expect_loss_too_late(Clocks { counted_from_answer: Messages::Reads, ..RULES });
}

#[test]
fn planted_an_answer_of_a_deposed_leader_that_counts_is_found() {
    expect_loss_too_late(Clocks { is_sync_proof: true, ..RULES });
}

#[test]
fn planted_an_unknown_shorter_timeout_is_found() {
    expect_loss_too_late(Clocks { attaches: true, asks: false, ..RULES });
}
