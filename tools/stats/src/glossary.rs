//! The words of all reports, and their meanings. The load generator's page, the tables of the benches and the simulation use
//! each word only in this sense.

/// A word and its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The word, as a heading writes it.
    pub name: &'static str,
    /// Its meaning in one to three sentences.
    pub text: &'static str,
}

/// The end of a hold.
pub const RELEASE: Term = Term {
    name: "Release",
    text: "The end of a hold of a lock. A purchase that held a ZooKeeper lock releases it once, whether it sold a unit or found \
           none left.",
};

/// The change of holders.
pub const HANDOVER: Term = Term {
    name: "Hand-over",
    text: "The change from the holder that releases a lock to the waiter that gets it next.",
};

/// Watch events.
pub const NOTIFICATIONS: Term = Term {
    name: "Notifications",
    text: "Watch events that ZooKeeper sends. A server notifies a session once for all of its waiters.",
};

/// Packets to ZooKeeper.
pub const REQUESTS: Term =
    Term { name: "Requests", text: "Packets that clients send to ZooKeeper: reads, writes and watches." };

/// Bytes to and from ZooKeeper.
pub const BYTES: Term = Term { name: "Bytes", text: "Bytes between clients and ZooKeeper, in both directions." };

/// A release that wakes all.
pub const HERD: Term = Term {
    name: "Herd",
    text: "All waiters of one lock, woken by one release although only one of them can hold the lock next. N waiters cost \
           N(N − 1)/2 notifications; a queue, which wakes the next waiter only, costs N − 1.",
};

/// The subject of a simulation.
pub const DRAIN: Term = Term {
    name: "Drain",
    text: "All waiters queue for one lock at the same instant. Each of them holds it once and releases it at once.",
};

/// Quantiles of times.
pub const QUANTILES: Term = Term {
    name: "p50, p90, p99",
    text: "50, 90 or 99 % of the times are at most this long. A quantile with fewer than ten values above it is left out: –.",
};

/// Exact intervals.
pub const INTERVAL: Term = Term {
    name: "Interval",
    text: "Exact 95 % interval over the blocks, from six blocks on: the values that a rank test does not reject. Requests of one \
           trial depend on each other, trials do not.",
};
