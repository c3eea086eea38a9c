//! Several holds as one.

use std::future::{Future, pending};

use futures_util::future::{join_all, select_all};
use zk_recipes_protocol::liveness::LostReason;

use crate::error::Error;
use crate::hold::guard::{LockGuard, run_while_held};
use crate::hold::state::HoldState;
use crate::hold::watch::HoldWatch;

/// Several holds as one, in the order in which they were granted. It is as good as the worst of them: once one is lost,
/// all of it is.
///
/// Dropped, it drops its guards, the last grant first: the nodes of one session go to its reaper in that order. The guards
/// that [`into_guards`](Self::into_guards) or an iterator returns are single [`LockGuard`]s again, each with a hold of its
/// own. A `Vec` or an iterator drops the guards that it still has in the order of the grants, the first grant first.
///
/// Guards that were acquired one by one become a `MultiGuard` by `collect`; their order counts as the order of the grants.
///
/// ```no_run
/// # async fn example(held: zk_recipes::MultiGuard) -> Result<(), zk_recipes::Error> {
/// let tokens: Vec<_> = held.guards().iter().map(|guard| guard.token()).collect();
/// held.run(async { /* write every row, each fenced by the token of its lock */ }).await?;
/// held.release().await?;
/// # let _ = tokens; Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "if unused the locks are released immediately"]
pub struct MultiGuard {
    guards: Vec<LockGuard>,
}

impl MultiGuard {
    /// One guard of all of `guards`, which were granted in this order.
    pub(crate) fn new(guards: Vec<LockGuard>) -> Self {
        Self { guards }
    }

    /// The guards, in the order in which they were granted.
    #[must_use = "it only shows the guards"]
    pub fn guards(&self) -> &[LockGuard] {
        &self.guards
    }

    /// Takes the holds apart, in the order in which they were granted. A `Vec` drops its first element first.
    #[must_use = "if unused the locks are released immediately"]
    pub fn into_guards(mut self) -> Vec<LockGuard> {
        std::mem::take(&mut self.guards)
    }

    /// Whether all of the holds can be relied on now: the worst of their states.
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

    /// Waits until any of the holds is lost.
    ///
    /// # Cancel safety
    /// Nothing is lost; call it again.
    pub async fn lost(&self) -> LostReason {
        if self.guards.is_empty() {
            return pending().await;
        }
        let (reason, ..) = select_all(self.guards.iter().map(|guard| Box::pin(guard.lost()))).await;
        reason
    }

    /// One watch of all the holds, for tasks that do not have the guard. It outlives the guard and does not hold. It ends with
    /// the first of the holds.
    #[must_use]
    pub fn watch(&self) -> HoldWatch {
        HoldWatch::of_all(self.guards.iter().map(LockGuard::watch))
    }

    /// Runs a critical section and stops it, by dropping it, when any of the holds is lost.
    ///
    /// # Errors
    /// [`Error::HoldLost`], which names the hold that was lost before the section was done.
    ///
    /// # Cancel safety
    /// Dropped, the section is dropped wherever it stands; the holds go on.
    pub async fn run<F: Future>(&self, section: F) -> Result<F::Output, Error> {
        run_while_held(section, || self.state(), self.lost(), |reason| self.lost_error(reason)).await
    }

    /// Gives all of the locks back, the last grant first, and waits for the confirmations. The requests are sent at
    /// once: locks of one session become free in that order, and a session that does not answer keeps only its own
    /// locks. One round trip, however many locks there are.
    ///
    /// # Errors
    /// Every lock is given back, whatever becomes of the others. When one fails, as
    /// [`LockGuard::release`]; when several do, [`Error::Several`] of those.
    ///
    /// # Cancel safety
    /// Dropped, the reapers release the locks.
    pub async fn release(self) -> Result<(), Error> {
        let releases = self.into_guards().into_iter().rev().map(LockGuard::release);
        let failures = join_all(releases).await.into_iter().filter_map(Result::err);
        Error::several(failures).map_or(Ok(()), Err)
    }

    /// Adds the latest grant.
    pub(crate) fn push(&mut self, guard: LockGuard) {
        self.guards.push(guard);
    }

    /// Gives all of the locks back unused, as [`release`](Self::release) does, but waits for each only as long as for the
    /// withdrawal from a queue. Returns whatever went wrong.
    pub(crate) async fn withdraw(self) -> Vec<Error> {
        let withdrawals = self.into_guards().into_iter().rev().map(LockGuard::withdraw);
        join_all(withdrawals).await.into_iter().filter_map(Result::err).collect()
    }

    /// The error of the first hold that is lost.
    fn lost_error(&self, reason: LostReason) -> Error {
        let lost = self.guards.iter().find(|guard| matches!(guard.state(), HoldState::Lost(_)));
        lost.expect("BUG: a hold that was lost is held again").lost_error(reason)
    }
}

impl FromIterator<LockGuard> for MultiGuard {
    /// The guards as one, as if they had been granted in this order.
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
        while let Some(last) = self.guards.pop() {
            drop(last);
        }
    }
}
