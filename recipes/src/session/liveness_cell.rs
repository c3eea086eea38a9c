//! The liveness of one session, shared by whoever learns of it and whoever relies on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use zk_recipes_protocol::liveness::{ConnectionState, Event, Liveness, LostReason, Margins, Sent, Sign};

use crate::session::hold_reports::HoldReports;

/// The liveness with its clock. Time is always read while the state is held, so that no reader or writer acts on a
/// time that another has overtaken.
#[derive(Debug)]
pub(crate) struct LivenessCell {
    /// The origin of the times in `live`.
    origin: Instant,
    live: watch::Sender<Liveness>,
    /// The number of holds. Only a session that has any asks for proofs.
    holds: AtomicUsize,
    /// What the log says of the holds.
    reports: Arc<HoldReports>,
}

impl LivenessCell {
    /// The liveness of a session whose handshake was begun at `connecting` and has been answered.
    pub(crate) fn new(margins: Margins, connecting: Instant) -> Self {
        let (live, _) = watch::channel(Liveness::new(margins, Duration::ZERO));
        Self { origin: connecting, live, holds: AtomicUsize::new(0), reports: Arc::default() }
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

    /// The moment of a time in the liveness.
    pub(crate) fn moment(&self, time: Duration) -> Instant {
        self.origin + time
    }

    /// The state now.
    pub(crate) fn read(&self) -> Liveness {
        let live = self.live.borrow();
        live.at(self.now())
    }

    /// What the session shows of the state now.
    pub(crate) fn state(&self) -> ConnectionState {
        self.read().state(self.is_held())
    }

    pub(crate) fn is_held(&self) -> bool {
        self.holds.load(Ordering::SeqCst) > 0
    }

    /// Notes that a hold begins. The session asks for proofs until it ends.
    pub(super) fn hold_begins(&self) {
        self.holds.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn hold_ends(&self) {
        self.holds.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn reports(&self) -> &Arc<HoldReports> {
        &self.reports
    }

    /// Notes the answer to a message.
    pub(crate) fn answered(&self, sent: Sent) {
        self.update(|live, now| live.on_answer(now, sent));
    }

    /// Notes the answer to a request that a quorum has committed.
    pub(crate) fn proved(&self, sent: Sent) {
        self.update(|live, now| live.on_proof(now, sent));
    }

    pub(crate) fn event(&self, event: Event) {
        self.update(|live, now| live.on_event(now, event));
    }

    pub(crate) fn end(&self, reason: LostReason) {
        self.update(|live, _| live.end(reason));
    }

    /// Notes what time alone has changed.
    pub(crate) fn look(&self) {
        self.update(|live, now| *live = live.at(now));
    }

    /// What the session is to send next so that it is known to live, and in how long; `None` without a connection.
    pub(crate) fn due(&self) -> Option<(Sign, Duration)> {
        let live = self.live.borrow();
        let now = self.now();
        live.at(now).due(self.is_held()).map(|(sign, at)| (sign, at.saturating_sub(now)))
    }

    /// Wakes with every change of the state, loss of holds and earlier end of theirs.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Liveness> {
        self.live.subscribe()
    }

    fn update(&self, change: impl FnOnce(&mut Liveness, Duration)) {
        let is_held = self.is_held();
        let is_changed = self.live.send_if_modified(|live| {
            let now = self.now();
            // Whoever has read the state may have seen one that time alone has made of it, and that nobody has noted yet.
            let (noted, seen) = (*live, live.at(now));
            change(live, now);
            let is_earlier = live.lost_at() < noted.lost_at();
            let shown = |live: &Liveness| (live.state(is_held), live.loss_epoch(), live.is_proved());
            is_earlier || [noted, seen].iter().any(|before| shown(before) != shown(live))
        });
        if is_changed {
            self.reports.look(&self.read());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn liveness_of(session_timeout: Duration) -> Arc<LivenessCell> {
        Arc::new(LivenessCell::new(Margins::new(session_timeout, None), Instant::now()))
    }

    #[test]
    fn a_proof_that_ends_a_silence_nobody_has_noted_wakes_whoever_saw_it() {
        let liveness = liveness_of(Duration::from_millis(200));
        liveness.hold_begins();
        while liveness.state() == ConnectionState::Connected {
            std::thread::yield_now();
        }
        let changes = liveness.subscribe();
        liveness.proved(liveness.sending());
        assert_eq!(liveness.state(), ConnectionState::Connected);
        assert!(changes.has_changed().unwrap(), "it would wait for what has happened");
    }

    #[test]
    fn whoever_waits_for_the_end_of_a_hold_is_woken_when_that_comes_earlier_and_not_by_every_proof() {
        let liveness = liveness_of(Duration::from_secs(1_000));
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
