//! Whose is the node at a path that several claims of one session may use.
//!
//! After a lost reply a claim finds its node by the mark that it wrote. But anybody may overwrite data, whoever asks for
//! the lock does, and the session alone does not tell its claims apart. So they take a node by the transaction that
//! created it, each node once. Where the mark was overwritten, any claim of the session that may have made the node
//! takes it; the one that did make it finds it taken, if its reply comes after all, and goes on waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use zookeeper_client::Stat;

/// The nodes at one path, one after the other.
#[derive(Debug, Default)]
pub(crate) struct SharedNode {
    /// The transaction that created the newest node that a claim has taken. Older nodes are gone or taken.
    newest_taken: AtomicI64,
}

/// By what a node at a shared path is recognised as a claim's, beside its session.
#[derive(Clone, Debug)]
pub(crate) struct Sign {
    /// The data that only the claim wrote.
    mark: Vec<u8>,
    /// Kept as long as the claim has anything there, so that no other takes it.
    node: Arc<SharedNode>,
    /// The transaction that created the node, once the claim has taken that.
    taken: Option<i64>,
}

impl SharedNode {
    /// Takes the node, unless another claim has.
    fn take(&self, czxid: i64) -> bool {
        self.newest_taken.fetch_max(czxid, Ordering::SeqCst) < czxid
    }
}

impl Sign {
    /// That of a claim on what it is about to create with this data.
    pub(crate) fn new(node: Arc<SharedNode>, mark: Vec<u8>) -> Self {
        Self { mark, node, taken: None }
    }

    /// The transaction that created the node, once that is known to be the claim's.
    pub(crate) fn czxid(&self) -> Option<i64> {
        self.taken
    }

    /// Whether the node, one of our session, is the claim's. The claim takes it then.
    pub(crate) fn recognise(&mut self, data: &[u8], stat: &Stat) -> bool {
        match self.taken {
            Some(taken) => stat.czxid == taken,
            None => {
                let may_be_ours = stat.version != 0 || data == self.mark;
                let is_ours = may_be_ours && self.node.take(stat.czxid);
                self.taken = is_ours.then_some(stat.czxid);
                is_ours
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(czxid: i64, version: i32) -> Stat {
        Stat {
            czxid,
            mzxid: czxid,
            ctime: 0,
            mtime: 0,
            version,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: 1,
            data_length: 0,
            num_children: 0,
            pzxid: czxid,
        }
    }

    fn sign(node: &Arc<SharedNode>, mark: &str) -> Sign {
        Sign::new(Arc::clone(node), mark.as_bytes().to_vec())
    }

    #[test]
    fn a_node_with_its_first_data_is_of_the_claim_that_wrote_them() {
        let node = Arc::default();
        let (mut one, mut other) = (sign(&node, "one"), sign(&node, "other"));
        assert!(!other.recognise(b"one", &stat(7, 0)));
        assert!(one.recognise(b"one", &stat(7, 0)));
        assert!(one.recognise(b"__REVOKE__", &stat(7, 1)), "by now it knows the transaction");
        assert!(!one.recognise(b"one", &stat(8, 0)), "that is another node");
    }

    #[test]
    fn a_node_whose_data_were_overwritten_is_of_the_first_claim_that_may_have_made_it_and_of_no_other() {
        let node = Arc::default();
        let (mut one, mut other) = (sign(&node, "one"), sign(&node, "other"));
        assert!(other.recognise(b"__REVOKE__", &stat(7, 1)));
        assert!(!one.recognise(b"__REVOKE__", &stat(7, 1)));
        assert!(!one.recognise(b"one", &stat(7, 0)), "the reply came after all, and the node is taken");
        assert!(one.recognise(b"one", &stat(9, 0)), "the next node is another's to take");
        assert!(!sign(&node, "third").recognise(b"__REVOKE__", &stat(7, 2)), "it is long gone");
    }
}
