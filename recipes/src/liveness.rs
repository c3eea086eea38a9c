//! Answers and time in, the state of the session out. Pure: the caller brings the clock.
//!
//! The leader expires a session that it has not heard of for the session timeout `T`, and may then grant its locks to
//! somebody else. The client library cannot be asked how long that is: it sends no pings while whoever shares its thread
//! blocks, or the process is paused, and it calls itself connected when a handshake breaks half-way.
//!
//! So holds live on proof. **A request that a quorum has committed proves that the session lived when it was sent.** A read
//! proves nothing: a follower that is cut off answers it. `sync` proves too little: a leader that was deposed and does not
//! know it yet answers it (ZOOKEEPER-1675). A session remembers when the last committed request was sent. While something is
//! held it commits one that changes nothing, every [`prove_after`](Margins::prove_after).
//!
//! # The margin
//!
//! A commit shows that the session had not expired; it does not renew the session. The leader hears of a session by the next
//! ping of its follower, which carries the sessions that the follower has heard since the last one. Let `h` be half a tick,
//! the interval of these pings, and `S` the longest interval between two messages of the session to its follower, pings of
//! the client library included. Consider a follower that stands still right after it has answered a proof that was sent at
//! time 0. The commit went through the same stream as the pings, so all pings before it have arrived. If `S ≤ h`, the last
//! ping left at `-h` or later, and carried the session, as a message fell into the interval before. If `S > h`, the message
//! before the proof was sent at `-S` or later, and a later ping carried it. Either way the leader has heard of the session at
//! `-max(h, S)` or later, and expires it at `T - max(h, S)` or later. A new leader gives every session a whole `T` from its
//! start, which is after the last commit of the old one.
//!
//! | part of `T` | for what |
//! |---|---|
//! | `max(h, T/4)` | the pings of the follower |
//! | `T/12` | the delay of a ping on its way, clocks that run apart, and our own delay until a loss is noticed |
//! | the rest | [`lost_after`](Margins::lost_after): how long a hold survives its last proof |
//!
//! Servers grant no timeout below two ticks, unless `minSessionTimeout` says otherwise. So `h` is at most `T/4`, and a hold is
//! lost `2/3 T` after its last proof. For servers of which that is not true the tick can be given.
//!
//! `S` is at most `T/4` while this process runs: the client library sends a ping when it has sent nothing for `T/8`, and the
//! session looks at the clock every `T/20`. If more than `T/8` passes between two looks, the process was paused, or its
//! runtime was blocked. Then the leader may not have heard of the session since the first of these looks, and a proof counts
//! from then, until the process has run for so long that a message and a ping after it have arrived. The handshake of a
//! new connection is a message to the leader itself.
//!
//! A follower that stands still for longer than `h`, answers a proof before it answers its leader's ping, and then stands
//! still again is not covered.
//!
//! # A new connection
//!
//! The server that a session connects to grants the timeout anew, and it may be shorter. Until the answer is here, the
//! session may have either. So a session with holds first asks that server what it would grant, by a session of its own
//! (`keeper.rs`), and counts on the shorter one from the moment at which its own handshake is sent. A timeout that was once
//! granted never grows: a new leader goes back to the one of the session's creation.

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

/// What happens to a session's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is gone.
    Disconnected,
    /// A handshake for the session is about to be sent, to a server that grants this timeout to others. `None` if nobody
    /// has asked that server: then no hold survives.
    Attaching(Option<Duration>),
    /// The handshake was answered, with this timeout.
    Attached(Duration),
    /// A request was answered on the new connection.
    Connected,
    /// The session will never answer again.
    Ended(LostReason),
}

/// How long the client may wait for a silent connection before it looks for another.
pub(crate) fn connection_timeout(session_timeout: Duration) -> Duration {
    session_timeout / 4
}

/// How long a hold can be relied on, by the session timeout and the tick of the servers. The module derives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Margins {
    session_timeout: Duration,
    /// `None` for a tick of at most half the session timeout.
    tick: Option<Duration>,
}

