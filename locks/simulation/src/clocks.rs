//! A model of clocks. It checks an assumption of the queue's model: a hold is lost by the client's clock before the leader can
//! expire its session.
//!
//! The library's [`Liveness`] runs against a follower and a leader. The follower hears the session by its messages, reads and
//! proofs, and tells the leader with each ping. A proof is committed by the leader and does not renew the session. Each message
//! and each answer may take any time, which stands for slow links and for pauses of the process, too. At any moment the
//! follower may stand still, the leader may be deposed, or the connection may be lost. A session that lost its connection
//! connects to a server that grants less. All clocks run at the same pace, in steps. Every event happens at such a step.

#[cfg(test)]
mod tests;

use std::time::Duration;

use campaign::{Sights, rules, sights};
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use zk_recipes_protocol::liveness::{Event, Liveness, LossEpoch, Margins, Sent};

use super::draws::Drawn;
use super::model::{Memory, Model, Rule};

/// The session timeout: the shortest one that a server grants.
const TIMEOUT: u32 = 48;
/// A longer session timeout that another server granted before.
const LONG_TIMEOUT: u32 = 96;
/// The end of a short run, which leaves time to lose a session.
const END: u32 = TIMEOUT + 3 * STEP;
/// The time between two steps.
const STEP: u32 = TIMEOUT / 8;

rules! {
    LOST: "a hold is lost before its session expires",
}

sights! {
    Outlives: "a session holds longer than a timeout after its start",
    Lost: "a hold is lost while its session lives",
    Expired: "a session expires after its hold was lost",
    StandsStill: "the follower stands still",
    Deposed: "a deposed leader answers a read",
    Attached: "a session holds at a server that grants less",
    HeldAgain: "a session holds again after a loss",
}

/// A message on its way there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Message {
    sent: Sent,
    answered: bool,
}

/// The clocks, the servers and what is on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClockState {
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
    sights: Memory<Sights>,
}

/// What may happen next.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
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

/// The settings of the clocks: right, or with one mistake.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The time at which a run ends.
    end: u32,
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

/// Some of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Messages {
    None,
    Reads,
    Proofs,
}

