//! Answers and time in, the state of the session out. Pure: the caller brings the clock.
//!
//! The server expires a session that it has not heard for the session timeout `T`, and may then grant its locks to
//! somebody else. The client library cannot be asked how long that is: it reports an expiry only when it reconnects, or
//! after 7/5 `T`; it goes on calling itself connected when a handshake breaks half-way; and it sends no pings while
//! whoever shares its thread blocks, or the process is paused.
//!
//! So holds live on proof. **A leader that has seen a request has heard us after we sent it.** It sees writes and `sync`,
//! and no reads: a follower that is cut off from it goes on answering those for a while, and the leader may expire the
//! session meanwhile. A session remembers when the last request that was answered, and is no read, had been sent, asks for
//! a sign of life ([`probe_after`]) when there is nothing else to be answered, and takes itself for lost once the proof is
//! 9/10 `T` old. The last tenth is for clocks that drift, and for an ensemble whose leader learns of a session from a
//! follower, up to half a tick late. What made the proof grow old, a dead connection, a blocked thread, a paused process,
//! does not matter.

use std::fmt;
use std::time::Duration;

/// What a [`Session`](crate::Session) knows of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// Requests are answered.
    Connected,
    /// The connection is gone or does not answer, the session may still live on the server. Holds are
    /// [`Suspect`](crate::HoldState::Suspect).
    Suspended,
    /// The session must be taken as expired: another client may hold our locks. A session that turns out to have
    /// survived goes back to `Connected`; the holds that it had do not.
    Lost,
}

/// Why a hold is no longer ours to rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The server has expired the session and deleted its nodes.
    Expired,
    /// No server has answered for so long that the session may have expired: the connection was away, or this process
    /// did not run.
    Silence,
    /// The session was closed: by [`Session::close`](crate::Session::close), because the server refused its credentials, or
    /// with the Tokio runtime that it was connected in.
    Closed,
    /// The node of the hold was deleted by somebody else; noticed when the hold is released.
    NodeDeleted,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the session expired",
            Self::Silence => "no server answered for too long",
            Self::Closed => "the session was closed",
            Self::NodeDeleted => "its node was deleted by somebody else",
        })
    }
}

/// What the client library reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is gone.
    Disconnected,
    /// The session will never answer again.
    Ended(LostReason),
}

/// How long the client may wait for a silent connection before it looks for another.
pub(crate) fn connection_timeout(session_timeout: Duration) -> Duration {
    session_timeout / 4
}

/// How old the proof of life may be before the session asks for a new one.
pub(crate) fn probe_after(session_timeout: Duration) -> Duration {
    session_timeout / 10
}

/// How old the proof of life may become before holds are lost.
fn lost_after(session_timeout: Duration) -> Duration {
    session_timeout * 9 / 10
}

/// The state of one session. Times are offsets from any fixed origin on a monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Liveness {
    session_timeout: Duration,
    /// The time for which all of this holds.
    now: Duration,
    /// When the last request that was answered, and is no read, had been sent.
    heard: Duration,
    /// When the client library last reported a disconnect. Answers to what was sent before prove nothing about the
    /// connection since.
    disconnected: Option<Duration>,
    /// The loss that no answer has made up for yet.
    lost: bool,
    ended: Option<LostReason>,
    losses: u64,
    last_loss: LostReason,
}

impl Liveness {
    /// A session whose handshake was sent at `heard` and has been answered.
    pub fn new(session_timeout: Duration, heard: Duration) -> Self {
        Self {
            session_timeout,
            now: heard,
            heard,
            disconnected: None,
            lost: false,
            ended: None,
            losses: 0,
            // Read only once `losses` is positive.
            last_loss: LostReason::Closed,
        }
    }

    /// The state at `now`. Everything that reads or changes the state goes through here first, so that a process that
    /// wakes from a pause does not believe what it knew before.
    #[must_use]
    pub fn at(mut self, now: Duration) -> Self {
        self.now = now;
        if self.ended.is_none() && !self.lost && self.age() >= lost_after(self.session_timeout) {
            self.lost = true;
            self.count_loss(LostReason::Silence);
        }
        self
    }

