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
pub(super) struct HoldLogs {
    listed: Mutex<ListedHolds>,
}

#[derive(Debug, Default)]
struct ListedHolds {
    next: u64,
    holds: HashMap<u64, LoggedHold>,
}

#[derive(Debug)]
struct LoggedHold {
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
pub(crate) struct HoldLog {
    logs: Arc<HoldLogs>,
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

impl HoldLogs {
    pub(super) fn add(self: &Arc<Self>, hold: HoldName, loss_epoch: LossEpoch) -> HoldLog {
        let mut listed = self.listed.lock();
        let number = listed.next;
        listed.next += 1;
        listed.holds.insert(number, LoggedHold { hold, loss_epoch, is_suspect: false, is_lingering: false });
        HoldLog { logs: Arc::clone(self), number }
    }

    /// Logs each hold that was lost with its session, that became suspect, or that can be relied on again.
    pub(super) fn look(&self, live: &Liveness) {
        self.listed.lock().holds.retain(|_, logged| {
            let lost = live.lost_since(logged.loss_epoch);
            if logged.is_lingering {
                return lost.is_none();
            }
            if let Some(reason) = lost {
                logged.hold.warn_lost(reason);
                return false;
            }
            let HoldName { lock, node, token } = &logged.hold;
            match (mem::replace(&mut logged.is_suspect, !live.is_proved()), logged.is_suspect) {
                (false, true) => info!(lock, node, %token, "the hold is suspect: no server has answered lately"),
                (true, false) => info!(lock, node, %token, "the hold can be relied on again"),
                _ => {}
            }
            true
        });
    }

    /// Logs that somebody else deleted the node of a hold.
    pub(super) fn lose(&self, node: &str) {
        self.listed.lock().holds.retain(|_, LoggedHold { hold, .. }| {
            let is_lost = hold.node == node;
            if is_lost {
                hold.warn_lost(LostReason::NodeDeleted);
            }
            !is_lost
        });
    }
}

impl HoldLog {
    /// Notes the token of the hold after a hand-over. It does not linger any more.
    pub(crate) fn set_token(&self, token: FencingToken) {
        if let Some(logged) = self.logs.listed.lock().holds.get_mut(&self.number) {
            logged.hold.token = token;
            logged.is_lingering = false;
        }
    }

    /// Notes that the hold lingers.
    pub(crate) fn set_lingering(&self) {
        if let Some(logged) = self.logs.listed.lock().holds.get_mut(&self.number) {
            logged.is_lingering = true;
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
        let logged = self.logs.listed.lock().holds.remove(&self.number);
        logged.filter(|logged| !logged.is_lingering).map(|logged| logged.hold)
    }
}

impl Drop for HoldLog {
    fn drop(&mut self) {
        self.end();
    }
}
