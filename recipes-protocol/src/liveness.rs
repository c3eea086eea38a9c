//! Answers and time in, the state of the session out. Pure: the caller brings the clock.
//!
//! The leader expires a session that it has not heard of for the session timeout `T`, and may then grant the session's locks
//! to another client. So holds live on proof. **A request that a quorum has committed proves that the session lived when it
//! was sent.** A read proves nothing: a follower that is cut off answers it. `sync` proves too little: a leader that was
//! deposed and does not know it yet answers it (ZOOKEEPER-1675). While something is held, the session commits a request that
//! changes nothing, every [`prove_after`](Margins::prove_after).
//!
//! # The margin
//!
//! A commit shows that the session had not expired; it does not renew the session. The leader hears of a session by the next
//! ping of its follower, which carries the sessions that the follower has heard since the ping before. Let `h` be half a
//! tick, the interval of these pings. Consider a message that the session sent at `m` and whose answer was received at `r`,
//! and a proof that was sent on the same connection at `p`, where `r + h + T/24 < p`. The follower had the message at `r` at the
//! latest, so one of its pings left between `r` and `p` and the leader was told of the message then or before. The proof went
//! the same way behind that ping. So a leader that has committed the proof has heard of the session at `m` or later, and
//! expires it at `m + T` or later. A server closes its connections when it loses its leader, so both messages went to one
//! leader. A new leader gives every session a whole `T` from its start, which is after the last commit of the old one. The
//! handshake of a connection reaches the leader itself, and counts like a message whose answer is old enough.
//!
//! Nothing else is assumed: neither when the client library pings, nor that this process runs, nor that answers come fast.
//! All of that makes `m` older. Servers grant no timeout below two ticks, unless `minSessionTimeout` says otherwise, so `h`
//! is at most `T/4`. For servers of which that is not true, the tick can be given.
//!
//! | part of `T` | for what |
//! |---|---|
//! | `h` | the pings of the follower |
//! | `T/24` | a ping that comes late, as the leader asks for it after each half tick |
//! | `T/12` | the interval of the session's own messages: a session that has sent nothing for so long sends a read |
//! | `T/12` | the delay of a ping on its way, clocks that run apart, and our own delay until a loss is noticed |
//! | the rest | [`lost_after`](Margins::lost_after): how long a hold survives its last proof while answers come at once |
//!
//! A follower that lets its leader wait for a ping for longer than `h + T/24`, sends a proof on before that ping, and then
//! stands still is not covered. Neither is an observer behind another one's follower (`observerMasterPort`), which needs two
//! pings: give twice the tick there.
//!
//! # A new connection
//!
//! The server that a session connects to grants the timeout anew, and it may be shorter. Until the answer is here, the
//! session may have either. A handshake without an answer may be taken in much later, when the session holds something on
//! another connection. So a session first asks that server what it would grant, by a session of its own (`keeper.rs`), and
//! counts on the shorter one from the moment at which its own handshake is sent. A timeout that was once
//! granted never grows: a new leader goes back to the one of the session's creation.

mod answers;
mod margins;

use std::fmt;
use std::time::Duration;

use answers::{Answered, Answers};

pub use margins::Margins;

/// What a session knows of its connection. `zk-recipes` shows it to its users, and so it changes only when that crate's version says
/// so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// Requests are answered.
    Connected,
    /// The connection is gone or does not answer, the session may still live on the server. Holds are suspect.
    Suspended,
    /// The session must be taken as expired: another client may hold our locks. A session that turns out to have
    /// survived goes back to `Connected`; the holds that it had do not.
    Lost(LostReason),
}

/// Why a hold is no longer ours to rely on. `zk-recipes` shows it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The server has expired the session and deleted its nodes.
    Expired,
    /// No server has answered for so long that the session may have expired: the connection was away, or this process
    /// did not run.
    Silence,
    /// The user of the session closed it, or dropped everything that kept it open.
    Closed,
    /// The server refused the session's credentials when the session connected again.
    CredentialsRefused,
    /// The Tokio runtime that the session was connected in has ended.
    RuntimeEnded,
    /// Somebody else deleted the node of the hold. Noticed when the hold is released, or by an earlier request that finds the
    /// node missing.
    NodeDeleted,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the session expired",
            Self::Silence => "no server answered for too long",
            Self::Closed => "the session was closed",
            Self::CredentialsRefused => "the server refused the credentials of the session",
            Self::RuntimeEnded => "the Tokio runtime of the session has ended",
            Self::NodeDeleted => "its node was deleted by somebody else",
        })
    }
}

