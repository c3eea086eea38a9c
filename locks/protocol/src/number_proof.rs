//! When a contender holds without a look at the queue. Pure.
//!
//! The server numbers all children that were ever created in the lock's node, of every kind and session. Let n be the number of
//! the last contender of our session that was granted the lock alone. When it was granted, no contender was ahead of it any more.
//! So if our own number is n + 1, only that contender can be ahead. If it had released before our `create` was sent, no contender
//! holds or waits ahead of us. That contender's node may still exist. It will be deleted, and until then it only delays contenders
//! behind us.
//!
//! If the lock's node is deleted and created again, numbers begin anew. So the lock's node must still be the one of the last
//! grant. That is certain as long as a watch on it has not fired, because the server sends notifications before later replies.

use crate::names::Sequence;
use crate::stat::ParentCzxid;

/// Consecutive grants after which the lock is probably had alone: a watch of the lock's node is worth its read, and then the next
/// number probably follows directly, so the look is skipped. If another contender is in between, the look comes one round trip
/// late. One grant is not enough: if each session of a crowd had such a watch, the next note would wake all of them.
const GRANTS_IN_A_ROW: u8 = 2;

/// A grant of the lock to one contender alone: no contender was ahead of it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GrantedNumber {
    /// The lock's node that has given the number.
    pub parent: ParentCzxid,
    /// The number of the contender.
    pub sequence: Sequence,
}

/// What the grants of a session prove to its next contender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NumberProof {
    last: Option<GrantedNumber>,
    /// Whether the last holder has released.
    is_released: bool,
    /// Consecutive grants: in one lock's node, without a number in between and without another change of that node.
    in_a_row: u8,
}

/// The grant that a contender may directly follow, noted before its `create` is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expected(GrantedNumber);

/// What to send right behind a `create`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstRequests {
    /// A look.
    Look,
    /// A look, and the read that watches the lock's node.
    LookAndWatch,
    /// Nothing: the number is expected to be proof enough.
    Nothing(Expected),
}

impl NumberProof {
    /// Notes that a contender was granted the lock alone.
    pub fn granted(&mut self, grant: GrantedNumber) {
        let follows = self.last.is_some_and(|last| last.is_followed_by(grant.sequence, Some(grant.parent)));
        self.in_a_row = if follows { self.in_a_row.saturating_add(1) } else { 1 };
        self.last = Some(grant);
        self.is_released = false;
    }

    /// Notes that the holder of a grant has released. From now on it does not hold, even if its node still exists.
    pub fn released(&mut self, grant: GrantedNumber) {
        // The release of a reader is reported here, too. Only the release of the last exclusive holder counts.
        self.is_released |= self.last == Some(grant);
    }

    /// Notes that the watch of the lock's node has fired.
    pub fn disturbed(&mut self) {
        self.in_a_row = 0;
    }

    /// Returns the grant that a contender may directly follow if its `create` is sent now.
    pub fn expected(&self) -> Option<Expected> {
        self.last.filter(|_| self.is_released).map(Expected)
    }

    /// Returns what to send with a `create`. `watched`: the lock's node whose watch has not fired.
    pub fn first_requests(&self, watched: Option<ParentCzxid>) -> FirstRequests {
        match (self.expected(), watched) {
            (Some(_), None) if self.in_a_row >= GRANTS_IN_A_ROW => FirstRequests::LookAndWatch,
            (Some(expected), Some(watched)) if watched == expected.parent() && self.in_a_row >= GRANTS_IN_A_ROW => {
                FirstRequests::Nothing(expected)
            }
            _ => FirstRequests::Look,
        }
    }
}

impl GrantedNumber {
    fn is_followed_by(self, own: Sequence, watched: Option<ParentCzxid>) -> bool {
        own.before() == self.sequence && watched == Some(self.parent)
    }
}

impl Expected {
    /// Returns the lock's node of this grant.
    pub fn parent(self) -> ParentCzxid {
        self.0.parent
    }

    /// Tells whether the contender with the number `own` directly follows this grant, and so holds. The number is in the reply to
    /// its `create`. `watched`: the lock's node whose watch has not fired.
    pub fn proves(self, own: Sequence, watched: Option<ParentCzxid>) -> bool {
        self.0.is_followed_by(own, watched)
    }
}
