//! The names of lock nodes: how they are read, and their order.
//!
//! Apache Curator names the node of a contender `_c_<uuid>-lock-0000000042`. The creator finds the node again by the
//! prefix if the reply to `create` was lost. The marker says what the contender wants. The server appends the number.

use std::cmp::Ordering;
use std::fmt;

/// The number of characters that the server pads a sequence number to.
const SEQUENCE_WIDTH: usize = 10;

/// What protected names begin with.
pub const PROTECTION: &str = "_c_";

/// The part of a contender's name that is known before the server appends the number: `_c_<mark>-lock-`. The mark is a
/// uuid.
pub fn protected_prefix(mark: &str, marker: &str) -> String {
    format!("{PROTECTION}{mark}-{marker}")
}

/// Those of the children whose names begin with a protected prefix.
pub fn find_protected<'a>(children: &'a [String], prefix: &str) -> impl Iterator<Item = &'a str> {
    children.iter().map(String::as_str).filter(move |name| name.starts_with(prefix))
}

/// Whether a name is nothing but the marker and a sequence number.
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
    /// `lock-0000000042`: known to whoever has the next number. Found again by its data, which begin with the prefix.
    Numbered,
}

/// Which children of a lock's parent are contenders, and how each wants the lock.
///
/// The markers of all of them are numbered by the same counter, that of the parent.
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
    /// The leases of Curator's `InterProcessSemaphoreV2`.
    pub const LEASES: Self = Self { markers: &[("lease-", Mode::Shared)] };
    /// Whatever queues in one parent.
    pub const ANY: Self = Self {
        markers: &[
            ("lock-", Mode::Exclusive),
            ("__READ__", Mode::Shared),
            ("__WRIT__", Mode::Exclusive),
            ("__lock__", Mode::Exclusive),
            ("__rlock__", Mode::Shared),
        ],
    };

    /// The marker that we write for a contender of this mode.
    ///
    /// # Panics
    /// If nobody queues there in this mode.
    pub fn marker(self, mode: Mode) -> &'static str {
        let (marker, _) =
            self.markers.iter().find(|(_, of)| *of == mode).expect("BUG: a contender in a mode that the lock lacks");
        marker
    }

    /// Whether one who holds may come in ahead of others once more, in its own place, as a writer does that goes on to
    /// read.
    pub fn may_downgrade(self) -> bool {
        self.markers.contains(&("__WRIT__", Mode::Exclusive))
    }

    /// What the name of a child says, or `None` for a child that is no contender: another recipe's, or a foreign one.
    pub fn parse(self, name: &str) -> Option<(Mode, Sequence)> {
        self.markers.iter().find_map(|&(marker, mode)| Some((mode, Sequence::parse(name, marker)?)))
    }
}

/// How many numbers a parent has left for its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// It lasts.
    Ample,
    /// The parent is to be deleted while nobody contends.
    Low,
    /// A contender with this number may have to share it with others.
    Exhausted,
}

/// The first number of which a lock warns. At a thousand contenders a second it comes a day before [`EXHAUSTED_FROM`].
const LOW_FROM: i32 = 2_000_000_000;
/// The first number that a lock refuses. At a thousand contenders a second it comes twelve hours before the last number.
pub const EXHAUSTED_FROM: i32 = 2_100_000_000;

/// The number that the server appended to a contender's name.
///
/// The server counts the children that were ever created in one parent in a signed 32-bit number. ZooKeeper 3.8 goes on
/// giving the last number, 2³¹ - 1, to every later child; older servers go on with negative numbers. So our contenders
/// refuse numbers near the end (`supply`), and those below are different. Others may have any. The order is
/// that of serial numbers (RFC 1982): `a` comes before `b` when `b` is at most 2³¹ - 1 steps ahead of it. For numbers that
/// are not negative it is the order of their text, which Curator compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(i32);

impl Sequence {
    /// The number, as a server gives it.
    pub fn new(number: i32) -> Self {
        Self(number)
    }

    /// The order in the queue.
    pub fn queue_cmp(self, other: Self) -> Ordering {
        0.cmp(&other.0.wrapping_sub(self.0))
    }

    /// The number that the server gave before this one.
    pub fn before(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// The number that the server gives after this one.
    pub fn after(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// The number itself.
    pub fn get(self) -> i32 {
        self.0
    }

    /// How near the end of the numbers this one is.
    pub fn supply(self) -> Supply {
        match self.0 {
            0..LOW_FROM => Supply::Ample,
            LOW_FROM..EXHAUSTED_FROM => Supply::Low,
            _ => Supply::Exhausted,
        }
    }

    /// Parses the number at the end of a name, right behind the `marker`. It is looked for from the end, and nowhere else:
    /// a listing may have thousands of names.
    pub fn parse(name: &str, marker: &str) -> Option<Self> {
        // A negative number may need one character more than it is padded to.
        [SEQUENCE_WIDTH, SEQUENCE_WIDTH + 1].into_iter().find_map(|width| {
            let (head, digits) = name.split_at_checked(name.len().checked_sub(width)?)?;
            let unsigned = digits.strip_prefix('-').unwrap_or(digits);
            let is_number = unsigned.bytes().all(|b| b.is_ascii_digit()) && unsigned.len() <= SEQUENCE_WIDTH;
            if is_number && head.ends_with(marker) { digits.parse().ok().map(Self) } else { None }
        })
    }
}

impl fmt::Display for Sequence {
    /// As the server writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0width$}", self.0, width = SEQUENCE_WIDTH)
    }
}
