//! The contenders of one session for one lock. One of them at a time deals with the server. The state machine of
//! [`zk_recipes_protocol::cohort`] decides what they do.

mod linger;
pub(crate) mod member;

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use zk_recipes_protocol::cohort::{self, Ask, MemberId, MemberState};

use crate::engine::Contender;
use crate::hold::{Claim, Hold};

/// The contenders of one session for one lock.
pub(crate) struct Cohort {
    began: Instant,
    pub(super) core: Mutex<CohortCore>,
    /// One permit for each hold of the session that may linger.
    pub(super) linger_permits: Arc<Semaphore>,
}

#[derive(Default)]
pub(super) struct CohortCore {
    pub(super) members: cohort::Cohort,
    /// The wakers of the members that wait for the turn.
    pub(super) wakers: BTreeMap<MemberId, Waker>,
    /// What comes with the turn, until the member that has the turn now takes it. A hold that lingers is here, too. So if the last
    /// lock object is dropped, the hold is dropped with the cohort.
    pub(super) passed: Turn,
    /// Tells the task at the watches that the hold begins to linger, unless its next check comes in time.
    pub(super) kept: Arc<Notify>,
    /// The time of that check. `None` if the task waits until it is told.
    pub(super) next_check: Option<Duration>,
    /// The asks of the last event.
    pub(super) asks: Vec<Ask>,
}

/// What comes with the turn.
#[derive(Debug, Default)]
pub(super) enum Turn {
    /// Nothing.
    #[default]
    Begins,
    /// A place in the lock's queue. A member that gives up waiting for the grant leaves it to the next member.
    Queues(Claim<Contender>),
    Holds(Box<Hold>),
}

impl Cohort {
    /// Returns a cohort without members. A hold of it may linger while it has one of the permits.
    pub(crate) fn new(linger_permits: &Arc<Semaphore>) -> Self {
        Self { began: Instant::now(), core: Mutex::default(), linger_permits: Arc::clone(linger_permits) }
    }

    /// Returns the time for the state machine.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Ends all waiting and lingering, because the session has ended. Wakes the members that wait, even if the holder ahead of
    /// them never releases.
    pub(crate) fn close(&self) {
        // The members are closed before the wakers are taken, so no member waits without a waker from here on.
        self.tell_of_lingering(cohort::Cohort::close);
        let woken = mem::take(&mut self.core.lock().wakers);
        woken.into_values().for_each(Waker::wake);
    }

    /// Notes that the watch of the queue has fired that this member set.
    pub(super) fn queue_changed(&self, watched_by: MemberId) {
        self.tell_of_lingering(|members, asks| members.queue_changed(watched_by, asks));
    }

    /// Gives up the hold that lingers, if its time is over. Returns the time until the next check. `None` if no hold lingers.
    pub(super) fn end_linger(&self) -> Option<Duration> {
        let now = self.now();
        self.tell_of_lingering(|members, asks| members.end_linger(now, asks));
        let mut core = self.core.lock();
        core.next_check = core.members.lingers_until();
        core.next_check.map(|until| until.saturating_sub(now))
    }

    /// Tells the members what may end the lingering of a hold. If it does, the reaper deletes the node.
    fn tell_of_lingering(&self, tell: impl FnOnce(&mut cohort::Cohort, &mut Vec<Ask>)) {
        let mut core = self.core.lock();
        let mut asks = Vec::new();
        tell(&mut core.members, &mut asks);
        let given_up = asks.contains(&Ask::GiveUp).then(|| mem::take(&mut core.passed));
        // A hold is dropped after the lock is released.
        drop(core);
        drop(given_up);
    }
}

impl CohortCore {
    /// Moves what came with the turn to the member, if the member has the turn now.
    pub(super) fn bring(&mut self, id: MemberId, turn: &mut Turn) {
        if matches!(turn, Turn::Begins) && !matches!(self.members.state(id), MemberState::Waits | MemberState::Closed) {
            *turn = mem::take(&mut self.passed);
        }
    }
}

impl fmt::Debug for Cohort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cohort").finish_non_exhaustive()
    }
}
