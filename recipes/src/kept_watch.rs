//! A watch that is kept although nobody waits for it, to know that nothing has happened.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use futures_util::FutureExt;

use crate::wire::{Fired, Watch};

/// A watch on a node. Dropped, it is taken back.
pub(crate) struct KeptWatch {
    incarnation: i64,
    fired: Pin<Box<dyn Future<Output = Fired> + Send>>,
}

impl KeptWatch {
    /// Keeps a watch that was set on the node of this `incarnation`.
    pub(crate) fn new(incarnation: i64, watch: Watch) -> Self {
        Self { incarnation, fired: Box::pin(watch.fired()) }
    }

    /// Which node of the path is watched.
    pub(crate) fn incarnation(&self) -> i64 {
        self.incarnation
    }

    /// Whether it has fired, as far as the replies and notifications go that have come. Not to be asked again after that.
    pub(crate) fn has_fired(&mut self) -> bool {
        self.fired.as_mut().now_or_never().is_some()
    }
}

impl fmt::Debug for KeptWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptWatch").field("incarnation", &self.incarnation).finish_non_exhaustive()
    }
}
