//! What happened to the locks in a round: every acquire with its hold, and what was deleted by hand.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::lines::{LockKind, Token};

/// Which contenders may hold a lock together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rule {
    /// Nobody.
    Exclusive,
    /// Readers.
    ReadersShare,
    /// Holders of at most this number of permits.
    Permits(u32),
}

/// An acquire, and what became of it. Times are nanoseconds of the machine's monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Operation {
    /// Its number, which no other acquire of the round has.
    pub(crate) id: u64,
    /// The library of the contender.
    pub(crate) library: String,
    /// The process of the contender, counted from zero.
    pub(crate) process: usize,
    /// What was asked for.
    pub(crate) lock: LockKind,
    /// The paths of it.
    pub(crate) paths: Vec<String>,
    /// The permits that it takes, or 1.
    pub(crate) permits: u32,
    /// When the campaign asked the contender to acquire.
    pub(crate) asked: i64,
    /// When the contender held.
    pub(crate) acquired: Option<i64>,
    /// The fencing tokens, one for each path, if the library has some.
    pub(crate) tokens: Vec<Token>,
    /// The latest time at which it held for certain: the library was asked after that, and said yes.
    pub(crate) last: Option<i64>,
    /// When it held twice as one owner, and the tokens of the second hold.
    pub(crate) reentered: Option<(i64, Vec<Token>)>,
    /// When the contender was told that the hold is lost.
    pub(crate) lost: Option<i64>,
    /// When it held no more, or was refused, or its process had ended.
    pub(crate) ended: Option<i64>,
    /// What the library said against it.
    pub(crate) error: Option<String>,
}

/// Nodes of a lock that somebody deleted by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Deletion {
    /// The path of the lock.
    pub(crate) path: String,
    /// When the first delete was about to be sent.
    pub(crate) sent: i64,
    /// When the last one was answered.
    pub(crate) answered: i64,
    /// The transactions that had created the nodes.
    pub(crate) czxids: Vec<i64>,
}

/// The history of a round.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History {
    /// The rule of each path.
    pub(crate) rules: BTreeMap<String, Rule>,
    /// The acquires, in the order in which they ended.
    pub(crate) operations: Vec<Operation>,
    /// The deletions.
    pub(crate) deletions: Vec<Deletion>,
}

impl Operation {
    /// Returns the time in which its library said that it held, if there was one.
    pub(crate) fn told(&self) -> Option<(i64, i64)> {
        let interval = (self.acquired?, self.last?);
        (interval.0 < interval.1).then_some(interval)
    }

    /// Returns the time in which it certainly held a path, if there was one.
    ///
    /// A library that says "held" after a time that is later than the grant says so of all the time between. A hold whose node was
    /// deleted by hand is certain until the delete was sent, and one that may have been decided before the delete is not certain at all.
    #[must_use]
    pub(crate) fn certain(&self, path: &str, history: &History) -> Option<(i64, i64)> {
        let (from, to) = self.told()?;
        let token = self.token(path);
        let deleted = history.deletions.iter().filter(|deletion| deletion.path == path);
        let end = deleted
            .filter(|deletion| match token {
                Some((czxid, _)) => deletion.czxids.contains(&czxid),
                None => self.asked < deletion.answered,
            })
            .map(|deletion| deletion.sent)
            .min();
        let to = end.map_or(to, |end| to.min(end));
        (from < to).then_some((from, to))
    }

    /// Returns the fencing token of a path.
    #[must_use]
    pub(crate) fn token(&self, path: &str) -> Option<Token> {
        let position = self.paths.iter().position(|own| own == path)?;
        self.tokens.get(position).copied().filter(|_| self.tokens.len() == self.paths.len())
    }

    /// Tells whether it shares its lock with others of its kind.
    #[must_use]
    pub(crate) fn is_shared(&self) -> bool {
        self.lock == LockKind::Read
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { library, process, lock, id, .. } = self;
        write!(f, "{lock:?} {} of {library} in process {process}", id & u64::from(u32::MAX))
    }
}
