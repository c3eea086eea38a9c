//! The proofs by which holds are granted, and what they say of a hold later.

use std::sync::Arc;

use tokio::sync::watch;
use zk_recipes_protocol::liveness::{Liveness, LossEpoch, LostReason};

use crate::session::hold_reports::{HoldName, HoldReport};
use crate::session::liveness_cell::LivenessCell;

/// Proof that the session lived when a hold was granted. As long as there is one, the session goes on asking for proofs.
#[derive(Debug)]
pub(crate) struct Proof {
    view: ProofView,
}

/// Shows whether a hold is lost. Unlike a [`Proof`] it does not make the session ask for proofs.
#[derive(Clone, Debug)]
pub(crate) struct ProofView {
    liveness: Arc<LivenessCell>,
    /// The epoch of the grant. A loss begins the next one.
    loss_epoch: LossEpoch,
    /// Whether somebody else has deleted the node that stands for the hold. Shared by all holders to which it is handed over.
    is_void: Arc<watch::Sender<bool>>,
}

impl Proof {
    /// Returns the proof for a hold that is granted now; `None` if the last proof is too old.
    pub(crate) fn of(liveness: &Arc<LivenessCell>) -> Option<Self> {
        let live = liveness.read();
        live.is_proved().then(|| {
            let (loss_epoch, is_void) = (live.loss_epoch(), Arc::new(watch::Sender::new(false)));
            Self::begin(ProofView { liveness: Arc::clone(liveness), loss_epoch, is_void })
        })
    }

    fn begin(view: ProofView) -> Self {
        view.liveness.hold_begins();
        Self { view }
    }

    /// Shows the same hold, without counting as one.
    pub(crate) fn view(&self) -> &ProofView {
        &self.view
    }

    /// Lets the log tell of a hold by this proof when the hold becomes suspect or is lost.
    pub(crate) fn report(&self, hold: HoldName) -> HoldReport {
        self.view.liveness.reports().add(hold, self.view.loss_epoch)
    }

    /// Notes that somebody else has deleted the node of the hold, and logs it once.
    pub(crate) fn lose(&self, node: &str) {
        self.view.is_void.send_replace(true);
        self.view.liveness.reports().lose(node);
    }
}

impl Clone for Proof {
    fn clone(&self) -> Self {
        Self::begin(self.view.clone())
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        self.view.liveness.hold_ends();
    }
}

impl ProofView {
    /// Whether the hold can be relied on. If not, and if the hold is lost, why.
    pub(crate) fn state(&self) -> Result<(), Option<LostReason>> {
        let live = self.liveness.read();
        match self.lost_by(&live) {
            None if live.is_proved() => Ok(()),
            reason => Err(reason),
        }
    }

    /// Why the hold is lost with its session, if it is.
    pub(crate) fn lost_with_session(&self) -> Option<LostReason> {
        self.liveness.read().lost_since(self.loss_epoch)
    }

    /// Waits until the hold is lost. Looks at the time by itself: the keeper, which does so too, may run in a runtime that is blocked
    /// or at its end.
    pub(crate) async fn until_lost(&self) -> LostReason {
        let (mut changes, mut voids) = (self.liveness.subscribe(), self.is_void.subscribe());
        loop {
            let live = self.liveness.read();
            if let Some(reason) = self.lost_by(&live) {
                return reason;
            }
            let lost_at = self.liveness.moment(live.lost_at());
            // `self` keeps both senders, so this ends with a change or in time.
            tokio::select! {
                _ = changes.changed() => {}
                _ = voids.changed() => {}
                () = tokio::time::sleep_until(lost_at.into()) => {}
            }
        }
    }

    fn lost_by(&self, live: &Liveness) -> Option<LostReason> {
        live.lost_since(self.loss_epoch).or_else(|| self.is_void.borrow().then_some(LostReason::NodeDeleted))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use zk_recipes_protocol::liveness::Margins;

    use super::*;

    #[test]
    fn a_session_is_held_until_the_last_of_its_holds_is_dropped() {
        let margins = Margins::new(Duration::from_secs(10), None);
        let liveness = Arc::new(LivenessCell::new(margins, Instant::now()));
        let one = Proof::of(&liveness).unwrap();
        let other = one.clone();
        drop(one);
        assert!(liveness.is_held());
        drop(other);
        assert!(!liveness.is_held());
    }
}
