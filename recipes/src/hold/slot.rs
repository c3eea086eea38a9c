//! What an owner holds of one lock, and its turn to change that.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use zk_recipes_protocol::names::Mode;

use crate::hold::held::Hold;

/// What an owner holds of one lock.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Only its holder changes what is held. The owner's acquires of one lock queue for it, so the second finds what the first was
    /// granted. No hold is given back while another hold is made of it.
    turn: tokio::sync::Mutex<()>,
    holds: Mutex<Holds>,
}

/// The holds that an owner has of one lock, for as long as it has guards of them.
#[derive(Debug, Default)]
struct Holds {
    exclusive: Weak<Hold>,
    shared: Weak<Hold>,
}

impl Slot {
    /// Waits for the turn.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Takes the turn if it is free.
    pub(crate) fn try_turn(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        self.turn.try_lock().ok()
    }

    /// Shows the exclusive and the shared hold. [`take_last`](Self::take_last) waits meanwhile.
    pub(crate) fn look<T>(&self, look: impl FnOnce(Option<&Arc<Hold>>, Option<&Arc<Hold>>) -> T) -> T {
        let holds = self.holds.lock();
        let (exclusive, shared) = (holds.exclusive.upgrade(), holds.shared.upgrade());
        look(exclusive.as_ref(), shared.as_ref())
    }

    /// The exclusive hold, of which another hold is to be made. Call it in the turn.
    pub(crate) fn writer(&self) -> Option<Arc<Hold>> {
        self.holds.lock().exclusive.upgrade()
    }

    /// Returns the hold if this was its last guard. Call it in the turn.
    pub(crate) fn take_last(&self, guard: Arc<Hold>) -> Option<Hold> {
        // A look has a reference to the hold, too, but only while this is locked.
        let _holds = self.holds.lock();
        Arc::into_inner(guard)
    }

    /// Notes a hold that was granted.
    pub(crate) fn note(&self, mode: Mode, hold: Hold) -> Arc<Hold> {
        let hold = Arc::new(hold);
        let mut holds = self.holds.lock();
        match mode {
            Mode::Exclusive => holds.exclusive = Arc::downgrade(&hold),
            Mode::Shared => holds.shared = Arc::downgrade(&hold),
        }
        hold
    }
}