/// What happens to a session's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is gone.
    Disconnected,
    /// A handshake for the session is about to be sent, to a server that grants this timeout to others.
    Attaching(Duration),
    /// The handshake was answered, with this timeout.
    Attached(Duration),
    /// A request was answered on the new connection.
    Connected,
    /// The session will never answer again.
    Ended(LostReason),
}

/// What a session sends so that it is known to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A request that changes nothing and is committed.
    Proof,
    /// A read. It tells the server that the session lives.
    Read,
}

/// How long the client may wait for a silent connection before it looks for another.
pub fn connection_timeout(session_timeout: Duration) -> Duration {
    session_timeout / 4
}

/// Handshakes since the last proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Attaching {
    /// When the first was sent, and the last.
    since: Duration,
    sent: Duration,
    /// The margins if their servers have taken them in.
    margins: Margins,
    /// When the last was answered.
    attached: Option<Duration>,
}

/// A request that may become a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sent {
    at: Duration,
    /// When the leader has heard of the session, if it commits the request.
    heard: Duration,
}

/// The number of times at which the session has lost its holds. A hold keeps the epoch of its grant and is lost in any later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LossEpoch(pub u64);

/// The state of one session. Times are offsets from any fixed origin on a monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Liveness {
    /// Those of the last proof.
    margins: Margins,
    /// The time for which all of this holds.
    now: Duration,
    /// When the last request was sent that a quorum has committed.
    proved: Duration,
    /// When the leader has heard of the session, by the proofs so far. It may have heard of it later.
    heard: Duration,
    answers: Answers,
    /// When the last message was sent that was answered, and how long that took.
    spoken: Duration,
    round_trip: Duration,
    attaching: Option<Attaching>,
    /// When the connection went that has not come back.
    disconnected: Option<Duration>,
    /// The loss that no proof has made up for yet.
    lost: bool,
    ended: Option<LostReason>,
    loss_epoch: LossEpoch,
    last_loss: LostReason,
}

impl Liveness {
    /// A session whose handshake was sent at `connecting` and has been answered: a quorum has committed the new session.
    pub fn new(margins: Margins, connecting: Duration) -> Self {
        Self {
            margins,
            now: connecting,
            proved: connecting,
            heard: connecting,
            answers: Answers::new(connecting, connecting),
            spoken: connecting,
            round_trip: Duration::ZERO,
            attaching: None,
            disconnected: None,
            lost: false,
            ended: None,
            loss_epoch: LossEpoch::default(),
            // Read only after the first loss.
            last_loss: LostReason::Closed,
        }
    }

    /// The state at `now`. Everything that reads or changes the state goes through here first, so that a process that
    /// wakes from a pause does not believe what it knew before.
    #[must_use]
    pub fn at(mut self, now: Duration) -> Self {
        self.now = now;
        if self.ended.is_none() && !self.lost && now >= self.lost_at() {
            self.lost = true;
            self.count_loss(LostReason::Silence);
        }
        self
    }

    /// Notes that a message is being sent, and what it proves if a quorum commits it.
    pub fn on_send(&mut self, now: Duration) -> Sent {
        *self = self.at(now);
        self.answers.ripen(now, self.margins());
        Sent { at: now, heard: self.answers.heard }
    }

    /// Notes the answer to a message.
    pub fn on_answer(&mut self, now: Duration, Sent { at: sent, .. }: Sent) {
        *self = self.at(now);
        self.spoken = self.spoken.max(sent);
        self.round_trip = now.saturating_sub(sent);
        self.answers.note(Answered { sent, received: now }, self.margins());
    }

    /// Notes the answer to a request that a quorum has committed.
    pub fn on_proof(&mut self, now: Duration, sent: Sent) {
        self.on_answer(now, sent);
        if self.ended.is_some() {
            return;
        }
        self.proved = self.proved.max(sent.at);
        self.heard = self.heard.max(sent.heard);
        if let Some(Attaching { attached: Some(attached), margins, .. }) = self.attaching
            && sent.at >= attached
        {
            (self.margins, self.attaching) = (margins, None);
        }
        // An answer that was read too late proves nothing any more.
        self.lost &= now >= self.lost_at();
    }