impl Margins {
    /// The margins of a session timeout as the server granted it.
    pub fn new(session_timeout: Duration, tick: Option<Duration>) -> Self {
        Self { session_timeout, tick }
    }

    pub(crate) fn session_timeout(self) -> Duration {
        self.session_timeout
    }

    /// The age of the last proof at which a session with holds asks for the next one.
    pub(crate) fn prove_after(self) -> Duration {
        self.session_timeout / 5
    }

    /// How often the session looks at the clock.
    pub(crate) fn look_after(self) -> Duration {
        self.session_timeout / 20
    }

    /// The interval between two looks from which on the process was paused. The client library pings as often.
    fn paused_after(self) -> Duration {
        self.session_timeout / 8
    }

    /// After which time without a pause the leader has heard of the session again.
    fn recovers_within(self) -> Duration {
        // The first message may come as late as after a pause that is none yet.
        self.heard_within() + 2 * self.paused_after()
    }

    /// How late the leader may hear of a session that its follower hears.
    fn heard_within(self) -> Duration {
        self.tick.map_or(Duration::ZERO, |tick| tick / 2).max(self.session_timeout / 4)
    }

    /// The age of the last proof from which a hold is suspect, and a grant waits for a new proof.
    fn suspect_after(self) -> Duration {
        self.session_timeout / 3
    }

    /// The age of the last proof at which a hold is lost.
    pub fn lost_after(self) -> Duration {
        self.session_timeout.saturating_sub(self.heard_within() + self.session_timeout / 12)
    }

    /// Whether proofs come often enough for a hold to survive one that is late.
    pub(crate) fn are_sufficient(self) -> bool {
        self.lost_after() >= self.session_timeout / 2
    }

    /// What a handshake is to the proofs after it. The leader has heard of the session when that was sent or later, and then
    /// by the follower from the first message on.
    fn attached(self, sent: Duration, answered: Duration) -> Pause {
        Pause { before: sent + self.paused_after(), after: answered }
    }

    fn shortened_to(self, session_timeout: Duration) -> Self {
        Self { session_timeout: self.session_timeout.min(session_timeout), ..self }
    }
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

/// A time in which this process did not look at the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pause {
    before: Duration,
    after: Duration,
}

/// The state of one session. Times are offsets from any fixed origin on a monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Liveness {
    /// Those of the last proof.
    margins: Margins,
    /// The time for which all of this holds.
    now: Duration,
    /// When the last request was sent that a quorum has committed; earlier after a pause.
    proved: Duration,
    /// When the session looked at the clock last.
    looked: Duration,
    pause: Option<Pause>,
    attaching: Option<Attaching>,
    /// When the connection went that has not come back.
    disconnected: Option<Duration>,
    /// The loss that no proof has made up for yet.
    lost: bool,
    ended: Option<LostReason>,
    losses: u64,
    last_loss: LostReason,
}

