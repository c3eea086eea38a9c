//! Owners: tokens for holders that take a lock more than once.
//!
//! An owner keeps weak references to its holds, so the library has no table of locks that somebody must clean. Each lock of an
//! owner has a right to change it: a task of the owner takes the right to queue, downgrade or release.

pub(crate) mod owned_lock;

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
use crate::owner::owned_lock::OwnedLock;
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
    locks: Arc<Mutex<HashMap<Key, Arc<OwnedLock>>>>,
}

/// One lock: the session, the path of the queue, and the names of its contenders.
type Key = (SessionId, String, Names);

/// The size from which on an owner's table of locks is cleaned. Before the table grows, the locks that the owner no longer holds
/// are removed.
const OWNED_KEPT: usize = 64;

/// How an owner gets a lock.
#[derive(Debug)]
enum Access {
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
enum AcquireForm {
    Acquire,
    TryAcquire,
}

impl Owner {
    /// Returns an owner that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Acquires a lock that the owner may hold already.
    pub(crate) async fn acquire(&self, queue: &LockQueue, mode: Mode) -> Result<LockGuard, Error> {
        let acquire = self.get(queue, mode, None, AcquireForm::Acquire);
        queue.acquire_span(mode).run(acquire).await.map(granted)
    }

    /// Acquires a lock that the owner may hold already, within this time. `None` if others held it until then.
    pub(crate) async fn acquire_within(
        &self,
        queue: &LockQueue,
        mode: Mode,
        within: Duration,
    ) -> Result<Option<LockGuard>, Error> {
        queue.acquire_span(mode).run(self.get(queue, mode, Some(within), AcquireForm::Acquire)).await
    }

    /// Takes the lock if the owner holds it already or no contender is ahead.
    pub(crate) async fn try_acquire(&self, queue: &LockQueue, mode: Mode) -> Result<Option<LockGuard>, Error> {
        let within = Some(queue.answer_within());
        queue.acquire_span(mode).run(self.get(queue, mode, within, AcquireForm::TryAcquire)).await
    }

    /// Gets the lock. `within`: the time for all of it. `None` if others hold the lock. Fails if the owner holds the lock, or may hold
    /// it, and no server confirmed that in time.
    async fn get(
        &self,
        queue: &LockQueue,
        mode: Mode,
        within: Option<Duration>,
        form: AcquireForm,
    ) -> Result<Option<LockGuard>, Error> {
        let deadline = within.map_or_else(Deadline::never, Deadline::after);
        let no_answer = || Error::NoAnswer { within: within.expect("BUG: a deadline that never comes has come") };
        let owned = self.owned(queue);
        loop {
            // Before the look, so a change in between ends the wait for one.
            let mut states = queue.session().states();
            let changing = match (access_to(&owned, queue, mode)?, form) {
                (Access::Held(guard), _) => return Ok(Some(guard)),
                (Access::Suspect, _) => {
                    deadline.bound(states.changed()).await.ok_or_else(no_answer)?;
                    continue;
                }
                (Access::Downgrade, _) => Some(deadline.bound(owned.changing()).await.ok_or_else(no_answer)?),
                // Another task of the owner may be waiting for the lock without a deadline.
                (Access::Queue, AcquireForm::TryAcquire) => owned.try_changing(),
                (Access::Queue, AcquireForm::Acquire) => deadline.bound(owned.changing()).await,
            };
            let Some(_changing) = changing else { return Ok(None) };
            // During the wait for the right, another task of the owner may have got or lost the hold.
            let hold = match (access_to(&owned, queue, mode)?, form) {
                (Access::Held(guard), _) => return Ok(Some(guard)),
                (Access::Suspect, _) => continue,
                (Access::Queue, AcquireForm::TryAcquire) => queue.try_acquire_hold(mode).await?,
                (Access::Queue, AcquireForm::Acquire) => queue.acquire_hold(mode, deadline).await?,
                (Access::Downgrade, _) => {
                    let Some(writer) = owned.writer() else { continue };
                    Some(queue.share_with(&writer, mode, deadline).await?.ok_or_else(no_answer)?)
                }
            };
            return Ok(hold.map(|hold| LockGuard::of_owner(owned.note(mode, hold), &owned)));
        }
    }

    fn owned(&self, queue: &LockQueue) -> Arc<OwnedLock> {
        let mut locks = self.locks.lock();
        let key = (queue.session().id(), queue.parent().to_owned(), queue.names());
        if locks.len() >= OWNED_KEPT && locks.len() == locks.capacity() && !locks.contains_key(&key) {
            // The table is about to grow. Every task that uses one of them, and every guard of its holds, has a reference to it.
            locks.retain(|_, owned| Arc::strong_count(owned) > 1);
        }
        Arc::clone(locks.entry(key).or_default())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("locks", &self.locks.lock().len()).finish_non_exhaustive()
    }
}

/// Returns how the owner gets the lock in `mode`.
fn access_to(owned: &Arc<OwnedLock>, queue: &LockQueue, mode: Mode) -> Result<Access, Error> {
    owned.look(|exclusive, shared| {
        let Some(hold) = (match mode {
            Mode::Exclusive => exclusive.or(shared),
            Mode::Shared => shared.or(exclusive),
        }) else {
            return Ok(Access::Queue);
        };
        Ok(match (hold.state(), mode) {
            (HoldState::Lost(reason), _) => return Err(hold.lost_error(hold.token(), reason)),
            (_, Mode::Exclusive) if exclusive.is_none() => {
                return Err(Error::Upgrade { path: queue.parent().to_owned() });
            }
            (HoldState::Suspect, _) => Access::Suspect,
            (HoldState::Held, Mode::Shared) if shared.is_none() => Access::Downgrade,
            (HoldState::Held, _) => Access::Held(LockGuard::of_owner(Arc::clone(hold), owned)),
        })
    })
}