    /// Takes in what happens to the connection.
    pub fn on_event(&mut self, now: Duration, event: Event) {
        *self = self.at(now);
        match event {
            Event::Disconnected => self.disconnected = self.disconnected.or(Some(now)),
            Event::Attaching(granted) => {
                // An earlier handshake without an answer may still have been taken in.
                let first = Attaching { since: now, sent: now, margins: self.margins, attached: None };
                let earlier = self.attaching.unwrap_or(first);
                let margins = earlier.margins.shortened_to(granted);
                self.attaching = Some(Attaching { sent: now, margins, attached: None, ..earlier });
            }
            Event::Attached(granted) => {
                let Some(attaching) = &mut self.attaching else { return };
                attaching.margins = attaching.margins.shortened_to(granted);
                attaching.attached = Some(now);
                self.answers = Answers::new(attaching.sent, now);
                self.spoken = now;
            }
            Event::Connected => self.disconnected = None,
            Event::Ended(reason) => self.end(reason),
        }
        *self = self.at(now);
    }

    /// Ends the session, if it has not ended yet. Every hold is lost from here on.
    pub fn end(&mut self, reason: LostReason) {
        if self.ended.is_none() {
            self.ended = Some(reason);
            self.count_loss(reason);
        }
    }

    fn count_loss(&mut self, reason: LostReason) {
        self.loss_epoch.0 += 1;
        self.last_loss = reason;
    }

    fn age(&self) -> Duration {
        self.now.saturating_sub(self.proved)
    }

    /// When holds are lost, unless there is a proof before.
    pub fn lost_at(&self) -> Duration {
        let by_proof = self.heard + self.margins.trusted_for();
        match self.attaching {
            Some(Attaching { since, margins, .. }) => by_proof.min(since + margins.trusted_for()),
            None => by_proof,
        }
    }

    /// What the session is to send next so that it is known to live, and when; `None` without a connection.
    pub fn due(&self, is_holding: bool) -> Option<(Sign, Duration)> {
        let margins = self.margins();
        // One is under way at a time. A proof must not wait for the answer to a read behind which it becomes due.
        let proof = self.proved + margins.prove_after().saturating_sub(self.round_trip);
        let read = self.spoken + margins.speak_after();
        let next = if is_holding && proof <= read.max(self.now) { (Sign::Proof, proof) } else { (Sign::Read, read) };
        self.is_connected().then_some(next)
    }

    fn is_connected(&self) -> bool {
        self.ended.is_none() && self.disconnected.is_none()
    }

    /// Whether a hold can be relied on, and be granted, without another proof.
    pub fn is_proved(&self) -> bool {
        self.is_connected() && !self.lost && self.age() < self.margins().suspect_after()
    }

    /// What a session shows of this, with holds or without. Without holds nobody asks for proofs: then the connection counts.
    pub fn state(&self, is_holding: bool) -> ConnectionState {
        let is_away_for_long = self.disconnected.is_some_and(|since| self.now >= since + self.margins().lost_after());
        match self.ended {
            Some(reason) => ConnectionState::Lost(reason),
            None if is_holding && self.lost => ConnectionState::Lost(self.last_loss),
            None if is_away_for_long => ConnectionState::Lost(LostReason::Silence),
            None if self.is_proved() || self.is_connected() && !is_holding => ConnectionState::Connected,
            None => ConnectionState::Suspended,
        }
    }

    /// The margins of the shortest timeout that was granted so far.
    pub fn margins(&self) -> Margins {
        self.attaching.map_or(self.margins, |attaching| attaching.margins)
    }

    /// Why the session will never answer again, once it will not.
    pub fn ended(&self) -> Option<LostReason> {
        self.ended
    }

    /// The epoch of a hold that is granted now.
    pub fn loss_epoch(&self) -> LossEpoch {
        self.loss_epoch
    }

    /// Why a hold that was granted in this epoch is lost, if it is. When the session has ended, every hold is lost, even one
    /// whose grant was under way when the session was closed.
    pub fn lost_since(&self, granted: LossEpoch) -> Option<LostReason> {
        self.ended.or((self.loss_epoch > granted).then_some(self.last_loss))
    }
}