impl Liveness {
    /// A session whose handshake was sent at `proved` and has been answered: a quorum has committed the new session.
    pub fn new(margins: Margins, proved: Duration) -> Self {
        Self {
            margins,
            now: proved,
            proved,
            looked: proved,
            pause: Some(margins.attached(proved, proved)),
            attaching: None,
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
        if self.ended.is_none() && !self.lost && now >= self.lost_at() {
            self.lost = true;
            self.count_loss(LostReason::Silence);
        }
        self
    }

    /// Notes that a request is being sent. Returns from when on it counts as a proof, if a quorum commits it.
    pub fn on_send(&mut self, now: Duration) -> Duration {
        self.on_look(now);
        let margins = self.margins();
        match self.pause {
            Some(Pause { before, after }) if now < after + margins.recovers_within() => {
                now.min(before + margins.heard_within() - margins.paused_after())
            }
            _ => now,
        }
    }

    /// Notes that a quorum has committed a request that counts from `sent` on.
    pub fn on_proof(&mut self, now: Duration, sent: Duration) {
        *self = self.at(now);
        if self.ended.is_some() {
            return;
        }
        self.proved = self.proved.max(sent);
        if let Some(Attaching { attached: Some(attached), margins, .. }) = self.attaching
            && sent >= attached
        {
            (self.margins, self.attaching) = (margins, None);
        }
        // An answer that was read too late proves nothing any more.
        self.lost &= now >= self.lost_at();
    }

    /// Notes that this process runs.
    pub fn on_look(&mut self, now: Duration) {
        *self = self.at(now);
        self.look(now);
    }

    fn look(&mut self, at: Duration) {
        if at > self.looked + self.margins().paused_after() {
            let recovers_within = self.margins().recovers_within();
            let earlier = self.pause.filter(|pause| at < pause.after + recovers_within);
            let before = earlier.map_or(self.looked, |pause| pause.before.min(self.looked));
            self.pause = Some(Pause { before, after: at });
        }
        self.looked = self.looked.max(at);
    }

    /// Takes in what happens to the connection.
    pub fn on_event(&mut self, now: Duration, event: Event) {
        *self = self.at(now);
        match event {
            Event::Disconnected => self.disconnected = self.disconnected.or(Some(now)),
            Event::Attaching(granted) => {
                if granted.is_none() {
                    self.count_loss(LostReason::Silence);
                }
                // An earlier handshake without an answer may still have been taken in.
                let first = Attaching { since: now, sent: now, margins: self.margins, attached: None };
                let earlier = self.attaching.unwrap_or(first);
                let margins = granted.map_or(earlier.margins, |granted| earlier.margins.shortened_to(granted));
                self.attaching = Some(Attaching { sent: now, margins, attached: None, ..earlier });
            }
            Event::Attached(granted) => {
                let Some(attaching) = &mut self.attaching else { return };
                attaching.margins = attaching.margins.shortened_to(granted);
                attaching.attached = Some(now);
                self.pause = Some(attaching.margins.attached(attaching.sent, now));
                self.looked = self.looked.max(now);
            }
            Event::Connected => self.disconnected = None,
            Event::Ended(reason) => self.end(reason),
        }
        *self = self.at(now);
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
        self.now.saturating_sub(self.proved)
    }

    /// When holds are lost, unless there is a proof before.
    pub(crate) fn lost_at(&self) -> Duration {
        let by_proof = self.proved + self.margins.lost_after();
        match self.attaching {
            Some(Attaching { since, margins, .. }) => by_proof.min(since + margins.lost_after()),
            None => by_proof,
        }
    }

    /// Whether a session with holds is to ask for a proof.
    pub fn wants_proof(&self) -> bool {
        self.is_connected() && self.age() >= self.margins().prove_after()
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
            Some(_) => ConnectionState::Lost,
            None if is_away_for_long || is_holding && self.lost => ConnectionState::Lost,
            None if self.is_proved() || self.is_connected() && !is_holding => ConnectionState::Connected,
            None => ConnectionState::Suspended,
        }
    }

    /// The margins of the shortest timeout that was granted so far.
    pub(crate) fn margins(&self) -> Margins {
        self.attaching.map_or(self.margins, |attaching| attaching.margins)
    }

    /// Why the session will never answer again, once it will not.
    pub(crate) fn ended(&self) -> Option<LostReason> {
        self.ended
    }

    /// How often holds were lost so far. A hold remembers the count at its grant; any later loss is its own.
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

    const TIMEOUT: Duration = Duration::from_secs(12);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn margins(session_timeout: Duration) -> Margins {
        Margins::new(session_timeout, None)
    }

    /// A session whose last proof was sent at that time.
    fn proved_at(at_ms: u64) -> Liveness {
        let mut live = Liveness::new(margins(TIMEOUT), ms(0));
        for sent in (0..=at_ms).step_by(500).chain([at_ms]) {
            live.on_look(ms(sent));
            live.on_proof(ms(sent), ms(sent));
        }
        live
    }

    /// The process runs all the time.
    fn look(live: &mut Liveness, at_ms: std::ops::Range<u64>) {
        at_ms.step_by(500).for_each(|at| live.on_look(ms(at)));
    }

    /// What a session with holds shows.
    fn state(live: Liveness, at_ms: u64) -> ConnectionState {
        live.at(ms(at_ms)).state(true)
    }

