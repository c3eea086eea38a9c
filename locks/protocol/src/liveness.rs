//! The state of a session, derived from its answers and the time. Pure: the caller brings the clock.
//!
//! If the leader has not heard of a session for the session timeout `T`, it expires the session. Then it may grant the session's
//! locks to another client. So holds live on proof. **A request that a quorum has committed proves that the session lived when it
//! was sent.** A read proves nothing: a follower that is cut off answers it. `sync` proves too little: a leader that was deposed
//! and does not know it yet answers it (ZOOKEEPER-1675). While the session holds something, it commits a request that changes
//! nothing every [`prove_after`](Margins::prove_after).
//!
//! # The margin
//!
//! A commit shows that the session had not expired. It does not renew the session. The leader hears of a session by the pings of
//! its follower. Each ping names the sessions that the follower has heard since the ping before. Let `h` be half a tick, which is
//! the interval of these pings.
//!
//! Consider a message that the session sent at `m` and whose answer it received at `r`. Consider also a proof that it sent on the
//! same connection at `p`, with `r + h + T/24 < p`. The follower had the message at `r` at the latest. So one of its pings left
//! between `r` and `p`, and this ping or an earlier one told the leader of the message. The proof took the same way behind that
//! ping. So a leader that has committed the proof heard of the session at `m` or later, and expires it at `m + T` or later.
//!
//! A server closes its connections when it loses its leader, so one leader got both messages. A new leader gives every session a
//! whole `T` from its start, which is after the last commit of the old one. The handshake of a connection reaches the leader
//! itself, and counts like a message whose answer is old enough.
//!
//! Nothing else is assumed: neither when the client library pings, nor that this process runs, nor that answers come fast. All of
//! that only makes `m` older. Servers grant no timeout below two ticks, unless `minSessionTimeout` says otherwise, so `h` is at
//! most `T/4`. For other servers the tick can be given.
//!
//! | part of `T` | purpose |
//! |---|---|
//! | `h` | the pings of the follower |
//! | `T/24` | a ping that comes late, as the leader asks for it after each half tick |
//! | `T/12` | the interval of the session's own messages: after this time without a message the session sends a read |
//! | `T/12` | the delay of a ping on its way, clocks that run apart, and our own delay until a loss is noticed |
//! | the rest | [`lost_after`](Margins::lost_after): how long a hold survives its last proof while answers come at once |
//!
//! Two cases are not covered. In the first, a follower delays a ping for longer than `h + T/24`, sends a proof on before that ping,
//! and then stands still. The second is an observer behind a follower (`observerMasterPort`), which needs two pings: give twice the
//! tick there.
//!
//! # A new connection
//!
//! The server that a session connects to grants the timeout anew, and may grant a shorter one. Until it answers, the session may
//! have either timeout. If a handshake gets no answer, its server may still accept it much later, when the session holds something
//! on another connection. So the client first opens a second session with that server, to learn which timeout the server grants
//! (`session/keeper.rs` in `zk-recipes`). It counts on the shorter timeout from the moment at which it sends its own handshake. The
//! timeout that it counts on never grows again, because a new leader goes back to the one of the session's creation.
//!
//! It asks at each reconnect and does not remember the answer. A server that was started again may have other limits, and grant a
//! shorter timeout than before. If its answer to the handshake comes late, the session would count on the longer one until then.
//!
//! So a reconnect takes seven round trips: three for the session that asks, three for the session itself, and one for its proof. If a
//! round trip takes `T/20` at most, a hold survives that at any moment. For that, proofs come more often over a slow link:
//! see [`due`](Liveness::due).
//!
//! Without the question, a hold would not survive round trips of `T/7` either. Let `R` be the round trip, and let the connection be old
//! enough that its handshake does not count any more. At best, it is cut just after the answer to a proof, which was sent `R` before.
//! The proof counts from a message whose answer was received more than `h + T/24` before the proof was sent. That message was sent
//! another `R` before its answer. The reconnect takes at least `3R`: for the connection, for the handshake, and for the proof. So the
//! hold survives only if
//!
//! ```text
//! 2R + h + T/24 + 3R < T - T/12
//! ```
//!
//! For `h = T/4` that is `R < T/8`. At the same moment, a reconnect of seven round trips needs `R < T/14.4`. A shorter tick makes `h`
//! shorter: for `h = T/10`, the bounds are `T/6.5` and `T/11.6`. At other moments, the proof and the message are older, each by up to
//! `R`. So a hold survives seven round trips at any moment for about `R < T/17.6`, or `R < T/14.2` for `h = T/10`.

