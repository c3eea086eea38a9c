//! The protocol of the queue locks: the contenders of one session for the lock at one path.
//!
//! [`SessionQueue`] is told what happens ([`Event`]) and says what to do ([`Ask`]). It never waits and does no I/O. A *shell* does
//! what it asks for. There are three: the engine of `zk-recipes` with real servers, the model with simulated servers, and the
//! prediction of very many waiters.
//!
//! A contender goes through the files of this module in this order:
//!
//! * `joining`: it creates its node, alone or in a batch, and finds the node if the reply was lost.
//! * `waiting`: it looks at the queue and waits for its predecessor, until a proof shows that no contender is ahead.
//! * `handover`: if it releases and the next contender in the queue belongs to the same session, that one gets the lock at once.
//! * `leaving`: it deletes its node, also if it gives up before.
//!
//! # What a shell must do
//!
//! 1. It sends all asks of one step, in their order, before it delivers another event of the session. Three kinds of requests may
//!    be sent later and in any order: requests that wait for a connection, [`Ask::Find`] and [`Ask::List`], and requests that follow
//!    from [`Event::Leaves`] without a hand-over. The last only clean up.
//! 2. It may repeat a read over another connection. It then repeats all reads of that ask. Only [`Ask::Find`] and
//!    [`Ask::Identify`] may repeat a single read. If the connection of a write ends, the shell answers the write with
//!    [`Failure::ReplyLost`].
//! 3. It may answer several asks of the second kind by one read that begins after all of them.
//! 4. It delivers a notification before the answers that the server sent after it.
//! 5. It answers every ask that has an answer, even if no user waits for the contender any more.
//! 6. When the session ends, it drops the queue, or discards each contender. The servers delete the session's nodes.

mod ask;
mod chain;
mod contender;
mod grant_proof;
mod handover;
mod joining;
mod leaving;
mod local_queue;
mod step;
mod taken_nodes;
mod waiting;

pub use self::ask::{
    Ask, ContenderId, DeleteCondition, Event, Failure, FirstLook, Found, Made, NewNode, NotCreated, NotDeleted, Pause,
    QueueListing, Seen, Viewpoint, Warning,
};
pub use self::contender::{ContenderState, Outcome, Wish, WishKind};
pub use self::local_queue::Batching;
pub use self::step::SessionQueue;
