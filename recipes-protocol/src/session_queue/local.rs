//! What the contenders of one session know together of a queue. It spares requests: whoever finds nothing here asks the server.

use std::collections::BTreeMap;

use super::ContenderId;
use crate::names::Sequence;
use crate::number_proof::{Expected, FirstRequests, Grant, NumberProof};
use crate::stat::ParentCzxid;

/// Batch size: one sixteenth of the session's waiters.
const GROUP_SHARE: usize = 16;

/// What the contenders of one session know that queue under the same names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Local {
    /// All contenders before this number have gone.
    floor: Option<(ParentCzxid, Sequence)>,
    /// Whether the last contender that looked for the one to watch has found it there.
    pub(super) is_busy: bool,
    /// Who has a node in the queue, by number.
    members: BTreeMap<Sequence, ContenderId>,
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

impl Local {
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
