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
pub(crate) enum Kind {
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
const MUTEXES: &[Kind] = &[Kind::Mutex, Kind::Handoff, Kind::Cohort, Kind::HandoffCohort, Kind::Multi];

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
pub(crate) struct Place {
    pub(crate) path: &'static str,
    pub(crate) rule: Rule,
    pub(crate) kinds: &'static [Kind],
    /// The node whose children hold or wait, and may be deleted by hand.
    pub(crate) queue: &'static str,
    pub(crate) deletable: Deletable,
    /// Whether the lock's node is deleted when it is empty.
    pub(crate) may_vanish: bool,
    /// How often contenders choose it.
    pub(crate) weight: u32,
}

pub(crate) const PLACES: [Place; 7] = [
    Place {
        path: BUSY,
        rule: Rule::Exclusive,
        kinds: MUTEXES,
        queue: BUSY,
        deletable: Deletable::Any,
        may_vanish: false,
        weight: 10,
    },
    Place {
        path: BRIEF,
        rule: Rule::Exclusive,
        kinds: MUTEXES,
        queue: BRIEF,
        deletable: Deletable::Protected,
        may_vanish: true,
        weight: 2,
    },
    Place {
        path: "/stress/read-write",
        rule: Rule::ReadersShare,
        kinds: &[Kind::Read, Kind::Read, Kind::Write],
        queue: "/stress/read-write",
        deletable: Deletable::Protected,
        may_vanish: true,
        weight: 4,
    },
    Place {
        path: "/stress/semaphore",
        rule: Rule::Permits(PERMITS as usize),
        kinds: &[Kind::Semaphore],
        queue: "/stress/semaphore/leases",
        deletable: Deletable::Protected,
        may_vanish: true,
        weight: 3,
    },
    Place {
        path: "/stress/semaphore-mutex",
        rule: Rule::Exclusive,
        kinds: &[Kind::SemaphoreMutex],
        queue: "/stress/semaphore-mutex/leases",
        deletable: Deletable::Protected,
        may_vanish: true,
        weight: 2,
    },
    Place {
        path: "/stress/naive/node",
        rule: Rule::Exclusive,
        kinds: &[Kind::Naive],
        queue: "/stress/naive",
        deletable: Deletable::Nothing,
        may_vanish: false,
        weight: 1,
    },
    Place {
        path: "/stress/leader",
        rule: Rule::Exclusive,
        kinds: &[Kind::Leader],
        queue: "/stress/leader",
        deletable: Deletable::Protected,
        may_vanish: true,
        weight: 2,
    },
];

/// Chooses one of the places by their weights.
pub(crate) fn choose(rng: &mut ChaCha8Rng) -> &'static Place {
    let mut choice = rng.random_range(0..PLACES.iter().map(|place| place.weight).sum());
    for place in &PLACES {
        match choice.checked_sub(place.weight) {
            Some(rest) => choice = rest,
            None => return place,
        }
    }
    unreachable!("BUG: the choice is below the sum")
}

/// The path of the lock that a node belongs to.
pub(crate) fn lock_of(node: &str) -> &'static str {
    let place = PLACES.iter().find(|place| node.strip_prefix(place.path).is_some_and(|rest| !rest.starts_with('-')));
    place.expect("every node of a hold is below a place").path
}

/// A lock of a kind at a path, with random options.
pub(crate) fn lock(kind: Kind, session: &Session, path: &str, rng: &mut ChaCha8Rng) -> Result<Contended, Error> {
    let is_kazoo = rng.random_bool(0.1);
    let mut bounded = |cohort: CohortMutex| match rng.random_range(0..4) {
        0 => cohort,
        1 => cohort.with_max_handovers(0),
        2 => cohort.with_linger(Duration::from_millis(20)),
        _ => cohort.with_max_handovers(3),
    };
    Ok(match kind {
        Kind::Mutex => {
            let mutex = Mutex::new(session, path)?.with_node_data("stress")?;
            Contended::One(if is_kazoo { mutex.with_kazoo() } else { mutex }.into())
        }
        Kind::Handoff => {
            let mutex = HandoffMutex::new(session, path)?.with_node_data("stress")?;
            Contended::One(if is_kazoo { mutex.with_kazoo() } else { mutex }.into())
        }
        Kind::Cohort => Contended::One(bounded(CohortMutex::new(session, path)?).into()),
        Kind::HandoffCohort => Contended::One(bounded(HandoffMutex::new(session, path)?.into()).into()),
        Kind::Multi => Contended::Several(MultiLock::from_paths(session, [BUSY, BRIEF])?),
        Kind::Read => Contended::One(RwLock::new(session, path)?.read_lock().into()),
        Kind::Write => Contended::One(RwLock::new(session, path)?.write_lock().into()),
        Kind::Semaphore => {
            Contended::Permits(Semaphore::new(session, path, PERMITS)?, rng.random_range(1..=PERMITS_AT_ONCE))
        }
        Kind::SemaphoreMutex => Contended::One(SemaphoreMutex::new(session, path)?.into()),
        Kind::Naive => Contended::One(NaiveLock::new(session, path)?.into()),
        Kind::Leader => Contended::One(LeaderLatch::new(session, path)?.into()),
    })
}

/// The number of a contender's node; `None` for a child that is no contender.
pub(crate) fn number(name: &str) -> Option<u64> {
    let (name, digits) = name.split_at_checked(name.len().checked_sub(10)?)?;
    let is_contender =
        ["lock-", "__READ__", "__WRIT__", "lease-", "latch-"].iter().any(|marker| name.ends_with(marker));
    digits.parse().ok().filter(|_| is_contender)
}

/// The contenders among the children of a node, in the order of their numbers.
pub(crate) fn contenders(children: Vec<String>) -> Vec<(u64, String)> {
    let mut contenders: Vec<_> = children.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
    contenders.sort_unstable();
    contenders
}
