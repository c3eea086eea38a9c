//! Connection events and time in, the state of the session out. Pure: the caller brings the clock.
//!
//! The client library reports an expired session only when it reconnects, or after 7/5 of the session timeout,
//! while the server may grant the lock to somebody else after 1/1. A hold must therefore turn [`Lost`] by our own
//! monotonic clock, early enough. The budget, for a session timeout `T` and a connection timeout `C`:
//!
//! * the client is told to call a connection dead after `C` of silence. It then pings at least every `C/2` and looks
//!   every `C/8`, so when it reports a disconnect, the server has last heard us at most `13/8 C` ago;
//! * a tenth of `T` is kept for the beat below, for the scheduler and for clocks that drift;
//! * what is left of `T` is the [`grace`] that the connection gets to come back. With `C = T/4`, which we ask for,
//!   that is nearly `T/2`.
//!
//! A process that is paused (SIGSTOP, a swapped-out virtual machine) notices nothing while it sleeps. So the session
//! also *beats*: it notes the time every [`beat_interval`]. A gap of [`grace`] between two beats loses every hold, and
//! a disconnect counts from the last beat before it.
//!
//! [`Lost`]: ConnectionState::Lost

use std::fmt;
use std::time::Duration;

/// What a [`Session`](crate::Session) knows of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// Requests are answered.
    Connected,
    /// The connection is gone, the session may still live on the server. Holds are
    /// [`Suspect`](crate::HoldState::Suspect).
    Suspended,
    /// The session must be taken as expired: another client may hold our locks. A session that turns out to have
    /// survived goes back to `Connected`; the holds that it had do not.
    Lost,
}

/// Why a hold is no longer ours to rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// The server has expired the session and deleted its nodes.
    Expired,
    /// The connection stayed away for so long that the server may have expired the session.
    Disconnected,
    /// This process did not run for so long that the server may have expired the session.
    Paused,
    /// The session was closed, by [`Session::close`](crate::Session::close) or because the server refused its
    /// credentials.
    Closed,
    /// The node of the hold was deleted by somebody else; noticed when the hold is released.
    NodeDeleted,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the session expired",
            Self::Disconnected => "the connection was away for too long",
            Self::Paused => "the process was paused for too long",
            Self::Closed => "the session was closed",
            Self::NodeDeleted => "its node was deleted by somebody else",
        })
    }
}

/// What the client library reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Connected,
    Disconnected,
    /// The session will never answer again.
    Ended(LostReason),
}

/// How long the client is to wait for a silent connection before it calls it dead.
pub(crate) fn connection_timeout(session_timeout: Duration) -> Duration {
    session_timeout / 4
}

/// How long a hold survives without a connection, or without this process running.
fn grace(session_timeout: Duration) -> Duration {
    let silence_at_disconnect = connection_timeout(session_timeout) * 13 / 8;
    session_timeout - session_timeout / 10 - silence_at_disconnect
}

/// How often the session notes that it is running.
pub(crate) fn beat_interval(session_timeout: Duration) -> Duration {
    session_timeout / 20
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connected,
    Suspended { since: Duration },
    Lost(LostReason),
    Ended(LostReason),
}

/// The state of one session. Times are offsets from any fixed origin on a monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Liveness {
    grace: Duration,
    phase: Phase,
    beat: Duration,
    losses: u64,
    last_loss: LostReason,
}

impl Liveness {
    /// A session that has just been established, with the session timeout that the server granted.
    pub(crate) fn new(session_timeout: Duration, now: Duration) -> Self {
        Self {
            grace: grace(session_timeout),
            phase: Phase::Connected,
            beat: now,
            losses: 0,
            // Read only once `losses` is positive.
            last_loss: LostReason::Closed,
        }
    }

