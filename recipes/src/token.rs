//! Fencing tokens.

use std::fmt;

/// What grows with every grant of a lock, so that storage can refuse a holder that was overtaken.
///
/// It is the `czxid` of the node that granted the hold, the transaction number of its creation, and how often that hold
/// was handed over since within its process, which only a [`CohortMutex`](crate::CohortMutex) does. Both together only
/// grow in grant order, also when the parent was deleted in between and over all sessions, which the sequence number at
/// the end of a node's name does not.
///
/// To fence a row, raise its fence on the *read* and check it on the *write*; a check on the write alone still loses
/// updates. Of every recipe but `CohortMutex` one column with [`czxid`](Self::czxid) is enough. Of a `CohortMutex` store
/// [`handover`](Self::handover) in a second column, and compare both as a row, as the token itself does:
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
/// It is shown as `4294967301`, after hand-overs as `4294967301.7`. That is for the eye: it is no decimal fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken {
    // In the order in which they are compared.
    czxid: i64,
    handover: i64,
}

impl FencingToken {
    /// Of who was granted the lock by the node that this transaction has created.
    pub(crate) fn new(czxid: i64) -> Self {
        Self::from_parts(czxid, 0)
    }

    /// The token of what was stored of it: [`czxid`](Self::czxid), and [`handover`](Self::handover) or 0.
    #[must_use]
    pub const fn from_parts(czxid: i64, handover: i64) -> Self {
        Self { czxid, handover }
    }

    /// Of who holds by the same node after so many hand-overs.
    pub(crate) fn after_handovers(self, handovers: u64) -> Self {
        Self { handover: i64::try_from(handovers).unwrap_or(i64::MAX), ..self }
    }

    /// The transaction number, to be stored beside the data that the lock guards.
    #[must_use]
    pub const fn czxid(self) -> i64 {
        self.czxid
    }

    /// How often the lock was handed over, within its process, since the grant: 0 for the first holder, and for all of
    /// every recipe but [`CohortMutex`](crate::CohortMutex).
    #[must_use]
    pub const fn handover(self) -> i64 {
        self.handover
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.handover {
            // With the width that was asked for.
            0 => self.czxid.fmt(f),
            handover => f.pad(&format!("{}.{handover}", self.czxid)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_grow_with_the_hand_overs_of_a_grant_and_more_with_the_next_grant() {
        let (first, second) = (FencingToken::new(7), FencingToken::new(8));
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