    #[test]
    fn the_margin_covers_the_pings_of_a_follower_and_a_twelfth_of_the_timeout_for_any_tick_and_timeout() {
        for (tick, timeout, lost_after_ms) in [
            (None, 4_000, 2_667),
            (None, 10_000, 6_667),
            (None, 20_000, 13_333),
            (Some(500), 1_000, 667),
            (Some(2_000), 4_000, 2_667),
            (Some(2_000), 10_000, 6_667),
            (Some(2_000), 3_000, 1_750),
            (Some(3_000), 6_000, 4_000),
        ] {
            let margins = Margins::new(ms(timeout), tick.map(ms));
            let half_a_tick = tick.map_or(ms(timeout) / 4, |tick| ms(tick) / 2);
            let messages = [margins.prove_after() + margins.look_after(), margins.paused_after() * 2];
            let latest = messages.into_iter().fold(half_a_tick, Duration::max);
            assert!(margins.lost_after() + latest + ms(timeout) / 12 <= ms(timeout) + ms(1));
            assert_eq!((margins.lost_after() + ms(1) / 2).as_millis(), lost_after_ms, "{tick:?} {timeout}");
            assert!(margins.are_sufficient() && margins.suspect_after() < margins.lost_after());
        }
    }

    #[test]
    fn a_timeout_that_is_too_short_for_the_tick_is_not_sufficient() {
        let are_sufficient = |timeout, tick| Margins::new(ms(timeout), Some(ms(tick))).are_sufficient();
        assert!(are_sufficient(2_400, 2_000));
        assert!(!are_sufficient(2_399, 2_000));
        assert!(!are_sufficient(1_000, 2_000));
        assert!(!are_sufficient(1, 2_000));
    }

    #[test]
    fn of_a_session_that_has_ended_every_hold_is_lost_also_one_that_was_granted_after_the_end() {
        let mut live = proved_at(1_000);
        live.end(LostReason::Closed);
        assert_eq!(live.lost_since(live.losses()), Some(LostReason::Closed));
    }

    #[test]
    fn a_session_that_is_proved_stays_connected() {
        let live = proved_at(60_000);
        assert_eq!(state(live, 60_900), ConnectionState::Connected);
        assert_eq!(live.losses(), 0);
    }

    #[test]
    fn silence_suspends_holds_at_a_third_of_the_timeout_and_loses_them_at_two_thirds() {
        let live = proved_at(1_000);
        assert_eq!(state(live, 4_999), ConnectionState::Connected);
        assert_eq!(state(live, 5_000), ConnectionState::Suspended);
        assert_eq!(state(live, 8_999), ConnectionState::Suspended);
        assert_eq!(state(live, 9_000), ConnectionState::Lost);
        assert_eq!(live.at(ms(9_000)).lost_since(0), Some(LostReason::Silence));
        assert_eq!(live.lost_at(), ms(9_000));
    }

    #[test]
    fn a_session_without_holds_shows_its_connection() {
        let mut live = proved_at(1_000);
        let state = |live: Liveness, at_ms| live.at(ms(at_ms)).state(false);
        assert_eq!(state(live, 60_000), ConnectionState::Connected);
        live.on_event(ms(60_000), Event::Disconnected);
        assert_eq!(state(live, 60_000), ConnectionState::Suspended);
        assert_eq!(state(live, 68_000), ConnectionState::Lost);
        live.on_event(ms(69_000), Event::Connected);
        assert_eq!(state(live, 69_000), ConnectionState::Connected);
    }

    #[test]
    fn a_grant_waits_for_a_proof_unless_there_was_one_lately() {
        let mut live = proved_at(1_000);
        assert!(live.at(ms(4_999)).is_proved());
        assert!(!live.at(ms(5_000)).is_proved());
        assert!(!live.at(ms(60_000)).is_proved());
        look(&mut live, 1_000..60_000);
        let losses = live.at(ms(60_000)).losses();
        live.on_proof(ms(60_000), ms(59_900));
        assert!(live.is_proved());
        assert_eq!((live.losses(), live.lost_since(losses)), (losses, None));
        live.on_event(ms(60_000), Event::Disconnected);
        assert!(!live.is_proved());
    }

