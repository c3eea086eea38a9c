//! What the queue knows of consecutive hand-overs within a session.

use super::ask::ContenderId;
use crate::stat::ParentCzxid;

/// A chain of local hand-overs: consecutive holds of one session, each handed over by the contender before. No other session holds
/// in between. The chain exists as long as one of its contenders holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Chain {
    pub(super) holder: ContenderId,
    /// The contenders whose nodes stand for the hold, beside the holder's own node.
    pub(super) kept: Vec<ContenderId>,
    /// The lock's node and the version of its data, for the note of the last holder.
    pub(super) note: Option<(ParentCzxid, i32)>,
}

impl Chain {
    /// Forgets a contender.
    pub(super) fn discard(&mut self, id: ContenderId) {
        self.kept.retain(|kept| *kept != id);
    }
}
