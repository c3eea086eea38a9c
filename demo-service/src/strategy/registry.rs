//! The table of strategies, and the only list of them. The command line, `GET /strategies`, the metrics and the tests
//! iterate over it. A new strategy is one row here and one file in the folder of its kind.

use super::Strategy;
use super::attempt::overwrite_alone;
use super::batch::Batches;
use super::batch::pg_merge::PgMerge;
use super::batch::zk_merge::ZkMerge;
use super::entry::{Answers, Entry, Mechanism, Overlap, Promise, Wakes};
use super::gate::RedisGate;
use super::lock::early_release::ZkEarlyRelease;
use super::lock::held::{LockKind, SellUnderLocks, UnderLocks};
use super::lock::local_mutex::LocalMutex;
use super::lock::read_write::ZkReadWriteLock;
use super::lock::recipes::{COHORT, COHORT_LINGER, HANDOFF, MUTEX, NAIVE, SEMAPHORE, SEMAPHORE_MUTEX, WRITE_LOCK};
use super::lock::redis::RedisLocks;
use super::lock::{Locks, fenced, semaphore};
use super::owner::{self, ZkOwner};
use super::reserve::{self, Reserve};
use super::row::buckets::Buckets;
use super::row::units::Units;
use super::row::{InDatabase, advisory, conditional, counted_limit, function, optimistic, row_lock, unguarded};
use super::tickets::Tickets;

/// The family of the queue locks: all of them queue below one node, so they exclude each other.
const ZK_QUEUE: &str = "zk-queue";
/// The same with a fence in the row.
const ZK_QUEUE_FENCED: &str = "zk-queue-fenced";
/// The family of the row: each write of its strategies bumps the version of the row, and each absolute write checks it.
const PG_ROW: &str = "pg-row";

/// Makes a strategy that sells under locks.
fn under<K: LockKind + 'static>(locks: K, sell: SellUnderLocks) -> Box<dyn Strategy> {
    Box::new(UnderLocks::new(locks, sell))
}

/// What rows have in common. Each sets its name, its family, how it works and how it is made.
const UNNAMED: Entry = Entry {
    name: "",
    promise: Promise::NeverOversells,
    mechanism: Mechanism::None,
    family: "",
    wakes: Wakes::None,
    sections: Overlap::Exclusive,
    answers: Answers::AtCommit,
    carts: false,
    two_steps: false,
    headline: false,
    summary: "",
    build: |context| panic!("BUG: {} is not made", context.strategy),
};
/// What sells without anything that keeps purchases apart.
const CONTROL: Entry = Entry { promise: Promise::Oversells, sections: Overlap::Overlapping, ..UNNAMED };
/// What a lock of ZooKeeper with a queue keeps apart.
const SAFE_ZK: Entry = Entry { promise: Promise::SafeWhileSessionLives, ..FENCED_ZK };
/// The same with a fence in the row.
const FENCED_ZK: Entry = Entry { mechanism: Mechanism::Zookeeper, wakes: Wakes::One, ..UNNAMED };
/// What a lock in Redis keeps apart.
const SAFE_REDIS: Entry = Entry { promise: Promise::SafeWhileLockLives, ..FENCED_REDIS };
/// The same with a fence in the row.
const FENCED_REDIS: Entry = Entry { mechanism: Mechanism::Redis, ..UNNAMED };
/// What a gate in Redis lets through to the database.
const GATE: Entry = Entry { sections: Overlap::Overlapping, ..FENCED_REDIS };
/// What the database alone keeps apart.
const PG: Entry = Entry { mechanism: Mechanism::Postgres, carts: true, ..UNNAMED };

