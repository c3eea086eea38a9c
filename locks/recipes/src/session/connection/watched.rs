//! The kind of the watches on each path of one connection: of the node, or of its children. A path never has both.
//!
//! The reason: with both, version 0.11.2 of the client library may read freed memory. To be reported to `zookeeper-client`: in
//! `session/depot.rs`, `push_session` defers a removal of watches while a watch request of the same path is under way. It inserts
//! the removal into `unwatching_paths` under a key that points into the removal itself. If the map has an equal key, `insert` keeps
//! the old key and drops the old removal, so the key dangles. For `watching_paths`, the code removes the key first, and says why.
//! Two equal keys need two events without a watcher, because every watch that is set takes the deferred removals out. One path with
//! one kind of watch gives only one such event, however many users watch it: a server keeps one watch of a kind for all of them.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use zookeeper_client::Error as ClientError;

use crate::session::weak_map::WeakMap;

/// What a watch tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The node is changed or deleted.
    Node,
    /// A child is created or deleted.
    Children,
}

/// The kinds of the watches of one connection, by path.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    kinds: WeakMap<String, Kind>,
    /// The claims of requests that were dropped before their answers. The server may still set these watches.
    unanswered: Mutex<Vec<Claim>>,
}

/// The right to have a watch of this kind on a path. It is dropped after the watch.
pub(crate) type Claim = Arc<Kind>;

/// A request for a watch.
pub(crate) struct Asking<'a> {
    watched: &'a Watched,
    /// Its own claim comes last. Before it come claims of earlier requests. Answers come in the order of the requests, so the
    /// answer to this request ends those claims, too.
    claims: Vec<Claim>,
}

impl Watched {
    /// Begins a request for a watch. It must be sent at once, and [`answered`](Asking::answered) must be called with its answer.
    /// Fails if the path has a watch of the other kind.
    pub(crate) fn ask(&self, path: &str, kind: Kind) -> Result<Asking<'_>, ClientError> {
        let claim = self.kinds.at(path.to_owned(), || kind);
        if *claim != kind {
            return Err(ClientError::BadArguments(&"the session watches this node in another way"));
        }
        let mut claims = mem::take(&mut *self.unanswered.lock());
        claims.push(claim);
        Ok(Asking { watched: self, claims })
    }
}

impl Asking<'_> {
    /// Returns the claim of the watch, once the request is answered.
    pub(crate) fn answered(mut self) -> Claim {
        let claim = self.claims.pop().unwrap_or_else(|| unreachable!("BUG: a request without a claim"));
        self.claims.clear();
        claim
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.watched.unanswered.lock().append(&mut self.claims);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // L11
    #[test]
    fn a_path_has_watches_of_one_kind() {
        let watched = Watched::default();
        let ask = |path: &str, kind| watched.ask(path, kind).map(Asking::answered);
        let (one, other) = (ask("/a", Kind::Node).unwrap(), ask("/a", Kind::Node).unwrap());
        drop(one);
        assert!(ask("/a", Kind::Children).is_err(), "the other watch is still there");
        let _of_another_path = ask("/b", Kind::Children).unwrap();
        drop(other);
        let _children = ask("/a", Kind::Children).unwrap();
        assert!(ask("/a", Kind::Node).is_err());
    }

    #[test]
    fn a_request_counts_until_it_or_a_later_one_is_answered() {
        let watched = Watched::default();
        let (dropped, later) = (watched.ask("/a", Kind::Node).unwrap(), watched.ask("/b", Kind::Node).unwrap());
        drop(dropped);
        drop(later.answered());
        assert!(watched.ask("/a", Kind::Children).is_err(), "an answer to a request that may have been sent before");
        // Also if the later one takes over its claim, and is dropped as well.
        drop(watched.ask("/b", Kind::Node).unwrap());
        assert!(watched.ask("/a", Kind::Children).is_err());
        drop(watched.ask("/b", Kind::Node).unwrap().answered());
        assert!(watched.ask("/a", Kind::Children).is_ok());
    }
}