const RIGHT: Clocks = Clocks {
    end: END,
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

    fn note_sights(&mut self) {
        let is_expired = self.is_expired();
        let is_lost = self.hold.is_some_and(|granted| self.is_lost(granted));
        let holds = self.hold.is_some() && !is_lost;
        let seen = [
            (holds && self.now > self.timeout, Sight::Outlives),
            (is_lost && !is_expired, Sight::Lost),
            (is_lost && is_expired, Sight::Expired),
            (self.is_still && !self.is_deposed, Sight::StandsStill),
            (holds && self.has_connected_anew && self.handshake.is_none(), Sight::Attached),
        ];
        seen.into_iter().for_each(|(is_seen, sight)| self.sights.note(is_seen, sight as usize));
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

impl Drawn for Clocks {
    /// Draws more time and more messages than a search of all states has.
    fn draw(draws: &mut ChaCha8Rng) -> Self {
        let reads_max = draws.random_range(1..=40);
        let proofs_max = draws.random_range(1..=40);
        let end = TIMEOUT * u32::from(reads_max.max(proofs_max));
        Self { end, reads_max, proofs_max, attaches: draws.random(), is_prompt: draws.random(), ..RIGHT }
    }
}

impl Clocks {
    /// Returns the time from which a message counts: when it was sent, unless the settings are wrong.
    fn counted_from(&self, message: Message, kind: Messages, live: &mut Liveness, now: Duration) -> Sent {
        if self.counted_from_answer == kind { live.on_send(now) } else { message.sent }
    }
}

impl Model for Clocks {
    type State = ClockState;
    type Action = Action;

    const SIGHTS: &'static [&'static str] = Sight::NAMES;
    const PATIENCE: u64 = 60;
    const RULES: &'static [Rule<Self>] = &[Rule::new(LOST, |_, state: &ClockState| {
        !state.is_expired() || state.hold.is_none_or(|granted| state.is_lost(granted))
    })];

    fn starts(&self) -> Vec<ClockState> {
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
            sights: Memory::default(),
        };
        (0..self.ping_after).step_by(STEP as usize).map(created_at).collect()
    }

    fn progress(&self, state: &ClockState, actions: &mut Vec<Action>) {
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
        if now < self.end && !is_ping_due && !(self.is_prompt && is_waiting && !is_still) {
            actions.push(Action::Pass);
        }
        if !is_still && now >= state.pinged + self.ping_after {
            actions.push(Action::Ping);
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
            }
        }
    }

    fn faults(&self, state: &ClockState, actions: &mut Vec<Action>) {
        if state.is_expired() {
            return;
        }
        if !state.is_still {
            actions.extend([Action::StandStill, Action::Depose]);
        }
        if self.attaches && state.handshake.is_none() && !state.has_connected_anew {
            actions.push(Action::Attach);
        }
    }

    fn step(&self, next: &mut ClockState, action: &Action) -> bool {
        let now = time(next.now);
        match action {
            Action::Pass => {
                next.now += STEP;
                next.live = next.live.at(time(next.now));
            }
            Action::Ping => {
                if next.is_touched && !next.is_expired() {
                    next.heard = next.now;
                }
                next.is_touched = false;
                next.pinged = next.now;
            }
            Action::SendRead => {
                next.reads_left -= 1;
                next.read = Some(Message { sent: next.live.on_send(now), answered: false });
            }
            Action::AnswerRead => {
                if let Some(read) = &mut next.read {
                    read.answered = true;
                }
                next.sights.note(next.is_deposed, Sight::Deposed as usize);
                next.is_touched |= !next.is_still;
            }
            Action::ReceiveRead => {
                let Some(message) = next.read.take() else { return false };
                let sent = self.counted_from(message, Messages::Reads, &mut next.live, now);
                next.live.on_answer(now, sent);
            }
            Action::SendProof => {
                next.proofs_left -= 1;
                next.proof = Some(Message { sent: next.live.on_send(now), answered: false });
            }
            Action::Commit => {
                if let Some(proof) = &mut next.proof {
                    proof.answered = true;
                }
                next.is_touched |= !next.is_still;
            }
            Action::ReceiveProof => {
                let Some(message) = next.proof.take() else { return false };
                let sent = self.counted_from(message, Messages::Proofs, &mut next.live, now);
                next.live.on_proof(now, sent);
            }
            Action::StandStill => next.is_still = true,
            Action::Depose => {
                // The new leader gives every session a whole timeout.
                next.is_still = true;
                next.is_deposed = true;
                next.heard = next.now;
            }
            Action::Attach => next.attach(self.asks),
            Action::TakeIn => {
                next.handshake = Some(true);
                next.timeout = TIMEOUT;
                next.heard = next.now;
                next.pinged = next.now;
                next.is_touched = false;
                next.is_still = false;
                next.is_deposed = false;
            }
            Action::Attached => next.finish_handshake(self.asks),
        }
        // The session holds whenever it may. A later grant would be lost together with an earlier one.
        let live = next.live.at(time(next.now));
        if live.is_proved() && next.hold.is_none_or(|granted| next.is_lost(granted)) {
            next.sights.note(next.hold.is_some(), Sight::HeldAgain as usize);
            next.hold = Some(live.loss_epoch());
        }
        next.note_sights();
        true
    }

    fn kind(action: &Action) -> usize {
        *action as usize
    }

    fn visits(&self, _: &ClockState) -> u64 {
        u64::from(self.reads_max) + u64::from(self.proofs_max) + 1
    }

    fn is_over(&self, _: &ClockState) -> bool {
        true
    }

    fn sights(state: &ClockState) -> Sights {
        *state.sights
    }
}
