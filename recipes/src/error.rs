//! The one error type of the library.

use std::time::Duration;

use zk_recipes_protocol::liveness::LostReason;

use crate::token::FencingToken;

/// Why a recipe or a session failed. Contention is never an error: it is a value, `None`.
///
/// The text of an error does not repeat its [`source`](std::error::Error::source), but for [`Several`](Self::Several), which has as
/// many as there are errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path cannot name a lock.
    #[error("invalid lock path {path:?}: {reason}")]
    #[non_exhaustive]
    InvalidPath {
        /// The path as it was given.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// The data that was to be given to a lock's nodes is more than servers take.
    #[error(
        "the data of a lock's node can be {limit} bytes at most, not {length}: keep it elsewhere and give the nodes a \
         reference to it"
    )]
    #[non_exhaustive]
    NodeDataTooLong {
        /// How many bytes were given.
        length: usize,
        /// How many there may be: [`LockOptions::NODE_DATA_MAX`](crate::LockOptions::NODE_DATA_MAX).
        limit: usize,
    },

    /// The data that was to be given to a lock's nodes means something else.
    #[error("the data of a lock's node cannot be __REVOKE__, by which a lock is asked for: give it other data")]
    NodeDataReserved,

    /// No server of the connect string answered in time.
    #[error("no ZooKeeper server of {connect_string} answered within {within:?} (is one running there?)")]
    #[non_exhaustive]
    Connect {
        /// The connect string as it was given.
        connect_string: String,
        /// How long it was tried.
        within: Duration,
        /// What the last attempt said.
        source: Source,
    },

    /// The connect string names no servers. Nothing was tried.
    #[error("cannot read the connect string {connect_string:?} (give host:port,host:port/chroot)")]
    #[non_exhaustive]
    InvalidConnectString {
        /// The connect string as it was given.
        connect_string: String,
        /// What is wrong with it.
        source: Source,
    },

    /// A setting of [`SessionConfig::tls`](crate::SessionConfig::tls) is no good. Nothing was tried.
    #[error("cannot use the {what} for TLS (give it as PEM)")]
    #[non_exhaustive]
    InvalidTls {
        /// Which of them.
        what: &'static str,
        /// What is wrong with it.
        source: Source,
    },

    /// A server of the connect string does not prove who it is, or does not accept how the session proves that.
    #[error(
        "cannot speak TLS with the ZooKeeper server {server} (is its certificate for this host and of the authority that \
         was given, and ours of one that it knows?)"
    )]
    #[non_exhaustive]
    TlsRefused {
        /// The server, as in the connect string.
        server: String,
        /// What the handshake came to.
        source: Source,
    },

    /// A server of the connect string answered, and does not accept who the session is.
    #[error("a ZooKeeper server of {connect_string} refused the credentials: does it know their scheme?")]
    #[non_exhaustive]
    CredentialsRefused {
        /// The connect string as it was given.
        connect_string: String,
    },

    /// The connect string ends with a chroot that does not exist.
    #[error("there is no node {chroot} on the ZooKeeper servers of {connect_string}: create the chroot first")]
    #[non_exhaustive]
    NoChroot {
        /// The connect string as it was given.
        connect_string: String,
        /// The path of the chroot.
        chroot: String,
    },

    /// A lock was to be taken twice at once.
    #[error("the lock {path} was given twice: {reason}")]
    #[non_exhaustive]
    DuplicateLock {
        /// The path of the lock.
        path: String,
        /// Why that cannot be, and what to do instead.
        reason: &'static str,
    },

    /// None was given where at least one lock must be.
    #[error("no lock was given: give at least one")]
    NoLocks,

    /// The session timeout that the server granted is too short for the tick that was given: holds would be lost between two
    /// proofs that the session lives.
    #[error(
        "the session timeout {timeout:?} is too short for servers with a tick of {tick:?}: ask for more, or have the \
         servers' maxSessionTimeout raised"
    )]
    #[non_exhaustive]
    TimeoutTooShort {
        /// The timeout as the server granted it.
        timeout: Duration,
        /// [`SessionConfig::tick_time`](crate::SessionConfig::tick_time).
        tick: Duration,
    },

    /// The session has expired or was closed. Nothing on it will ever work again: open another one.
    #[error("the ZooKeeper session has ended: {reason}")]
    #[non_exhaustive]
    SessionEnded {
        /// What ended it.
        reason: LostReason,
    },

    /// The session of a [`SharedCount`](crate::SharedCount) has ended, and nobody can tell any more how many permits
    /// there are. The session of the semaphore lives.
    #[error(
        "the ZooKeeper session of the count {path} has ended: {reason}; make the count anew on a session that lives"
    )]
    #[non_exhaustive]
    CountSessionEnded {
        /// The path of the count.
        path: String,
        /// What ended its session.
        reason: LostReason,
    },

    /// The server has nearly used up the numbers of the children of a lock's node. Contenders with the last number would
    /// hold together.
    #[error(
        "the node {path} is out of numbers for its children: child {number} of {last} was created. While nobody contends, \
         delete that node, or use another path",
        last = i32::MAX
    )]
    #[non_exhaustive]
    NumbersExhausted {
        /// The node whose children queue.
        path: String,
        /// The number that our contender got.
        number: i32,
    },

    /// The server did not answer in time.
    #[error("ZooKeeper did not answer within {within:?}")]
    #[non_exhaustive]
    NoAnswer {
        /// How long was waited.
        within: Duration,
    },

    /// Our own node is gone: somebody else deleted it, or, where a [`Revocation`](crate::Revocation) says so, perhaps we
    /// ourselves.
    #[error("the node {path} has been deleted")]
    #[non_exhaustive]
    NodeDeleted {
        /// The node that is gone.
        path: String,
    },

    /// The wait was given up, but the server did not confirm in time that our node is gone from the queue. The
    /// session's reaper goes on deleting it.
    #[error("gave up waiting for {path}, and ZooKeeper did not confirm within {within:?} that the node is gone")]
    #[non_exhaustive]
    Unconfirmed {
        /// The lock, or the node where its name is known.
        path: String,
        /// How long a confirmation was waited for.
        within: Duration,
    },

    /// The hold was lost before it was released: what it guarded may have run beside another holder.
    #[error("the hold of {path} was lost: {reason}")]
    #[non_exhaustive]
    HoldLost {
        /// The path of the lock.
        path: String,
        /// The node of the hold.
        node_path: String,
        /// The token of the hold.
        token: FencingToken,
        /// What ended it.
        reason: LostReason,
    },

    /// So many permits can never be had.
    #[error("cannot take {wanted} permits of the semaphore {path}: {}", permits_to_ask_for(*.at_most))]
    #[non_exhaustive]
    InvalidPermits {
        /// The path of the semaphore.
        path: String,
        /// How many were asked for.
        wanted: u32,
        /// How many there can be.
        at_most: u32,
    },

    /// The data of a node that was to hold a count is something else.
    #[error("the data of {path} is no count: it has {length} bytes instead of 4, is the node used for something else?")]
    #[non_exhaustive]
    NotACount {
        /// The path of the count.
        path: String,
        /// How many bytes of data it has.
        length: usize,
    },

    /// Whether a write was applied cannot be told: its reply was lost with the connection, and since then the node has
    /// been changed, by this write or by another.
    #[error("the reply to setting {path} was lost, and it has been changed since, perhaps by us: read it again")]
    #[non_exhaustive]
    Indeterminate {
        /// The node.
        path: String,
    },

    /// An owner that shares a lock wants it alone. It would wait for itself for ever.
    #[error("the owner that wants to write under {path} still reads there: release the read lock first")]
    #[non_exhaustive]
    Upgrade {
        /// The path of the lock.
        path: String,
    },

    /// Several locks that were to be one failed, each for a reason of its own.
    #[error("{}{}", chain(.first), .others.iter().map(|error| format!("; also: {}", chain(error))).collect::<String>())]
    #[non_exhaustive]
    Several {
        /// What failed first: the reason why the rest was undone, where it was.
        first: Box<Error>,
        /// What failed beside it, in the order of the attempts.
        others: Vec<Error>,
    },

    /// The session may not do that with a node, as the node's ACL says.
    #[error("ZooKeeper does not allow this session to {operation} {path} (is it a user that the node's ACL names?)")]
    #[non_exhaustive]
    NotAuthorized {
        /// What was asked of the server.
        operation: &'static str,
        /// The node concerned.
        path: String,
    },

    /// The server refused a request.
    #[error("ZooKeeper refused to {operation} {path}")]
    #[non_exhaustive]
    Refused {
        /// What was asked of it.
        operation: &'static str,
        /// The node concerned.
        path: String,
        /// Its answer.
        source: Source,
    },
}

