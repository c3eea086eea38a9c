//! Holds that linger, and the watches of the queue that end that.

use zk_recipes_protocol::cohort::{Ask, Cohort, MemberId, Others};

use super::{Passed, Process};

/// A watch of the lock's children and of the hold's node, until its notification arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct ModelWatch {
    by: MemberId,
    node: u8,
    pub(in super::super) has_fired: bool,
}

impl Process {
    /// Looks for others and for a request, and sets a watch. Without a connection, the shell gets neither.
    pub(super) fn watch_queue(&mut self, i: usize, id: MemberId, node: u8) {
        if self.is_suspect || self.is_expired || self.is_ended {
            return self.see_others(i, Others::Unknown);
        }
        let others = match self.look(node) {
            Others::Children(_) if self.requested.contains(&node) => Others::Revoked,
            others => others,
        };
        if others != Others::OwnNodeGone {
            self.watches.push(ModelWatch { by: id, node, has_fired: false });
        }
        self.see_others(i, others);
    }

    /// Lets somebody ask for the lock.
    pub(in super::super) fn request(&mut self, node: u8) {
        self.left.requests -= 1;
        self.requested.insert(node);
        self.watches.iter_mut().for_each(|watch| watch.has_fired |= watch.node == node);
    }

    /// Tells whether a hold lingers that somebody has asked for, although no notification is under way.
    pub(in super::super) fn lingers_against_a_request(&self) -> bool {
        let is_requested = matches!(self.passed, Passed::Hold { node, .. } if self.requested.contains(&node));
        self.lingers() && is_requested && !self.watches.iter().any(|watch| watch.has_fired)
    }

    /// Delivers the notification of a watch that has fired.
    pub(in super::super) fn notify(&mut self, watch: usize) {
        let ModelWatch { by, .. } = self.watches.remove(watch);
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
        let passed = std::mem::replace(&mut self.passed, Passed::Nothing);
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
            let passed = std::mem::replace(&mut self.passed, Passed::Nothing);
            self.leave_to_reaper(passed);
        }
        self.wake(&asks);
    }

    pub(in super::super) fn fire_watches(&mut self) {
        self.watches.iter_mut().for_each(|watch| watch.has_fired = true);
    }
}
