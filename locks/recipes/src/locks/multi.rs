//! Several locks as one.

mod meeting;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{Span, debug, field};

use crate::acquire::{AcquireSpan, Deadline, LogGrant, granted};
use crate::error::Error;
use crate::guard::LockGuard;
use crate::guard::multi::MultiGuard;
use crate::locks::any_lock::AnyLock;
use crate::locks::mutex::Mutex;
use crate::session::Session;
use crate::session::rooms::TakenRooms;

/// Several locks as one: all of them or none. They may have different recipes and different sessions.
///
/// The locks are acquired one after the other. If one of them is not granted in time, or fails, the locks before it are given
/// back. One deadline bounds all of it. Cheap to clone. Every acquire is a contender of its own. An acquire for an
/// [`Owner`](crate::Owner) and a place in the queue ([`Waiter`](crate::Waiter)) need the concrete lock.
///
/// # Deadlocks
///
/// An acquire that waits for a lock keeps the locks before it. Suppose that one buyer locks A and then B, and another buyer locks
/// B and then A. Then both may wait for ever. [`acquire_within`](Self::acquire_within) only ends this by giving up, perhaps for
/// both.
///
/// **Lock in one order everywhere**, and no such circle can close. [`from_paths`](Self::from_paths) and
/// [`in_canonical_order`](Self::in_canonical_order) order the locks by their path, as the session sees it. This order is the same
/// in all processes, if their sessions share a chroot. For sessions with different chroots or ensembles, choose an order yourself
/// and use [`new`](Self::new). While you hold a lock, do not acquire a lock that comes before it in the order.
///
/// The same path twice on one session is refused, because the second lock would wait for the first. The same is true for two
/// [`ReadLock`](crate::ReadLock)s: a writer between them would wait for the first, and the second would wait for the writer. It
/// is true for two permits of a semaphore, too: two contenders with one permit each would wait for each other. To take several
/// permits at once, use [`acquire_many`](crate::Semaphore::acquire_many).
///
/// Two locks are refused, too, if the nodes of one lie where the other one looks. For example, the contenders of a
/// [`Semaphore`](crate::Semaphore) at `/x` queue in `/x/locks`, so a [`Mutex`] at `/x/locks` would wait for it.
///
/// If two sessions reach the same servers, do not use the same path on both. This type cannot know which servers a session
/// reaches.
///
/// # Cost
///
/// The sum of the single locks, one after the other. A free [`Mutex`] usually takes one round trip. All locks are given back in
/// one round trip. While an acquire waits for one lock, it keeps the locks before it from every other contender. So lock only
/// what must change together.
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::{Error, MultiLock, Session};
///
/// async fn buy(session: &Session, cart: &[String]) -> Result<bool, Error> {
///     let locks = MultiLock::from_paths(session, cart.iter().map(|goods| format!("/locks/{goods}")))?;
///     let Some(held) = locks.acquire_within(Duration::from_secs(2)).await? else { return Ok(false) };
///     held.run(async { /* take one of each out of stock, in one transaction */ }).await?;
///     held.release().await?;
///     Ok(true)
/// }
/// ```
#[doc(alias = "InterProcessMultiLock")]
#[derive(Clone)]
pub struct MultiLock {
    locks: Arc<[AnyLock]>,
}

/// How long to wait for the locks.
#[derive(Clone, Copy, Debug)]
enum Patience {
    Endless,
    None,
    Within { wait: Duration, begun: Instant },
}

impl MultiLock {
    /// Returns these locks, to be acquired in this order.
    ///
    /// # Errors
    /// [`Error::NoLocks`] if there is none. [`Error::DuplicateLock`] if two have the same path and the same session.
    /// [`Error::LocksMeet`] if the nodes of two are in each other's way.
    pub fn new(locks: impl IntoIterator<Item = impl Into<AnyLock>>) -> Result<Self, Error> {
        let locks: Arc<[AnyLock]> = locks.into_iter().map(Into::into).collect();
        if locks.is_empty() {
            return Err(Error::NoLocks);
        }
        let mut seen = HashMap::new();
        for lock in locks.iter() {
            if let Some(first) = seen.insert((lock.session().id(), lock.path()), lock) {
                let path = lock.path().to_owned();
                let reason = why_not_together(first, lock);
                return Err(Error::DuplicateLock { path, reason });
            }
        }
        meeting::refuse(&locks)?;
        Ok(Self { locks })
    }