    /// Notes that a request that was sent at `sent`, and is no read, has been answered.
    pub fn on_answer(&mut self, now: Duration, sent: Duration) {
        let was_lost = self.lost;
        *self = self.at(now);
        if self.ended.is_some() {
            return;
        }
        self.heard = self.heard.max(sent);
        self.lost = self.age() >= lost_after(self.session_timeout);
        if was_lost && self.lost {
            // It was read too late to prove anything. What it grants, to somebody who knew of the loss when the request
            // was sent, is lost already.
            self.count_loss(LostReason::Silence);
        }
        if self.disconnected.is_some_and(|disconnected| sent >= disconnected) {
            self.disconnected = None;
        }
    }

    /// Takes in what the client library reports.
    pub fn on_event(&mut self, now: Duration, event: Event) {
        *self = self.at(now);
        match event {
            Event::Disconnected => self.disconnected = Some(now),
            Event::Ended(reason) => self.end(reason),
        }
    }

    /// Ends the session, if it has not ended yet. Every hold is lost from here on.
    pub(crate) fn end(&mut self, reason: LostReason) {
        if self.ended.is_none() {
            self.ended = Some(reason);
            self.count_loss(reason);
        }
    }

    fn count_loss(&mut self, reason: LostReason) {
        self.losses += 1;
        self.last_loss = reason;
    }

    fn age(&self) -> Duration {
        self.now.saturating_sub(self.heard)
    }

    /// Whether it is time to ask for a sign of life.
    pub fn wants_probe(&self) -> bool {
        self.ended.is_none() && (self.disconnected.is_some() || self.age() >= probe_after(self.session_timeout))
    }

    /// What a session shows of this.
    pub fn state(&self) -> ConnectionState {
        // A connection that leaves several probes unanswered is as good as none.
        let silent = self.age() >= self.session_timeout / 2;
        match self {
            _ if self.lost || self.ended.is_some() => ConnectionState::Lost,
            _ if silent || self.disconnected.is_some() => ConnectionState::Suspended,
            _ => ConnectionState::Connected,
        }
    }

    /// Why the session will never answer again, once it will not.
    pub(crate) fn ended(&self) -> Option<LostReason> {
        self.ended
    }