mod exchanges;
mod margins;

use std::fmt;
use std::time::Duration;

use exchanges::{Exchange, Exchanges};

pub use margins::Margins;

/// What a session knows of its connection. It is public in `zk-recipes`, so it changes only with the version of that crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionState {
    /// Requests are answered.
    Connected,
    /// The connection is gone or does not answer. The session may still live on the server. Holds are suspect.
    Suspended,
    /// The session must be taken as expired: another client may hold our locks. If the session turns out to have survived, it goes
    /// back to `Connected`. The holds that it had stay lost.
    Lost(LostReason),
}

/// Why a hold is no longer ours to rely on. `zk-recipes` shows it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// A server has reported that the session has expired, or has opened another session in its place.
    Expired,
    /// No server has answered for so long that the session may have expired: the connection was away, or this process
    /// did not run.
    Silence,
    /// The user of the session closed it, or dropped everything that kept it open.
    Closed,
    /// The server refused the session's credentials when the session connected again.
    CredentialsRefused,
    /// The server requires credentials, and the session has none.
    CredentialsMissing,
    /// The Tokio runtime that the session was connected in has ended.
    RuntimeEnded,
    /// Somebody else deleted the node of the hold. Noticed when the hold is released, or by an earlier request that finds the
    /// node missing.
    NodeDeleted,
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("connected"),
            Self::Suspended => f.write_str("suspended"),
            Self::Lost(reason) => write!(f, "lost: {reason}"),
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the session expired",
            Self::Silence => "no server answered for too long",
            Self::Closed => "the session was closed",
            Self::CredentialsRefused => "the server refused the credentials of the session",
            Self::CredentialsMissing => "the server requires credentials, and the session has none",
            Self::RuntimeEnded => "the Tokio runtime of the session has ended",
            Self::NodeDeleted => "its node was deleted by somebody else",
        })
    }
}

/// An event of a session's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is gone.
    Disconnected,
    /// A handshake is about to be sent for the session, to a server that grants this timeout.
    Attaching(Duration),
    /// The handshake was answered, with this timeout.
    Attached(Duration),
    /// A request was answered on the new connection.
    Connected,
    /// The session will never answer again.
    Ended(LostReason),
}

/// What a session sends to show that it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A request that changes nothing. It proves that the session lives once a quorum has committed it.
    Proof,
    /// A read. It tells the server that the session lives.
    Read,
}

/// Returns how long the client waits for a silent connection before it looks for another.
pub fn connection_timeout(session_timeout: Duration) -> Duration {
    session_timeout / 4
}

/// Handshakes since the last proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Attaching {
    /// When the first and the last handshake were sent.
    since: Duration,
    sent: Duration,
    /// The margins if a server has accepted any of the handshakes.
    margins: Margins,
    /// When the last handshake was answered.
    attached: Option<Duration>,
}

/// A request that may become a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sent {
    at: Duration,
    /// If the leader commits the request, it has heard of the session at this time or later.
    heard: Duration,
}

/// The number of times that the session has lost its holds. A hold keeps the epoch of its grant, and is lost in any later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LossEpoch(pub u64);

/// The state of one session. Times are offsets from a fixed origin on a monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Liveness {
    /// The margins at the last proof.
    margins: Margins,
    /// The time of this state.
    now: Duration,
    /// When the session sent the last request that a quorum has committed.
    proved: Duration,
    /// The leader has heard of the session at this time or later, by the proofs so far.
    heard: Duration,
    exchanges: Exchanges,
    /// When the last answered message was sent, and how long its answer took.
    spoken: Duration,
    round_trip: Duration,
    attaching: Option<Attaching>,
    /// When the connection was lost, if it has not come back.
    disconnected: Option<Duration>,
    /// Whether holds were lost by silence, and no proof has come since.
    lost: bool,
    ended: Option<LostReason>,
    loss_epoch: LossEpoch,
    last_loss: LostReason,
}

