//! The one error type of the library.

use std::time::Duration;

use crate::liveness::LostReason;

/// Why a recipe or a session failed. Contention is never an error: it is a value, `None`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path cannot name a lock.
    #[error("invalid lock path {path:?}: {reason}")]
    InvalidPath {
        /// The path as it was given.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// No server of the connect string answered in time.
    #[error("no ZooKeeper server of {connect_string} answered within {within:?}: is one running there?")]
    Connect {
        /// The connect string as it was given.
        connect_string: String,
        /// How long it was tried.
        within: Duration,
        /// What the last attempt said.
        source: Source,
    },

    /// The session has expired or was closed. Nothing on it will ever work again: open another one.
    #[error("the ZooKeeper session has ended: {reason}")]
    SessionEnded {
        /// What ended it.
        reason: LostReason,
    },

    /// The server did not answer in time.
    #[error("ZooKeeper did not answer within {within:?}")]
    NoAnswer {
        /// How long was waited.
        within: Duration,
    },

    /// Our own node went while we queued: deleted by hand, or together with the session.
    #[error("the node {path} was deleted by somebody else while it waited in the queue")]
    NodeDeleted {
        /// The node that vanished.
        path: String,
    },

    /// The wait was given up, but the server did not confirm in time that our node is gone from the queue. The
    /// session's reaper goes on deleting it.
    #[error("gave up waiting for {path}, and ZooKeeper did not confirm within {within:?} that the node is gone")]
    Unconfirmed {
        /// The lock, or the node where its name is known.
        path: String,
        /// How long a confirmation was waited for.
        within: Duration,
    },

    /// The hold was lost before it was released: what it guarded may have run beside another holder.
    #[error("the hold of {path} was lost: {reason}")]
    HoldLost {
        /// The node of the hold.
        path: String,
        /// What ended it.
        reason: LostReason,
    },

    /// The server refused a request.
    #[error("ZooKeeper refused to {operation} {path}: {source}")]
    Refused {
        /// What was asked of it.
        operation: &'static str,
        /// The node concerned.
        path: String,
        /// Its answer.
        source: Source,
    },
}

/// The client library's error under ours, kept opaque: its type is no part of this library's interface.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

impl Error {
    pub(crate) fn refused(operation: &'static str, path: &str, source: zookeeper_client::Error) -> Self {
        Self::Refused { operation, path: path.to_owned(), source: source.into() }
    }
}
