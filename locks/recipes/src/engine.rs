//! Runs the contenders of a session for the lock at one path.
//!
//! [`SessionQueue`](zk_recipes_protocol::session_queue::SessionQueue) decides what they do. `core` sends the requests that the queue
//! asks for, and delivers the answers to the queue.
//!
//! A contender has no task. The future that waits for it polls its requests (`contender`). It delivers each answer under a short lock, and
//! the queue takes its next step. Reads that contenders share are tasks (`shared`).

mod contender;
mod core;
mod logged_warnings;
mod requests;
mod search;
mod shared;

pub(crate) use self::contender::Contender;
pub(crate) use self::core::Engine;
pub(crate) use self::search::find_unnamed;
