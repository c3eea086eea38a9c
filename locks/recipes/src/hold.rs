//! Holds: how a queue grants them, what guards them, and how they end.

pub(crate) mod evidence;
pub(crate) mod held;
pub(crate) mod node_claim;
pub(crate) mod node_watch;
pub(crate) mod revoke;
pub(crate) mod state;
pub(crate) mod watch;
