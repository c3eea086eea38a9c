//! Who holds a lock, for those who take it more than once.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use zk_recipes_protocol::names::{Mode, Names};

use crate::deadline::{Deadline, granted};
use crate::error::Error;
use crate::hold::guard::LockGuard;
use crate::hold::lock_queue::LockQueue;
use crate::hold::slot::Slot;
use crate::hold::state::HoldState;
use crate::session::id::SessionId;

/// Who holds, where one holder takes the same lock again: a request, a job, a cart.
///
/// A task is not a thread and may be several futures, so re-entrancy goes by this token and not by where the code
/// happens to run. Clones are the same owner. What an owner holds it gets again without a request, with the same
/// [fencing token](crate::FencingToken), as long as the hold has not been lost; the lock is free when the last of its
/// guards is gone.
///
/// An owner is known to the forms of acquire that end in `_as`, and to no others. What it holds through one session is
/// not held through another.
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

/// One lock: the session, the path of the queue, and who is a contender there.
type Key = (SessionId, String, Names);

/// How many locks an owner may have met before those that it has given back are forgotten.
const SLOTS_KEPT: usize = 64;

/// How an owner comes by a lock.
#[derive(Debug)]
enum Entry {
    /// It has it.
    Held(LockGuard),
    /// It has it, if the connection comes back in time.
    Suspect,
    /// It has it alone, and may share it with nobody else but itself.
    Downgrade,
    /// As anybody else.
    Queue,
}

/// Whether to wait for the lock.
#[derive(Clone, Copy, Debug)]
enum Form {
    Acquire,
    TryAcquire,
}

/// What became of an acquire.
#[derive(Debug)]
enum Got {
    Guard(LockGuard),
    /// Others have it.
    NotHad,
    /// The owner has it, or may, and no server confirmed that in time.
    NoAnswer,
}

impl Owner {
    /// An owner that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gets the lock, which the owner may have.
    pub(crate) async fn acquire(&self, queue: &LockQueue, mode: Mode) -> Result<LockGuard, Error> {
        let acquire = async {
            match self.get(queue, mode, Deadline::never(), Form::Acquire).await? {
                Got::Guard(guard) => Ok(Some(guard)),
                got @ (Got::NotHad | Got::NoAnswer) => unreachable!("BUG: {got:?} without a deadline"),
            }
        };
        queue.acquire_span(mode).run(acquire).await.map(granted)
    }

    /// Gets the lock, which the owner may have, within this time. `None` when others had it until then.
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

    /// Gets the lock if the owner has it or nobody is in the way.
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
            // Others have what the owner queues for, or another task of the owner waits for them.
            let at_deadline = if matches!(entry, Entry::Queue) { Got::NotHad } else { Got::NoAnswer };
            let turn = match (entry, form) {
                (Entry::Held(guard), _) => return Ok(Got::Guard(guard)),
                (Entry::Suspect, _) => match deadline.bound(states.changed()).await {
                    Some(_) => continue,
                    None => return Ok(at_deadline),
                },
                // Another task of the owner may be waiting for it, for however long.
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
                (Entry::Queue, Form::TryAcquire) => queue.try_queue(mode).await?,
                (Entry::Queue, Form::Acquire) => queue.queue(mode, deadline).await?,
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
            // Before the table grows. Whoever uses a slot, and every hold, has a reference to it.
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

/// How the owner of a slot gets the lock in `mode`.
///
/// # Errors
/// [`Error::HoldLost`] while there are guards of a hold that was lost, [`Error::Upgrade`].
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
