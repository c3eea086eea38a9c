//! Holds that linger, and the watches of the queue that end that.

use zk_recipes_protocol::cohort::{Ask, Cohort, MemberId, Others};

use super::{Had, Process};

/// A watch of the lock's children, until its notification arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Watch {
    by: MemberId,
    pub(in super::super) has_fired: bool,
}

impl Process {
    /// Looks for others and sets a watch. Without a connection, the shell gets neither.
    pub(super) fn watch_queue(&mut self, i: usize, id: MemberId) {
        if self.is_suspect || self.is_expired || self.is_ended {
            return self.see_others(i, Others::Unknown);
        }
        self.watches.push(Watch { by: id, has_fired: false });
        self.look_for_others(i);
    }

    /// Delivers the notification of a watch that has fired.
    pub(in super::super) fn notify(&mut self, watch: usize) {
        let Watch { by, .. } = self.watches.remove(watch);
        self.tell_of_lingering(|cohort, asks| cohort.queue_changed(by, asks));
    }

    /// Lets the time pass for which a hold lingers.
    pub(in super::super) fn end_linger(&mut self) {
        self.now = self.cohort.lingers_until().map_or(self.now, |until| until.max(self.now));
        let now = self.now;
        self.tell_of_lingering(|cohort, asks| cohort.end_linger(now, asks));
    }

    /// Drops the last object that stands for the lock. The next contender begins another cohort.
    pub(in super::super) fn forget(&mut self) {
        let passed = std::mem::replace(&mut self.passed, Had::Nothing);
        self.leave_to_reaper(passed);
        self.cohort = Cohort::default();
        self.watches.clear();
    }

    /// Tells whether a hold lingers whose time is not over.
    pub(in super::super) fn lingers(&self) -> bool {
        self.cohort.lingers_until().is_some_and(|until| self.now < until)
    }

    /// Reports what may end the lingering of a hold.
    pub(super) fn tell_of_lingering(&mut self, tell: impl FnOnce(&mut Cohort, &mut Vec<Ask>)) {
        let mut asks = Vec::new();
        tell(&mut self.cohort, &mut asks);
        if asks.contains(&Ask::GiveUp) {
            let passed = std::mem::replace(&mut self.passed, Had::Nothing);
            self.leave_to_reaper(passed);
        }
        self.wake(&asks);
    }

    pub(in super::super) fn fire_watches(&mut self) {
        self.watches.iter_mut().for_each(|watch| watch.has_fired = true);
    }
}
