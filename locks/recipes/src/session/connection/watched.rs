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
pub(crate) enum WatchKind {
    /// The node is changed or deleted.
    Node,
    /// A child is created or deleted.
    Children,
}

/// The kinds of the watches of one connection, by path. A watch has the kind of its path, and drops it last.
#[derive(Debug, Default)]
pub(crate) struct WatchKinds {
    kinds: WeakMap<String, WatchKind>,
    /// The kinds of requests that were dropped before their answers. The server may still set these watches.
    unanswered: Mutex<Vec<Arc<WatchKind>>>,
}

/// A request for a watch.
pub(crate) struct Asking<'a> {
    watched: &'a WatchKinds,
    /// Its own kind comes last. Before it come those of earlier requests. Answers come in the order of the requests, so the answer to
    /// this request ends those, too.
    kinds: Vec<Arc<WatchKind>>,
}

impl WatchKinds {
    /// Begins a request for a watch. It must be sent at once, and [`answered`](Asking::answered) must be called with its answer.
    /// Fails if the path has a watch of the other kind.
    pub(crate) fn ask(&self, path: &str, kind: WatchKind) -> Result<Asking<'_>, ClientError> {
        let shared = self.kinds.at(path.to_owned(), || kind);
        if *shared != kind {
            return Err(ClientError::BadArguments(&"the session watches this node in another way"));
        }
        let mut kinds = mem::take(&mut *self.unanswered.lock());
        kinds.push(shared);
        Ok(Asking { watched: self, kinds })
    }
}

impl Asking<'_> {
    /// Returns the kind of the watch, once the request is answered.
    pub(crate) fn answered(mut self) -> Arc<WatchKind> {
        let kind = self.kinds.pop().unwrap_or_else(|| unreachable!("BUG: a request without a kind"));
        self.kinds.clear();
        kind
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.watched.unanswered.lock().append(&mut self.kinds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // L11
    #[test]
    fn a_path_has_watches_of_one_kind() {
        let watched = WatchKinds::default();
        let ask = |path: &str, kind| watched.ask(path, kind).map(Asking::answered);
        let one = ask("/a", WatchKind::Node).unwrap();
        let other = ask("/a", WatchKind::Node).unwrap();
        drop(one);
        assert!(ask("/a", WatchKind::Children).is_err(), "the other watch is still there");
        let _of_another_path = ask("/b", WatchKind::Children).unwrap();
        drop(other);
        let _children = ask("/a", WatchKind::Children).unwrap();
        assert!(ask("/a", WatchKind::Node).is_err());
    }

    #[test]
    fn a_request_counts_until_it_or_a_later_one_is_answered() {
        let watched = WatchKinds::default();
        let dropped = watched.ask("/a", WatchKind::Node).unwrap();
        let later = watched.ask("/b", WatchKind::Node).unwrap();
        drop(dropped);
        drop(later.answered());
        assert!(
            watched.ask("/a", WatchKind::Children).is_err(),
            "an answer to a request that may have been sent before"
        );
        // Also if the later one takes over its kind, and is dropped as well.
        drop(watched.ask("/b", WatchKind::Node).unwrap());
        assert!(watched.ask("/a", WatchKind::Children).is_err());
        drop(watched.ask("/b", WatchKind::Node).unwrap().answered());
        assert!(watched.ask("/a", WatchKind::Children).is_ok());
    }
}
