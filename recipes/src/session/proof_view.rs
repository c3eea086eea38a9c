//! What is known of the life of a hold, for those who do not hold.

use std::sync::Arc;

use zk_recipes_protocol::liveness::{Liveness, LossEpoch, LostReason};

use crate::session::liveness_cell::{LivenessCell, Validity};

/// Shows whether a hold is lost. Unlike the proof of the hold it neither makes the session ask for proofs nor keeps it open.
#[derive(Clone, Debug)]
pub(crate) struct ProofView {
    liveness: Arc<LivenessCell>,
    loss_epoch: LossEpoch,
    validity: Validity,
}

impl ProofView {
    pub(crate) fn new(liveness: &Arc<LivenessCell>, loss_epoch: LossEpoch, validity: &Validity) -> Self {
        Self { liveness: Arc::clone(liveness), loss_epoch, validity: validity.clone() }
    }

    /// Whether the hold can be relied on, and if not, why it is lost, if it is.
    pub(crate) fn state(&self) -> Result<(), Option<LostReason>> {
        state(&self.liveness, self.loss_epoch, &self.validity)
    }

    /// Waits until the hold is lost.
    pub(crate) async fn until_lost(&self) -> LostReason {
        until_lost(&self.liveness, self.loss_epoch, &self.validity).await
    }
}

/// The state of a hold that was granted in this epoch.
pub(crate) fn state(
    liveness: &LivenessCell,
    loss_epoch: LossEpoch,
    validity: &Validity,
) -> Result<(), Option<LostReason>> {
    let live = liveness.read();
    match lost_by(&live, loss_epoch, validity) {
        None if live.is_proved() => Ok(()),
        reason => Err(reason),
    }
}

/// Waits until a hold that was granted in this epoch is lost. Looks at the time by itself: the runtime that the session was
/// connected in, where the keeper does, may be another one, and blocked or at its end.
pub(crate) async fn until_lost(liveness: &LivenessCell, loss_epoch: LossEpoch, validity: &Validity) -> LostReason {
    let (mut changes, mut voids) = (liveness.subscribe(), validity.subscribe());
    loop {
        let live = liveness.read();
        if let Some(reason) = lost_by(&live, loss_epoch, validity) {
            return reason;
        }
        let lost_at = liveness.moment(live.lost_at());
        // The caller keeps both senders, so this ends with a change or in time.
        tokio::select! {
            _ = changes.changed() => {}
            _ = voids.changed() => {}
            () = tokio::time::sleep_until(lost_at.into()) => {}
        }
    }
}

fn lost_by(live: &Liveness, loss_epoch: LossEpoch, validity: &Validity) -> Option<LostReason> {
    live.lost_since(loss_epoch).or_else(|| validity.is_void().then_some(LostReason::NodeDeleted))
}