    #[test]
    fn a_disconnect_suspends_at_once_and_does_not_prolong_the_proof() {
        let mut live = proved_at(1_000);
        live.on_event(ms(4_000), Event::Disconnected);
        assert_eq!(state(live, 4_000), ConnectionState::Suspended);
        assert_eq!(state(live, 9_000), ConnectionState::Lost);
    }

    #[test]
    fn a_hold_survives_a_new_connection_that_comes_in_time() {
        let mut live = proved_at(1_000);
        live.on_event(ms(2_000), Event::Disconnected);
        live.on_event(ms(2_100), Event::Attaching(Some(TIMEOUT)));
        live.on_event(ms(2_200), Event::Attached(TIMEOUT));
        live.on_proof(ms(2_400), ms(2_300));
        assert_eq!(state(live, 2_400), ConnectionState::Suspended);
        live.on_event(ms(2_400), Event::Connected);
        assert_eq!(state(live, 2_400), ConnectionState::Connected);
        assert_eq!(live.lost_since(0), None);
    }

    #[test]
    fn a_handshake_without_an_answer_counts_with_the_timeout_that_its_server_grants() {
        let mut live = proved_at(1_000);
        live.on_event(ms(2_000), Event::Disconnected);
        live.on_event(ms(2_100), Event::Attaching(Some(ms(1_200))));
        assert_eq!(live.lost_at(), ms(2_900));
        assert_eq!(live.at(ms(2_900)).lost_since(0), Some(LostReason::Silence));
        // Another server grants more, and the first may have taken the session in.
        live.on_event(ms(2_500), Event::Attaching(Some(TIMEOUT)));
        assert_eq!(live.lost_at(), ms(2_900));
        live.on_event(ms(2_600), Event::Attached(TIMEOUT));
        assert_eq!(live.margins().session_timeout(), ms(1_200));
        live.on_proof(ms(2_700), ms(2_650));
        assert_eq!((live.lost_at(), live.lost_since(0)), (ms(2_650 + 800), None));
    }

    #[test]
    fn a_shorter_timeout_counts_from_its_handshake_on_and_not_from_an_older_proof() {
        let mut live = proved_at(1_000);
        live.on_event(ms(2_000), Event::Disconnected);
        live.on_event(ms(7_000), Event::Attaching(Some(ms(3_000))));
        live.on_event(ms(7_100), Event::Attached(ms(3_000)));
        assert_eq!((live.lost_at(), live.lost_since(0)), (ms(9_000), None));
        live.on_proof(ms(7_300), ms(7_200));
        assert_eq!((live.lost_at(), live.lost_since(0)), (ms(9_200), None));
    }

    #[test]
    fn a_timeout_only_becomes_shorter() {
        let mut live = proved_at(1_000);
        for (granted, expected) in [(6_000, 6_000), (12_000, 6_000), (3_000, 3_000), (60_000, 3_000)] {
            live.on_event(ms(1_000), Event::Attaching(Some(ms(granted))));
            live.on_event(ms(1_000), Event::Attached(ms(granted)));
            assert_eq!(live.margins().session_timeout(), ms(expected));
            live.on_proof(ms(1_000), ms(1_000));
            assert_eq!(live.margins().session_timeout(), ms(expected));
        }
        assert_eq!(live.lost_at(), ms(3_000));
    }

    #[test]
    fn no_hold_survives_a_handshake_whose_timeout_nobody_has_asked_for() {
        let mut live = proved_at(1_000);
        live.on_event(ms(1_100), Event::Attaching(None));
        assert_eq!(live.lost_since(0), Some(LostReason::Silence));
        assert_eq!(live.lost_since(live.losses()), None, "a new hold is not lost");
    }

