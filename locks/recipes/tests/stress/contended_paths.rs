//! The paths of a run, the kinds of locks that contend there, and the names of their nodes.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use zk_recipes::{
    CohortMutex, Error, HandoffMutex, LeaderLatch, MultiLock, Mutex, NaiveLock, RwLock, Semaphore, SemaphoreMutex,
    Session,
};

use crate::checker::Rule;
use crate::contended::Contended;

/// The permits of the semaphore.
const PERMITS: u32 = 3;
/// How many permits an acquire takes at most.
const PERMITS_AT_ONCE: u32 = 2;

/// The mutex path where many contend and any node may be deleted by hand.
pub(crate) const BUSY: &str = "/stress/busy";
/// The mutex path that is often empty, so that its node is deleted, too.
pub(crate) const BRIEF: &str = "/stress/brief";

/// A kind of contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContenderKind {
    Mutex,
    Handoff,
    Cohort,
    /// A cohort that queues for a `HandoffMutex`.
    HandoffCohort,
    /// [`BUSY`] and [`BRIEF`] together.
    Multi,
    Read,
    Write,
    Semaphore,
    SemaphoreMutex,
    Naive,
    Leader,
}

/// Those that share the queue of a mutex path.
const MUTEXES: &[ContenderKind] = &[
    ContenderKind::Mutex,
    ContenderKind::Handoff,
    ContenderKind::Cohort,
    ContenderKind::HandoffCohort,
    ContenderKind::Multi,
];

/// Which nodes may be deleted by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletable {
    Any,
    /// Those whose names never come again. If a `HandoffMutex` had its node and the lock's node deleted, its release might
    /// delete the node of another that has the same number; the library says so.
    Protected,
    Nothing,
}

/// A path where locks contend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContendedPath {
    pub(crate) path: &'static str,
    pub(crate) rule: Rule,
    pub(crate) kinds: &'static [ContenderKind],
    /// The node whose children hold or wait, and may be deleted by hand.
    pub(crate) queue: &'static str,
    pub(crate) deletable: Deletable,
    /// Whether the lock's node is deleted when it is empty.
    pub(crate) may_vanish: bool,
    /// How often contenders choose it.
    pub(crate) weight: u32,
}

pub(crate) const CONTENDED_PATHS: [ContendedPath; 7] = [
    ContendedPath {
        path: BUSY,
        rule: Rule::Exclusive,
        kinds: MUTEXES,
        queue: BUSY,
        deletable: Deletable::Any,
        may_vanish: false,
        weight: 10,
    },
    ContendedPath {
        path: BRIEF,
        rule: Rule::Exclusive,
        kinds: MUTEXES,
        queue: BRIEF,
        deletable: Deletable::Protected,
        may_vanish: true,
        weight: 2,
    },
    ContendedPath {
        path: "/stress/read-write",
        rule: Rule::ReadersShare,
        kinds: &[ContenderKind::Read, ContenderKind::Read, ContenderKind::Write],
        queue: "/stress/read-write",
        deletable: Deletable::Protected,
        may_vanish: true,
        weight: 4,
    },
    ContendedPath {
        path: "/stress/semaphore",
        rule: Rule::Permits(PERMITS as usize),
        kinds: &[ContenderKind::Semaphore],
        queue: "/stress/semaphore/leases",
        deletable: Deletable::Protected,
        may_vanish: true,
        weight: 3,
    },
    ContendedPath {
        path: "/stress/semaphore-mutex",
        rule: Rule::Exclusive,
        kinds: &[ContenderKind::SemaphoreMutex],
        queue: "/stress/semaphore-mutex/leases",
        deletable: Deletable::Protected,
        may_vanish: true,
        weight: 2,
    },
    ContendedPath {
        path: "/stress/naive/node",
        rule: Rule::Exclusive,
        kinds: &[ContenderKind::Naive],
        queue: "/stress/naive",
        deletable: Deletable::Nothing,
        may_vanish: false,
        weight: 1,
    },
    ContendedPath {
        path: "/stress/leader",
        rule: Rule::Exclusive,
        kinds: &[ContenderKind::Leader],
        queue: "/stress/leader",
        deletable: Deletable::Protected,
        may_vanish: true,
        weight: 2,
    },
];

