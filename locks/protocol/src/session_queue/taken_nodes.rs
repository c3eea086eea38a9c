//! The nodes that are taken by a contender, for nodes whose names do not show their creator.
//!
//! After a lost reply, a `HandoffMutex` finds its node by the mark in the node's data. Anybody may overwrite the data. Then only
//! the session and the name are left, which all contenders of the session share. So every contender takes its node, identified
//! by the transaction that created it. A node whose mark was overwritten goes to the first contender that searches for one. That
//! contender *adopts* it: the node stays taken as long as the session lives, because the reply to its creator may still arrive.
//! If a contender finds its own node taken, it searches as well, and creates another node if it finds none. So there are as many
//! nodes as contenders.
//!
//! All contenders of the session at this path that rely on marks in data take their nodes here, whatever options their locks
//! have. So a node that was never taken is one that some contender has lost.

use std::collections::BTreeSet;

/// The nodes that are taken, by the transactions that created them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TakenNodes {
    /// Nodes whose contenders will still delete them.
    owned: BTreeSet<i64>,
    /// Nodes that were adopted. They stay taken.
    adopted: BTreeSet<i64>,
    adoptions: u32,
}

impl TakenNodes {
    /// Returns how many nodes searches have taken so far. If the number changed during a search that found nothing, the search
    /// starts again. The other search may have taken this contender's node, and left one that was not listed yet.
    pub(super) fn adoptions(&self) -> u32 {
        self.adoptions
    }

    /// Takes a node. Returns `false` if it was taken before.
    pub(super) fn take(&mut self, czxid: i64) -> bool {
        !self.adopted.contains(&czxid) && self.owned.insert(czxid)
    }

    /// Takes a node with overwritten data, in a search. Returns `false` if it was taken before.
    pub(super) fn take_overwritten(&mut self, czxid: i64) -> bool {
        let is_taken = self.take(czxid);
        self.adoptions += u32::from(is_taken);
        is_taken
    }

    /// Notes that a node taken by a search exists. No other contender ever takes it.
    pub(super) fn adopt(&mut self, czxid: i64) {
        self.adopted.insert(czxid);
    }

    /// Frees a node that no contender will delete any more. An adopted node stays taken.
    pub(super) fn release(&mut self, czxid: i64) {
        self.owned.remove(&czxid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_taken_once_until_it_is_freed() {
        let mut taken_nodes = TakenNodes::default();
        assert!(taken_nodes.take(7));
        assert!(!taken_nodes.take(7));
        taken_nodes.release(7);
        assert!(taken_nodes.take(7));
    }

    #[test]
    fn an_adopted_node_stays_taken() {
        let mut taken_nodes = TakenNodes::default();
        assert!(taken_nodes.take_overwritten(7));
        taken_nodes.adopt(7);
        taken_nodes.release(7);
        assert!(!taken_nodes.take(7));
    }
}
