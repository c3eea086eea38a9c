//! The lines of JSON between the campaign and an adapter: requests on its standard input, answers on its standard output.
//!
//! An adapter is a program that contends with one lock library. Its last two arguments are the connect string and the session timeout in
//! milliseconds. It ends when its standard input does. Times are nanoseconds of the machine's monotonic clock, so that those of all
//! processes can be compared.

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// What a contender asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LockKind {
    /// Apache Curator's `InterProcessMutex`, or a lock that queues with it.
    Mutex,
    /// Our mutex that passes its hold on within a session.
    Handoff,
    /// Our mutex that a process has for a while.
    Cohort,
    /// The same, and the process keeps it for a while after its last holder.
    LingeringCohort,
    /// Two mutexes at once.
    Multi,
    /// The shared side of a read/write lock.
    Read,
    /// Its exclusive side.
    Write,
    /// Permits of a semaphore.
    Semaphore,
    /// A semaphore of one permit.
    SemaphoreMutex,
    /// The leadership of an election.
    Leader,
}

/// A fencing token: the transaction that created the node, and the number of the hand-over.
pub(crate) type Token = (i64, i64);

/// A request. Its number is new for each acquire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Asked {
    /// Acquire, and wait this long at most. Zero asks for what is free now.
    Acquire {
        /// The number of this acquire.
        id: u64,
        /// What is acquired.
        lock: LockKind,
        /// The path of the lock; of a [`LockKind::Multi`], both.
        paths: Vec<String>,
        /// How long to wait, in milliseconds.
        within_ms: u64,
        /// The permits that the semaphore has, and those that are wanted.
        permits: Option<(u32, u32)>,
    },
    /// Acquire again what is held, as the same owner.
    Reenter {
        /// The number of the acquire.
        id: u64,
    },
    /// Release what was acquired again.
    Leave {
        /// The number of the acquire.
        id: u64,
    },
    /// Release.
    Release {
        /// The number of the acquire.
        id: u64,
    },
    /// Stop to wait. A hold that was granted already stays.
    Cancel {
        /// The number of the acquire.
        id: u64,
    },
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub(crate) enum Said {
    /// The first line: the adapter takes requests.
    Ready {
        /// What its library has.
        locks: Vec<LockKind>,
        /// The version of the library.
        #[serde(default)]
        version: Option<String>,
        /// Whether an owner may acquire again what it holds.
        #[serde(default)]
        reenters: bool,
        /// Whether a waiter can be cancelled.
        #[serde(default)]
        cancels: bool,
    },
    /// A session was opened, or another one in its place. Its number tells whose node keeps others waiting.
    Session {
        /// The number of the session, where the server has sessions.
        #[serde(default)]
        session: Option<i64>,
    },
    /// It holds. The time was read after the library had said so.
    Acquired {
        /// The number of the acquire.
        id: u64,
        /// When.
        at: i64,
        /// The fencing tokens, one for each path, if the library has some.
        #[serde(default)]
        tokens: Vec<Token>,
    },
    /// It held at this time: it was read before the library was asked, and the library said yes.
    Holding {
        /// The number of the acquire.
        id: u64,
        /// When.
        at: i64,
    },
    /// It holds twice.
    Reentered {
        /// The number of the acquire.
        id: u64,
        /// When.
        at: i64,
        /// The fencing tokens of the second hold.
        #[serde(default)]
        tokens: Vec<Token>,
    },
    /// It holds once again.
    Left {
        /// The number of the acquire.
        id: u64,
        /// When.
        at: i64,
    },
    /// The library said that the hold is lost.
    Lost {
        /// The number of the acquire.
        id: u64,
        /// When.
        at: i64,
    },
    /// It holds no more.
    Released {
        /// The number of the acquire.
        id: u64,
        /// When.
        at: i64,
        /// What the library said against it.
        #[serde(default)]
        error: Option<String>,
    },
    /// It was not granted.
    Failed {
        /// The number of the acquire.
        id: u64,
        /// When.
        at: i64,
        /// What the library said. Absent if others held for as long as it waited.
        #[serde(default)]
        error: Option<String>,
    },
}

/// Reads the machine's monotonic clock, in nanoseconds.
#[must_use]
pub(crate) fn now() -> i64 {
    // Every system has this clock.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| time.tv_sec() * 1_000_000_000 + time.tv_nsec())
}

#[cfg(test)]
mod fuzzed;
