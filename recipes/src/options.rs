//! What a lock's contenders may be given.

use crate::error::Error;
use crate::hold::revoke;

/// What a lock's contenders may be given beside the path. The default is what Curator's clients expect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockOptions {
    /// The data of our nodes, for whoever looks at the queue; see [`participants`](crate::participants). At most
    /// [`NODE_DATA_MAX`](Self::NODE_DATA_MAX) bytes, and not `__REVOKE__`, by which Curator's clients ask for a lock
    /// back.
    pub node_data: Vec<u8>,
    /// Whether the locks of kazoo, the Python client, are contenders, too. Its clients must then be told to wait for our
    /// nodes, by `extra_lock_patterns` or a subclass, and Curator's clients must stay away from the path.
    pub kazoo: bool,
}

impl LockOptions {
    /// How many bytes of data a lock's node may have. A server closes the connection of whoever sends it more than its
    /// `jute.maxbuffer` in one request, 1 MiB by default, without saying why; this leaves room for path and ACL. Keep it
    /// far smaller where many look at the queue.
    pub const NODE_DATA_MAX: usize = 1_000_000;

    /// With this [`node_data`](Self::node_data).
    #[must_use]
    pub fn with_node_data(self, node_data: impl Into<Vec<u8>>) -> Self {
        Self { node_data: node_data.into(), ..self }
    }

    /// With the locks of [`kazoo`](Self::kazoo) among the contenders.
    #[must_use]
    pub fn with_kazoo(self) -> Self {
        Self { kazoo: true, ..self }
    }
}

/// Checks the data that the nodes of a lock are to have.
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