/// An error of another library under ours. Its type is no part of this library's interface.
pub(crate) type Source = Box<dyn std::error::Error + Send + Sync>;

impl Error {
    pub(crate) fn refused(operation: &'static str, path: &str, source: zookeeper_client::Error) -> Self {
        let path = path.to_owned();
        match source {
            zookeeper_client::Error::NoAuth => Self::NotAuthorized { operation, path },
            source => Self::Refused { operation, path, source: source.into() },
        }
    }

    /// The errors that it is made of: those of [`Several`](Self::Several), in the order of the attempts, or itself.
    pub fn errors(&self) -> impl Iterator<Item = &Self> {
        let (one, others) = match self {
            Self::Several { first, others } => (&**first, &others[..]),
            error => (error, &[][..]),
        };
        std::iter::once(one).chain(others)
    }

    /// All of the errors as one; none when there is none.
    pub(crate) fn several(errors: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut errors = errors.into_iter().flat_map(|error| match error {
            Self::Several { first, mut others } => {
                others.insert(0, *first);
                others
            }
            error => vec![error],
        });
        let first = errors.next()?;
        let others: Vec<Self> = errors.collect();
        Some(if others.is_empty() { first } else { Self::Several { first: Box::new(first), others } })
    }
}

fn permits_to_ask_for(at_most: u32) -> String {
    match at_most {
        0 => "it was made without any, make it with 1 or more".to_owned(),
        1 => "ask for 1, it has no more".to_owned(),
        _ => format!("ask for at least 1 and at most {at_most}"),
    }
}

/// An error and its causes in one line, outermost first.
pub(crate) fn chain(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |&error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn an_error_has_its_cause_as_its_source_and_several_tell_all_of_theirs() {
        let refused = || Error::refused("create", "/locks/a", zookeeper_client::Error::BadVersion);
        assert_eq!(refused().to_string(), "ZooKeeper refused to create /locks/a");
        let cause = refused().source().unwrap().to_string();
        let several = Error::several([refused(), Error::NodeDeleted { path: "/locks/b".to_owned() }]).unwrap();
        let told = format!("ZooKeeper refused to create /locks/a: {cause}; also: the node /locks/b has been deleted");
        assert_eq!(several.to_string(), told);
        assert!(several.source().is_none());
        assert_eq!(several.errors().count(), 2);
    }
}
