//! Watches of the lock's node that are kept to know that nothing has happened.
//!
//! Nobody waits for them. They are asked before anything else is told to the queue.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use futures_util::FutureExt;
use tokio::task::unconstrained;
use zk_recipes_protocol::names::Names;
use zk_recipes_protocol::session_queue::Event;

use crate::session::wire::{Fired, Watch};

/// The watches of the contenders of a session, one for those who queue under the same names. Dropped, they are taken back.
#[derive(Default)]
pub(super) struct ParentWatches {
    kept: HashMap<Names, Pin<Box<dyn Future<Output = Fired> + Send>>>,
}

impl ParentWatches {
    /// Keeps a watch that was set.
    pub(super) fn keep(&mut self, names: Names, watch: Watch) {
        // Out of budget, a watch that has fired would be taken for one that has not.
        self.kept.insert(names, Box::pin(unconstrained(watch.fired())));
    }

    /// Which have fired, as far as notifications have come. They are forgotten.
    pub(super) fn fired(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.kept.retain(|names, watch| {
            let has_fired = watch.as_mut().now_or_never().is_some();
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
