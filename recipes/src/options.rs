//! The options of a lock.

use crate::error::Error;
use crate::hold::revoke;

/// The options of a lock. With the default, our contenders and Curator's clients can share the lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockOptions {
    /// The data of our nodes. [`participants`](crate::participants) shows them.
    ///
    /// At most [`NODE_DATA_MAX`](Self::NODE_DATA_MAX) bytes. Not `__REVOKE__`, which Curator's clients write to ask for a lock back.
    pub node_data: Vec<u8>,
    /// Whether the locks of kazoo, the Python client, are contenders, too. If so, make its clients wait for our nodes, with
    /// `extra_lock_patterns` or a subclass. Curator's clients must not use the path then.
    pub kazoo: bool,
}

impl LockOptions {
    /// Upper bound of the data of a lock's node, in bytes. If a request is larger than the server's `jute.maxbuffer`, about 1 MiB by
    /// default, the server closes the connection without an error. This bound leaves room for the path and the ACL. If many
    /// clients call [`participants`](crate::participants), use far smaller data.
    pub const NODE_DATA_MAX: usize = 1_000_000;

    /// Sets [`node_data`](Self::node_data).
    #[must_use]
    pub fn with_node_data(self, node_data: impl Into<Vec<u8>>) -> Self {
        Self { node_data: node_data.into(), ..self }
    }

    /// Sets [`kazoo`](Self::kazoo) to `true`.
    #[must_use]
    pub fn with_kazoo(self) -> Self {
        Self { kazoo: true, ..self }
    }
}

/// Checks the data for the nodes of a lock.
pub(crate) fn validate_node_data(node_data: &[u8]) -> Result<(), Error> {
    let (length, limit) = (node_data.len(), LockOptions::NODE_DATA_MAX);
    if length > limit {
        Err(Error::NodeDataTooLong { length, limit })
    } else if node_data == revoke::REQUEST {
        Err(Error::NodeDataReserved)
    } else {
        Ok(())
    }
}