    /// Returns a [`Mutex`] at each of these paths, to be acquired in canonical order.
    ///
    /// # Errors
    /// As [`new`](Self::new) and [`Mutex::new`]. Nothing is sent.
    pub fn from_paths(session: &Session, paths: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, Error> {
        let mutexes: Result<Vec<_>, _> = paths.into_iter().map(|path| Mutex::new(session, path.as_ref())).collect();
        Ok(Self::new(mutexes?)?.in_canonical_order())
    }

    /// Returns the same locks, to be acquired in the order of their paths, byte by byte.
    #[must_use]
    pub fn in_canonical_order(self) -> Self {
        let mut locks = self.locks.to_vec();
        locks.sort_by(|one, other| one.path().cmp(other.path()));
        Self { locks: locks.into() }
    }

    /// Returns the locks, in the order in which they are acquired.
    #[must_use]
    pub fn locks(&self) -> &[AnyLock] {
        &self.locks
    }

    /// Waits for all of the locks, without a deadline.
    ///
    /// # Errors
    /// As the `acquire` of the lock that failed. [`Error::HoldLost`] if a lock was lost during the wait for another lock.
    /// [`Error::NoRoom`] at once if the nodes of all locks of a session never fit into
    /// [`SessionConfig::node_bytes_max`](crate::SessionConfig::node_bytes_max).
    ///
    /// After a failure, the call gives back the locks that it has, for at most a quarter of the longest session timeout. If that
    /// fails, too, [`Error::Several`] with the cause and the errors of the locks.
    ///
    /// # Cancel safety
    /// If the future is dropped, it gives back the locks that it has: the sessions' reapers delete the nodes.
    pub async fn acquire(&self) -> Result<MultiGuard, Error> {
        self.acquire_all(Patience::Endless).await.map(granted)
    }

    /// Takes the locks if no other contender is ahead at any of them. Stops at the first lock that is taken, and gives back the
    /// locks before it. At the taken lock, it only reads, unless another contender came in between.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::NoAnswer`] if a server did not answer one of the locks within half the session
    /// timeout. [`Error::NoRoom`] if a session has no room for all nodes now. [`Error::Unconfirmed`] if a server did not confirm
    /// that a node of ours is gone.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>, Error> {
        self.acquire_all(Patience::None).await
    }

    /// Waits for all of the locks for at most `wait`, over all their requests. At the deadline, gives back the locks that it has
    /// and deletes all our nodes. This takes at most half of the longest session timeout. When it returns `None`, all our nodes
    /// are gone.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::Unconfirmed`] if a server did not confirm in time that a node of ours is gone.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<MultiGuard>, Error> {
        self.acquire_all(Patience::Within { wait, begun: Instant::now() }).await
    }

    async fn acquire_all(&self, patience: Patience) -> Result<Option<MultiGuard>, Error> {
        let first = self.locks.first().map(AnyLock::session);
        let session = first.filter(|first| self.locks.iter().all(|lock| lock.session().id() == first.id()));
        let span = AcquireSpan::new("multi", field::debug(Paths(&self.locks)), session.map(Session::id));
        span.run(self.acquire_in_order(patience)).await
    }

    async fn acquire_in_order(&self, patience: Patience) -> Result<Option<MultiGuard>, Error> {
        match patience.deadline().bound(self.take_rooms(patience)).await {
            Some(rooms) => rooms?.lend(self.acquire_each(patience)).await,
            None => Ok(None),
        }
    }

    /// Takes the room of all nodes before the first of them is created. Otherwise tasks that each hold a part of their locks could
    /// wait for each other's room.
    async fn take_rooms(&self, patience: Patience) -> Result<TakenRooms, Error> {
        // Sorted by session: if two `MultiLock`s took their rooms in different orders, each could wait for a room of
        // the other.
        let mut needed = BTreeMap::new();
        for lock in self.locks.iter() {
            needed.entry(lock.session().remote().session_id()).or_insert((lock, 0)).1 += lock.room();
        }
        let mut taken = TakenRooms::default();
        for (session_id, (first, bytes)) in needed {
            let is_try = matches!(patience, Patience::None);
            taken.add(session_id, first.session().room(first.path(), bytes, is_try).await?);
        }
        Ok(taken)
    }

    async fn acquire_each(&self, patience: Patience) -> Result<Option<MultiGuard>, Error> {
        let mut held = MultiGuard::new(Vec::with_capacity(self.locks.len()));
        for lock in self.locks.iter() {
            // Once one of the locks is lost, there is no reason to wait for the others.
            // Boxed, because each wrapper around a future takes its size again.
            let cause = match held.run(Box::pin(patience.acquire(lock))).await.flatten() {
                Ok(Some(guard)) => {
                    held.push(guard);
                    continue;
                }
                Ok(None) => None,
                Err(error) => Some(error),
            };
            return give_back(held, cause).await.map_or(Ok(None), Err);
        }
        Ok(Some(held))
    }
}