impl Liveness {
    /// Returns the state of a new session. Its handshake was sent at `connecting` and was answered, so a quorum has committed the
    /// session.
    pub fn new(margins: Margins, connecting: Duration) -> Self {
        Self {
            margins,
            now: connecting,
            proved: connecting,
            heard: connecting,
            exchanges: Exchanges::new(connecting, connecting),
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

    /// Returns the state at `now`. Every read or change of the state starts here. So a process that wakes from a pause does not
    /// believe what it knew before.
    #[must_use]
    pub fn at(mut self, now: Duration) -> Self {
        self.now = now;
        if self.ended.is_none() && !self.lost && now >= self.lost_at() {
            self.lost = true;
            self.count_loss(LostReason::Silence);
        }
        self
    }

    /// Notes that a message is being sent. Returns what it proves if a quorum commits it.
    pub fn on_send(&mut self, now: Duration) -> Sent {
        *self = self.at(now);
        self.exchanges.ripen(now, self.margins());
        Sent { at: now, heard: self.exchanges.heard }
    }

    /// Notes the answer to a message.
    pub fn on_answer(&mut self, now: Duration, Sent { at: sent, .. }: Sent) {
        *self = self.at(now);
        self.spoken = self.spoken.max(sent);
        self.round_trip = now.saturating_sub(sent);
        self.exchanges.note(Exchange { sent, received: now }, self.margins());
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
            self.margins = margins;
            self.attaching = None;
        }
        // An answer that was read too late proves nothing any more.
        self.lost &= now >= self.lost_at();
    }

    /// Handles an event of the connection.
    pub fn on_event(&mut self, now: Duration, event: Event) {
        *self = self.at(now);
        match event {
            Event::Disconnected => self.disconnected = self.disconnected.or(Some(now)),
            Event::Attaching(granted) => {
                // A server may still accept an earlier handshake that has no answer.
                let first = Attaching { since: now, sent: now, margins: self.margins, attached: None };
                let earlier = self.attaching.unwrap_or(first);
                let margins = earlier.margins.shortened_to(granted);
                self.attaching = Some(Attaching { sent: now, margins, attached: None, ..earlier });
            }
            Event::Attached(granted) => {
                let Some(attaching) = &mut self.attaching else { return };
                attaching.margins = attaching.margins.shortened_to(granted);
                attaching.attached = Some(now);
                self.exchanges = Exchanges::new(attaching.sent, now);
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

    /// Returns when holds are lost, unless a proof comes before.
    pub fn lost_at(&self) -> Duration {
        let by_proof = self.heard + self.margins.trusted_for();
        match self.attaching {
            Some(Attaching { since, margins, .. }) => by_proof.min(since + margins.trusted_for()),
            None => by_proof,
        }
    }

    /// Returns what the session has to send next to show that it lives, and when. `None` without a connection.
    pub fn due(&self, is_holding: bool) -> Option<(Sign, Duration)> {
        let margins = self.margins();
        // Only one sign is under way at a time, and a proof must not wait for the answer to a read. Over a slow link, a new
        // connection also takes long, so the last proof must not be old by then. So the proof is due some round trips early.
        let proof = self.proved + margins.prove_after().saturating_sub(4 * self.round_trip);
        let read = self.spoken + margins.speak_after();
        let next = if is_holding && proof <= read.max(self.now) { (Sign::Proof, proof) } else { (Sign::Read, read) };
        self.is_connected().then_some(next)
    }

    fn is_connected(&self) -> bool {
        self.ended.is_none() && self.disconnected.is_none()
    }

    /// Tells whether a hold can be relied on, and be granted, without another proof.
    pub fn is_proved(&self) -> bool {
        self.is_connected() && !self.lost && self.age() < self.margins().suspect_after()
    }

    /// Returns the state that a session shows, with or without holds. A session without holds sends no proofs, so only its
    /// connection counts.
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

    /// Returns the margins of the shortest timeout that was granted so far.
    pub fn margins(&self) -> Margins {
        self.attaching.map_or(self.margins, |attaching| attaching.margins)
    }

    /// Returns why the session has ended, once it has.
    pub fn ended(&self) -> Option<LostReason> {
        self.ended
    }

    /// Returns the epoch of a hold that is granted now.
    pub fn loss_epoch(&self) -> LossEpoch {
        self.loss_epoch
    }

    /// Returns why a hold that was granted in this epoch is lost, if it is. Every hold of a session that has ended is lost, even
    /// one whose grant was under way when the session was closed.
    pub fn lost_since(&self, granted: LossEpoch) -> Option<LostReason> {
        self.ended.or((self.loss_epoch > granted).then_some(self.last_loss))
    }
}
