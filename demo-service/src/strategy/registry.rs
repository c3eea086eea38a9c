//! The strategies: this table is the only list of them. The command line, `GET /strategies`, the metrics and the tests
//! iterate it; a new strategy is one row here and its code beside it.

use std::fmt;

use serde::Serialize;
use utoipa::ToSchema;
use zk_recipes::{CohortMutex, HandoffMutex, Mutex, NaiveLock, RwLock, Semaphore, SemaphoreMutex};

use super::access::Access;
use super::zookeeper::Plan;
use super::{Context, DeductionStrategy, local_mutex, unlocked, zookeeper};

/// What a strategy promises about selling more than there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Guard {
    /// Nobody.
    None,
    /// A mutex in the memory of one instance.
    Process,
    /// A lock in ZooKeeper.
    Zookeeper,
    /// The database itself.
    Postgres,
}

/// How many waiters one release wakes through ZooKeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wakes {
    /// Nobody waits in ZooKeeper.
    None,
    /// The next in line.
    One,
    /// All of them: the herd.
    All,
}

/// Which critical sections of one SKU may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sections {
    /// None, as long as the promise holds.
    Exclusive,
    /// As many as there are permits.
    Permits,
    /// All of them.
    Overlapping,
}

impl Sections {
    /// How many of them may be inside at once, where a semaphore has so many permits. `None` for any number.
    pub fn permits(self, configured: u32) -> Option<u32> {
        match self {
            Self::Exclusive => Some(1),
            Self::Permits => Some(configured),
            Self::Overlapping => None,
        }
    }
}

/// One row of the table.
#[derive(Serialize, ToSchema)]
#[schema(as = Strategy)]
pub struct Entry {
    /// The name by which users choose it.
    pub name: &'static str,
    /// What it promises.
    pub promise: Promise,
    /// Who guards it.
    pub guard: Guard,
    /// Whom a release wakes.
    pub wakes: Wakes,
    /// Which of its sections may overlap.
    pub sections: Sections,
    /// Whether it can sell several SKUs together.
    pub carts: bool,
    /// Whether it is in a comparison for which nobody has chosen.
    pub headline: bool,
    /// How it works, in a sentence or two.
    pub summary: &'static str,
    #[serde(skip)]
    build: Build,
}

/// What a strategy is made of.
enum Build {
    Unlocked(Access),
    LocalMutex,
    ZooKeeper(Plan),
}

const MUTEX: Plan = Plan::new(|session, path, _| Mutex::new(session, path).map(Into::into));
const HANDOFF: Plan = Plan::new(|session, path, _| HandoffMutex::new(session, path).map(Into::into));
const COHORT: Plan =
    Plan { by_goods: true, ..Plan::new(|session, path, _| CohortMutex::new(session, path).map(Into::into)) };
const WRITE_LOCK: Plan = Plan::new(|session, path, _| RwLock::new(session, path).map(|lock| lock.write().into()));
const SEMAPHORE: Plan = Plan::new(|session, path, permits| Semaphore::new(session, path, permits).map(Into::into));

