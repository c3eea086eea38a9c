//! When a contender holds without having looked. Pure.
//!
//! The server numbers all children that were ever created in the lock's node, of every kind and session. Let the last
//! contender of our session that was granted the lock alone have number n. When it was granted, every contender before it
//! had gone. So if our own number is n + 1, only that contender can be ahead. If it had let go before our `create` was sent,
//! nobody is. Its node may still be there: it goes sooner or later, and keeps nobody out but those behind us.
//!
//! If the lock's node is deleted and created again, the numbers begin anew. So it must still be the node of the last grant.
//! It is, as long as a watch on it has not fired, because the server sends notifications before later replies.

use crate::names::Sequence;
use crate::stat::ParentCzxid;

/// After so many grants in a row a watch of the lock's node is worth its read. Whoever makes a lock for one use never pays
/// for it.
const GRANTS_BEFORE_WATCH: u8 = 1;

/// After so many nobody is likely to come in between the next time. If somebody does, the look comes a round trip later than
/// it might have.
const GRANTS_BEFORE_TRUST: u8 = 2;

/// That a contender was granted the lock alone: all before it had gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The lock's node that the number is of.
    pub parent: ParentCzxid,
    /// The number of the contender.
    pub sequence: Sequence,
}

/// What the grants of a session say to its next contender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NumberProof {
    last: Option<Grant>,
    /// Whether the holder of the last has let go.
    is_released: bool,
    /// How many grants followed one another in the same node, without a number in between and without another change of
    /// that node.
    in_a_row: u8,
}

/// The grant that a contender may follow whose `create` has not been sent yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expected(Grant);

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
    pub fn granted(&mut self, grant: Grant) {
        let follows = self.last.is_some_and(|last| last.is_followed_by(grant.sequence, Some(grant.parent)));
        self.in_a_row = if follows { self.in_a_row.saturating_add(1) } else { 1 };
        (self.last, self.is_released) = (Some(grant), false);
    }

    /// Notes that the holder of a grant has let go: from now on it does not hold, whatever becomes of its node.
    pub fn released(&mut self, grant: Grant) {
        self.is_released |= self.last == Some(grant);
    }

    /// Notes that the watch of the lock's node has fired.
    pub fn disturbed(&mut self) {
        self.in_a_row = 0;
    }

    /// The grant that a contender may follow that is about to send its `create`.
    pub fn expected(&self) -> Option<Expected> {
        self.last.filter(|_| self.is_released).map(Expected)
    }

    /// What a contender had best send with its `create`. A watch of the lock's node `watched` has not fired.
    pub fn first_requests(&self, watched: Option<ParentCzxid>) -> FirstRequests {
        match (self.expected(), watched) {
            (Some(_), None) if self.in_a_row >= GRANTS_BEFORE_WATCH => FirstRequests::LookAndWatch,
            (Some(expected), Some(watched)) if watched == expected.parent() && self.in_a_row >= GRANTS_BEFORE_TRUST => {
                FirstRequests::Nothing(expected)
            }
            _ => FirstRequests::Look,
        }
    }
}

impl Grant {
    fn is_followed_by(self, own: Sequence, watched: Option<ParentCzxid>) -> bool {
        own.before() == self.sequence && watched == Some(self.parent)
    }
}

impl Expected {
    /// The lock's node of a contender that follows that grant.
    pub fn parent(self) -> ParentCzxid {
        self.0.parent
    }

    /// Whether a contender follows the grant that was expected before its `create` was sent, and so holds. The server has answered
    /// its `create` with the number `own`. A watch of the lock's node `watched` has not fired.
    pub fn proves(self, own: Sequence, watched: Option<ParentCzxid>) -> bool {
        self.0.is_followed_by(own, watched)
    }
}
