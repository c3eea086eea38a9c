//! Which nodes belong to which contenders, where the name of a node does not tell.
//!
//! A `HandoffMutex` finds its node after a lost reply by the mark in the node's data. Anybody may overwrite data. Then only the
//! session and the name are left, which several contenders of one session share. So every contender takes its node, by the
//! transaction that created it. A node whose mark is gone goes to the first contender that looks for one. That contender
//! *adopts* it: the node stays taken for as long as the session lives, because the contender that made it may hear of that late.
//! When it finds its node taken, it looks for one as well, and creates another if there is none. So there are as many nodes
//! as contenders.
//!
//! Every contender of the session at the path takes its node here, whatever options its lock has: a node that was never
//! taken is one that some contender has lost.

use std::collections::BTreeSet;

use super::small_map::SmallMap;

/// The nodes that are taken, by the transactions that created them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct NodeOwners {
    /// Those of contenders that still see to them.
    owned: SmallMap<i64, ()>,
    /// Those that a contender has adopted, for good.
    adopted: BTreeSet<i64>,
    adoptions: u32,
}

impl NodeOwners {
    /// How often a search has taken a node so far. A search that finds nothing looks again if this has changed: the other
    /// search may have taken its node, and may have left one that was not listed yet.
    pub(super) fn adoptions(&self) -> u32 {
        self.adoptions
    }

    /// Takes a node. `false` if another contender has taken it.
    pub(super) fn take(&mut self, czxid: i64) -> bool {
        !self.adopted.contains(&czxid) && self.owned.insert(czxid, ()).is_none()
    }

    /// Takes a node whose data were overwritten, in a search. `false` if another contender has taken it.
    pub(super) fn take_overwritten(&mut self, czxid: i64) -> bool {
        let is_taken = self.take(czxid);
        self.adoptions += u32::from(is_taken);
        is_taken
    }

    /// Notes that a node that a search has taken is there: no other contender ever takes it.
    pub(super) fn adopt(&mut self, czxid: i64) {
        self.adopted.insert(czxid);
    }

    /// Lets a node go that nobody sees to any more.
    pub(super) fn release(&mut self, czxid: i64) {
        self.owned.remove(&czxid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_taken_once_until_it_is_let_go() {
        let mut owners = NodeOwners::default();
        assert!(owners.take(7));
        assert!(!owners.take(7));
        owners.release(7);
        assert!(owners.take(7));
    }

    #[test]
    fn an_adopted_node_stays_taken() {
        let mut owners = NodeOwners::default();
        assert!(owners.take_overwritten(7));
        owners.adopt(7);
        owners.release(7);
        assert!(!owners.take(7));
    }
}
