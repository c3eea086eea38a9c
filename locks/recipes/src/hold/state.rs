//! The states of a hold.

use std::fmt;

use zk_recipes_protocol::liveness::LostReason;

/// The state of a hold: whether it can be relied on at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldState {
    /// The session was proved to live lately. No other session can have taken the lock from it.
    Held,
    /// The connection is gone or has just come back, or a proof is late. No other session can have taken the lock yet. Do not
    /// start anything that cannot be undone.
    Suspect,
    /// Another client may hold. Final: a lost hold stays lost.
    Lost(LostReason),
}

impl HoldState {
    /// Converts the state of a proof. An error means that the hold cannot be relied on. If it is lost, the error has the reason.
    pub(crate) fn of(state: Result<(), Option<LostReason>>) -> Self {
        match state {
            Ok(()) => Self::Held,
            Err(None) => Self::Suspect,
            Err(Some(reason)) => Self::Lost(reason),
        }
    }
}

impl fmt::Display for HoldState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => f.pad("held"),
            Self::Suspect => f.pad("suspect"),
            Self::Lost(reason) => f.pad(&format!("lost: {reason}")),
        }
    }
}
