//! Several holds as one.

use std::fmt;
use std::future::{Future, pending};
use std::sync::OnceLock;

use futures_util::future::{join_all, select_all};
use tokio_util::sync::CancellationToken;
use zk_recipes_protocol::liveness::LostReason;

use crate::error::Error;
use crate::guard::{LockGuard, run_while_held};
use crate::hold::state::HoldState;
use crate::hold::watch::HoldWatch;

/// Several holds as one, in the order of their grants. Its state is the worst state of its holds: once one hold is lost, the
/// whole guard is lost.
///
/// If it is dropped, it drops its guards, the last grant first, so the nodes of one session go to its reaper in that order. The
/// guards from [`into_guards`](Self::into_guards) or from an iterator are single [`LockGuard`]s again, each with its own hold. A
/// `Vec` or an iterator drops its remaining guards in the order of the grants, the first grant first.
///
/// To make a `MultiGuard` of guards that were acquired one by one, use `collect`. Their order counts as the order of the grants.
///
/// ```no_run
/// # async fn example(held: zk_recipes::MultiGuard) -> Result<(), zk_recipes::Error> {
/// let tokens: Vec<_> = held.guards().iter().map(|guard| guard.token()).collect();
/// held.run(async { /* write every row, each fenced by the token of its lock */ }).await?;
/// held.release().await?;
/// # let _ = tokens; Ok(())
/// # }
/// ```
#[must_use = "if unused the locks are released immediately"]
pub struct MultiGuard {
    guards: Vec<LockGuard>,
    /// The parent of its cancellation tokens. Empty until the first of them is made.
    cancellation: OnceLock<CancellationToken>,
}

impl MultiGuard {
    /// Returns one guard of `guards`, which were granted in this order.
    pub(crate) fn new(guards: Vec<LockGuard>) -> Self {
        Self { guards, cancellation: OnceLock::new() }
    }

    /// Returns the guards, in the order of their grants.
    #[must_use = "it only shows the guards"]
    pub fn guards(&self) -> &[LockGuard] {
        &self.guards
    }

    /// Splits the guard into single guards, in the order of their grants. A `Vec` drops its first element first.
    #[must_use = "if unused the locks are released immediately"]
    pub fn into_guards(mut self) -> Vec<LockGuard> {
        std::mem::take(&mut self.guards)
    }

    /// Returns the worst state of the holds: whether all of them can be relied on now.
    #[must_use]
    pub fn state(&self) -> HoldState {
        let mut worst = HoldState::Held;
        for guard in &self.guards {
            match guard.state() {
                lost @ HoldState::Lost(_) => return lost,
                HoldState::Suspect => worst = HoldState::Suspect,
                HoldState::Held => {}
            }
        }
        worst
    }

    /// Waits until any of the holds is lost. Returns the reason.
    ///
    /// # Cancel safety
    /// Nothing is lost: call it again.
    pub async fn lost(&self) -> LostReason {
        if self.guards.is_empty() {
            return pending().await;
        }
        let (reason, ..) = select_all(self.guards.iter().map(|guard| Box::pin(guard.lost()))).await;
        reason
    }

    /// Returns one watch of all the holds, for tasks that do not have the guard. The watch may outlive the guard, and does not
    /// hold the locks. It ends with the first hold that ends.
    #[must_use]
    pub fn watch(&self) -> HoldWatch {
        HoldWatch::of_all(self.guards.iter().map(LockGuard::watch))
    }

    /// Returns a cancellation token that is cancelled when any of the holds is lost or ends: see
    /// [`LockGuard::cancellation_token`]. Without any hold, it is never cancelled.
    ///
    /// If this guard is split into single guards, the first of them that ends cancels the token a little later.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        match self.guards.first() {
            Some(first) => self.watch().cancellation_token(&self.cancellation, first.remote()),
            None => CancellationToken::new(),
        }
    }

    /// Runs a critical section. Stops it, by dropping it, when any of the holds is lost.
    ///
    /// # Errors
    /// [`Error::HoldLost`] if a hold was lost before the section was done. The error names that hold.
    ///
    /// # Cancel safety
    /// If the future is dropped, the section is dropped with it, and the holds go on.
    pub async fn run<F: Future>(&self, section: F) -> Result<F::Output, Error> {
        run_while_held(section, || self.state(), self.lost(), |reason| self.lost_error(reason)).await
    }

    /// Releases all locks, the last grant first, and waits for the confirmations. All requests are sent at once, so this takes
    /// one round trip for any number of locks. Locks of one session become free in the order of the releases. A session that does
    /// not answer delays only its own locks.
    ///
    /// # Errors
    /// Every lock is released, even if others fail. If one fails, the error of its [`LockGuard::release`]. If several fail,
    /// [`Error::Several`] with all errors.
    ///
    /// # Cancel safety
    /// If the future is dropped, the sessions' reapers release the locks.
    pub async fn release(self) -> Result<(), Error> {
        // Before the first release is sent: the tokens count for all of the holds.
        self.cancel();
        let releases = self.into_guards().into_iter().rev().map(LockGuard::release);
        let failures = join_all(releases).await.into_iter().filter_map(Result::err);
        Error::several(failures).map_or(Ok(()), Err)
    }

    /// Cancels its cancellation tokens, because the holds end now.
    fn cancel(&self) {
        if let Some(cancellation) = self.cancellation.get() {
            cancellation.cancel();
        }
    }

    /// Adds the latest grant.
    pub(crate) fn push(&mut self, guard: LockGuard) {
        self.guards.push(guard);
    }

    /// Releases all locks unused, as [`release`](Self::release) does. Waits for each lock at most as long as
    /// [`withdrawal`](crate::hold::withdrawal). Returns all errors.
    pub(crate) async fn withdraw(self) -> Vec<Error> {
        let withdrawals = self.into_guards().into_iter().rev().map(LockGuard::withdraw);
        join_all(withdrawals).await.into_iter().filter_map(Result::err).collect()
    }

    /// Returns the error of the first lost hold.
    fn lost_error(&self, reason: LostReason) -> Error {
        let lost = self.guards.iter().find(|guard| matches!(guard.state(), HoldState::Lost(_)));
        lost.expect("BUG: a hold that was lost is held again").lost_error(reason)
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiGuard").field("guards", &self.guards).finish_non_exhaustive()
    }
}

impl FromIterator<LockGuard> for MultiGuard {
    /// Returns one guard of these guards, as if they had been granted in this order.
    fn from_iter<I: IntoIterator<Item = LockGuard>>(guards: I) -> Self {
        Self::new(guards.into_iter().collect())
    }
}

impl IntoIterator for MultiGuard {
    type Item = LockGuard;
    type IntoIter = std::vec::IntoIter<LockGuard>;

    /// As [`into_guards`](MultiGuard::into_guards).
    fn into_iter(self) -> Self::IntoIter {
        self.into_guards().into_iter()
    }
}

impl<'a> IntoIterator for &'a MultiGuard {
    type Item = &'a LockGuard;
    type IntoIter = std::slice::Iter<'a, LockGuard>;

    /// As [`guards`](MultiGuard::guards).
    fn into_iter(self) -> Self::IntoIter {
        self.guards.iter()
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        // The holds of a guard that was split go on.
        if !self.guards.is_empty() {
            self.cancel();
        }
        while let Some(last) = self.guards.pop() {
            drop(last);
        }
    }
}
