//! The decisions of the locks in `zk-recipes`, without I/O, clock, `async` or dependencies. Answers, notifications and times
//! are arguments. The locks, their models and the prediction of many waiters run this very code.
//!
//! The machines have one convention. `enter` adds a contender. `on` tells an event. Both push to `asks` what the *shell*, which has the
//! connection and the clock, has to do, in this order. `state` says what a contender may do. A machine stores no ask. A shell that drops
//! one, as a cancelled future does, tells that the contender leaves, now or again. The machine then asks for what is left to do.
//!
//! The interface serves those three and changes without notice. Applications use `zk-recipes`.
//!
//! In reading order:
//!
//! * [`names`]: the names of lock nodes, and their order.
//! * [`queue`]: which contenders hold, and which node each waiter watches, from one listing.
//! * [`release_note`]: what the note of the last holder proves.
//! * [`number_proof`]: when the number of a contender's node proves that it holds.
//! * [`session_queue`]: the contenders of one session for one lock, as a state machine made of the decisions above.
//! * [`leases`]: which leases of a semaphore hold a permit.
//! * [`permits`]: an attempt to take permits, as a state machine.
//! * [`naive`]: a contender for one node at a fixed path, as a state machine.
//! * [`cohort`]: the contenders of one session that share one place in the queue, as a state machine.
//! * [`liveness`]: how long a hold can be relied on.
//! * [`stat`] and [`wire_size`]: the stat of a node, and the sizes of requests and replies.

pub mod names;
pub mod queue;

pub mod number_proof;
pub mod release_note;

pub mod session_queue;

pub mod cohort;
pub mod leases;
pub mod naive;
pub mod permits;

pub mod liveness;

pub mod stat;
pub mod wire_size;
