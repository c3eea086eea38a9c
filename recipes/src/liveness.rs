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
//! and a proof that was sent on the same connection at `p`, where `r + h < p`. The follower had the message at `r` at the
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
//! | `T/10` | the interval of the session's own messages: a session that has sent nothing for so long sends a read |
//! | `T/12` | the delay of a ping on its way, clocks that run apart, and our own delay until a loss is noticed |
//! | the rest | [`lost_after`](Margins::lost_after): how long a hold survives its last proof while answers come at once |
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

mod margins;

use std::fmt;
use std::time::Duration;

pub use margins::Margins;

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

/// What a session sends so that it is known to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A request that changes nothing and is committed.
    Proof,
    /// A read. It tells the server that the session lives.
    Read,
}

/// How long the client may wait for a silent connection before it looks for another.
pub(crate) fn connection_timeout(session_timeout: Duration) -> Duration {
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

/// A message of the session, and when its answer was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Answered {
    sent: Duration,
    received: Duration,
}

/// The answers on one connection that show when the leader has heard of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Answers {
    /// When the connection was there.
    since: Duration,
    /// When the last message was sent of which the leader has heard by now.
    heard: Duration,
    /// Later messages, of which the follower may not have told its leader yet, the oldest first.
    pending: [Option<Answered>; PENDING_MAX as usize],
}

/// How many answers are remembered until they are old enough. More would make the last known message at most
/// `h / PENDING_MAX` younger.
const PENDING_MAX: u32 = 4;

impl Answers {
    /// Those on a connection whose handshake was sent at `sent` and answered at `since`.
    fn new(sent: Duration, since: Duration) -> Self {
        Self { since, heard: sent, pending: [None; PENDING_MAX as usize] }
    }

    /// Notes an answer.
    fn note(&mut self, answered: Answered, margins: Margins) {
        self.ripen(answered.received, margins);
        // One of an earlier connection, which was read late, says nothing of this one.
        let is_of_this_one = answered.sent >= self.since;
        let apart = margins.heard_within() / PENDING_MAX;
        let is_apart = self.pending.iter().flatten().all(|before| before.received + apart <= answered.received);
        if is_of_this_one
            && is_apart
            && let Some(free) = self.pending.iter_mut().find(|pending| pending.is_none())
        {
            *free = Some(answered);
        }
    }

    /// Notes of which messages the leader has heard by `now`, if the follower pings it.
    fn ripen(&mut self, now: Duration, margins: Margins) {
        let is_ripe = |pending: &Option<Answered>| {
            pending.is_some_and(|Answered { received, .. }| received + margins.heard_within() < now)
        };
        let ripe = self.pending.iter().filter(|pending| is_ripe(pending)).count();
        self.heard =
            self.pending[..ripe].iter().flatten().map(|answered| answered.sent).fold(self.heard, Duration::max);
        self.pending[..ripe].fill(None);
        self.pending.rotate_left(ripe);
    }
}

