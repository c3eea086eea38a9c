//! Which nodes of a session belong to which of its claims, where the name of a node does not tell.
//!
//! A `HandoffMutex` finds its node after a lost reply by the mark in the node's data. Anybody may overwrite data, and then
//! only the session and the name are left, which several claims of one session share. So every claim takes its node, by the
//! transaction that created it. A node whose mark is gone goes to the first claim that looks for one; the claim that made
//! it finds it taken and creates another. Every claim of the session at the path must take its nodes here, whatever options
//! its lock has: a node that was never taken is one that some claim has lost.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// The taken children of one parent.
#[derive(Debug, Default)]
pub(crate) struct TakenNodes {
    czxids: Mutex<HashSet<i64>>,
}

/// A node that belongs to one claim, and so to no other, until this is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    nodes: Arc<TakenNodes>,
    czxid: i64,
}

impl TakenNodes {
    /// Takes a node for a claim. Returns `None` if another claim has taken it.
    pub(crate) fn take(self: &Arc<Self>, czxid: i64) -> Option<Arc<Taken>> {
        let is_free = self.czxids.lock().insert(czxid);
        is_free.then(|| Arc::new(Taken { nodes: Arc::clone(self), czxid }))
    }
}

impl Taken {
    /// The transaction that created the node.
    pub(crate) fn czxid(&self) -> i64 {
        self.czxid
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.nodes.czxids.lock().remove(&self.czxid);
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
}
