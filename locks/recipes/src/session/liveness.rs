//! How long the holds of a session can be relied on.

pub(crate) mod hold_logs;
pub(crate) mod liveness_cell;
pub(crate) mod proof;
pub(crate) mod states;
