//! Who is told that the session has ended.

use std::fmt;

use parking_lot::Mutex;

/// What to do once the session has ended.
#[derive(Default)]
pub(crate) struct Ending {
    hooks: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl Ending {
    /// Adds what to do. It may be done several times.
    pub(crate) fn add(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.hooks.lock().push(Box::new(hook));
    }

    /// Tells all.
    pub(crate) fn tell(&self) {
        self.hooks.lock().iter().for_each(|hook| hook());
    }
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ending").finish_non_exhaustive()
    }
}
