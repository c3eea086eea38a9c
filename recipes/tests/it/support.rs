//! What the suites share: every recipe behind one face, a raw client to look at the nodes with, bounded waiting.

use std::future::Future;
use std::time::Duration;

use testbed::TestChroot;
use zk_recipes::{Error, LockGuard, Mutex, NaiveLock, Session, SessionConfig};
use zookeeper_client::Client;

/// How long anything that must happen may take on a busy machine. Never waited for unless the test fails.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A recipe under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Naive,
    Mutex,
}

pub(crate) const RECIPES: [Recipe; 2] = [Recipe::Naive, Recipe::Mutex];

/// A lock made from a [`Recipe`].
#[derive(Clone, Debug)]
pub(crate) enum Lock {
    Naive(NaiveLock),
    Mutex(Mutex),
}

impl Recipe {
    pub(crate) fn lock(self, session: &Session, path: &str) -> Lock {
        match self {
            Self::Naive => Lock::Naive(NaiveLock::new(session, path).unwrap()),
            Self::Mutex => Lock::Mutex(Mutex::new(session, path).unwrap()),
        }
    }

    /// A path of its own below a common parent, so that the nodes of every recipe are children of a known node.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Naive => "/locks/naive/node",
            Self::Mutex => "/locks/mutex",
        }
    }

    /// The node whose children are the contenders' nodes.
    pub(crate) fn parent(self) -> &'static str {
        match self {
            Self::Naive => "/locks/naive",
            Self::Mutex => "/locks/mutex",
        }
    }

    /// Whether the order of arrival is the order of grants.
    pub(crate) fn is_fair(self) -> bool {
        self == Self::Mutex
    }
}

impl Lock {
    pub(crate) async fn acquire(&self) -> Result<LockGuard, Error> {
        match self {
            Self::Naive(lock) => lock.acquire().await,
            Self::Mutex(lock) => lock.acquire().await,
        }
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        match self {
            Self::Naive(lock) => lock.try_acquire().await,
            Self::Mutex(lock) => lock.try_acquire().await,
        }
    }

    pub(crate) async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        match self {
            Self::Naive(lock) => lock.acquire_within(wait).await,
            Self::Mutex(lock) => lock.acquire_within(wait).await,
        }
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

    pub(crate) async fn session(&self) -> Session {
        Session::connect(self.chroot.connect_string(), SessionConfig::default()).await.unwrap()
    }

    /// The children of a node; none of a node that does not exist.
    pub(crate) async fn children(&self, path: &str) -> Vec<String> {
        self.raw.list_children(path).await.unwrap_or_default()
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

/// The output of something that must come soon.
pub(crate) async fn soon<F: Future>(what: &str, work: F) -> F::Output {
    match tokio::time::timeout(SOON, work).await {
        Ok(output) => output,
        Err(_) => panic!("waited {SOON:?} in vain for {what}"),
    }
}