/// A request that may become a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sent {
    at: Duration,
    /// When the leader has heard of the session, if it commits the request.
    heard: Duration,
}

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
    /// When the last message was sent that was answered.
    spoken: Duration,
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
    /// A session whose handshake was sent at `connecting` and has been answered: a quorum has committed the new session.
    pub fn new(margins: Margins, connecting: Duration) -> Self {
        Self {
            margins,
            now: connecting,
            proved: connecting,
            heard: connecting,
            answers: Answers::new(connecting, connecting),
            spoken: connecting,
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
                self.answers = Answers::new(attaching.sent, now);
                self.spoken = now;
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
        let by_proof = self.heard + self.margins.trusted_for();
        match self.attaching {
            Some(Attaching { since, margins, .. }) => by_proof.min(since + margins.trusted_for()),
            None => by_proof,
        }
    }

    /// What the session is to send next so that it is known to live, and when; `None` without a connection.
    pub fn due(&self, is_holding: bool) -> Option<(Sign, Duration)> {
        let margins = self.margins();
        let (proof, read) = (self.proved + margins.prove_after(), self.spoken + margins.speak_after());
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

    /// A session that has a proof every half second, of which the last was sent at that time.
    fn proved_at(at_ms: u64) -> Liveness {
        let mut live = Liveness::new(margins(TIMEOUT), ms(0));
        (0..=at_ms).step_by(500).chain([at_ms]).for_each(|at| prove(&mut live, at));
        live
    }

    /// A proof that is answered at once.
    fn prove(live: &mut Liveness, at_ms: u64) {
        let sent = live.on_send(ms(at_ms));
        live.on_proof(ms(at_ms), sent);
    }

    /// A read that is answered at once.
    fn read(live: &mut Liveness, at_ms: u64) {
        let sent = live.on_send(ms(at_ms));
        live.on_answer(ms(at_ms), sent);
    }

    /// What a session with holds shows.
    fn state(live: Liveness, at_ms: u64) -> ConnectionState {
        live.at(ms(at_ms)).state(true)
    }

    #[test]
    fn a_hold_survives_its_last_proof_for_what_the_pings_the_messages_and_the_delays_leave_of_the_timeout() {
        for (tick, timeout, lost_after_ms) in [
            (None, 4_000, 2_267),
            (None, 10_000, 5_667),
            (None, 20_000, 11_333),
            (Some(500), 1_000, 567),
            (Some(2_000), 4_000, 2_267),
            (Some(2_000), 10_000, 7_167),
            (Some(2_000), 3_000, 1_450),
            (Some(3_000), 6_000, 3_400),
        ] {
            let margins = Margins::new(ms(timeout), tick.map(ms));
            assert_eq!((margins.lost_after() + ms(1) / 2).as_millis(), lost_after_ms, "{tick:?} {timeout}");
            assert!(margins.are_sufficient() && margins.suspect_after() < margins.lost_after());
            // Messages as seldom as the session sends them.
            let mut live = Liveness::new(margins, ms(0));
            let step = margins.speak_after();
            let last = (0..100).map(|i| i * step).inspect(|at| {
                let sent = live.on_send(*at);
                live.on_proof(*at, sent);
            });
            let last = last.last().unwrap();
            assert!(live.lost_at() >= last + margins.lost_after(), "{tick:?} {timeout}");
            assert!(live.lost_at() <= last + timeout_less_the_margin(margins), "{tick:?} {timeout}");
        }
    }

    /// The longest that a hold may survive its last proof.
    fn timeout_less_the_margin(margins: Margins) -> Duration {
        margins.trusted_for() - margins.heard_within()
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
    fn silence_suspends_holds_at_a_third_of_the_timeout_and_loses_them_before_the_leader_can() {
        let live = proved_at(1_000);
        assert_eq!(state(live, 4_999), ConnectionState::Connected);
        assert_eq!(state(live, 5_000), ConnectionState::Suspended);
        // Of what came after the handshake the leader need not have heard yet.
        assert_eq!(live.lost_at(), ms(11_000));
        assert_eq!(state(live, 10_999), ConnectionState::Suspended);
        assert_eq!(state(live, 11_000), ConnectionState::Lost);
        assert_eq!(live.at(ms(11_000)).lost_since(0), Some(LostReason::Silence));
    }

    #[test]
    fn a_proof_counts_from_the_last_message_that_the_follower_had_before_its_last_ping() {
        let mut live = Liveness::new(margins(TIMEOUT), ms(0));
        read(&mut live, 20_000);
        prove(&mut live, 23_000);
        assert_eq!(live.lost_at(), ms(11_000), "the follower need not have pinged since");
        prove(&mut live, 23_001);
        assert_eq!((live.lost_at(), live.is_proved()), (ms(31_000), true));
    }

    #[test]
    fn a_message_counts_from_when_it_was_sent_and_once_its_answer_was_received() {
        let mut live = Liveness::new(margins(TIMEOUT), ms(0));
        let slow = live.on_send(ms(2_000));
        live.on_answer(ms(5_000), slow);
        prove(&mut live, 8_000);
        assert_eq!(live.lost_at(), ms(11_000));
        prove(&mut live, 8_001);
        assert_eq!(live.lost_at(), ms(13_000));
    }

    #[test]
    fn a_proof_that_was_sent_before_a_message_ripened_does_not_count_from_that() {
        let mut live = Liveness::new(margins(TIMEOUT), ms(0));
        read(&mut live, 2_000);
        let early = live.on_send(ms(5_000));
        live.on_proof(ms(6_000), early);
        assert_eq!(live.lost_at(), ms(11_000));
    }

    #[test]
    fn many_messages_hide_none_that_is_old_enough() {
        let mut live = Liveness::new(margins(TIMEOUT), ms(0));
        (0..20_000).step_by(10).for_each(|at| read(&mut live, at));
        prove(&mut live, 20_000);
        // An interval of pings, and a quarter of one, by which the remembered messages are apart.
        assert!(live.lost_at() >= ms(20_000 - 3_750 + 11_000), "{:?}", live.lost_at());
        assert!(live.lost_at() <= ms(20_000 - 3_000 + 11_000), "{:?}", live.lost_at());
    }

    #[test]
    fn a_session_without_holds_shows_its_connection() {
        let mut live = proved_at(1_000);
        let state = |live: Liveness, at_ms| live.at(ms(at_ms)).state(false);
        assert_eq!(state(live, 60_000), ConnectionState::Connected);
        live.on_event(ms(60_000), Event::Disconnected);
        assert_eq!(state(live, 60_000), ConnectionState::Suspended);
        assert_eq!(state(live, 67_000), ConnectionState::Lost);
        live.on_event(ms(69_000), Event::Connected);
        assert_eq!(state(live, 69_000), ConnectionState::Connected);
    }

    #[test]
    fn a_grant_waits_for_a_proof_unless_there_was_one_lately() {
        let mut live = proved_at(1_000);
        assert!(live.at(ms(4_999)).is_proved());
        assert!(!live.at(ms(5_000)).is_proved());
        assert!(!live.at(ms(60_000)).is_proved());
        let losses = live.at(ms(60_000)).losses();
        read(&mut live, 56_999);
        prove(&mut live, 60_000);
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
        assert_eq!(state(live, 11_000), ConnectionState::Lost);
    }

    #[test]
    fn a_hold_survives_a_new_connection_that_comes_in_time() {
        let mut live = proved_at(1_000);
        live.on_event(ms(2_000), Event::Disconnected);
        live.on_event(ms(2_100), Event::Attaching(Some(TIMEOUT)));
        live.on_event(ms(2_200), Event::Attached(TIMEOUT));
        prove(&mut live, 2_300);
        assert_eq!(state(live, 2_400), ConnectionState::Suspended);
        live.on_event(ms(2_400), Event::Connected);
        assert_eq!(state(live, 2_400), ConnectionState::Connected);
        assert_eq!((live.lost_since(0), live.lost_at()), (None, ms(13_100)));
    }

    #[test]
    fn an_answer_of_the_connection_before_says_nothing_of_the_new_one() {
        let mut live = proved_at(1_000);
        let late = live.on_send(ms(1_500));
        live.on_event(ms(2_000), Event::Disconnected);
        live.on_event(ms(2_100), Event::Attaching(Some(TIMEOUT)));
        live.on_event(ms(2_200), Event::Attached(TIMEOUT));
        live.on_event(ms(2_200), Event::Connected);
        live.on_answer(ms(2_300), late);
        assert_eq!(live.answers.pending, [None; PENDING_MAX as usize]);
    }

    #[test]
    fn a_handshake_without_an_answer_counts_with_the_timeout_that_its_server_grants() {
        let mut live = proved_at(1_000);
        live.on_event(ms(2_000), Event::Disconnected);
        live.on_event(ms(2_100), Event::Attaching(Some(ms(1_200))));
        assert_eq!(live.lost_at(), ms(3_200));
        assert_eq!(live.at(ms(3_200)).lost_since(0), Some(LostReason::Silence));
        // Another server grants more, and the first may have taken the session in.
        live.on_event(ms(2_500), Event::Attaching(Some(TIMEOUT)));
        assert_eq!(live.lost_at(), ms(3_200));
        live.on_event(ms(2_600), Event::Attached(TIMEOUT));
        assert_eq!(live.margins().session_timeout(), ms(1_200));
        prove(&mut live, 2_700);
        assert_eq!((live.lost_at(), live.lost_since(0)), (ms(2_500 + 1_100), None));
    }

    #[test]
    fn a_shorter_timeout_counts_from_its_handshake_on_and_not_from_an_older_proof() {
        let mut live = proved_at(1_000);
        live.on_event(ms(2_000), Event::Disconnected);
        live.on_event(ms(7_000), Event::Attaching(Some(ms(3_000))));
        live.on_event(ms(7_100), Event::Attached(ms(3_000)));
        assert_eq!((live.lost_at(), live.lost_since(0)), (ms(9_750), None));
        prove(&mut live, 7_200);
        assert_eq!((live.lost_at(), live.lost_since(0)), (ms(9_750), None));
    }

    #[test]
    fn a_timeout_only_becomes_shorter() {
        let mut live = proved_at(1_000);
        for (granted, expected) in [(6_000, 6_000), (12_000, 6_000), (3_000, 3_000), (60_000, 3_000)] {
            live.on_event(ms(1_000), Event::Attaching(Some(ms(granted))));
            live.on_event(ms(1_000), Event::Attached(ms(granted)));
            assert_eq!(live.margins().session_timeout(), ms(expected));
            prove(&mut live, 1_000);
            assert_eq!(live.margins().session_timeout(), ms(expected));
        }
        assert_eq!(live.lost_at(), ms(1_000 + 2_750));
    }

    #[test]
    fn no_hold_survives_a_handshake_whose_timeout_nobody_has_asked_for() {
        let mut live = proved_at(1_000);
        live.on_event(ms(1_100), Event::Attaching(None));
        assert_eq!(live.lost_since(0), Some(LostReason::Silence));
        assert_eq!(live.lost_since(live.losses()), None, "a new hold is not lost");
    }

    #[test]
    fn after_a_pause_no_proof_counts_until_the_follower_has_had_time_to_ping() {
        let mut live = proved_at(1_000);
        prove(&mut live, 15_000);
        assert!(!live.is_proved());
        prove(&mut live, 18_000);
        assert!(!live.is_proved());
        prove(&mut live, 18_001);
        assert!(live.is_proved());
        assert_eq!(live.lost_at(), ms(26_000));
    }

    #[test]
    fn pauses_that_come_again_and_again_do_not_keep_proofs_from_counting() {
        let mut live = proved_at(1_000);
        // Runs for 3.1 s, stands still for 2 s.
        for round in 0..20 {
            (0..3_100).step_by(500).for_each(|at| prove(&mut live, 1_000 + round * 5_100 + at));
        }
        assert!(live.is_proved());
        assert_eq!(live.losses(), 0);
    }

    #[test]
    fn a_late_proof_revives_the_session_but_not_its_holds() {
        let mut live = proved_at(1_000);
        read(&mut live, 8_000);
        prove(&mut live, 12_000);
        assert_eq!(state(live, 12_000), ConnectionState::Connected);
        assert_eq!(live.lost_since(0), Some(LostReason::Silence));
        assert_eq!(live.lost_since(live.losses()), None, "a new hold is not lost");
    }

    #[test]
    fn a_proof_counts_from_when_it_was_sent_and_not_from_when_its_answer_came() {
        let mut live = proved_at(1_000);
        let sent = live.on_send(ms(1_500));
        // The process was paused between the request and the reading of the answer.
        live.on_proof(ms(20_000), sent);
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
                "proof" => prove(&mut live, 15_000),
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
        prove(&mut live, 12_100);
        live.on_event(ms(12_200), Event::Ended(LostReason::Closed));
        assert_eq!(state(live, 12_300), ConnectionState::Lost);
        assert_eq!((live.ended(), live.losses()), (Some(LostReason::Expired), losses + 1));
    }

    #[test]
    fn a_session_with_holds_is_to_prove_that_it_lives_after_a_fifth_of_the_timeout_and_to_read_after_a_tenth() {
        let mut live = proved_at(1_000);
        let due = |live: Liveness, at_ms, is_holding| live.at(ms(at_ms)).due(is_holding);
        assert_eq!(due(live, 1_000, true), Some((Sign::Read, ms(2_200))));
        assert_eq!(due(live, 2_200, true), Some((Sign::Read, ms(2_200))));
        read(&mut live, 2_200);
        assert_eq!(due(live, 2_200, true), Some((Sign::Proof, ms(3_400))));
        assert_eq!(due(live, 2_200, false), Some((Sign::Read, ms(3_400))));
        assert_eq!(due(live, 60_000, true), Some((Sign::Proof, ms(3_400))));
        live.on_event(ms(3_400), Event::Disconnected);
        assert_eq!(due(live, 60_000, true), None);
        live.on_event(ms(3_500), Event::Connected);
        assert_eq!(due(live, 60_000, true), Some((Sign::Proof, ms(3_400))));
        live.end(LostReason::Closed);
        assert_eq!(due(live, 60_000, true), None);
    }
}