/// Chooses one of the contended paths by their weights.
pub(crate) fn choose(rng: &mut ChaCha8Rng) -> &'static ContendedPath {
    let mut choice = rng.random_range(0..CONTENDED_PATHS.iter().map(|contended| contended.weight).sum());
    for contended in &CONTENDED_PATHS {
        match choice.checked_sub(contended.weight) {
            Some(rest) => choice = rest,
            None => return contended,
        }
    }
    unreachable!("BUG: the choice is below the sum")
}

/// Returns the path of the lock that a node belongs to.
pub(crate) fn lock_of(node: &str) -> &'static str {
    let contended = CONTENDED_PATHS
        .iter()
        .find(|contended| node.strip_prefix(contended.path).is_some_and(|rest| !rest.starts_with('-')));
    contended.expect("every node of a hold is below a contended").path
}

/// Returns a lock of a kind at a path, with random options.
pub(crate) fn lock(
    kind: ContenderKind,
    session: &Session,
    path: &str,
    rng: &mut ChaCha8Rng,
) -> Result<Contended, Error> {
    let is_kazoo = rng.random_bool(0.1);
    let mut bounded = |cohort: CohortMutex| match rng.random_range(0..4) {
        0 => cohort,
        1 => cohort.with_max_handovers(0),
        2 => cohort.with_linger(Duration::from_millis(20)),
        _ => cohort.with_max_handovers(3),
    };
    Ok(match kind {
        ContenderKind::Mutex => {
            let mutex = Mutex::new(session, path)?.with_node_data("stress")?;
            Contended::One(if is_kazoo { mutex.with_kazoo() } else { mutex }.into())
        }
        ContenderKind::Handoff => {
            let mutex = HandoffMutex::new(session, path)?.with_node_data("stress")?;
            Contended::One(if is_kazoo { mutex.with_kazoo() } else { mutex }.into())
        }
        ContenderKind::Cohort => Contended::One(bounded(CohortMutex::new(session, path)?).into()),
        ContenderKind::HandoffCohort => Contended::One(bounded(HandoffMutex::new(session, path)?.into()).into()),
        ContenderKind::Multi => Contended::Several(MultiLock::from_paths(session, [BUSY, BRIEF])?),
        ContenderKind::Read => Contended::One(RwLock::new(session, path)?.read_lock().into()),
        ContenderKind::Write => Contended::One(RwLock::new(session, path)?.write_lock().into()),
        ContenderKind::Semaphore => {
            Contended::Permits(Semaphore::new(session, path, PERMITS)?, rng.random_range(1..=PERMITS_AT_ONCE))
        }
        ContenderKind::SemaphoreMutex => Contended::One(SemaphoreMutex::new(session, path)?.into()),
        ContenderKind::Naive => Contended::One(NaiveLock::new(session, path)?.into()),
        ContenderKind::Leader => Contended::One(LeaderLatch::new(session, path)?.into()),
    })
}

/// Returns the number of a contender's node; `None` for a child that is no contender.
pub(crate) fn number(name: &str) -> Option<u64> {
    let (name, digits) = name.split_at_checked(name.len().checked_sub(10)?)?;
    let is_contender =
        ["lock-", "__READ__", "__WRIT__", "lease-", "latch-"].iter().any(|marker| name.ends_with(marker));
    digits.parse().ok().filter(|_| is_contender)
}

/// Returns the contenders among the children of a node, in the order of their numbers.
pub(crate) fn contenders(children: Vec<String>) -> Vec<(u64, String)> {
    let mut contenders: Vec<_> = children.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
    contenders.sort_unstable();
    contenders
}
