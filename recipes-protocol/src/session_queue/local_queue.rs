//! What the contenders of one session know together of a queue. It spares requests: whoever finds nothing here asks the server.

use super::ContenderId;
use super::small_map::SmallMap;
use crate::names::Sequence;
use crate::number_proof::{Expected, FirstRequests, Grant, NumberProof};
use crate::stat::ParentCzxid;

/// Batch size: one sixteenth of the session's waiters.
const GROUP_SHARE: usize = 16;

/// What the contenders of one session know that queue under the same names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LocalQueue {
    /// All contenders before this number have gone.
    floor: Option<(ParentCzxid, Sequence)>,
    /// Whether the last contender that looked for the one to watch has found it there.
    pub(super) is_busy: bool,
    /// Who has a node in the queue, by number.
    members: SmallMap<Sequence, ContenderId>,
    /// Those who wait for others to join the queue with.
    ///
    /// Each joins by a write that the server makes durable, and so do those who release. A queue that is joined by one
    /// contender after the other advances at half its rate, as the server makes durable together what arrives together.
    /// Whoever will wait long anyway therefore waits a little for others to join with. Their places are then next to each
    /// other, and who hands over to the one of its own session directly behind can do so without the server.
    grouping: Vec<ContenderId>,
    /// How many wait for the grant.
    pub(super) waiting: usize,
    number_proof: NumberProof,
    /// The lock's node that a watch shows to be the same still.
    watched: Option<ParentCzxid>,
}

impl LocalQueue {
    /// Notes a contender that wants to join. Returns all that join now.
    pub(super) fn join(&mut self, id: ContenderId) -> Vec<ContenderId> {
        self.grouping.push(id);
        if self.grouping.len() < self.waiting / GROUP_SHARE { Vec::new() } else { self.end_grouping() }
    }

    /// Ends the wait for others. Returns all who join now.
    pub(super) fn end_grouping(&mut self) -> Vec<ContenderId> {
        std::mem::take(&mut self.grouping)
    }

    /// Notes who wants to join no more.
    pub(super) fn leave_grouping(&mut self, id: ContenderId) {
        self.grouping.retain(|other| *other != id);
    }

    /// Notes who has a node in the queue.
    pub(super) fn add_member(&mut self, sequence: Sequence, id: ContenderId) {
        self.members.insert(sequence, id);
    }

    /// Notes that the node of a contender has gone.
    pub(super) fn remove_member(&mut self, sequence: Sequence, id: ContenderId) {
        // The numbers may have begun anew.
        if self.members.get(&sequence) == Some(&id) {
            self.members.remove(&sequence);
        }
    }

    /// The contender of the session that has this number.
    pub(super) fn member(&self, sequence: Sequence) -> Option<ContenderId> {
        self.members.get(&sequence).copied()
    }

    /// Notes that a contender was granted the lock alone, and so nobody is before it.
    pub(super) fn granted(&mut self, parent: ParentCzxid, sequence: Sequence) {
        let is_news =
            self.floor.is_none_or(|(of, floor)| of < parent || of == parent && floor.queue_cmp(sequence).is_lt());
        if is_news {
            self.floor = Some((parent, sequence));
        }
        self.number_proof.granted(Grant { parent, sequence });
    }

    /// The number before which nobody is any more.
    pub(super) fn floor(&self, parent: ParentCzxid) -> Option<Sequence> {
        self.floor.filter(|(of, _)| *of == parent).map(|(_, sequence)| sequence)
    }

    /// Notes that the holder of this number has let go.
    pub(super) fn released(&mut self, parent: ParentCzxid, sequence: Sequence) {
        self.number_proof.released(Grant { parent, sequence });
    }

    /// What a contender had best send with its `create`.
    pub(super) fn first_requests(&self) -> FirstRequests {
        self.number_proof.first_requests(self.watched)
    }

    /// The lock's node of a contender that holds by its number, with which the server has answered its `create`.
    pub(super) fn proves(&self, expected: Expected, own: Sequence) -> Option<ParentCzxid> {
        self.watched.filter(|_| expected.proves(own, self.watched))
    }

    /// Keeps a watch that was set on the lock's node.
    pub(super) fn keep_watch(&mut self, parent: Option<ParentCzxid>) {
        self.watched = parent.or(self.watched);
    }

    /// Notes that the watch of the lock's node has fired.
    pub(super) fn lose_watch(&mut self) {
        self.watched = None;
        self.number_proof.disturbed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(waiting: usize) -> LocalQueue {
        LocalQueue { waiting, ..LocalQueue::default() }
    }

    #[test]
    fn the_floor_only_rises_until_the_numbers_begin_anew() {
        let (mut local, one, other) = (local(0), ParentCzxid(1), ParentCzxid(2));
        assert_eq!(local.floor(one), None);
        local.granted(one, Sequence::new(7));
        local.granted(one, Sequence::new(5));
        assert_eq!(local.floor(one), Some(Sequence::new(7)));
        local.granted(other, Sequence::new(0));
        assert_eq!(local.floor(other), Some(Sequence::new(0)));
        assert_eq!(local.floor(one), None);
        local.granted(one, Sequence::new(9));
        assert_eq!(local.floor(other), Some(Sequence::new(0)), "the earlier node says nothing of this one");
    }

    #[test]
    fn the_floor_follows_the_numbers_when_they_wrap() {
        let mut local = local(0);
        local.granted(ParentCzxid(1), Sequence::new(i32::MAX));
        local.granted(ParentCzxid(1), Sequence::new(i32::MIN));
        assert_eq!(local.floor(ParentCzxid(1)), Some(Sequence::new(i32::MIN)));
    }

    #[test]
    fn nobody_is_held_back_while_few_wait() {
        let mut local = local(2 * GROUP_SHARE - 1);
        for id in [1, 2, 3].map(ContenderId) {
            assert_eq!(local.join(id), [id]);
        }
    }

    #[test]
    fn a_batch_joins_when_it_is_complete() {
        let mut local = local(3 * GROUP_SHARE);
        let [one, two, three, four] = [1, 2, 3, 4].map(ContenderId);
        assert_eq!(local.join(one), []);
        assert_eq!(local.join(two), []);
        assert_eq!(local.join(three), [one, two, three]);
        assert_eq!(local.join(four), [], "this one is of the next batch");
    }

    #[test]
    fn a_batch_that_is_not_complete_in_time_joins_together() {
        let mut local = local(100 * GROUP_SHARE);
        let [one, two] = [1, 2].map(ContenderId);
        assert_eq!(local.join(one), []);
        assert_eq!(local.join(two), []);
        assert_eq!(local.end_grouping(), [one, two]);
    }

    #[test]
    fn whoever_gives_up_is_not_counted() {
        let mut local = local(2 * GROUP_SHARE);
        let [given_up, alone, next] = [1, 2, 3].map(ContenderId);
        assert_eq!(local.join(given_up), []);
        local.leave_grouping(given_up);
        assert_eq!(local.join(alone), []);
        local.waiting = 0;
        assert_eq!(local.join(next), [alone, next], "nobody waits any more");
    }
}
