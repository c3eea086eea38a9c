//! Fencing tokens.

use std::fmt;

/// A number that grows with every grant of a lock, so that storage can refuse a holder that was overtaken.
///
/// It is the `czxid` of the node that granted the hold: the transaction number of its creation. It only grows in grant
/// order, also when the parent was deleted in between and over all sessions, which the sequence number at the end of
/// a node's name does not.
///
/// To fence a row, raise its fence on the *read* and check it on the *write*; a check on the write alone still loses
/// updates.
///
/// ```
/// # use zk_recipes::FencingToken;
/// # fn store(earlier: FencingToken, later: FencingToken) {
/// assert!(earlier < later);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    pub(crate) fn new(czxid: i64) -> Self {
        Self(czxid)
    }

    /// The number, to be stored beside the data that the lock guards.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