    #[test]
    fn after_a_pause_a_proof_counts_from_before_it_until_pings_have_had_time_to_arrive() {
        let mut live = Liveness { pause: None, ..proved_at(1_000) };
        // Messages of up to 1.5 s before the last look have reached the follower, and 3 s are in the margin.
        assert_eq!(live.on_send(ms(7_000)), ms(1_000 + 1_500));
        look(&mut live, 7_500..13_000);
        assert_eq!(live.on_send(ms(12_999)), ms(2_500));
        assert_eq!(live.on_send(ms(13_000)), ms(13_000));
    }

    #[test]
    fn a_second_pause_soon_after_the_first_counts_from_before_the_first() {
        let mut live = Liveness { pause: None, ..proved_at(1_000) };
        for look in [4_000, 6_000] {
            live.on_look(ms(look));
        }
        assert_eq!(live.on_send(ms(7_000)), ms(2_500));
    }

    #[test]
    fn a_new_connection_is_heard_by_the_leader_whatever_was_before() {
        let mut live = proved_at(1_000);
        live.on_look(ms(6_000));
        live.on_event(ms(6_000), Event::Attaching(Some(TIMEOUT)));
        live.on_event(ms(6_100), Event::Attached(TIMEOUT));
        assert_eq!(live.on_send(ms(6_200)), ms(6_200));
        look(&mut live, 6_500..10_000);
        assert_eq!(live.on_send(ms(10_000)), ms(9_000), "no ping may have come since");
        look(&mut live, 10_000..12_500);
        assert_eq!(live.on_send(ms(12_500)), ms(12_500));
    }

    #[test]
    fn a_late_proof_revives_the_session_but_not_its_holds() {
        let mut live = proved_at(1_000);
        look(&mut live, 1_000..12_000);
        live.on_proof(ms(12_000), ms(11_900));
        assert_eq!(state(live, 12_000), ConnectionState::Connected);
        assert_eq!(live.lost_since(0), Some(LostReason::Silence));
        assert_eq!(live.lost_since(live.losses()), None, "a new hold is not lost");
    }

    #[test]
    fn a_proof_counts_from_when_it_was_sent_and_not_from_when_its_answer_came() {
        let mut live = proved_at(1_000);
        // The process was paused between the request and the reading of the answer.
        live.on_proof(ms(20_000), ms(1_500));
        assert_eq!(state(live, 20_000), ConnectionState::Lost);
        assert_eq!(live.losses(), 1);
        assert!(!live.is_proved());
    }

    #[test]
    fn a_pause_loses_the_holds_whatever_is_noticed_first_after_it() {
        for first in ["nothing", "disconnect", "proof"] {
            let mut live = proved_at(1_000);
            match first {
                "disconnect" => live.on_event(ms(15_000), Event::Disconnected),
                "proof" => live.on_proof(ms(15_000), ms(14_999)),
                _ => {}
            }
            assert_eq!(live.at(ms(15_000)).lost_since(0), Some(LostReason::Silence), "{first}");
        }
    }

    #[test]
    fn an_end_is_final_and_always_counts() {
        let mut live = proved_at(1_000).at(ms(11_000));
        let losses = live.losses();
        live.on_event(ms(12_000), Event::Ended(LostReason::Expired));
        assert_eq!(live.lost_since(losses), Some(LostReason::Expired));
        live.on_proof(ms(12_100), ms(12_050));
        live.on_event(ms(12_200), Event::Ended(LostReason::Closed));
        assert_eq!(state(live, 12_300), ConnectionState::Lost);
        assert_eq!((live.ended(), live.losses()), (Some(LostReason::Expired), losses + 1));
    }

    #[test]
    fn a_proof_is_due_when_the_last_one_is_a_fifth_of_the_timeout_old_and_there_is_a_connection() {
        let mut live = proved_at(1_000);
        assert!(!live.at(ms(3_399)).wants_proof());
        assert!(live.at(ms(3_400)).wants_proof());
        live.on_event(ms(3_400), Event::Disconnected);
        assert!(!live.wants_proof());
        live.on_event(ms(3_500), Event::Connected);
        assert!(live.wants_proof());
        live.end(LostReason::Closed);
        assert!(!live.at(ms(60_000)).wants_proof());
    }
}
