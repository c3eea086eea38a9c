//! The proofs that grants need, and what they tell about a hold later.

use std::sync::Arc;
use std::time::Instant;

use futures_timer::Delay;
use tokio::sync::watch;
use zk_recipes_protocol::liveness::{Liveness, LossEpoch, LostReason};

use crate::session::liveness::hold_logs::{HoldLog, HoldName};
use crate::session::liveness::liveness_cell::LivenessCell;

/// Proof that the session lived when a hold was granted. While any `Proof` exists, the session keeps asking for new proofs.
#[derive(Debug)]
pub(crate) struct Proof {
    view: ProofView,
}

/// A view that shows whether a hold is lost. Unlike a [`Proof`], it does not make the session ask for proofs.
#[derive(Clone, Debug)]
pub(crate) struct ProofView {
    liveness: Arc<LivenessCell>,
    /// The epoch of the grant. A loss starts the next epoch.
    loss_epoch: LossEpoch,
    /// Whether somebody else deleted the node that stands for the hold. All holders of a chain of hand-overs share it.
    is_void: Arc<watch::Sender<bool>>,
}

impl Proof {
    /// Returns the proof for a hold that is granted now. `None` if the last proof is too old.
    pub(crate) fn of(liveness: &Arc<LivenessCell>) -> Option<Self> {
        let live = liveness.read();
        live.is_proved().then(|| {
            let is_void = Arc::new(watch::Sender::new(false));
            Self::begin(ProofView { liveness: Arc::clone(liveness), loss_epoch: live.loss_epoch(), is_void })
        })
    }

    fn begin(view: ProofView) -> Self {
        view.liveness.hold_begins();
        Self { view }
    }

    /// Returns a view of the same hold. The view does not count as a hold.
    pub(crate) fn view(&self) -> &ProofView {
        &self.view
    }

    /// Adds a hold with this proof to those that are logged when they become suspect or are lost.
    pub(crate) fn log(&self, hold: HoldName) -> HoldLog {
        self.view.liveness.logs().add(hold, self.view.loss_epoch)
    }

    /// Tells whether somebody else deleted the node of the hold, as far as this process knows.
    pub(crate) fn is_void(&self) -> bool {
        *self.view.is_void.borrow()
    }

    /// Notes that somebody else deleted the node of the hold. Logs it once.
    pub(crate) fn lose(&self, node: &str) {
        self.view.lose(node);
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
    /// Returns `Ok` if the hold can be relied on. `Err(None)`: it is suspect. `Err` with a reason: it is lost.
    pub(crate) fn state(&self) -> Result<(), Option<LostReason>> {
        let live = self.liveness.read();
        match self.lost_by(&live) {
            None if live.is_proved() => Ok(()),
            reason => Err(reason),
        }
    }

    /// As [`Proof::lose`].
    pub(crate) fn lose(&self, node: &str) {
        self.is_void.send_replace(true);
        self.liveness.logs().lose(node);
    }

    /// Returns why the hold was lost with its session. `None` if it was not.
    pub(crate) fn lost_with_session(&self) -> Option<LostReason> {
        self.liveness.read().lost_since(self.loss_epoch)
    }

    /// Waits until the hold is lost. Returns the reason.
    ///
    /// It has its own timer for the loss, which belongs to no runtime. The keeper has one, too, but may run in a runtime that is
    /// blocked or ending.
    pub(crate) async fn until_lost(&self) -> LostReason {
        // Before the state is read, so no change in between is missed.
        let mut changes = self.liveness.subscribe();
        let mut voids = self.is_void.subscribe();
        loop {
            let live = self.liveness.read();
            if let Some(reason) = self.lost_by(&live) {
                return reason;
            }
            let lost_in = self.liveness.moment(live.lost_at()).saturating_duration_since(Instant::now());
            // `self` keeps both senders alive, so the wait ends with a change or at `lost_at`.
            tokio::select! {
                _ = changes.changed() => {}
                _ = voids.changed() => {}
                () = Delay::new(lost_in) => {}
            }
        }
    }

    fn lost_by(&self, live: &Liveness) -> Option<LostReason> {
        live.lost_since(self.loss_epoch).or_else(|| self.is_void.borrow().then_some(LostReason::NodeDeleted))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
