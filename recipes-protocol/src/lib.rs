//! What the locks of `zk-recipes` decide, without I/O, clock, `async` or dependency: answers, notifications and times come in
//! as arguments. The locks, the model checks in `tests/` and the simulation of many waiters run this very code.
//!
//! The interface is for those three. It changes without notice; use `zk-recipes`.
//!
//! In reading order:
//!
//! * [`names`]: what the name of a node says.
//! * [`queue`]: who holds and who waits for whom, by one listing.
//! * [`predecessors`]: what a waiter remembers of those ahead.
//! * [`release_note`]: what the note of the last holder proves.
//! * [`number_proof`]: when the number of a contender proves that it holds.
//! * [`session_queue`]: the contenders of one session for one lock, as a state machine made of the decisions above.
//! * [`leases`]: who has a permit of a semaphore; [`permits`]: an attempt to take permits, as a state machine.
//! * [`naive`]: a contender for one node at a fixed path, as a state machine.
//! * [`cohort`]: which contender of a process has the turn, and what comes with it, as a state machine.
//! * [`liveness`]: how long a hold can be relied on.
//! * [`stat`] and [`wire_size`]: what servers say of a node, and how many bytes requests and replies have.

pub mod names;
pub mod queue;

pub mod number_proof;
pub mod predecessors;
pub mod release_note;

pub mod session_queue;

pub mod cohort;
pub mod leases;
pub mod naive;
pub mod permits;

pub mod liveness;

pub mod stat;
pub mod wire_size;
