//! What the suites share: every recipe behind one face, a raw client to look at the nodes with, bounded waiting.

use std::future::Future;
use std::time::Duration;

use testbed::TestChroot;
use tokio::task::JoinHandle;
use zk_recipes::{
    AnyLock, CohortMutex, Error, HandoffMutex, LeaderLatch, LockGuard, Mutex, NaiveLock, RwLock, Semaphore,
    SemaphoreMutex, Session, SessionConfig,
};
use zookeeper_client::Client;

/// An acquire that waits in a task of its own.
pub(crate) type Waiting = JoinHandle<Result<LockGuard, Error>>;

/// How long anything that must happen may take on a busy machine. Never waited for unless the test fails.
pub(crate) const SOON: Duration = Duration::from_secs(120);

/// A recipe under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Naive,
    Mutex,
    Handoff,
    Cohort,
    Read,
    Write,
    SemaphoreMutex,
    /// With one permit.
    Semaphore,
    Leader,
}

pub(crate) const RECIPES: [Recipe; 9] = [
    Recipe::Naive,
    Recipe::Mutex,
    Recipe::Handoff,
    Recipe::Cohort,
    Recipe::Read,
    Recipe::Write,
    Recipe::SemaphoreMutex,
    Recipe::Semaphore,
    Recipe::Leader,
];

impl Recipe {
    /// Returns a lock of this recipe.
    pub(crate) fn lock(self, session: &Session, path: &str) -> AnyLock {
        match self {
            Self::Naive => NaiveLock::new(session, path).unwrap().into(),
            Self::Mutex => Mutex::new(session, path).unwrap().into(),
            Self::Handoff => HandoffMutex::new(session, path).unwrap().into(),
            Self::Cohort => CohortMutex::new(session, path).unwrap().into(),
            Self::Read => RwLock::new(session, path).unwrap().read_lock().into(),
            Self::Write => RwLock::new(session, path).unwrap().write_lock().into(),
            Self::SemaphoreMutex => SemaphoreMutex::new(session, path).unwrap().into(),
            Self::Semaphore => Semaphore::new(session, path, 1).unwrap().into(),
            Self::Leader => LeaderLatch::new(session, path).unwrap().into(),
        }
    }

    /// Returns a path of its own, so that the nodes of every recipe are children of a node of their own.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Naive => "/locks/naive/node",
            Self::Mutex => "/locks/mutex",
            Self::Handoff => "/locks/handoff",
            Self::Cohort => "/locks/cohort",
            Self::Read => "/locks/read",
            Self::Write => "/locks/write",
            Self::SemaphoreMutex => "/locks/semaphore-mutex",
            Self::Semaphore => "/locks/semaphore",
            Self::Leader => "/locks/leader",
        }
    }

    /// Returns the node whose children are the holders' nodes.
    pub(crate) fn parent(self) -> &'static str {
        match self {
            Self::Naive => "/locks/naive",
            Self::SemaphoreMutex => "/locks/semaphore-mutex/leases",
            Self::Semaphore => "/locks/semaphore/leases",
            _ => self.path(),
        }
    }

    /// Returns a lock at the same path that this recipe must wait for: of the recipe itself, but for readers a writer's.
    pub(crate) fn barrier(self, session: &Session, path: &str) -> AnyLock {
        match self {
            Self::Read => Self::Write.lock(session, path),
            _ => self.lock(session, path),
        }
    }

    /// Returns how many reads it takes to see that the lock is taken.
    pub(crate) fn reads_of_a_failed_try(self) -> u64 {
        1
    }

    /// Returns the node whose children are the waiters' nodes.
    pub(crate) fn queue(self) -> &'static str {
        match self {
            Self::SemaphoreMutex => "/locks/semaphore-mutex/locks",
            Self::Semaphore => "/locks/semaphore/locks",
            _ => self.parent(),
        }
    }

    /// Returns how many nodes of holders are among those of the waiters.
    pub(crate) fn holders_in_queue(self) -> usize {
        usize::from(self.queue() == self.parent())
    }

    /// Returns the number of nodes of `waiters` waiters behind a holder of their own session.
    pub(crate) fn nodes_of_waiters(self, waiters: usize) -> usize {
        if self == Self::Cohort { 0 } else { waiters }
    }

    /// Returns the watches that a holder sets: one if it watches its own node.
    pub(crate) fn watches_of_holder(self) -> u64 {
        u64::from(self == Self::Leader)
    }

    /// Returns whether two may hold together.
    pub(crate) fn is_shared(self) -> bool {
        self == Self::Read
    }

    /// Returns whether the order of arrival is the order of grants.
    pub(crate) fn is_fair(self) -> bool {
        self != Self::Naive
    }
}

/// A chroot of the test's own, with a raw client that looks at the nodes.
pub(crate) struct Lab {
    chroot: TestChroot,
    pub(crate) raw: Client,
}

impl Lab {
    pub(crate) async fn open() -> Self {
        let chroot = TestChroot::create().await.unwrap();
        let raw = Client::connect(chroot.connect_string()).await.unwrap();
        Self { chroot, raw }
    }

    /// `host:port/chroot`, for clients that a test makes itself.
    pub(crate) fn connect_string(&self) -> &str {
        self.chroot.connect_string()
    }

    pub(crate) async fn session(&self) -> Session {
        Session::connect(self.chroot.connect_string(), SessionConfig::default()).await.unwrap()
    }

    /// Returns a session for thousands of requests at once, which may keep a busy machine from a proof of life for long.
    pub(crate) async fn patient_session(&self) -> Session {
        let config = SessionConfig::default().with_timeout(Duration::from_secs(40));
        Session::connect(self.chroot.connect_string(), config).await.unwrap()
    }

    /// Returns the children of a node; none of a node that does not exist.
    pub(crate) async fn children(&self, path: &str) -> Vec<String> {
        self.raw.list_children(path).await.unwrap_or_default()
    }

    /// Returns the number that the note in the data of a lock's node names; `None` unless they are a note of this very node.
    pub(crate) async fn released(&self, path: &str) -> Option<u32> {
        let (data, stat) = self.raw.get_data(path).await.unwrap();
        let note = String::from_utf8(data).unwrap();
        note.strip_prefix("released-")?.strip_suffix(&format!("-of-0x{:016x}", stat.czxid))?.parse().ok()
    }

    /// Waits until a node has `count` children.
    pub(crate) async fn until_children(&self, path: &str, count: usize) {
        until(&format!("{path} has {count} children"), async || self.children(path).await.len() == count).await;
    }
}

/// Waits for a condition by asking again and again.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + SOON;
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "waited {SOON:?} in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the output of something that must come soon.
pub(crate) async fn soon<F: Future>(what: &str, work: F) -> F::Output {
    match tokio::time::timeout(SOON, work).await {
        Ok(output) => output,
        Err(_) => panic!("waited {SOON:?} in vain for {what}"),
    }
}
