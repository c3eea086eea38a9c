//! The strategies: this table is the only list of them. The command line, `GET /strategies`, the metrics and the tests
//! iterate it; a new strategy is one row here and its code beside it.

use std::fmt;

use serde::Serialize;

use super::{Context, DeductionStrategy, local_mutex, postgres, unguarded, zookeeper};

/// What a strategy promises about selling more than there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// Sells too much under load: the control that shows that the load can find a mistake.
    Oversells,
    /// Right on one instance; sells too much on several.
    OversellsOnManyInstances,
    /// Right as long as no holder outlives its ZooKeeper session unnoticed, for instance by a pause before a write.
    SafeWhileSessionLives,
    /// Right whatever happens to processes and networks.
    NeverOversells,
}

/// Who keeps deductions of one SKU apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guard {
    /// Nobody.
    None,
    /// A mutex in the memory of one instance.
    Process,
    /// A lock in ZooKeeper.
    Zookeeper,
    /// The row lock of an update.
    Postgres,
}

/// How many waiters one release wakes through ZooKeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wakes {
    /// Nobody waits in ZooKeeper.
    None,
    /// The next in line.
    One,
    /// All of them: the herd.
    All,
}

/// One row of the table.
#[derive(Serialize)]
pub struct Entry {
    /// The name by which users choose it.
    pub name: &'static str,
    /// What it promises.
    pub promise: Promise,
    /// Who guards it.
    pub guard: Guard,
    /// Whom a release wakes.
    pub wakes: Wakes,
    /// How it works, in a sentence or two.
    pub summary: &'static str,
    #[serde(skip)]
    build: fn(&'static Entry, Context) -> Box<dyn DeductionStrategy>,
}

/// The table.
pub static STRATEGIES: [Entry; 5] = [
    Entry {
        name: "unguarded",
        promise: Promise::Oversells,
        guard: Guard::None,
        wakes: Wakes::None,
        summary: "the control: read, decide and overwrite in one transaction without any lock, so that concurrent \
                  deductions overwrite each other",
        build: unguarded::build,
    },
    Entry {
        name: "local-mutex",
        promise: Promise::OversellsOnManyInstances,
        guard: Guard::Process,
        wakes: Wakes::None,
        summary: "the same transaction under a mutex in the memory of the instance, which other instances know \
                  nothing of",
        build: local_mutex::build,
    },
    Entry {
        name: "zk-naive",
        promise: Promise::SafeWhileSessionLives,
        guard: Guard::Zookeeper,
        wakes: Wakes::All,
        summary: "the same transaction under one fixed ephemeral node that every waiter watches; each release wakes \
                  them all",
        build: zookeeper::build_naive,
    },
    Entry {
        name: "zk-mutex",
        promise: Promise::SafeWhileSessionLives,
        guard: Guard::Zookeeper,
        wakes: Wakes::One,
        summary: "the same transaction under a queue of ephemeral sequential nodes, each waiter watching the one \
                  before it; each release wakes the next",
        build: zookeeper::build_mutex,
    },
    Entry {
        name: "pg-conditional",
        promise: Promise::NeverOversells,
        guard: Guard::Postgres,
        wakes: Wakes::None,
        summary: "no lock but the row's own: one update that takes the units only where enough are left, after the \
                  simulated business time, which therefore runs side by side and not one by one",
        build: postgres::build_conditional,
    },
];

/// The names, in the order of the table.
pub fn names() -> impl Iterator<Item = &'static str> {
    STRATEGIES.iter().map(|entry| entry.name)
}

/// The row of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    STRATEGIES.iter().find(|entry| entry.name == name)
}

impl Entry {
    /// Makes the strategy for one instance of the service.
    pub fn build(&'static self, context: Context) -> Box<dyn DeductionStrategy> {
        (self.build)(self, context)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_unique_and_finds_its_own_row() {
        for entry in &STRATEGIES {
            assert!(std::ptr::eq(find(entry.name).unwrap(), entry), "{}", entry.name);
        }
        assert!(find("").is_none());
    }

    #[test]
    fn only_locks_in_zookeeper_wake_anybody() {
        for entry in &STRATEGIES {
            assert_eq!(entry.guard == Guard::Zookeeper, entry.wakes != Wakes::None, "{}", entry.name);
        }
    }

    #[test]
    fn the_first_row_is_the_control() {
        assert_eq!(STRATEGIES[0].promise, Promise::Oversells);
    }
}
