//! Which nodes of a session belong to which of its claims, where the name of a node does not tell.
//!
//! A `HandoffMutex` finds its node after a lost reply by the mark in the node's data. Anybody may overwrite data, and then
//! only the session and the name are left, which several claims of one session share. So every claim takes its node, by the
//! transaction that created it. A node whose mark is gone goes to the first claim that looks for one. That claim *adopts*
//! it: the node stays taken for as long as the session lives, because the claim that made it may see its answer late. When
//! that claim finds its node taken, it looks for one as well, and creates another if there is none. So there are as many
//! nodes as claims.
//!
//! Every claim of the session at the path must take its nodes here, whatever options its lock has: a node that was never
//! taken is one that some claim has lost.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The taken children of one parent.
#[derive(Debug, Default)]
pub(crate) struct TakenNodes {
    nodes: Mutex<Nodes>,
    /// How often a search has taken a node.
    adoptions: AtomicU64,
}

/// The transactions that created the taken nodes.
#[derive(Debug, Default)]
struct Nodes {
    /// Those of claims that still see to them.
    owned: HashSet<i64>,
    /// Those that a claim has adopted, for good.
    adopted: HashSet<i64>,
}

/// A node that belongs to one claim, and to no other until this is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    nodes: Arc<TakenNodes>,
    czxid: i64,
}

impl TakenNodes {
    /// How often a search has taken a node so far. A search that finds nothing looks again if this has changed: the other
    /// search may have taken its node, and may have left one that was not listed yet.
    pub(crate) fn adoptions(&self) -> u64 {
        self.adoptions.load(Ordering::SeqCst)
    }

    /// Notes that a search has taken a node.
    pub(crate) fn note_adoption(&self) {
        self.adoptions.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes a node for a claim. Returns `None` if another claim has taken it.
    pub(crate) fn take(self: &Arc<Self>, czxid: i64) -> Option<Arc<Taken>> {
        let mut nodes = self.nodes.lock();
        let is_free = !nodes.adopted.contains(&czxid) && nodes.owned.insert(czxid);
        is_free.then(|| Arc::new(Taken { nodes: Arc::clone(self), czxid }))
    }
}

impl Taken {
    /// The transaction that created the node.
    pub(crate) fn czxid(&self) -> i64 {
        self.czxid
    }

    /// Notes that the claim has adopted the node: no other claim ever takes it.
    pub(crate) fn keep(&self) {
        self.nodes.nodes.lock().adopted.insert(self.czxid);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.nodes.nodes.lock().owned.remove(&self.czxid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_taken_once_until_all_that_know_of_it_let_it_go() {
        let nodes = Arc::new(TakenNodes::default());
        let taken = nodes.take(7).unwrap();
        let same = Arc::clone(&taken);
        assert!(nodes.take(7).is_none());
        drop(taken);
        assert!(nodes.take(7).is_none());
        drop(same);
        assert!(nodes.take(7).is_some());
    }

    #[test]
    fn an_adopted_node_stays_taken() {
        let nodes = Arc::new(TakenNodes::default());
        nodes.take(7).unwrap().keep();
        assert!(nodes.take(7).is_none());
    }
}
