//! Holds: how a queue grants them, what guards them, and how they end.

pub(crate) mod acquire_span;
pub(crate) mod cohort;
pub(crate) mod evidence;
pub(crate) mod guard;
pub(crate) mod held;
pub(crate) mod linger;
pub(crate) mod lock_queue;
pub(crate) mod multi_guard;
pub(crate) mod node_claim;
pub(crate) mod node_watch;
pub(crate) mod owner;
pub(crate) mod revoke;
pub(crate) mod slot;
pub(crate) mod state;
pub(crate) mod turn;
pub(crate) mod waiter;
pub(crate) mod watch;
