//! The names of lock nodes: how they are read, and their order.
//!
//! Apache Curator names the node of a contender `_c_<uuid>-lock-0000000042`. If the reply to `create` was lost, the
//! creator finds the node again by the prefix. The marker says what the contender wants. The server appends the number.

use std::cmp::Ordering;
use std::fmt;

/// The number of characters that the server pads a sequence number to.
const SEQUENCE_WIDTH: usize = 10;

/// The beginning of every protected name.
pub const PROTECTION: &str = "_c_";

/// Returns the part of a contender's name before the number of the server: `_c_<mark>-lock-`. The mark is a uuid.
pub fn protected_prefix(mark: &str, marker: &str) -> String {
    format!("{PROTECTION}{mark}-{marker}")
}

/// Returns the children whose names begin with a protected prefix.
pub fn find_protected<'a>(children: &'a [String], prefix: &str) -> impl Iterator<Item = &'a str> {
    children.iter().map(String::as_str).filter(move |name| name.starts_with(prefix))
}

/// Tells whether a name is nothing but the marker and a sequence number.
pub fn is_numbered(name: &str, marker: &str) -> bool {
    Sequence::parse(name, marker).is_some_and(|sequence| name == format!("{marker}{sequence}"))
}

/// How a contender wants the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Alone.
    Exclusive,
    /// Together with others that share it.
    Shared,
}

/// How the nodes of a lock are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Naming {
    /// `_c_<uuid>-lock-0000000042`: found again by its name.
    Protected,
    /// `lock-0000000042`: the contender with the next number knows this name. Found again by its data, which begins with
    /// the prefix.
    Numbered,
}

/// Which children of the lock's node are contenders, and how each wants the lock.
///
/// The lock's node numbers all of them by one counter, whatever their markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Names {
    markers: &'static [(&'static str, Mode)],
}

impl Names {
    /// Curator's `InterProcessMutex`.
    pub const MUTEX: Self = Self { markers: &[("lock-", Mode::Exclusive)] };
    /// Curator's `InterProcessReadWriteLock`.
    pub const READ_WRITE: Self = Self { markers: &[("__READ__", Mode::Shared), ("__WRIT__", Mode::Exclusive)] };
    /// Curator's `InterProcessMutex`, and the locks of kazoo.
    pub const MUTEX_AND_KAZOO: Self =
        Self { markers: &[("lock-", Mode::Exclusive), ("__lock__", Mode::Exclusive), ("__rlock__", Mode::Shared)] };
    /// Curator's `InterProcessReadWriteLock`, and the locks of kazoo.
    pub const READ_WRITE_AND_KAZOO: Self = Self {
        markers: &[
            ("__READ__", Mode::Shared),
            ("__WRIT__", Mode::Exclusive),
            ("__lock__", Mode::Exclusive),
            ("__rlock__", Mode::Shared),
        ],
    };
    /// Curator's `LeaderLatch`.
    pub const LATCH: Self = Self { markers: &[("latch-", Mode::Exclusive)] };
    /// The leases of Curator's `InterProcessSemaphoreV2`.
    pub const LEASES: Self = Self { markers: &[("lease-", Mode::Shared)] };
    /// Every contender that may queue in one node.
    pub const ANY: Self = Self {
        markers: &[
            ("lock-", Mode::Exclusive),
            ("__READ__", Mode::Shared),
            ("__WRIT__", Mode::Exclusive),
            ("__lock__", Mode::Exclusive),
            ("__rlock__", Mode::Shared),
            ("latch-", Mode::Exclusive),
        ],
    };

    /// Returns the marker that we write for a contender of this mode.
    ///
    /// # Panics
    /// If no contender queues there in this mode.
    pub fn marker(self, mode: Mode) -> &'static str {
        let (marker, _) =
            self.markers.iter().find(|(_, of)| *of == mode).expect("BUG: a contender in a mode that the lock lacks");
        marker
    }

    /// Tells whether a holder may add a second contender in its own place, ahead of others. A writer that downgrades to a
    /// reader does that.
    pub fn may_downgrade(self) -> bool {
        self.markers.contains(&("__WRIT__", Mode::Exclusive))
    }

    /// Parses the name of a child. Returns `None` for a child that is no contender: another recipe's, or a foreign one.
    pub fn parse(self, name: &str) -> Option<(Mode, Sequence)> {
        self.markers.iter().find_map(|&(marker, mode)| Some((mode, Sequence::parse(name, marker)?)))
    }
}

