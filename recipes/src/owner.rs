//! Who holds a lock, for those who take it more than once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::guard::Hold;
use crate::node::Mode;

/// Who holds, where one holder takes the same lock again: a request, a job, a cart.
///
/// A task is not a thread and may be several futures, so re-entrancy goes by this token and not by where the code
/// happens to run. Clones are the same owner. What an owner holds it gets again without a request, with the same
/// [fencing token](crate::FencingToken), as long as the hold has not been lost; the lock is free when the last of its
/// guards is gone.
///
/// ```no_run
/// use zk_recipes::{Mutex, Owner};
///
/// # async fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
/// let (mutex, owner) = (Mutex::new(&session, "/locks/goods-1")?, Owner::new());
/// let outer = mutex.acquire_as(&owner).await?;
/// let inner = mutex.acquire_as(&owner).await?;
/// assert_eq!(outer.token(), inner.token());
/// inner.release().await?; // still held
/// outer.release().await?; // free
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Owner {
    slots: Arc<Mutex<HashMap<Key, Arc<Slot>>>>,
}

/// One lock: the session and the path of its parent.
type Key = (i64, String);

/// What the owner holds of one lock. Locked while the owner queues for it, so that its acquires of one lock run one
/// after the other and the second finds what the first was granted.
pub(crate) type Slot = tokio::sync::Mutex<Holds>;

/// The holds that an owner has of one lock, for as long as it has guards of them.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    exclusive: Weak<Hold>,
    shared: Weak<Hold>,
}

/// How an owner comes by a lock.
#[derive(Debug)]
pub(crate) enum Entry {
    /// By queueing, as anybody else.
    Queue,
    /// It has it.
    Reenter(Arc<Hold>),
    /// It holds it alone, and may share it with nobody else but itself.
    Downgrade(Arc<Hold>),
    /// It shares it and wants it alone: it would wait for itself.
    Upgrade,
}

impl Owner {
    /// An owner that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn slot(&self, session_id: i64, parent: &str) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (session_id, parent.to_owned());
        if !slots.contains_key(&key) {
            // An owner may live long and meet many locks; those that it has given back are forgotten.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|holds| !holds.is_empty()));
        }
        Arc::clone(slots.entry(key).or_default())
    }
}

impl Holds {
    /// How to get the lock in `mode`.
    pub(crate) fn entry(&self, mode: Mode) -> Entry {
        match (mode, self.exclusive.upgrade(), self.shared.upgrade()) {
            (Mode::Exclusive, Some(hold), _) | (Mode::Shared, _, Some(hold)) => Entry::Reenter(hold),
            (Mode::Shared, Some(writer), None) => Entry::Downgrade(writer),
            (Mode::Exclusive, None, Some(_)) => Entry::Upgrade,
            (_, None, None) => Entry::Queue,
        }
    }

    /// Notes a hold that was granted.
    pub(crate) fn note(&mut self, mode: Mode, hold: &Arc<Hold>) {
        match mode {
            Mode::Exclusive => self.exclusive = Arc::downgrade(hold),
            Mode::Shared => self.shared = Arc::downgrade(hold),
        }
    }

    fn is_empty(&self) -> bool {
        self.exclusive.strong_count() == 0 && self.shared.strong_count() == 0
    }
}