impl Patience {
    fn deadline(self) -> Deadline {
        match self {
            Self::Within { wait, begun } => Deadline::after(wait.saturating_sub(begun.elapsed())),
            Self::Endless | Self::None => Deadline::never(),
        }
    }

    async fn acquire(self, lock: &AnyLock) -> Result<Option<LockGuard>, Error> {
        match self {
            Self::Endless => lock.acquire().await.map(Some),
            Self::None => lock.try_acquire().await,
            Self::Within { wait, begun } => lock.acquire_within(wait.saturating_sub(begun.elapsed())).await,
        }
    }
}

impl LogGrant for MultiGuard {
    fn log(&self, _: &Span) {
        // The grant of each lock was logged when the lock was acquired.
        debug!(locks = self.guards().len(), "all granted");
    }
}

/// The paths of locks.
struct Paths<'a>(&'a [AnyLock]);

impl fmt::Debug for Paths<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(AnyLock::path)).finish()
    }
}

impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiLock").field("paths", &Paths(&self.locks)).finish_non_exhaustive()
    }
}

/// Returns why two locks with the same path and session cannot be held together.
fn why_not_together(first: &AnyLock, second: &AnyLock) -> &'static str {
    match (first, second) {
        (AnyLock::Read(_), AnyLock::Read(_)) => {
            "a writer that came between the two would wait for the first, and the second for the writer; give it once"
        }
        (AnyLock::Semaphore(_), AnyLock::Semaphore(_)) => {
            "two who have a permit each and want a second would wait for each other; take several at once with acquire_many"
        }
        _ => "the second would wait for the first; give it once",
    }
}

/// Gives back the locks that were granted before another one was not. `cause`: the error of that lock, if there was one. Returns
/// the cause and the errors of the give-back.
async fn give_back(held: MultiGuard, cause: Option<Error>) -> Option<Error> {
    for guard in held.guards() {
        debug!(lock = guard.path(), node = guard.node_path(), token = %guard.token(), "gives back");
    }
    let mut failures = held.withdraw().await;
    if let Some(cause) = &cause {
        forget_repeated(cause, &mut failures);
    }
    Error::several(cause.into_iter().chain(failures))
}

/// Removes the loss that is the cause from the failures, because its hold reports it again.
///
/// `cause` names the first hold that is lost, and `failures` begin with the last grant. So the repeated loss is the last failure
/// with the same node path. Holds of other sessions with the same path report their own losses.
fn forget_repeated(cause: &Error, failures: &mut Vec<Error>) {
    let Error::HoldLost { node_path: lost, .. } = cause else { return };
    let repeats = |failure: &Error| matches!(failure, Error::HoldLost { node_path, .. } if node_path == lost);
    if let Some(repeated) = failures.iter().rposition(repeats) {
        failures.remove(repeated);
    }
}

#[cfg(test)]
mod tests {
    use zk_recipes_protocol::liveness::LostReason;

    use super::*;
    use crate::token::FencingToken;

    fn lost(path: &str, reason: LostReason) -> Error {
        let node_path = format!("{path}/node");
        Error::HoldLost { path: path.to_owned(), node_path, token: FencingToken::new(1), reason }
    }

    #[test]
    fn a_failure_that_is_the_cause_is_not_told_twice() {
        let cause = lost("/a", LostReason::Silence);
        let mut failures = vec![lost("/a", LostReason::Closed), lost("/b", LostReason::Silence)];
        failures.push(lost("/a", LostReason::Silence));
        forget_repeated(&cause, &mut failures);
        let told: Vec<_> = failures.iter().map(Error::to_string).collect();
        assert_eq!(
            told,
            [lost("/a", LostReason::Closed), lost("/b", LostReason::Silence)].map(|loss| loss.to_string())
        );
        forget_repeated(&Error::NoLocks, &mut failures);
        assert_eq!(failures.len(), 2);
    }
}