/// How many numbers the lock's node has left for its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// There are enough.
    Ample,
    /// There are few. Delete the lock's node while it has no contenders.
    Low,
    /// There are too few. A contender with this number may share it with others.
    Exhausted,
}

/// The first number that makes a lock warn. At 1000 contenders per second it comes 27 hours before [`EXHAUSTED_FROM`].
const LOW_FROM: i32 = 2_000_000_000;
/// The first number that a lock refuses. At 1000 contenders per second it comes 13 hours before the last number.
pub const EXHAUSTED_FROM: i32 = 2_100_000_000;

/// The number that the server appended to a contender's name.
///
/// The server counts the children that were ever created in one node in a signed 32-bit number. After 2³¹ - 1, ZooKeeper
/// 3.8 gives this last number to every later child. Older servers continue with negative numbers. So our contenders refuse
/// numbers near the end (`supply`), and each number below belongs to one child only. Contenders of other clients may have
/// any number.
///
/// The order is the one of serial numbers (RFC 1982): `a` comes before `b` if `b` is at most 2³¹ - 1 steps ahead of it.
/// For numbers that are not negative it is the order of their text, which Curator compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(i32);

impl Sequence {
    /// The last number. ZooKeeper 3.8 gives it again and again.
    pub const LAST: Self = Self(i32::MAX);

    /// Returns the sequence of a number that a server gave.
    pub fn new(number: i32) -> Self {
        Self(number)
    }

    /// Compares two numbers by their order in the queue.
    pub fn queue_cmp(self, other: Self) -> Ordering {
        0.cmp(&other.0.wrapping_sub(self.0))
    }

    /// Returns the number that the server gave before this one.
    pub fn before(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// Returns the number that the server gives after this one.
    pub fn after(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Returns the number itself.
    pub fn get(self) -> i32 {
        self.0
    }

    /// Returns how close this number is to the last one.
    pub fn supply(self) -> Supply {
        match self.0 {
            0..LOW_FROM => Supply::Ample,
            LOW_FROM..EXHAUSTED_FROM => Supply::Low,
            // Also negative numbers, which older servers give after the last one.
            _ => Supply::Exhausted,
        }
    }

    /// Parses the number at the end of a name, right behind the `marker`. It looks at the end only, because a listing may
    /// have thousands of names.
    pub fn parse(name: &str, marker: &str) -> Option<Self> {
        // A negative number may be one character longer than the padding.
        [SEQUENCE_WIDTH, SEQUENCE_WIDTH + 1].into_iter().find_map(|width| {
            let (head, digits) = name.split_at_checked(name.len().checked_sub(width)?)?;
            if head.ends_with(marker) { Self::written(digits) } else { None }
        })
    }

    /// Reads a number as the server writes it, by Java's `%010d`. Returns `None` for every other text: a name that only resembles
    /// one of a contender is foreign.
    pub fn written(digits: &str) -> Option<Self> {
        let unsigned = digits.strip_prefix('-');
        let are_digits = unsigned.unwrap_or(digits).bytes().all(|b| b.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| are_digits)?;
        // The width counts the sign. Zero has none.
        let is_padded = match unsigned {
            Some(unsigned) if digits.len() > SEQUENCE_WIDTH => !unsigned.starts_with('0'),
            Some(_) => digits.len() == SEQUENCE_WIDTH && number != 0,
            None => digits.len() == SEQUENCE_WIDTH,
        };
        is_padded.then_some(Self(number))
    }
}

impl fmt::Display for Sequence {
    /// Writes the number as the server does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0width$}", self.0, width = SEQUENCE_WIDTH)
    }
}

#[cfg(test)]
mod fuzzed;
