//! Fencing tokens.

use std::fmt;

/// A token that grows with every grant of a lock. With it, storage can reject a holder that was overtaken.
///
/// It has two parts. [`czxid`](Self::czxid) is the number of the transaction that created the node of the hold.
/// [`handover`](Self::handover) counts how often a [`CohortMutex`](crate::CohortMutex) handed over the lock by that node, within its
/// process. Tokens grow in the order of the grants, over all sessions. They grow even if the parent was deleted in between. The
/// sequence number at the end of a node's name does not.
///
/// To fence a row, raise its fence on the *read* and check it on the *write*. A check on the write alone still loses updates.
///
/// For every recipe except `CohortMutex`, one column with [`czxid`](Self::czxid) is enough. For a `CohortMutex`, store
/// [`handover`](Self::handover) in a second column, and compare both as a row. The token compares itself in the same way:
///
/// ```sql
/// update goods set fence = $1, fence_handover = $2
/// where goods_no = $3 and (fence, fence_handover) <= ($1, $2) returning on_hand
/// ```
///
/// ```
/// # use zk_recipes::FencingToken;
/// # fn store(earlier: FencingToken, later: FencingToken) {
/// assert!(earlier < later);
/// assert!((earlier.czxid(), earlier.handover()) < (later.czxid(), later.handover()));
/// # }
/// ```
///
/// It is displayed as `4294967301`, or after seven hand-overs as `4294967301.7`. The second form is for readers only: it is no
/// decimal fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken {
    // The derived order compares the fields in this order.
    czxid: i64,
    handover: i64,
}

impl FencingToken {
    /// Returns the token of a hold whose node was created by this transaction.
    pub(crate) fn new(czxid: i64) -> Self {
        Self::from_parts(czxid, 0)
    }

    /// Returns the token with these parts, for example from storage. If no [`handover`](Self::handover) was stored, give 0.
    #[must_use]
    pub const fn from_parts(czxid: i64, handover: i64) -> Self {
        Self { czxid, handover }
    }

    /// Returns the token after this number of local hand-overs, by the same node.
    pub(crate) fn after_handovers(self, handovers: u64) -> Self {
        Self { handover: i64::try_from(handovers).unwrap_or(i64::MAX), ..self }
    }

    /// Returns the transaction number. Store it beside the data that the lock guards.
    #[must_use]
    pub const fn czxid(self) -> i64 {
        self.czxid
    }

    /// Returns the number of hand-overs within the process since the grant. It is 0 for the first holder. For every recipe except
    /// [`CohortMutex`](crate::CohortMutex), it is always 0.
    #[must_use]
    pub const fn handover(self) -> i64 {
        self.handover
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.handover {
            // Keeps the requested width.
            0 => self.czxid.fmt(f),
            handover => f.pad(&format!("{}.{handover}", self.czxid)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_grow_with_hand_overs_and_more_with_grants() {
        let first = FencingToken::new(7);
        let second = FencingToken::new(8);
        let in_order = [first, first.after_handovers(1), first.after_handovers(10), second, second.after_handovers(1)];
        assert!(in_order.is_sorted_by(|earlier, later| earlier < later));
        assert!(in_order.is_sorted_by_key(|token| (token.czxid(), token.handover())));
    }

    #[test]
    fn hand_overs_are_shown_where_there_were_some() {
        let token = FencingToken::new(4_294_967_301);
        assert_eq!(token.to_string(), "4294967301");
        assert_eq!(token.after_handovers(10).to_string(), "4294967301.10");
    }
}
