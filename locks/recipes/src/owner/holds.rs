//! The holds that an owner has of one lock, and the turn to change them.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use zk_recipes_protocol::names::Mode;

use crate::hold::held::Hold;

/// The holds that an owner has of one lock.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Only the task that has the turn changes the holds. The acquires of the owner for this lock queue for it, so the second one
    /// finds the hold of the first. A release takes the turn, too, so no hold is released while another hold is made from it.
    turn: tokio::sync::Mutex<()>,
    holds: Mutex<Holds>,
}

/// The holds, each for as long as the owner has guards of it.
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

    /// Calls `look` with the exclusive and the shared hold. Meanwhile, [`take_last`](Self::take_last) waits.
    pub(crate) fn look<T>(&self, look: impl FnOnce(Option<&Arc<Hold>>, Option<&Arc<Hold>>) -> T) -> T {
        let holds = self.holds.lock();
        let (exclusive, shared) = (holds.exclusive.upgrade(), holds.shared.upgrade());
        look(exclusive.as_ref(), shared.as_ref())
    }

    /// Returns the exclusive hold, to make another hold from it. The caller must have the turn.
    pub(crate) fn writer(&self) -> Option<Arc<Hold>> {
        self.holds.lock().exclusive.upgrade()
    }

    /// Returns the hold if this was its last guard. The caller must have the turn.
    pub(crate) fn take_last(&self, guard: Arc<Hold>) -> Option<Hold> {
        // `look` has a reference to the hold, too, but only while this is locked.
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
