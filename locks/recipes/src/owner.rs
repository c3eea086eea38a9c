//! Owners: tokens for holders that take a lock more than once.
//!
//! An owner keeps weak references to its holds, so the library has no table of locks that somebody must clean. Each lock of an
//! owner has a turn: a task of the owner takes it to queue, downgrade or release.

pub(crate) mod holds;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zk_recipes_protocol::names::{Mode, Names};

use crate::acquire::{Deadline, granted};
use crate::error::Error;
use crate::guard::LockGuard;
use crate::hold::state::HoldState;
use crate::lock_queue::LockQueue;
use crate::owner::holds::Slot;
use crate::session::id::SessionId;

/// A token for a holder that takes the same lock again: a request, a job, a cart.
///
/// A task is not a thread, and a holder may consist of several futures. So re-entrancy follows this token, not the task that
/// runs. Clones are the same owner.
///
/// An owner acquires a lock again that it holds, unless the hold was lost. It gets the same [fencing token](crate::FencingToken),
/// without a request. Only a writer that also acquires the read lock needs requests: see [`RwLock`](crate::RwLock). The lock is
/// free once the last guard is gone.
///
/// Only the acquires with `_as` in their names take an owner. A hold through one session does not count for another session.
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
#[derive(Clone, Default)]
pub struct Owner {
    slots: Arc<Mutex<HashMap<Key, Arc<Slot>>>>,
}

/// One lock: the session, the path of the queue, and the names of its contenders.
type Key = (SessionId, String, Names);

/// The size from which on an owner's table of locks is cleaned. Before the table grows, the locks that the owner no longer holds
/// are removed.
const SLOTS_KEPT: usize = 64;

/// How an owner gets a lock.
#[derive(Debug)]
enum Entry {
    /// The owner holds it.
    Held(LockGuard),
    /// The owner holds it, if the connection comes back in time.
    Suspect,
    /// The owner holds it exclusively, and asks for a shared hold in the same place.
    Downgrade,
    /// The owner queues, as any other contender.
    Queue,
}

/// The form of an acquire: whether it waits for the lock.
#[derive(Clone, Copy, Debug)]
enum Form {
    Acquire,
    TryAcquire,
}

/// The result of an acquire.
#[derive(Debug)]
enum Got {
    Guard(LockGuard),
    /// Others hold the lock.
    NotHad,
    /// The owner holds the lock, or may hold it, and no server confirmed that in time.
    NoAnswer,
}

impl Owner {
    /// Returns an owner that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Acquires a lock that the owner may hold already.
    pub(crate) async fn acquire(&self, queue: &LockQueue, mode: Mode) -> Result<LockGuard, Error> {
        let acquire = async {
            match self.get(queue, mode, Deadline::never(), Form::Acquire).await? {
                Got::Guard(guard) => Ok(Some(guard)),
                got @ (Got::NotHad | Got::NoAnswer) => unreachable!("BUG: {got:?} without a deadline"),
            }
        };
        queue.acquire_span(mode).run(acquire).await.map(granted)
    }

    /// Acquires a lock that the owner may hold already, within this time. `None` if others held it until then.
    pub(crate) async fn acquire_within(
        &self,
        queue: &LockQueue,
        mode: Mode,
        within: Duration,
    ) -> Result<Option<LockGuard>, Error> {
        let acquire = async {
            match self.get(queue, mode, Deadline::after(within), Form::Acquire).await? {
                Got::Guard(guard) => Ok(Some(guard)),
                Got::NotHad => Ok(None),
                Got::NoAnswer => Err(Error::NoAnswer { within }),
            }
        };
        queue.acquire_span(mode).run(acquire).await
    }

    /// Takes the lock if the owner holds it already or no contender is ahead.
    pub(crate) async fn try_acquire(&self, queue: &LockQueue, mode: Mode) -> Result<Option<LockGuard>, Error> {
        let within = queue.answer_within();
        let acquire = async {
            match self.get(queue, mode, Deadline::after(within), Form::TryAcquire).await? {
                Got::Guard(guard) => Ok(Some(guard)),
                Got::NotHad => Ok(None),
                Got::NoAnswer => Err(Error::NoAnswer { within }),
            }
        };
        queue.acquire_span(mode).run(acquire).await
    }

    async fn get(&self, queue: &LockQueue, mode: Mode, deadline: Deadline, form: Form) -> Result<Got, Error> {
        let slot = self.slot(queue);
        loop {
            let mut states = queue.session().states();
            let entry = entry_to(&slot, queue, mode)?;
            // Others hold the lock, or another task of the owner waits for it.
            let at_deadline = if matches!(entry, Entry::Queue) { Got::NotHad } else { Got::NoAnswer };
            let turn = match (entry, form) {
                (Entry::Held(guard), _) => return Ok(Got::Guard(guard)),
                (Entry::Suspect, _) => match deadline.bound(states.changed()).await {
                    Some(_) => continue,
                    None => return Ok(at_deadline),
                },
                // Another task of the owner may be waiting for the lock without a deadline.
                (Entry::Queue, Form::TryAcquire) => match slot.try_turn() {
                    Some(turn) => Some(turn),
                    None => return Ok(Got::NotHad),
                },
                (Entry::Queue, Form::Acquire) | (Entry::Downgrade, _) => deadline.bound(slot.turn()).await,
            };
            let Some(_turn) = turn else { return Ok(at_deadline) };
            let hold = match (entry_to(&slot, queue, mode)?, form) {
                (Entry::Held(guard), _) => return Ok(Got::Guard(guard)),
                (Entry::Suspect, _) => continue,
                (Entry::Queue, Form::TryAcquire) => queue.try_acquire_hold(mode).await?,
                (Entry::Queue, Form::Acquire) => queue.acquire_hold(mode, deadline).await?,
                (Entry::Downgrade, _) => {
                    let Some(writer) = slot.writer() else { continue };
                    match queue.share_with(&writer, mode, deadline).await? {
                        None => return Ok(Got::NoAnswer),
                        had => had,
                    }
                }
            };
            return Ok(hold.map_or(Got::NotHad, |hold| Got::Guard(LockGuard::sharing(slot.note(mode, hold), &slot))));
        }
    }

    fn slot(&self, queue: &LockQueue) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        let key = (queue.session().id(), queue.parent().to_owned(), queue.names());
        if slots.len() >= SLOTS_KEPT && slots.len() == slots.capacity() && !slots.contains_key(&key) {
            // The table is about to grow. Every task that uses a slot, and every guard of its holds, has a reference to it.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        Arc::clone(slots.entry(key).or_default())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("locks", &self.slots.lock().len()).finish_non_exhaustive()
    }
}

/// Returns how the owner of a slot gets the lock in `mode`.
fn entry_to(slot: &Arc<Slot>, queue: &LockQueue, mode: Mode) -> Result<Entry, Error> {
    slot.look(|exclusive, shared| {
        let Some(hold) = (match mode {
            Mode::Exclusive => exclusive.or(shared),
            Mode::Shared => shared.or(exclusive),
        }) else {
            return Ok(Entry::Queue);
        };
        Ok(match (hold.state(), mode) {
            (HoldState::Lost(reason), _) => return Err(hold.lost_error(reason)),
            (_, Mode::Exclusive) if exclusive.is_none() => {
                return Err(Error::Upgrade { path: queue.parent().to_owned() });
            }
            (HoldState::Suspect, _) => Entry::Suspect,
            (HoldState::Held, Mode::Shared) if shared.is_none() => Entry::Downgrade,
            (HoldState::Held, _) => Entry::Held(LockGuard::sharing(Arc::clone(hold), slot)),
        })
    })
}
