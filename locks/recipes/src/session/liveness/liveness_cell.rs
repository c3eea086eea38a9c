//! The liveness of one session, shared by the code that updates it and the code that relies on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use zk_recipes_protocol::liveness::{ConnectionState, Event, Liveness, LostReason, Margins, Sent, Sign};

use crate::session::liveness::hold_logs::HoldLogs;

/// The liveness with its clock. The clock is read only while the state is locked. So no reader or writer acts on a time before the
/// last noted one.
#[derive(Debug)]
pub(crate) struct LivenessCell {
    /// The origin of the times in `live`.
    origin: Instant,
    live: watch::Sender<Liveness>,
    /// The number of holds. A session without holds does not ask for proofs.
    holds: AtomicUsize,
    /// The holds that are to be logged.
    logs: Arc<HoldLogs>,
}

impl LivenessCell {
    /// Returns the liveness of a new session. Its handshake started at `connecting` and was answered.
    pub(crate) fn new(margins: Margins, connecting: Instant) -> Self {
        let (live, _) = watch::channel(Liveness::new(margins, Duration::ZERO));
        Self { origin: connecting, live, holds: AtomicUsize::new(0), logs: Arc::default() }
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Notes that a message is about to be sent.
    pub(crate) fn sending(&self) -> Sent {
        let mut sent = None;
        self.update(|live, now| sent = Some(live.on_send(now)));
        sent.expect("BUG: an update did not run")
    }

    /// Converts a time of the liveness into an instant.
    pub(crate) fn moment(&self, time: Duration) -> Instant {
        self.origin + time
    }

    /// Returns the state at this moment.
    pub(crate) fn read(&self) -> Liveness {
        let live = self.live.borrow();
        live.at(self.now())
    }

    /// Returns the connection state that the session shows at this moment.
    pub(crate) fn state(&self) -> ConnectionState {
        self.read().state(self.is_held())
    }

    pub(crate) fn is_held(&self) -> bool {
        self.holds.load(Ordering::SeqCst) > 0
    }

    /// Notes the start of a hold. The session asks for proofs until the hold ends.
    pub(super) fn hold_begins(&self) {
        self.holds.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn hold_ends(&self) {
        self.holds.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn logs(&self) -> &Arc<HoldLogs> {
        &self.logs
    }

    /// Notes the answer to a message.
    pub(crate) fn answered(&self, sent: Sent) {
        self.update(|live, now| live.on_answer(now, sent));
    }

    /// Notes the answer to a request that a quorum committed.
    pub(crate) fn proved(&self, sent: Sent) {
        self.update(|live, now| live.on_proof(now, sent));
    }

    pub(crate) fn event(&self, event: Event) {
        self.update(|live, now| live.on_event(now, event));
    }

    pub(crate) fn end(&self, reason: LostReason) {
        self.update(|live, _| live.end(reason));
    }

    /// Notes changes that come from time alone.
    pub(crate) fn look(&self) {
        self.update(|live, now| *live = live.at(now));
    }

    /// Returns the next sign of life to send, and the time until it is due. `None` without a connection.
    pub(crate) fn due(&self) -> Option<(Sign, Duration)> {
        let live = self.live.borrow();
        let now = self.now();
        live.at(now).due(self.is_held()).map(|(sign, at)| (sign, at.saturating_sub(now)))
    }

    /// Returns a receiver. It wakes if the connection state changes or holds are lost. It also wakes if holds become suspect or
    /// proved, or will be lost earlier than noted before.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Liveness> {
        self.live.subscribe()
    }

    fn update(&self, change: impl FnOnce(&mut Liveness, Duration)) {
        let is_held = self.is_held();
        let is_changed = self.live.send_if_modified(|live| {
            let now = self.now();
            // A reader may have seen a change that came from time alone and that is not noted yet. So both states are compared.
            let noted = *live;
            let seen = live.at(now);
            change(live, now);
            // A waiter for the loss sleeps until the time that it has read, so an earlier time must wake it.
            let is_earlier = live.lost_at() < noted.lost_at();
            let shown = |live: &Liveness| (live.state(is_held), live.loss_epoch(), live.is_proved());
            is_earlier || [noted, seen].iter().any(|before| shown(before) != shown(live))
        });
        if is_changed {
            self.logs.look(&self.read());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the liveness of a session that connected some time ago. Nothing was noted since.
    fn liveness_of(session_timeout: Duration, connected_for: Duration) -> LivenessCell {
        LivenessCell::new(Margins::new(session_timeout, None), Instant::now() - connected_for)
    }

    #[test]
    fn a_proof_after_an_unnoted_silence_wakes_who_saw_it() {
        // The silence lasts from 200 s to 550 s, and the proof counts until 450 s. So a busy machine has minutes for the rest.
        let liveness = liveness_of(Duration::from_secs(600), Duration::from_secs(300));
        liveness.hold_begins();
        let sent = liveness.read().on_send(Duration::from_secs(250));
        assert_eq!(liveness.state(), ConnectionState::Suspended);
        let changes = liveness.subscribe();
        liveness.proved(sent);
        assert_eq!(liveness.state(), ConnectionState::Connected);
        assert!(changes.has_changed().unwrap(), "it would wait for what has happened");
    }

    #[test]
    fn waiters_for_the_end_of_a_hold_are_woken_by_an_earlier_end() {
        let liveness = liveness_of(Duration::from_secs(1_000), Duration::ZERO);
        let mut changes = liveness.subscribe();
        liveness.proved(liveness.sending());
        assert!(!changes.has_changed().unwrap());
        liveness.event(Event::Attaching(Duration::from_secs(10)));
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        liveness.event(Event::Attached(Duration::from_secs(5)));
        assert!(changes.has_changed().unwrap());
    }
}