/// The table.
pub static STRATEGIES: [Entry; 19] = [
    Entry {
        name: "unguarded",
        promise: Promise::Oversells,
        guard: Guard::None,
        wakes: Wakes::None,
        sections: Sections::Overlapping,
        carts: true,
        headline: true,
        summary: "the control: read, decide and overwrite in one transaction without any lock, so that concurrent \
                  deductions overwrite each other",
        build: Build::Unlocked(Access::Overwrite),
    },
    Entry {
        name: "local-mutex",
        promise: Promise::OversellsOnManyInstances,
        guard: Guard::Process,
        wakes: Wakes::None,
        sections: Sections::Overlapping,
        carts: true,
        headline: true,
        summary: "the same transaction under a mutex in the memory of the instance, which other instances know \
                  nothing of",
        build: Build::LocalMutex,
    },
    Entry {
        name: "zk-mutex-early-release",
        promise: Promise::Oversells,
        guard: Guard::Zookeeper,
        wakes: Wakes::One,
        sections: Sections::Overlapping,
        carts: false,
        headline: false,
        summary: "a second control, and the mistake of many a tutorial: the mutex is released before the commit, \
                  so that the next buyer reads the stock from before it",
        build: Build::ZooKeeper(Plan { releases_early: true, ..MUTEX }),
    },
    Entry {
        name: "zk-naive",
        promise: Promise::SafeWhileSessionLives,
        guard: Guard::Zookeeper,
        wakes: Wakes::All,
        sections: Sections::Exclusive,
        carts: false,
        headline: true,
        summary: "the same transaction under one fixed ephemeral node that every waiter watches; each release \
                  wakes them all",
        build: Build::ZooKeeper(Plan::new(|session, path, _| NaiveLock::new(session, path).map(Into::into))),
    },
    Entry {
        name: "zk-mutex",
        promise: Promise::SafeWhileSessionLives,
        guard: Guard::Zookeeper,
        wakes: Wakes::One,
        sections: Sections::Exclusive,
        carts: false,
        headline: true,
        summary: "the same transaction under a queue of ephemeral sequential nodes, each waiter watching the one \
                  before it; each release wakes the next",
        build: Build::ZooKeeper(MUTEX),
    },
    Entry {
        name: "zk-semaphore-mutex",
        promise: Promise::SafeWhileSessionLives,
        guard: Guard::Zookeeper,
        wakes: Wakes::One,
        sections: Sections::Exclusive,
        carts: false,
        headline: false,
        summary: "the same transaction under a semaphore of one permit, which any task may give back",
        build: Build::ZooKeeper(Plan::new(|session, path, _| SemaphoreMutex::new(session, path).map(Into::into))),
    },
    Entry {
        name: "zk-rwlock",
        promise: Promise::SafeWhileSessionLives,
        guard: Guard::Zookeeper,
        wakes: Wakes::One,
        sections: Sections::Exclusive,
        carts: false,
        headline: false,
        summary: "the same transaction under a write lock; who looks at the stock by this strategy does so under \
                  the read lock",
        build: Build::ZooKeeper(Plan { locks_reads: true, ..WRITE_LOCK }),
    },
    Entry {
        name: "zk-multi",
        promise: Promise::SafeWhileSessionLives,
        guard: Guard::Zookeeper,
        wakes: Wakes::One,
        sections: Sections::Exclusive,
        carts: true,
        headline: false,
        summary: "a mutex for each SKU of a cart, taken in the order of the SKUs, all or none, within one deadline",
        build: Build::ZooKeeper(MUTEX),
    },
    Entry {
        name: "zk-handoff",
        promise: Promise::SafeWhileSessionLives,
        guard: Guard::Zookeeper,
        wakes: Wakes::One,
        sections: Sections::Exclusive,
        carts: false,
        headline: true,
        summary: "the mutex whose hand-over costs the same however many wait: a release says who held, and nobody \
                  lists the queue",
        build: Build::ZooKeeper(HANDOFF),
    },
    Entry {
        name: "zk-cohort",
        promise: Promise::SafeWhileSessionLives,
        guard: Guard::Zookeeper,
        wakes: Wakes::One,
        sections: Sections::Exclusive,
        carts: false,
        headline: true,
        summary: "the mutex that an instance hands over in memory: its buyers of one SKU queue behind one node, up \
                  to a number and a time",
        build: Build::ZooKeeper(COHORT),
    },
    Entry {
        name: "zk-mutex-fenced",
        promise: Promise::NeverOversells,
        guard: Guard::Zookeeper,
        wakes: Wakes::One,
        sections: Sections::Exclusive,
        carts: false,
        headline: false,
        summary: "zk-mutex with a fence in the row, raised by the read and checked by the write, so that a holder \
                  that was overtaken cannot write",
        build: Build::ZooKeeper(Plan { access: Access::Fenced, ..MUTEX }),
    },
    Entry {
        name: "zk-handoff-fenced",
        promise: Promise::NeverOversells,
        guard: Guard::Zookeeper,
        wakes: Wakes::One,
        sections: Sections::Exclusive,
        carts: false,
        headline: false,
        summary: "zk-handoff with that fence",
        build: Build::ZooKeeper(Plan { access: Access::Fenced, ..HANDOFF }),
    },
    Entry {
        name: "zk-cohort-fenced",
        promise: Promise::NeverOversells,
        guard: Guard::Zookeeper,
        wakes: Wakes::One,
        sections: Sections::Exclusive,
        carts: false,
        headline: false,
        summary: "zk-cohort with that fence, which has two parts",
        build: Build::ZooKeeper(Plan { access: Access::Fenced, ..COHORT }),
    },
    Entry {
        name: "zk-semaphore",
        promise: Promise::NeverOversells,
        guard: Guard::Zookeeper,
        wakes: Wakes::One,
        sections: Sections::Permits,
        carts: false,
        headline: false,
        summary: "pg-conditional behind a semaphore, whose permits bound how many buyers of one SKU are in the \
                  database",
        build: Build::ZooKeeper(Plan { access: Access::Conditional, ..SEMAPHORE }),
    },
    Entry {
        name: "pg-conditional",
        promise: Promise::NeverOversells,
        guard: Guard::Postgres,
        wakes: Wakes::None,
        sections: Sections::Exclusive,
        carts: true,
        headline: true,
        summary: "no lock but the row's own: one update that takes the units only where enough are left, after the \
                  simulated business time, which therefore runs side by side and not one by one",
        build: Build::Unlocked(Access::Conditional),
    },
    Entry {
        name: "pg-row-lock",
        promise: Promise::NeverOversells,
        guard: Guard::Postgres,
        wakes: Wakes::None,
        sections: Sections::Exclusive,
        carts: true,
        headline: false,
        summary: "the same transaction with the row locked by the read (select for no key update)",
        build: Build::Unlocked(Access::RowLock),
    },
    Entry {
        name: "pg-optimistic",
        promise: Promise::NeverOversells,
        guard: Guard::Postgres,
        wakes: Wakes::None,
        sections: Sections::Overlapping,
        carts: true,
        headline: false,
        summary: "no lock: the write checks that the version of the row is the one that was read, and who was \
                  overtaken tries again",
        build: Build::Unlocked(Access::Version),
    },
    Entry {
        name: "pg-advisory",
        promise: Promise::NeverOversells,
        guard: Guard::Postgres,
        wakes: Wakes::None,
        sections: Sections::Exclusive,
        carts: true,
        headline: false,
        summary: "the same transaction under an advisory lock of the database, which goes with the transaction",
        build: Build::Unlocked(Access::AdvisoryLock),
    },
    Entry {
        name: "pg-serializable",
        promise: Promise::NeverOversells,
        guard: Guard::Postgres,
        wakes: Wakes::None,
        sections: Sections::Overlapping,
        carts: true,
        headline: false,
        summary: "the same transaction at isolation level serializable, tried again when the database finds a \
                  conflict",
        build: Build::Unlocked(Access::Serializable),
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
    pub fn build(&self, context: Context) -> Box<dyn DeductionStrategy> {
        match self.build {
            Build::Unlocked(access) => unlocked::build(context, access),
            Build::LocalMutex => local_mutex::build(context),
            Build::ZooKeeper(plan) => zookeeper::build(context, plan),
        }
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
    fn only_a_semaphore_lets_in_as_many_as_it_is_told() {
        for entry in &STRATEGIES {
            let expected = match entry.name {
                "zk-semaphore" => Some(7),
                _ if entry.sections == Sections::Overlapping => None,
                _ => Some(1),
            };
            assert_eq!(entry.sections.permits(7), expected, "{}", entry.name);
        }
    }

    #[test]
    fn the_first_row_is_the_control() {
        assert_eq!(STRATEGIES[0].promise, Promise::Oversells);
    }

    #[test]
    fn summaries_are_one_line_of_text() {
        for entry in &STRATEGIES {
            assert!(!entry.summary.contains(['\n', '\r']) && !entry.summary.contains("  "), "{}", entry.name);
        }
    }
}
