//! The states of a hold.

use std::fmt;

use zk_recipes_protocol::liveness::LostReason;

/// Whether a hold can be relied on at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldState {
    /// The session was proved to live lately: nobody else holds.
    Held,
    /// The connection is away, has just come back, or a proof is late. Nobody else holds yet; do not start what cannot be
    /// undone.
    Suspect,
    /// Another client may hold. Final: it never turns back.
    Lost(LostReason),
}

impl HoldState {
    /// Of a proof's answer: an error if the hold cannot be relied on, with the reason if it is lost.
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
