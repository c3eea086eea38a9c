//! Which leases of a semaphore hold a permit: the decision, from one listing. Pure.
//!
//! The rule is Curator's, made a little stronger. Curator's clients hold when there are no more leases than permits; ours
//! when their own leases are among the oldest, as many as there are permits. While only who has the turn adds a lease,
//! the newest lease is that of who decides, and the two rules are one. When somebody's turn was deleted by hand, two
//! may wait with leases: Curator's would then wait for each other for ever, of ours with a lease each the elder goes
//! first. (With several leases each, created alternately, neither's may all be among the oldest, and ours wait, too.)
//! Neither rule grants more than the permits, whoever else is there, as every lease that was there at a grant was
//! counted.

use std::collections::HashSet;

use crate::names::Names;
use crate::queue::Queue;

/// The node below a semaphore's path in which contenders queue for their turn.
pub const TURNS: &str = "locks";
/// The node below a semaphore's path whose children are the leases.
pub const LEASES: &str = "leases";

/// The children of a semaphore's `leases` node.
#[derive(Debug)]
pub struct Leases<'a> {
    /// The oldest first.
    names: Vec<&'a str>,
    /// A child that is no lease, if there is one. We ignore it, Curator would count it.
    foreign: Option<&'a str>,
}

/// The answer to "do all of our leases hold?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Granted,
    /// Not while so many others hold.
    Full,
    /// One of ours is not in the listing. Never a grant: whoever deleted it may have let another in.
    Missing,
}

impl<'a> Leases<'a> {
    /// Reads a listing, in whatever order the server gave it.
    pub fn from_children<S: AsRef<str>>(children: &'a [S]) -> Self {
        let queue = Queue::from_children(children, Names::LEASES);
        let foreign = queue.foreign();
        Self { names: queue.into_order().into_iter().map(|(lease, _)| lease.name).collect(), foreign }
    }

    /// A child that is no lease, if there is one.
    pub fn foreign(&self) -> Option<&'a str> {
        self.foreign
    }

    /// Whether so many more would hold at once.
    pub fn have_room_for(&self, wanted: usize, permits: usize) -> bool {
        permits.checked_sub(self.names.len()).is_some_and(|free| wanted <= free)
    }

    /// Decides for whoever has the leases named `own`.
    pub fn verdict(&self, own: &HashSet<&str>, permits: usize) -> Verdict {
        if self.names.iter().filter(|name| own.contains(*name)).count() < own.len() {
            return Verdict::Missing;
        }
        let newer = self.names.iter().rev().take_while(|name| !own.contains(*name)).count();
        if self.names.len() - newer <= permits { Verdict::Granted } else { Verdict::Full }
    }
}
