//! Watches of the lock's node. While a watch has not fired, the node is neither deleted nor changed, as far as replies show: the
//! server sends a notification before later replies.
//!
//! Nothing waits for these watches. The engine checks them before it reports any other event to the queue.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use futures_util::FutureExt;
use tokio::task::unconstrained;
use zk_recipes_protocol::leases::LEASES;
use zk_recipes_protocol::names::Names;
use zk_recipes_protocol::session_queue::Event;

use crate::node;
use crate::session::wire::{Fired, Watch};

/// The watches of one session at a lock's node, one per kind of names. If they are dropped, the client library removes them.
#[derive(Default)]
pub(super) struct ParentWatches {
    kept: HashMap<Names, Pin<Box<dyn Future<Output = Fired> + Send>>>,
    /// Whether the session may watch the children of the lock's node. Then it does not watch the node itself.
    are_forgone: bool,
}

impl ParentWatches {
    /// Returns the watches of the lock's node at this path.
    pub(super) fn at(path: &str) -> Self {
        // A semaphore watches the children of such a node.
        Self { are_forgone: node::name(path) == LEASES, ..Self::default() }
    }

    /// Keeps a watch that was set.
    pub(super) fn keep(&mut self, names: Names, watch: Watch) {
        // Without poll budget, a watch that has fired looks as if it had not.
        self.kept.insert(names, Box::pin(unconstrained(watch.fired())));
    }

    /// Gives up all watches, in favour of watches of the children. They count as fired.
    pub(super) fn forgo(&mut self) {
        self.are_forgone = true;
    }

    /// Tells whether a watch may be set.
    pub(super) fn may_be_set(&self) -> bool {
        !self.are_forgone
    }

    /// Removes the watches whose notifications have arrived. Returns an event for each.
    pub(super) fn fired(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.kept.retain(|names, watch| {
            let has_fired = self.are_forgone || watch.as_mut().now_or_never().is_some();
            if has_fired {
                events.push(Event::ParentChanged(*names));
            }
            !has_fired
        });
        events
    }
}

impl fmt::Debug for ParentWatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.kept.keys()).finish()
    }
}
