//! Runs the contenders of a session for the lock at one path.
//!
//! [`SessionQueue`](zk_recipes_protocol::session_queue::SessionQueue) decides what they do. `core` sends what the queue asks for and tells
//! the queue what came back. There is no task: the future that waits for a contender polls its requests (`place`), delivers each
//! answer under a short lock, and so lets the queue take its next step.

mod contender;
mod core;
mod finding;
mod mark;
mod parent_watch;
mod place;
mod requests;

pub(crate) use self::contender::{Contender, withdrawal};
pub(crate) use self::core::{Engine, Granted};
pub(crate) use self::finding::{find_unnamed, is_ours, made};
pub(crate) use self::place::Place;
