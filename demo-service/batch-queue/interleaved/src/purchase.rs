//! A purchase of the scene, for the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::batch_queue::{Candidate, Commit, Refusal};
use crate::clock::now;
use crate::notes::{COUNTED, Sight};
use crate::world::World;

/// A purchase.
pub(crate) struct Purchase {
    /// Its buyer.
    pub(crate) buyer: usize,
    /// The instance in whose queue it is.
    pub(crate) instance: usize,
    pub(crate) sku: u64,
    pub(crate) sale: i64,
    pub(crate) until: u64,
    pub(crate) is_handed: bool,
    pub(crate) commit: Commit<OnTheWay>,
    /// Its place in the order of arrival in this instance.
    pub(crate) place: u64,
    /// Whether it is counted as waiting.
    pub(crate) is_counted: AtomicBool,
    pub(crate) world: Arc<World>,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnTheWay {
    Commit,
    Elsewhere,
}

/// Why nothing is sold, or nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    SoldOut,
    Restarted,
    LockTimeout,
    /// One purchase has stopped its batch.
    Stopper,
    DatabaseUnavailable,
    RightLost,
    /// The row has the fence of a later owner.
    Fenced,
    /// The lock service does not answer.
    LocksUnavailable,
    /// The database has refused to commit this batch.
    CommitFailed,
    /// Whether it was right to refuse depends on a commit whose outcome nobody knows. The service says that the database is unavailable.
    Undecidable,
    ClientGone,
    Panicked,
    Shed,
    Unknown,
}

impl Purchase {
    fn count(&self, is_counted: bool) {
        let was_counted = self.is_counted.swap(is_counted, Ordering::Relaxed);
        self.world.notes.check(was_counted != is_counted, COUNTED);
    }
}

impl Drop for Purchase {
    fn drop(&mut self) {
        self.world.forget_place(self);
    }
}

impl Candidate for Purchase {
    type Sku = u64;
    type Order = ();
    type Refusal = Reason;
    type Sent = OnTheWay;
    type Instant = u64;

    fn now() -> u64 {
        now()
    }

    fn sale(&self) -> i64 {
        self.sale
    }

    fn until(&self) -> u64 {
        self.until
    }

    fn is_handed(&self) -> bool {
        self.is_handed
    }

    fn commit(&self) -> &Commit<OnTheWay> {
        &self.commit
    }

    fn joined(&mut self) {
        self.place = self.world.next_place();
        self.world.note_place(self, true);
        self.count(true);
    }

    fn taken(&mut self) {
        self.count(false);
        self.world.note_place(self, false);
        if !self.is_handed {
            self.world.note_taken(self.buyer);
        }
    }

    fn waits_again(&mut self) {
        self.world.note_place(self, true);
        if !self.is_handed {
            self.world.note_back(self.buyer);
            self.world.note_waiting_again(self.buyer);
        }
        self.world.notes.see(true, Sight::PutBack);
        self.world.notes.tell(|| format!("buyer {} comes back to the queue", self.buyer));
        self.count(true);
    }
}

impl Refusal for Reason {
    fn client_gone() -> Self {
        Self::ClientGone
    }

    fn is_lock_timeout(&self) -> bool {
        *self == Self::LockTimeout
    }

    fn leaves_unknown(&self) -> bool {
        *self == Self::Unknown
    }

    fn lies_here(&self) -> bool {
        matches!(self, Self::DatabaseUnavailable | Self::RightLost | Self::LocksUnavailable | Self::ClientGone)
    }

    fn concerns_all(&self) -> bool {
        matches!(self, Self::DatabaseUnavailable | Self::Fenced | Self::RightLost)
    }
}
