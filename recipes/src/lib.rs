//! Distributed locks on ZooKeeper, wire-compatible with Apache Curator's, honest about when a hold is lost.
//!
//! # Which recipe should I use?
//!
//! | You want | Use |
//! |---|---|
//! | one holder at a time, in order of arrival | [`Mutex`] |
//! | to see what a herd costs | [`NaiveLock`], in a comparison only |
//!
//! # Guarantees
//!
//! * **Exclusion** while the holder's session lives: a hold is granted only from a listing that contains our own node,
//!   created by our own session. A missing node is an error, never a grant.
//! * **The truth about a hold.** [`LockGuard::state`] and [`LockGuard::lost`] report a loss *before* the server could
//!   grant the lock to another. They go by this process's monotonic clock and by proof: when the last request that a
//!   server answered had been sent. A paused process, a blocked thread or a half-open connection therefore cannot make
//!   a hold look alive. A lost hold never turns back.
//! * **Fencing tokens** that only grow in grant order ([`LockGuard::token`]).
//! * **Nothing is left behind.** Any future here may be dropped at any `await`: whatever it created, or may have
//!   created, is deleted by the session's reaper.
//! * **One deadline** over everything that `acquire_within` does; after a `None` our node is gone.
//!
//! # Non-guarantees
//!
//! * A holder that is paused *between* a check and a write can write after it was overtaken. Let the storage check the
//!   [token](LockGuard::token).
//! * A hold whose node somebody deletes by hand is not noticed until it is released; the release of a [`NaiveLock`]
//!   may then delete the next holder's node, which has the same path.
//! * A machine that is suspended as a whole stops the monotonic clock of most systems, and with it the truth about
//!   holds until a server is heard again. So do clocks that run apart by more than a few percent.
//! * In an ensemble, a follower tells the leader of its sessions every half tick. Choose session timeouts of at least
//!   five ticks.
//! * The client library cannot restore more than 128 KiB of watched paths on one session after a reconnect, some 1900
//!   waiters: it loses the session then. Spread more waiters over several sessions.
//! * A session lives on the Tokio runtime that it was connected in, and ends with it.
//!
//! # Names
//!
//! A *contender* is any node in the queue of a lock; the *holder* is the one that was admitted, all others are
//! *waiters*, each watching its *predecessor*. A hold is *released*, *abandoned* (dropped) or *lost*.

// In reading order.
mod session;

mod mutex;
mod naive;

mod guard;
mod token;

mod acquire;
mod queue;

mod claim;
mod liveness;
mod node;
mod pulse;
mod reaper;

mod error;
mod traffic;
mod wire;

pub use error::{Error, Source};
pub use guard::{HoldState, LockGuard};
pub use liveness::{ConnectionState, LostReason};
pub use mutex::Mutex;
pub use naive::NaiveLock;
pub use session::{ConnectionStates, Session, SessionConfig};
pub use token::FencingToken;
pub use traffic::Traffic;