/// The table.
pub static STRATEGIES: &[Entry] = &[
    Entry {
        name: "unguarded",
        family: "unguarded",
        carts: true,
        headline: true,
        summary: "the control: read, decide and overwrite in one transaction without any lock, so that concurrent \
                  deductions overwrite each other",
        build: |context| Box::new(InDatabase::new(context, unguarded::sell)),
        ..CONTROL
    },
    Entry {
        name: "local-mutex",
        promise: Promise::OversellsOnManyInstances,
        mechanism: Mechanism::Process,
        family: "local-mutex",
        carts: true,
        headline: true,
        summary: "the same transaction under a mutex in the memory of the instance, which other instances know \
                  nothing of",
        build: |context| Box::new(LocalMutex::new(context)),
        ..CONTROL
    },
    Entry {
        name: "zk-mutex-early-release",
        mechanism: Mechanism::Zookeeper,
        family: "zk-mutex-early-release",
        wakes: Wakes::One,
        summary: "a second control, and the mistake of many a tutorial: the mutex is released before the commit, \
                  so that the next buyer reads the stock from before it",
        build: |context| Box::new(ZkEarlyRelease::new(Locks::new(context, "zk-mutex-early-release", MUTEX))),
        ..CONTROL
    },
    Entry {
        name: "zk-naive",
        family: "zk-naive",
        wakes: Wakes::All,
        headline: true,
        summary: "the same transaction under one fixed ephemeral node that every waiter watches; each release \
                  wakes them all",
        build: |context| under(Locks::new(context, "zk-naive", NAIVE), overwrite_alone),
        ..SAFE_ZK
    },
    Entry {
        name: "zk-mutex",
        family: ZK_QUEUE,
        headline: true,
        summary: "the same transaction under a queue of ephemeral sequential nodes, each waiter watching the one \
                  before it; each release wakes the next",
        build: |context| under(Locks::new(context, ZK_QUEUE, MUTEX), overwrite_alone),
        ..SAFE_ZK
    },
    Entry {
        name: "zk-semaphore-mutex",
        family: "zk-semaphore-mutex",
        summary: "the same transaction under a semaphore of one permit, which any task may give back",
        build: |context| under(Locks::new(context, "zk-semaphore-mutex", SEMAPHORE_MUTEX), overwrite_alone),
        ..SAFE_ZK
    },
    Entry {
        name: "zk-rwlock",
        family: "zk-rwlock",
        summary: "the same transaction under a write lock; who looks at the stock by this strategy does so under \
                  the read lock",
        build: |context| Box::new(ZkReadWriteLock::new(Locks::new(context, "zk-rwlock", WRITE_LOCK))),
        ..SAFE_ZK
    },
    Entry {
        name: "zk-multi",
        family: ZK_QUEUE,
        carts: true,
        summary: "a mutex for each SKU of a cart, taken in the order of the SKUs, all or none, within one deadline",
        build: |context| under(Locks::new(context, ZK_QUEUE, MUTEX), overwrite_alone),
        ..SAFE_ZK
    },
    Entry {
        name: "zk-handoff",
        family: ZK_QUEUE,
        headline: true,
        summary: "the mutex whose hand-over costs the same however many wait: a release says who held, and nobody \
                  lists the queue",
        build: |context| under(Locks::new(context, ZK_QUEUE, HANDOFF), overwrite_alone),
        ..SAFE_ZK
    },
    Entry {
        name: "zk-cohort",
        family: ZK_QUEUE,
        headline: true,
        summary: "the mutex that an instance hands over in memory: its buyers of one SKU queue behind one node, up \
                  to a number and a time",
        build: |context| under(Locks::new(context, ZK_QUEUE, COHORT).by_goods(), overwrite_alone),
        ..SAFE_ZK
    },
    Entry {
        name: "zk-cohort-linger",
        family: ZK_QUEUE,
        summary: "zk-cohort whose lock stays with the instance for up to 1 s after a purchase: its next buyer asks \
                  ZooKeeper for nothing; the lock goes to another instance as soon as one queues",
        build: |context| under(Locks::new(context, ZK_QUEUE, COHORT_LINGER).by_goods(), overwrite_alone),
        ..SAFE_ZK
    },
    Entry {
        name: "zk-mutex-fenced",
        family: ZK_QUEUE_FENCED,
        summary: "zk-mutex with a fence in the row, raised by the read and checked by the write, so that a holder \
                  that was overtaken cannot write",
        build: |context| under(Locks::new(context, ZK_QUEUE_FENCED, MUTEX), fenced::sell),
        ..FENCED_ZK
    },
    Entry {
        name: "zk-handoff-fenced",
        family: ZK_QUEUE_FENCED,
        summary: "zk-handoff with that fence",
        build: |context| under(Locks::new(context, ZK_QUEUE_FENCED, HANDOFF), fenced::sell),
        ..FENCED_ZK
    },
    Entry {
        name: "zk-cohort-fenced",
        family: ZK_QUEUE_FENCED,
        summary: "zk-cohort with that fence, which has two parts",
        build: |context| under(Locks::new(context, ZK_QUEUE_FENCED, COHORT).by_goods(), fenced::sell),
        ..FENCED_ZK
    },
    Entry {
        name: "zk-merge",
        family: ZK_QUEUE_FENCED,
        sections: Overlap::Overlapping,
        summary: "one lock and one transaction for all buyers who arrived at an instance during the last one, with that \
                  fence; the instances take turns",
        build: |context| Box::new(ZkMerge::batches(Locks::new(context, ZK_QUEUE_FENCED, COHORT).by_goods())),
        ..FENCED_ZK
    },
    Entry {
        name: owner::NAME,
        family: owner::NAME,
        sections: Overlap::Overlapping,
        summary: "one instance at a time owns a SKU, by an election in ZooKeeper; it remembers the stock and sells in batches, \
                  each fenced by its term; the others hand their buyers over to it",
        build: |context| Box::new(ZkOwner::new(context)),
        ..FENCED_ZK
    },
    Entry {
        name: "zk-semaphore",
        family: PG_ROW,
        sections: Overlap::Permits,
        summary: "pg-conditional behind a semaphore, whose permits bound how many buyers of one SKU are in the \
                  database",
        build: |context| under(Locks::new(context, "zk-semaphore", SEMAPHORE), semaphore::sell),
        ..FENCED_ZK
    },
    Entry {
        name: "pg-conditional",
        family: PG_ROW,
        headline: true,
        summary: "no lock but the row's own: one update that takes the units only where enough are left, after the \
                  simulated business time, which therefore runs side by side and not one by one",
        build: |context| Box::new(InDatabase::new(context, conditional::sell)),
        ..PG
    },
    Entry {
        name: "pg-counted-limit",
        promise: Promise::ExceedsLimit,
        family: "pg-counted-limit",
        carts: false,
        summary: "a control for the limit per buyer: pg-conditional that counts the orders of the buyer first, so that two \
                  requests of one buyer at once both count none",
        build: |context| Box::new(InDatabase::new(context, counted_limit::sell)),
        ..PG
    },
    Entry {
        name: "pg-function",
        family: PG_ROW,
        sections: Overlap::Overlapping,
        summary: "pg-conditional in one statement: a function of the database takes the units, writes the order and \
                  commits, so that no buyer waits for the network of another",
        build: |context| Box::new(InDatabase::new(context, function::sell)),
        ..PG
    },
    Entry {
        name: "pg-merge",
        family: PG_ROW,
        sections: Overlap::Overlapping,
        carts: false,
        summary: "one transaction for all buyers who arrived at an instance during the last one: the more wait, the \
                  more are sold by one commit",
        build: |context| Box::new(Batches::new(context, PgMerge)),
        ..PG
    },
    Entry {
        name: "pg-queue",
        family: PG_ROW,
        sections: Overlap::Overlapping,
        answers: Answers::WithTicket,
        carts: false,
        summary: "the buyer is given a ticket at once; a worker of any instance takes the tickets of a SKU in their order \
                  (skip locked), and writes their orders in one transaction",
        build: |context| Box::new(Tickets::new(context)),
        ..PG
    },
    Entry {
        name: "pg-row-lock",
        family: PG_ROW,
        summary: "the same transaction with the row locked by the read (select for no key update)",
        build: |context| Box::new(InDatabase::new(context, row_lock::sell)),
        ..PG
    },
    Entry {
        name: "pg-optimistic",
        family: PG_ROW,
        sections: Overlap::Overlapping,
        summary: "no lock: the write checks that the version of the row is the one that was read, and who was \
                  overtaken tries again",
        build: |context| Box::new(InDatabase::new(context, optimistic::read_committed)),
        ..PG
    },
    Entry {
        name: "pg-advisory",
        family: "pg-advisory",
        summary: "the same transaction under an advisory lock of the database, which ends with the transaction",
        build: |context| Box::new(InDatabase::new(context, advisory::sell)),
        ..PG
    },
    Entry {
        name: "pg-serializable",
        family: PG_ROW,
        sections: Overlap::Overlapping,
        summary: "the same transaction at isolation level serializable, tried again when the database finds a \
                  conflict",
        build: |context| Box::new(InDatabase::new(context, optimistic::serializable)),
        ..PG
    },
    Entry {
        name: "pg-units",
        family: "pg-units",
        sections: Overlap::Overlapping,
        carts: false,
        summary: "a row for each unit, at most 1000000 a sale: a purchase skips locked rows, and waits for them before the \
                  SKU counts as sold out",
        build: |context| Box::new(Units::new(context)),
        ..PG
    },
    Entry {
        name: "pg-buckets",
        family: "pg-buckets",
        sections: Overlap::Overlapping,
        carts: false,
        summary: "the stock in 64 rows: a purchase writes one that nobody has locked, and several of them before the SKU \
                  counts as sold out",
        build: |context| Box::new(Buckets::new(context)),
        ..PG
    },
    Entry {
        name: reserve::NAME,
        family: reserve::NAME,
        sections: Overlap::Overlapping,
        carts: false,
        two_steps: true,
        summary: "two steps: a reservation holds the units for --reservation-ttl, and a confirmation sells them; what is not \
                  confirmed in time, by the clock of the database, is free again",
        build: |context| Box::new(Reserve::new(context)),
        ..PG
    },
    Entry {
        name: "redis-lock",
        family: "redis-lock",
        summary: "the same transaction under a key in Redis with a random value and a time to live (set nx px), renewed while it \
                  is held; a waiter asks again and again",
        build: |context| under(RedisLocks::new(context), overwrite_alone),
        ..SAFE_REDIS
    },
    Entry {
        name: "redis-lock-fenced",
        family: "redis-lock-fenced",
        summary: "redis-lock with a fence in the row; its token is a counter that Redis raises as it grants the lock",
        build: |context| under(RedisLocks::new(context).fenced(), fenced::sell),
        ..FENCED_REDIS
    },
    Entry {
        name: "redis-gate",
        promise: Promise::MayPromiseWithoutOrder,
        family: "redis-gate",
        answers: Answers::BeforeOrder,
        summary: "a script in Redis checks stock and buyer, takes the units and appends the order to a stream, and the buyer is \
                  told; consumers write the orders in batches",
        build: |context| Box::new(RedisGate::new(context)),
        ..GATE
    },
    Entry {
        name: "redis-gate-confirmed",
        family: "redis-gate-confirmed",
        summary: "redis-gate whose buyer is answered when a consumer has committed the order, or the database has refused it",
        build: |context| Box::new(RedisGate::new(context).confirmed()),
        ..GATE
    },
];

/// Returns the names, in the order of the table.
pub fn names() -> impl Iterator<Item = &'static str> {
    STRATEGIES.iter().map(|entry| entry.name)
}

/// Returns the row of that name, if there is one.
pub fn find(name: &str) -> Option<&'static Entry> {
    STRATEGIES.iter().find(|entry| entry.name == name)
}
