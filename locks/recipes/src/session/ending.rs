//! Hooks for the end of a session.

use std::fmt;

use parking_lot::Mutex;

/// The hooks that run when the session ends.
#[derive(Default)]
pub(crate) struct Ending {
    hooks: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl Ending {
    /// Adds a hook. It may run several times.
    pub(crate) fn add(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.hooks.lock().push(Box::new(hook));
    }

    /// Runs all hooks.
    pub(crate) fn tell(&self) {
        self.hooks.lock().iter().for_each(|hook| hook());
    }
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ending").finish_non_exhaustive()
    }
}
