//! When a contender holds without having looked. Pure.
//!
//! The server numbers all children that were ever created in the lock's node, of every kind and session. Let the last
//! contender of our session that was granted the lock alone have number n. When it was granted, every contender before it
//! had gone. So if our own number is n + 1, and node n was deleted before ours was created, no contender is ahead.
//!
//! Node n was deleted before ours was created in two cases. Its deletion was confirmed before our `create` was sent; or
//! the deletion was sent before our `create` over the same connection, and was confirmed since. A server applies the
//! requests of one connection in order. It is not enough that node n has gone by now: somebody may have deleted our own
//! node in between, and let a later contender in.
//!
//! If the lock's node is deleted and created again, the numbers begin anew. So it must still be the node of the last grant.
//! It is, as long as a watch on it has not fired, because the server sends notifications before later replies.

use crate::names::Sequence;

/// After so many grants in a row a watch of the lock's node is worth its read. Whoever makes a lock for one use never pays
/// for it.
const GRANTS_BEFORE_WATCH: u8 = 1;

/// After so many nobody is likely to come in between the next time. If somebody does, the look comes a round trip later than
/// it might have.
const GRANTS_BEFORE_TRUST: u8 = 2;

/// That a contender was granted the lock alone: all before it had gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// Which node of the path the number is of.
    pub incarnation: i64,
    /// The number of the contender.
    pub sequence: Sequence,
}

/// What the grants of a session say to its next contender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NumberProof {
    last: Option<Grant>,
    /// The node of the last.
    node: LastNode,
    /// How many grants followed one another in the same node, without a number in between and without another change of
    /// that node.
    in_a_row: u8,
}

/// What is known of the node of the last grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum LastNode {
    /// It may be there.
    #[default]
    Held,
    /// Its deletion was sent. A `create` that is sent later over the same connection is applied after it.
    Leaving,
    /// Its deletion is confirmed. `in_order`: the connection has lasted since the deletion was sent, so every `create` that
    /// was sent after it was applied after it.
    Gone { in_order: bool },
}

/// The grant that a contender may follow whose `create` has not been sent yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expected {
    last: Grant,
    /// Whether the deletion of the last node is confirmed already. Otherwise it was sent.
    is_gone: bool,
}

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
        let follows = |last: Grant| last.is_followed_by(grant.sequence, Some(grant.incarnation));
        self.in_a_row = if self.last.is_some_and(follows) { self.in_a_row.saturating_add(1) } else { 1 };
        (self.last, self.node) = (Some(grant), LastNode::Held);
    }

    /// Notes that the deletion of the node of a grant was sent, in one request.
    pub fn leaves(&mut self, grant: Grant) {
        if self.last == Some(grant) && self.node == LastNode::Held {
            self.node = LastNode::Leaving;
        }
    }

    /// Notes the confirmation that the node of a grant has gone. `in_order`: the connection over which the deletion was sent
    /// has lasted until now.
    pub fn gone(&mut self, grant: Grant, in_order: bool) {
        if self.last == Some(grant) {
            self.node = LastNode::Gone { in_order: in_order && self.node == LastNode::Leaving };
        }
    }

    /// Notes that the watch of the lock's node has fired.
    pub fn disturbed(&mut self) {
        self.in_a_row = 0;
    }

    /// Returns the grant that a contender may follow that is about to send its `create`.
    pub fn expected(&self) -> Option<Expected> {
        let last = self.last?;
        match self.node {
            LastNode::Held => None,
            LastNode::Leaving => Some(Expected { last, is_gone: false }),
            LastNode::Gone { .. } => Some(Expected { last, is_gone: true }),
        }
    }

    /// Returns whether a contender follows the grant that was expected before its `create` was sent, and so holds. The server
    /// has answered its `create` with the number `own`. A watch of the lock's node in the incarnation `watched` has not fired.
    pub fn proves(&self, expected: Expected, own: Sequence, watched: Option<i64>) -> bool {
        let has_gone_in_order = self.last == Some(expected.last) && self.node == LastNode::Gone { in_order: true };
        expected.last.is_followed_by(own, watched) && (expected.is_gone || has_gone_in_order)
    }

    /// Returns whether such a contender follows that grant as soon as the deletion of its node is confirmed.
    pub fn may_prove(&self, expected: Expected, own: Sequence, watched: Option<i64>) -> bool {
        let is_leaving = self.last == Some(expected.last) && self.node == LastNode::Leaving;
        expected.last.is_followed_by(own, watched) && is_leaving
    }

    /// What such a contender had best send with it. A watch of the lock's node in the incarnation `watched` has not fired.
    pub fn first_requests(&self, watched: Option<i64>) -> FirstRequests {
        match (self.expected(), watched) {
            (Some(_), None) if self.in_a_row >= GRANTS_BEFORE_WATCH => FirstRequests::LookAndWatch,
            (Some(expected), Some(watched))
                if watched == expected.last.incarnation && self.in_a_row >= GRANTS_BEFORE_TRUST =>
            {
                FirstRequests::Nothing(expected)
            }
            _ => FirstRequests::Look,
        }
    }
}

impl Grant {
    fn is_followed_by(self, own: Sequence, watched: Option<i64>) -> bool {
        own.before() == self.sequence && watched == Some(self.incarnation)
    }
}

impl Expected {
    /// Which node of the path the contender is in if it follows that grant.
    pub fn incarnation(self) -> i64 {
        self.last.incarnation
    }
}
