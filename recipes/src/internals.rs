//! The pure decisions of the locks, for the benches and for simulations. There is no promise of stability.

use crate::acl::Acl;
use crate::traffic;

pub use zookeeper_client::Stat;

pub use crate::ahead::Ahead;
pub use crate::cohort::turns::{Bounds, Entry, Standing, Step, Turns};
pub use crate::leases::{Leases, Verdict as LeasesVerdict};
pub use crate::liveness::{Event, Liveness, Margins, Sent, Sign};
pub use crate::node::{Mode, Names, Sequence};
pub use crate::queue::{Contender, Queue, Verdict};
pub use crate::released::{Noted, note};
pub use crate::traffic::{
    Counters, STAT, check_len, children_reply_len, create_reply_len, data_reply_len, delete_request_len,
    read_request_len, set_data_request_len, string_len, transaction_len,
};
pub use crate::uncontended::{Expected, Grant, Opening, Uncontended};

/// The record of a `create` of a node that is open to anyone: `path` and `data` are their numbers of bytes.
pub fn create_request_len(path: usize, data: usize) -> usize {
    traffic::create_request_len(path, data, Acl::open().entries())
}
