//! Which leases of a semaphore hold a permit: a pure decision from one listing.
//!
//! The rule is Curator's, made a little stronger. Curator's clients hold when there are no more leases than permits. Ours
//! hold when their own leases are among the oldest, counted up to the number of permits. As long as only the contender
//! with the lease lock adds leases, its own lease is the newest, and both rules are the same.
//!
//! They differ if somebody deletes a lease lock by hand, because two contenders may wait with leases then. Curator's clients
//! would wait for each other for ever. Of ours, with one lease each, the elder goes first. (With several leases each,
//! created alternately, neither may have all of its leases among the oldest. Then ours wait for each other, too.) Neither
//! rule grants more permits than there are, because every lease that existed at a grant was counted. Ours has one exception: if the
//! younger contender holds, and the number is lowered then, the elder one may be granted beside it.

use std::collections::HashSet;

use crate::names::Names;
use crate::queue::Queue;

/// The node below a semaphore's path in which contenders queue for the lease lock.
pub const LEASE_LOCK: &str = "locks";
/// The node below a semaphore's path whose children are the leases.
pub const LEASES: &str = "leases";

/// The children of a semaphore's `leases` node.
#[derive(Debug)]
pub struct LeaseListing<'a> {
    /// The oldest first.
    names: Vec<&'a str>,
    /// A child that is no lease, if there is one. We ignore it. Curator would count it.
    foreign: Option<&'a str>,
}

/// The answer to "do all of our leases hold?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeasesVerdict {
    /// Yes.
    Granted,
    /// Free permits are fewer than requested.
    Full,
    /// One of our leases is missing. Never a grant: its deletion may have let in another contender.
    Missing,
}

impl<'a> LeaseListing<'a> {
    /// Reads a listing. The order of the children does not matter.
    pub fn from_children<S: AsRef<str>>(children: &'a [S]) -> Self {
        let queue = Queue::from_children(children.iter().map(AsRef::as_ref), Names::LEASES);
        let foreign = queue.foreign().copied();
        Self { names: queue.into_order().into_iter().map(|(lease, _)| lease.name).collect(), foreign }
    }

    /// Returns a child that is no lease, if there is one.
    pub fn foreign(&self) -> Option<&'a str> {
        self.foreign
    }

    /// Tells whether `wanted` more leases would hold at once.
    pub fn have_room_for(&self, wanted: usize, permits: usize) -> bool {
        // After the number was lowered, there may be more leases than permits.
        permits.checked_sub(self.names.len()).is_some_and(|free| wanted <= free)
    }

    /// Decides for the contender with the leases named `own`.
    pub fn verdict(&self, own: &HashSet<&str>, permits: usize) -> LeasesVerdict {
        if self.names.iter().filter(|name| own.contains(*name)).count() < own.len() {
            return LeasesVerdict::Missing;
        }
        // The newest of our leases decides: if it is among the oldest, our others are, too.
        let newer = self.names.iter().rev().take_while(|name| !own.contains(*name)).count();
        if self.names.len() - newer <= permits { LeasesVerdict::Granted } else { LeasesVerdict::Full }
    }
}
