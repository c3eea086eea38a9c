//! The error type of the library.

mod text;

use std::time::Duration;

use zk_recipes_protocol::liveness::LostReason;

pub(crate) use self::text::chain;
use self::text::permits_to_ask_for;
use crate::token::FencingToken;

/// The failure of a recipe or a session. Contention is never an error: it is a value, `None`.
///
/// The text of an error does not repeat its [`source`](std::error::Error::source). [`Several`](Self::Several) is the exception: it
/// contains several errors and has no source, so its text names all causes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The path cannot name a lock.
    #[error("invalid lock path {path:?}: {reason}")]
    #[non_exhaustive]
    InvalidPath {
        /// The path as given.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// The data for a lock's nodes is too long. By default, servers do not accept longer data.
    #[error(
        "the data of a lock's node can be {limit} bytes at most, not {length}: keep it elsewhere and give the nodes a \
         reference to it"
    )]
    #[non_exhaustive]
    NodeDataTooLong {
        /// The given number of bytes.
        length: usize,
        /// The upper bound: [`NODE_DATA_MAX`](crate::NODE_DATA_MAX).
        limit: usize,
    },

    /// The data for a lock's nodes is `__REVOKE__`, which Curator's clients write to ask for a lock back.
    #[error("the data of a lock's node cannot be __REVOKE__, Curator's request for a lock: give it other data")]
    NodeDataReserved,

    /// No attempt to open a session succeeded in time.
    #[error("no ZooKeeper server of {connect_string} gave a session within {within:?}")]
    #[non_exhaustive]
    Connect {
        /// The connect string as given.
        connect_string: String,
        /// The time limit of the attempts.
        within: Duration,
        /// Whether a server closes each connection at once, as if its `maxClientCnxns` were reached. Fewer sessions then help.
        is_limited: bool,
        /// What each server does.
        source: Source,
    },

    /// The connect string is malformed, or a scheme or host in it does not fit the TLS setting. Nothing was sent.
    #[error("cannot read the connect string {connect_string:?} (give host:port,host:port/chroot)")]
    #[non_exhaustive]
    InvalidConnectString {
        /// The connect string as given.
        connect_string: String,
        /// What is wrong with it.
        source: Source,
    },

    /// A setting of [`SessionConfig::tls`](crate::SessionConfig::tls) cannot be used. Nothing was sent.
    #[error("cannot use the {what} for TLS (give it as PEM)")]
    #[non_exhaustive]
    InvalidTls {
        /// The name of the setting.
        what: &'static str,
        /// What is wrong with it.
        source: Source,
    },

    /// The TLS handshake with a server of the connect string failed. Usually one side does not accept the other's certificate.
    #[error(
        "cannot speak TLS with the ZooKeeper server {server} (is its certificate for this host and of the authority that \
         was given, and ours of one that it knows?)"
    )]
    #[non_exhaustive]
    TlsRefused {
        /// The server, as in the connect string.
        server: String,
        /// The error of the handshake.
        source: Source,
    },

    /// A server of the connect string answered, and refused the credentials of the session.
    #[error("a ZooKeeper server of {connect_string} refused the credentials: does it know their scheme?")]
    #[non_exhaustive]
    CredentialsRefused {
        /// The connect string as given.
        connect_string: String,
    },

    /// A server of the connect string requires credentials, and the session has none.
    #[error("a ZooKeeper server of {connect_string} requires credentials, and the session has none")]
    #[non_exhaustive]
    CredentialsMissing {
        /// The connect string as given.
        connect_string: String,
    },

    /// The connect string ends with a chroot that does not exist.
    #[error("there is no node {chroot} on the ZooKeeper servers of {connect_string}: create the chroot first")]
    #[non_exhaustive]
    NoChroot {
        /// The connect string as given.
        connect_string: String,
        /// The path of the chroot.
        chroot: String,
    },

    /// One lock was given twice to a recipe that takes several locks together.
    #[error("the lock {path} was given twice: {reason}")]
    #[non_exhaustive]
    DuplicateLock {
        /// The path of the lock.
        path: String,
        /// Why this is impossible, and what to do instead.
        reason: &'static str,
    },

    /// The nodes of two locks that were given to a recipe are in each other's way. It would wait for itself.
    #[error("the nodes of the locks {path} and {other} meet: {reason}; give them other paths")]
    #[non_exhaustive]
    LocksMeet {
        /// The path of one lock.
        path: String,
        /// The path of the other lock.
        other: String,
        /// Where they meet.
        reason: &'static str,
    },

    /// No lock was given to a recipe that needs at least one.
    #[error("no lock was given: give at least one")]
    NoLocks,

    /// The granted session timeout is too short for the given tick. Holds would be lost between two proofs that the session lives.
    #[error(
        "the session timeout {timeout:?} is too short for servers with a tick of {tick:?}: ask for more, or have the \
         servers' maxSessionTimeout raised"
    )]
    #[non_exhaustive]
    TimeoutTooShort {
        /// The timeout that the server granted.
        timeout: Duration,
        /// The given tick: [`SessionConfig::tick_time`](crate::SessionConfig::tick_time).
        tick: Duration,
    },

    /// The session has ended. It fails every request from then on: open another session.
    #[error("the ZooKeeper session has ended: {reason}")]
    #[non_exhaustive]
    SessionEnded {
        /// Why it ended.
        reason: LostReason,
    },

    /// The session of a [`SharedCount`](crate::SharedCount) has ended, so the number of permits can no longer be read. The session
    /// of the semaphore lives.
    #[error(
        "the ZooKeeper session of the count {path} has ended: {reason}; make the count anew on a session that lives"
    )]
    #[non_exhaustive]
    CountSessionEnded {
        /// The path of the count.
        path: String,
        /// Why its session ended.
        reason: LostReason,
    },

    /// The numbers for the children of a lock's node are nearly used up. After the last number, several contenders would get the same
    /// number and hold at the same time.
    #[error(
        "the node {path} is out of numbers for its children: child {number} of {last} was created. While nobody contends, \
         delete that node, or use another path",
        last = i32::MAX
    )]
    #[non_exhaustive]
    NumbersExhausted {
        /// The node whose children are the queue.
        path: String,
        /// The number of our contender.
        number: i32,
    },

    /// The nodes of an acquire have no room beside the other nodes of the session. A `try` fails so if there is no room now, any other
    /// acquire if there never will be. See [`SessionConfig::node_bytes_max`](crate::SessionConfig::node_bytes_max).
    #[error(
        "no room for {bytes} bytes of node paths at {path}: the nodes of a session have {bytes_max} in all. Use more sessions, or \
         raise jute.maxbuffer of all servers and then node_bytes_max of the session"
    )]
    #[non_exhaustive]
    NoRoom {
        /// The path of the lock.
        path: String,
        /// The room that the nodes need.
        bytes: usize,
        /// The room of all nodes of the session, without the reserve.
        bytes_max: usize,
    },

    /// The server did not answer in time.
    #[error("ZooKeeper did not answer within {within:?}")]
    #[non_exhaustive]
    NoAnswer {
        /// How long the call waited.
        within: Duration,
    },

    /// Our own node is gone, because somebody else deleted it. From a [`Revocation`](crate::Revocation), the reason may also be our
    /// own release.
    #[error("the node {path} has been deleted")]
    #[non_exhaustive]
    NodeDeleted {
        /// The path of the node.
        path: String,
    },

    /// The wait was given up, but the server did not confirm in time that our nodes are gone. The session's reaper continues to
    /// delete them.
    #[error("gave up waiting for {path}, and ZooKeeper did not confirm within {within:?} that the node is gone")]
    #[non_exhaustive]
    Unconfirmed {
        /// The path of the node if it is known, otherwise of the lock or the nodes' parent.
        path: String,
        /// How long the call waited for the confirmation.
        within: Duration,
    },

    /// The hold was lost before it was released. The guarded work may have run at the same time as another holder's.
    #[error("the hold of {path} was lost: {reason}")]
    #[non_exhaustive]
    HoldLost {
        /// The path of the lock.
        path: String,
        /// The path of the hold's node.
        node_path: String,
        /// The token of the hold.
        token: FencingToken,
        /// Why it was lost.
        reason: LostReason,
    },

    /// The number of permits can never be granted: it is 0, or more than the semaphore will have.
    #[error("cannot take {wanted} permits of the semaphore {path}: {}", permits_to_ask_for(*.at_most))]
    #[non_exhaustive]
    InvalidPermits {
        /// The path of the semaphore.
        path: String,
        /// The requested number.
        wanted: u32,
        /// The upper bound of the number.
        at_most: u32,
    },

    /// The data of a count's node is no count.
    #[error("the data of {path} is no count: it has {length} bytes instead of 4, is the node used for something else?")]
    #[non_exhaustive]
    NotACount {
        /// The path of the count.
        path: String,
        /// The number of bytes of its data.
        length: usize,
    },

    /// The data of a node is no identity of an ensemble.
    #[error(
        "the data of {path} is no identity of an ensemble: it has {length} bytes that are not 1 to 64 visible ASCII characters, \
         is the node used for something else?"
    )]
    #[non_exhaustive]
    NotAnEnsembleId {
        /// The path of the node.
        path: String,
        /// The number of bytes of its data.
        length: usize,
    },

    /// The node of a count existed, and somebody deleted it. Its number is unknown until somebody sets it.
    #[error("the node {path} of the count has been deleted: set the count again")]
    #[non_exhaustive]
    CountDeleted {
        /// The path of the count.
        path: String,
    },

    /// It is unknown whether a write was applied. Its reply was lost, and the node has changed since, by this write or by another.
    #[error("the reply to setting {path} was lost, and it has been changed since, perhaps by us: read it again")]
    #[non_exhaustive]
    Indeterminate {
        /// The path of the node.
        path: String,
    },

    /// An owner that holds a read lock asked for the write lock. It would wait for itself forever.
    #[error("the owner that wants to write under {path} still reads there: release the read lock first")]
    #[non_exhaustive]
    Upgrade {
        /// The path of the lock.
        path: String,
    },

    /// Several locks that are used together failed, each with its own error.
    #[error("{}{}", chain(.first), .others.iter().map(|error| format!("; also: {}", chain(error))).collect::<String>())]
    #[non_exhaustive]
    Several {
        /// The first error. If the other locks were undone, this is the cause.
        first: Box<Error>,
        /// The other errors, in the order of the attempts.
        others: Vec<Error>,
    },

    /// The node's ACL does not allow this request to the session.
    #[error("ZooKeeper does not allow this session to {operation} {path} (is it a user that the node's ACL names?)")]
    #[non_exhaustive]
    NotAuthorized {
        /// The requested operation.
        operation: &'static str,
        /// The path of the node.
        path: String,
    },

    /// The server refused a request.
    #[error("ZooKeeper refused to {operation} {path}")]
    #[non_exhaustive]
    Refused {
        /// The requested operation.
        operation: &'static str,
        /// The path of the node.
        path: String,
        /// The error that the server returned.
        source: Source,
    },
}

/// An error of an underlying library. Its type is not part of this library's interface.
pub(crate) type Source = Box<dyn std::error::Error + Send + Sync>;

impl Error {
    pub(crate) fn refused(operation: &'static str, path: &str, source: zookeeper_client::Error) -> Self {
        let path = path.to_owned();
        match source {
            zookeeper_client::Error::NoAuth => Self::NotAuthorized { operation, path },
            source => Self::Refused { operation, path, source: source.into() },
        }
    }

    /// Returns the errors of [`Several`](Self::Several), in the order of the attempts. For any other error, returns only the error
    /// itself.
    pub fn errors(&self) -> impl Iterator<Item = &Self> {
        let (one, others) = match self {
            Self::Several { first, others } => (&**first, &others[..]),
            error => (error, &[][..]),
        };
        std::iter::once(one).chain(others)
    }

    /// Combines all errors into one. `None` if there are none.
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

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn an_error_has_its_cause_as_source_and_tells_all_failures() {
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