    /// The state at `now`, had nothing been heard since. Everything that reads the state goes through here, so that
    /// a process that wakes from a pause does not believe what it knew before.
    #[must_use]
    pub(crate) fn at(mut self, now: Duration) -> Self {
        match self.phase {
            Phase::Connected if now.saturating_sub(self.beat) >= self.grace => {
                self.lose(Phase::Lost(LostReason::Paused), LostReason::Paused);
            }
            Phase::Suspended { since } if now.saturating_sub(since) >= self.grace => {
                self.lose(Phase::Lost(LostReason::Disconnected), LostReason::Disconnected);
            }
            _ => {}
        }
        self
    }

    /// Notes that the process is running.
    pub(crate) fn on_beat(&mut self, now: Duration) {
        *self = self.at(now);
        self.beat = now;
        if self.phase == Phase::Lost(LostReason::Paused) {
            // The pause has cost the holds. Whether the session outlived it is for the client library to find out:
            // it reports a disconnect or the expiry if not.
            self.phase = Phase::Connected;
        }
    }

    /// Takes in what the client library reports.
    pub(crate) fn on_event(&mut self, now: Duration, event: Event) {
        let heard_before = self.beat;
        *self = self.at(now);
        match (self.phase, event) {
            (Phase::Ended(_), _) => {}
            (_, Event::Ended(reason)) => self.lose(Phase::Ended(reason), reason),
            (_, Event::Connected) => self.phase = Phase::Connected,
            (Phase::Connected, Event::Disconnected) => self.phase = Phase::Suspended { since: heard_before },
            (Phase::Suspended { .. }, Event::Disconnected) => {}
            // Not `Lost(Paused)`, which the next beat would take for connected.
            (Phase::Lost(_), Event::Disconnected) => self.phase = Phase::Lost(LostReason::Disconnected),
        }
        self.beat = now;
    }

    fn lose(&mut self, phase: Phase, reason: LostReason) {
        // A session that ends after its holds were lost has nothing more to lose, but its reason is the better one.
        if !matches!(self.phase, Phase::Lost(_)) {
            self.losses += 1;
        }
        self.last_loss = reason;
        self.phase = phase;
    }

    pub(crate) fn state(&self) -> ConnectionState {
        match self.phase {
            Phase::Connected => ConnectionState::Connected,
            Phase::Suspended { .. } => ConnectionState::Suspended,
            Phase::Lost(_) | Phase::Ended(_) => ConnectionState::Lost,
        }
    }

    /// Why the session will never answer again, once it will not.
    pub(crate) fn ended(&self) -> Option<LostReason> {
        match self.phase {
            Phase::Ended(reason) => Some(reason),
            _ => None,
        }
    }