    /// How often holds were lost so far. A hold remembers the count from before its grant; any later loss is its own.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// Why a hold that was granted at `losses` is lost, if it is. Of a session that has ended every hold is, also one that
    /// was granted by an answer that was under way when the session was closed.
    pub fn lost_since(&self, losses: u64) -> Option<LostReason> {
        self.ended.or((self.losses > losses).then_some(self.last_loss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A session whose last answered request was sent at that time.
    fn heard_at(at_ms: u64) -> Liveness {
        let mut live = Liveness::new(TIMEOUT, ms(0));
        for sent in (0..=at_ms).step_by(500).chain([at_ms]) {
            live.on_answer(ms(sent), ms(sent));
        }
        live
    }

    fn state(live: Liveness, at_ms: u64) -> ConnectionState {
        live.at(ms(at_ms)).state()
    }

    #[test]
    fn of_a_session_that_has_ended_every_hold_is_lost_also_one_that_was_granted_after_the_end() {
        let mut live = heard_at(1_000);
        live.end(LostReason::Closed);
        assert_eq!(live.lost_since(live.losses()), Some(LostReason::Closed));
    }

    #[test]
    fn a_session_that_is_answered_stays_connected() {
        let live = heard_at(60_000);
        assert_eq!(state(live, 60_900), ConnectionState::Connected);
        assert_eq!(live.losses(), 0);
    }

    #[test]
    fn silence_suspends_at_half_the_timeout_and_loses_at_nine_tenths() {
        let live = heard_at(1_000);
        assert_eq!(state(live, 5_999), ConnectionState::Connected);
        assert_eq!(state(live, 6_000), ConnectionState::Suspended);
        assert_eq!(state(live, 9_999), ConnectionState::Suspended);
        assert_eq!(state(live, 10_000), ConnectionState::Lost);
        assert_eq!(live.at(ms(10_000)).lost_since(0), Some(LostReason::Silence));
    }

    #[test]
    fn a_disconnect_suspends_at_once_and_does_not_prolong_the_proof() {
        let mut live = heard_at(1_000);
        live.on_event(ms(4_000), Event::Disconnected);
        assert_eq!(state(live, 4_000), ConnectionState::Suspended);
        assert_eq!(state(live, 10_000), ConnectionState::Lost);
    }

    #[test]
    fn a_reconnect_is_believed_only_when_something_that_was_sent_after_the_disconnect_is_answered() {
        let mut live = heard_at(1_000);
        live.on_event(ms(2_000), Event::Disconnected);
        live.on_answer(ms(2_100), ms(1_900));
        assert_eq!(state(live, 2_100), ConnectionState::Suspended);
        live.on_answer(ms(2_300), ms(2_200));
        assert_eq!(state(live, 2_300), ConnectionState::Connected);
        assert_eq!(live.losses(), 0);
    }

    #[test]
    fn a_late_answer_revives_the_session_but_not_its_holds() {
        let mut live = heard_at(1_000);
        live.on_answer(ms(12_000), ms(11_900));
        assert_eq!(state(live, 12_000), ConnectionState::Connected);
        assert_eq!(live.lost_since(0), Some(LostReason::Silence));
        assert_eq!(live.lost_since(live.losses()), None, "a new hold is not lost");
    }

    #[test]
    fn an_answer_counts_from_when_its_request_was_sent_and_not_from_when_it_came() {
        let mut live = heard_at(1_000);
        // The process was paused between the request and the reading of the answer.
        live.on_answer(ms(20_000), ms(1_500));
        assert_eq!(state(live, 20_000), ConnectionState::Lost);
        assert_eq!(live.losses(), 1);
    }

    #[test]
    fn a_pause_loses_the_holds_whatever_is_noticed_first_after_it() {
        for first in ["nothing", "disconnect", "answer"] {
            let mut live = heard_at(1_000);
            match first {
                "disconnect" => live.on_event(ms(15_000), Event::Disconnected),
                "answer" => live.on_answer(ms(15_000), ms(14_999)),
                _ => {}
            }
            assert_eq!(live.at(ms(15_000)).lost_since(0), Some(LostReason::Silence), "{first}");
        }
    }

    #[test]
    fn a_hold_that_was_granted_while_the_session_was_lost_is_lost_by_the_next_silence() {
        let live = heard_at(1_000).at(ms(11_000));
        let losses = live.losses();
        let mut granted = live;
        // The listing that grants waits for this answer.
        granted.on_answer(ms(11_200), ms(11_100));
        assert_eq!(granted.lost_since(losses), None);
        assert_eq!(granted.at(ms(20_100)).lost_since(losses), Some(LostReason::Silence));
    }

    #[test]
    fn a_hold_that_is_granted_to_a_lost_session_by_an_answer_that_is_read_too_late_is_lost_at_once() {
        let mut live = heard_at(1_000).at(ms(11_000));
        let losses = live.losses();
        // Sent at 11.1 s and answered soon after, but read only when the server may have expired the session again.
        live.on_answer(ms(20_100), ms(11_100));
        assert_eq!(state(live, 20_100), ConnectionState::Lost);
        assert_eq!(live.lost_since(losses), Some(LostReason::Silence));
    }

    #[test]
    fn an_end_is_final_and_always_counts() {
        let mut live = heard_at(1_000).at(ms(11_000));
        let losses = live.losses();
        live.on_event(ms(12_000), Event::Ended(LostReason::Expired));
        assert_eq!(live.lost_since(losses), Some(LostReason::Expired));
        live.on_answer(ms(12_100), ms(12_050));
        live.on_event(ms(12_200), Event::Ended(LostReason::Closed));
        assert_eq!(state(live, 12_300), ConnectionState::Lost);
        assert_eq!((live.ended(), live.losses()), (Some(LostReason::Expired), losses + 1));
    }

    #[test]
    fn a_probe_is_due_when_the_proof_is_a_tenth_of_the_timeout_old_or_the_connection_was_cut() {
        let mut live = heard_at(1_000);
        assert!(!live.at(ms(1_999)).wants_probe());
        assert!(live.at(ms(2_000)).wants_probe());
        live.on_event(ms(1_100), Event::Disconnected);
        assert!(live.at(ms(1_100)).wants_probe());
        live.end(LostReason::Closed);
        assert!(!live.at(ms(60_000)).wants_probe());
    }
}
