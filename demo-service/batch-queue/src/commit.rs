//! What is known of the commit of a purchase.

use std::sync::Arc;

use parking_lot::Mutex;

/// What was sent to commit a purchase and is not answered yet. Clones share it: a batch notes the commit for its buyers.
pub struct Commit<S>(Arc<Mutex<Option<S>>>);

impl<S> Commit<S> {
    /// Notes what is about to be sent.
    pub fn note(&self, what: S) {
        *self.0.lock() = Some(what);
    }

    /// Notes what is about to be sent, if the buyer still waits. Returns whether it does: otherwise nothing may be sent.
    #[must_use]
    pub fn note_if(&self, what: S, is_waiting: impl FnOnce() -> bool) -> bool {
        let mut sent = self.0.lock();
        *sent = is_waiting().then_some(what);
        sent.is_some()
    }

    /// Notes that nothing is under way: nothing was committed and nothing will be, or the answer is here.
    pub fn forget(&self) {
        *self.0.lock() = None;
    }

    /// Returns whether something was sent and not answered.
    pub fn is_sent(&self) -> bool {
        self.0.lock().is_some()
    }
}

impl<S: Clone> Commit<S> {
    /// Returns what was sent and not answered.
    pub fn sent(&self) -> Option<S> {
        self.0.lock().clone()
    }
}

impl<S> Clone for Commit<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Default for Commit<S> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(None)))
    }
}
