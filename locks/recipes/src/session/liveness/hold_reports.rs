//! The log lines about the holds of a session.
//!
//! A hold is in the list from its grant until its end. Only the code that removes it from the list may write the last line about
//! it. So a loss is logged once, even if several places find it.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::{debug, info, warn};
use zk_recipes_protocol::liveness::{Liveness, LossEpoch, LostReason};

use crate::token::FencingToken;

/// The holds of a session that are to be logged.
#[derive(Debug, Default)]
pub(super) struct HoldReports {
    listed: Mutex<Listed>,
}

#[derive(Debug, Default)]
struct Listed {
    next: u64,
    holds: HashMap<u64, Reported>,
}

#[derive(Debug)]
struct Reported {
    hold: HoldName,
    loss_epoch: LossEpoch,
    is_suspect: bool,
    /// Nothing relies on it, so nothing is logged about it.
    is_lingering: bool,
}

/// The name of a hold in the log.
#[derive(Debug)]
pub(crate) struct HoldName {
    lock: String,
    node: String,
    token: FencingToken,
}

/// One hold in the list. If this is dropped, the hold is removed from the list, and nothing more is logged about it.
#[derive(Debug)]
pub(crate) struct HoldReport {
    reports: Arc<HoldReports>,
    number: u64,
}

impl HoldName {
    pub(crate) fn new(lock: &str, node: &str, token: FencingToken) -> Self {
        Self { lock: lock.to_owned(), node: node.to_owned(), token }
    }

    /// Logs the loss of a hold that is no longer in the list.
    pub(crate) fn warn_lost(&self, reason: LostReason) {
        let Self { lock, node, token } = self;
        warn!(lock, node, %token, ?reason, "the hold is lost");
    }
}

impl HoldReports {
    pub(super) fn add(self: &Arc<Self>, hold: HoldName, loss_epoch: LossEpoch) -> HoldReport {
        let mut listed = self.listed.lock();
        let number = listed.next;
        listed.next += 1;
        listed.holds.insert(number, Reported { hold, loss_epoch, is_suspect: false, is_lingering: false });
        HoldReport { reports: Arc::clone(self), number }
    }

    /// Logs each hold that was lost with its session, that became suspect, or that can be relied on again.
    pub(super) fn look(&self, live: &Liveness) {
        self.listed.lock().holds.retain(|_, reported| {
            let lost = live.lost_since(reported.loss_epoch);
            if reported.is_lingering {
                return lost.is_none();
            }
            if let Some(reason) = lost {
                reported.hold.warn_lost(reason);
                return false;
            }
            let HoldName { lock, node, token } = &reported.hold;
            match (mem::replace(&mut reported.is_suspect, !live.is_proved()), reported.is_suspect) {
                (false, true) => info!(lock, node, %token, "the hold is suspect: no server has answered lately"),
                (true, false) => info!(lock, node, %token, "the hold can be relied on again"),
                _ => {}
            }
            true
        });
    }

    /// Logs that somebody else deleted the node of a hold.
    pub(super) fn lose(&self, node: &str) {
        self.listed.lock().holds.retain(|_, Reported { hold, .. }| {
            let is_lost = hold.node == node;
            if is_lost {
                hold.warn_lost(LostReason::NodeDeleted);
            }
            !is_lost
        });
    }
}

impl HoldReport {
    /// Notes the token of the hold after a hand-over. It does not linger any more.
    pub(crate) fn set_token(&self, token: FencingToken) {
        if let Some(reported) = self.reports.listed.lock().holds.get_mut(&self.number) {
            (reported.hold.token, reported.is_lingering) = (token, false);
        }
    }

    /// Notes that the hold lingers.
    pub(crate) fn set_lingering(&self) {
        if let Some(reported) = self.reports.listed.lock().holds.get_mut(&self.number) {
            reported.is_lingering = true;
        }
    }

    /// Logs the loss, unless the hold is no longer in the list.
    pub(crate) fn lost(&self, reason: LostReason) {
        if let Some(hold) = self.end() {
            hold.warn_lost(reason);
        }
    }

    /// Logs that the hold was dropped. `lost`: why it was already lost, if it was. If it was not lost, returns its name for the
    /// reaper, which may find that it was lost.
    pub(crate) fn dropped(&self, lost: Option<LostReason>) -> Option<HoldName> {
        let hold = self.end()?;
        if let Some(reason) = lost {
            hold.warn_lost(reason);
            return None;
        }
        let HoldName { lock, node, token } = &hold;
        debug!(lock, node, %token, "dropped");
        Some(hold)
    }

    /// Removes the hold from the list. `None` if it is no longer there, or lingers.
    pub(crate) fn end(&self) -> Option<HoldName> {
        let reported = self.reports.listed.lock().holds.remove(&self.number);
        reported.filter(|reported| !reported.is_lingering).map(|reported| reported.hold)
    }
}

impl Drop for HoldReport {
    fn drop(&mut self) {
        self.end();
    }
}
