//! The liveness of one session, shared by whoever learns of it and whoever relies on it.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{info, warn};
use zk_recipes_protocol::liveness::{ConnectionState, Event, Liveness, LossEpoch, LostReason, Margins, Sent, Sign};

use crate::session::proof_view::{self, ProofView};

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
    reports: Mutex<Reports>,
}

/// The holds that the log is to tell of.
#[derive(Debug, Default)]
struct Reports {
    next: u64,
    holds: HashMap<u64, Reported>,
}

/// A hold that the log is to tell of.
#[derive(Debug)]
struct Reported {
    path: String,
    token: i64,
    loss_epoch: LossEpoch,
    is_suspect: bool,
}

/// One hold of the session, until it is dropped.
#[derive(Debug)]
struct Holding {
    liveness: Arc<LivenessCell>,
    /// By which the log is to tell of it.
    report: Option<u64>,
}

/// That the session was proved to live when a hold was granted. As long as there is one, the session goes on asking for
/// proofs.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    holding: Holding,
    /// The epoch of the grant. A loss begins the next one.
    loss_epoch: LossEpoch,
    validity: Validity,
}

/// Whether a node stands for a hold, for all to whom the hold is passed on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Validity {
    is_void: Arc<watch::Sender<bool>>,
}

impl LivenessCell {
    /// The liveness of a session whose handshake was begun at `connecting` and has been answered.
    pub(crate) fn new(margins: Margins, connecting: Instant) -> Self {
        let (live, _) = watch::channel(Liveness::new(margins, Duration::ZERO));
        Self { origin: connecting, live, holds: AtomicUsize::new(0), reports: Mutex::default() }
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

    /// What a hold is granted by; `None` if the last proof is too old.
    pub(crate) fn proof(self: &Arc<Self>) -> Option<Proof> {
        let live = self.read();
        live.is_proved().then(|| Proof {
            holding: Holding::new(self),
            loss_epoch: live.loss_epoch(),
            validity: Validity::default(),
        })
    }

    pub(crate) fn is_held(&self) -> bool {
        self.holds.load(Ordering::SeqCst) > 0
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
            self.report();
        }
    }

    /// Logs which holds have become suspect or were lost.
    fn report(&self) {
        let live = self.read();
        self.reports.lock().holds.retain(|_, hold| {
            let Reported { path, token, loss_epoch, is_suspect } = hold;
            if let Some(reason) = live.lost_since(*loss_epoch) {
                warn!(path, token, ?reason, "the hold is lost");
                return false;
            }
            match (mem::replace(is_suspect, !live.is_proved()), *is_suspect) {
                (false, true) => info!(path, token, "the hold is suspect: no server has answered lately"),
                (true, false) => info!(path, token, "the hold can be relied on again"),
                _ => {}
            }
            true
        });
    }
}

impl Proof {
    /// The proof of a hold that the log is to tell of when it becomes suspect or is lost.
    pub(crate) fn reported(mut self, path: &str, token: i64) -> Self {
        let mut reports = self.holding.liveness.reports.lock();
        let number = reports.next;
        reports.next += 1;
        let hold = Reported { path: path.to_owned(), token, loss_epoch: self.loss_epoch, is_suspect: false };
        reports.holds.insert(number, hold);
        drop(reports);
        self.holding.report = Some(number);
        self
    }

    /// Why the hold is lost with its session, if it is.
    pub(crate) fn lost_with_session(&self) -> Option<LostReason> {
        self.holding.liveness.read().lost_since(self.loss_epoch)
    }

    pub(crate) fn validity(&self) -> &Validity {
        &self.validity
    }

    /// Whether the hold can be relied on, and if not, why it is lost, if it is.
    pub(crate) fn state(&self) -> Result<(), Option<LostReason>> {
        proof_view::state(&self.holding.liveness, self.loss_epoch, &self.validity)
    }

    /// Waits until the hold is lost.
    pub(crate) async fn until_lost(&self) -> LostReason {
        proof_view::until_lost(&self.holding.liveness, self.loss_epoch, &self.validity).await
    }

    /// Shows the same hold, without counting as one.
    pub(crate) fn view(&self) -> ProofView {
        ProofView::new(&self.holding.liveness, self.loss_epoch, &self.validity)
    }
}

impl Validity {
    /// Notes that somebody else has deleted the nodes that stood for the hold.
    pub(crate) fn invalidate(&self) {
        self.is_void.send_replace(true);
    }

    pub(crate) fn is_void(&self) -> bool {
        *self.is_void.borrow()
    }

    /// Wakes when the nodes are noted as deleted.
    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.is_void.subscribe()
    }
}

impl Holding {
    fn new(liveness: &Arc<LivenessCell>) -> Self {
        liveness.holds.fetch_add(1, Ordering::SeqCst);
        Self { liveness: Arc::clone(liveness), report: None }
    }
}

impl Clone for Holding {
    fn clone(&self) -> Self {
        Self::new(&self.liveness)
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if let Some(number) = self.report {
            self.liveness.reports.lock().holds.remove(&number);
        }
        self.liveness.holds.fetch_sub(1, Ordering::SeqCst);
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
        let _proof = liveness.proof().unwrap();
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

    #[test]
    fn a_session_is_held_until_the_last_of_its_holds_is_dropped() {
        let liveness = liveness_of(Duration::from_secs(10));
        let one = liveness.proof().unwrap();
        let other = one.clone();
        drop(one);
        assert!(liveness.is_held());
        drop(other);
        assert!(!liveness.is_held());
    }
}
