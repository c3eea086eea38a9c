//! The data of the nodes of contenders.

use crate::error::Error;
use crate::hold::revoke;

/// Upper bound of the data of a contender's node, in bytes. If a request is larger than the server's `jute.maxbuffer`, about 1 MiB by
/// default, the server closes the connection without an error. This bound leaves room for the path and the ACL. If many
/// clients call [`participants`](crate::participants()), use far smaller data.
pub const NODE_DATA_MAX: usize = 1_000_000;

/// Checks the data for the nodes of a lock.
pub(crate) fn validate(node_data: &[u8]) -> Result<(), Error> {
    let length = node_data.len();
    let limit = NODE_DATA_MAX;
    if length > limit {
        Err(Error::NodeDataTooLong { length, limit })
    } else if node_data == revoke::REQUEST {
        Err(Error::NodeDataReserved)
    } else {
        Ok(())
    }
}