    /// How often holds were lost so far. A hold remembers the count at its grant; any later loss is its own.
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    /// Why a hold that was granted at `losses` is lost, if it is.
    pub(crate) fn lost_since(&self, losses: u64) -> Option<LostReason> {
        (self.losses > losses).then_some(self.last_loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    /// What the timeout leaves for a disconnect: 10 s, less 1 s, less 13/8 of 2.5 s.
    const GRACE_MS: u64 = 4_937;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A session that beats every half second until `until_ms`.
    fn beating(until_ms: u64) -> Liveness {
        let mut live = Liveness::new(TIMEOUT, ms(0));
        for at in (0..=until_ms).step_by(500) {
            live.on_beat(ms(at));
        }
        live
    }

    #[test]
    fn a_beating_session_stays_connected() {
        let live = beating(60_000).at(ms(60_400));
        assert_eq!(live.state(), ConnectionState::Connected);
        assert_eq!(live.lost_since(0), None);
    }

    #[test]
    fn a_disconnect_suspends_and_half_the_timeout_later_loses() {
        let mut live = beating(1_000);
        live.on_event(ms(1_200), Event::Disconnected);
        assert_eq!(live.at(ms(1_000 + GRACE_MS)).state(), ConnectionState::Suspended);
        // Counted from the beat before the disconnect, not from the report of it.
        let lost = live.at(ms(1_001 + GRACE_MS));
        assert_eq!(lost.state(), ConnectionState::Lost);
        assert_eq!(lost.lost_since(0), Some(LostReason::Disconnected));
    }

    #[test]
    fn beats_do_not_prolong_a_suspension() {
        let mut live = beating(1_000);
        live.on_event(ms(1_000), Event::Disconnected);
        for at in (1_500..=6_000).step_by(500) {
            live.on_beat(ms(at));
        }
        assert_eq!(live.state(), ConnectionState::Lost);
    }

    #[test]
    fn a_reconnect_in_time_keeps_the_holds() {
        let mut live = beating(1_000);
        live.on_event(ms(1_000), Event::Disconnected);
        live.on_event(ms(4_000), Event::Connected);
        assert_eq!(live.at(ms(8_000)).state(), ConnectionState::Connected);
        assert_eq!(live.lost_since(0), None);
    }

    #[test]
    fn a_late_reconnect_revives_the_session_but_not_its_holds() {
        let mut live = beating(1_000);
        live.on_event(ms(1_000), Event::Disconnected);
        live.on_event(ms(7_000), Event::Connected);
        assert_eq!(live.state(), ConnectionState::Connected);
        assert_eq!(live.lost_since(0), Some(LostReason::Disconnected));
        assert_eq!(live.lost_since(live.losses()), None, "a new hold is not lost");
    }

    #[test]
    fn a_pause_loses_the_holds_before_the_first_beat_after_it() {
        let live = beating(1_000);
        assert_eq!(live.at(ms(1_000 + GRACE_MS)).lost_since(0), None);
        assert_eq!(live.at(ms(1_001 + GRACE_MS)).lost_since(0), Some(LostReason::Paused));
    }

    #[test]
    fn a_pause_is_remembered_after_the_process_runs_again() {
        let mut live = beating(1_000);
        live.on_beat(ms(20_000));
        assert_eq!(live.state(), ConnectionState::Connected);
        assert_eq!(live.lost_since(0), Some(LostReason::Paused));
        assert_eq!(live.losses(), 1);
    }

    #[test]
    fn a_disconnect_noticed_after_a_pause_counts_from_before_the_pause() {
        let mut live = beating(1_000);
        live.on_event(ms(5_500), Event::Disconnected);
        assert_eq!(live.at(ms(1_000 + GRACE_MS)).state(), ConnectionState::Suspended);
        assert_eq!(live.at(ms(1_001 + GRACE_MS)).state(), ConnectionState::Lost);
    }

    #[test]
    fn a_disconnect_that_a_pause_hid_is_not_taken_for_a_connection() {
        let mut live = beating(1_000);
        live.on_event(ms(20_000), Event::Disconnected);
        live.on_beat(ms(20_500));
        assert_eq!(live.state(), ConnectionState::Lost);
        live.on_event(ms(21_000), Event::Connected);
        assert_eq!(live.state(), ConnectionState::Connected);
        assert_eq!(live.losses(), 1);
    }

    #[test]
    fn an_end_is_final_and_counts_once() {
        let mut live = beating(1_000);
        live.on_event(ms(1_000), Event::Disconnected);
        live.on_event(ms(9_000), Event::Ended(LostReason::Expired));
        assert_eq!(live.losses(), 1);
        assert_eq!(live.lost_since(0), Some(LostReason::Expired));
        live.on_event(ms(9_100), Event::Connected);
        live.on_beat(ms(9_200));
        assert_eq!(live.state(), ConnectionState::Lost);
        assert_eq!(live.ended(), Some(LostReason::Expired));
    }

    /// The worst case: the server heard us last just before it fell silent, the client looks as late as it may, and
    /// the beat that notices the loss comes as late as it may.
    #[test]
    fn holds_are_lost_before_the_server_can_expire_the_session() {
        let connection_timeout = connection_timeout(TIMEOUT);
        let silence_at_disconnect = connection_timeout + connection_timeout / 2 + connection_timeout / 8;
        assert!(silence_at_disconnect + grace(TIMEOUT) + beat_interval(TIMEOUT) < TIMEOUT);
    }
}
