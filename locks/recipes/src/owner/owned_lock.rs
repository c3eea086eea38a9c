//! The holds that an owner has of one lock, and the right to change them.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use zk_recipes_protocol::names::Mode;

use crate::error::Error;
use crate::hold::Hold;
use crate::hold::state::HoldState;

/// The holds that an owner has of one lock.
#[derive(Debug, Default)]
pub(crate) struct OwnedLock {
    /// Only the task that has locked this changes the holds. The acquires of the owner for this lock queue for it, so the second one
    /// finds the hold of the first. A release locks it, too, so no hold is released while another hold is made from it.
    changing: tokio::sync::Mutex<()>,
    holds: Mutex<OwnedHolds>,
}

/// The holds, each for as long as the owner has guards of it.
#[derive(Debug, Default)]
struct OwnedHolds {
    exclusive: Weak<Hold>,
    shared: Weak<Hold>,
}

impl OwnedLock {
    /// Waits for the right to change the holds.
    pub(crate) async fn changing(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// Takes the right to change the holds if no other task has it.
    pub(crate) fn try_changing(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        self.changing.try_lock().ok()
    }

    /// Calls `look` with the exclusive and the shared hold. Meanwhile, no guard of them ends its hold.
    pub(crate) fn look<T>(&self, look: impl FnOnce(Option<&Arc<Hold>>, Option<&Arc<Hold>>) -> T) -> T {
        let holds = self.holds.lock();
        let exclusive = holds.exclusive.upgrade();
        let shared = holds.shared.upgrade();
        look(exclusive.as_ref(), shared.as_ref())
    }

    /// Returns the exclusive hold, to make another hold from it. The caller must have the right to change the holds.
    pub(crate) fn writer(&self) -> Option<Arc<Hold>> {
        self.holds.lock().exclusive.upgrade()
    }

    /// Releases the hold if this was its last guard.
    pub(crate) async fn release(&self, guard: Arc<Hold>) -> Result<(), Error> {
        // Another task of the owner may be making another hold from this one.
        let _changing = self.changing().await;
        let token = guard.token();
        let lost = match guard.state() {
            HoldState::Lost(reason) => Err(guard.lost_error(token, reason)),
            HoldState::Held | HoldState::Suspect => Ok(()),
        };
        match self.take_last(guard) {
            Some(hold) => hold.release(token).await,
            // The owner has other guards.
            None => lost,
        }
    }

    fn take_last(&self, guard: Arc<Hold>) -> Option<Hold> {
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
