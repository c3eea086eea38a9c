//! Many contenders of one session at one path: what they cost together grows with their number, and not with its square.

// L12

use std::time::Duration;

use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use tokio::sync::mpsc;
use zk_recipes::{AnyLock, HoldState, LockGuard, Session, SessionConfig, Traffic};
use zookeeper_client::Client;

use crate::support::{Recipe, soon, until};

/// A server behind a proxy, one session with a hold elsewhere, and a client that sees all nodes.
struct Crowd {
    server: ZooKeeper,
    proxy: Proxy,
    raw: Client,
    session: Session,
    elsewhere: LockGuard,
}

impl Crowd {
    async fn open() -> Self {
        let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
        let proxy = Proxy::start(&server.connect_string()).await.unwrap();
        let raw = Client::connect(&server.connect_string()).await.unwrap();
        let config = SessionConfig::default().with_timeout(Duration::from_secs(40));
        let session = Session::connect(&proxy.connect_string(), config).await.unwrap();
        let elsewhere = Recipe::Mutex.lock(&session, "/elsewhere").acquire().await.unwrap();
        Self { server, proxy, raw, session, elsewhere }
    }

    async fn until_children(&self, path: &str, count: usize) {
        let children = async || self.raw.list_children(path).await.unwrap_or_default().len();
        until(&format!("{path} has {count} children"), async || children().await == count).await;
    }

    /// Starts a crowd of acquires, whose nodes exist and whose replies never come.
    async fn unanswered(&self, recipe: Recipe) -> Acquires {
        let lock = recipe.lock(&self.session, recipe.path());
        lock.acquire().await.unwrap().release().await.unwrap();
        self.proxy.swallow_replies();
        let (granted, grants) = mpsc::unbounded_channel();
        let acquire = async |lock: AnyLock, granted: mpsc::UnboundedSender<LockGuard>| {
            let _ = granted.send(lock.acquire().await.unwrap());
        };
        let tasks = (0..CROWD).map(|_| tokio::spawn(acquire(lock.clone(), granted.clone()))).collect();
        self.until_children(recipe.queue(), CROWD).await;
        Acquires { grants, tasks }
    }

    /// Fails if the traffic since `before` grows with the square of the crowd, or if the hold elsewhere was lost.
    fn assert_linear(&self, what: &str, before: Traffic) {
        let cost = self.session.traffic().since(before);
        let crowd = CROWD as u64;
        let bytes = cost.bytes_sent + cost.bytes_received;
        assert!(bytes <= BYTES_MAX * crowd && cost.requests <= REQUESTS_MAX * crowd, "{what}: {cost:?}");
        assert_eq!(self.elsewhere.state(), HoldState::Held, "{what}");
    }
}

struct Acquires {
    grants: mpsc::UnboundedReceiver<LockGuard>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

/// The size of a crowd.
const CROWD: usize = 150;
/// A contender lists the queue in 9 000 bytes. A share of a listing, its own requests and their answers are less than this.
const BYTES_MAX: u64 = 3_000;
const REQUESTS_MAX: u64 = 10;

const QUEUES: [Recipe; 5] = [Recipe::Mutex, Recipe::Handoff, Recipe::Read, Recipe::Write, Recipe::Semaphore];

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_whose_replies_are_lost_searches_once() {
    for recipe in QUEUES {
        let crowd = Crowd::open().await;
        let mut acquires = crowd.unanswered(recipe).await;
        let before = crowd.session.traffic();
        crowd.proxy.cut();
        let first = soon("the first grant", acquires.grants.recv()).await.unwrap();
        let watches = if recipe.is_shared() { 0 } else { CROWD as u64 - 1 };
        until("all others watch", async || crowd.server.metric("zk_watch_count").await.unwrap() >= watches).await;
        crowd.assert_linear(&format!("{recipe:?}"), before);
        first.release().await.unwrap();
        for _ in 1..CROWD {
            soon("the next grant", acquires.grants.recv()).await.unwrap().release().await.unwrap();
        }
        crowd.until_children(recipe.queue(), 0).await;
        for task in acquires.tasks {
            task.await.unwrap()
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_gives_up_on_lost_replies_searches_once() {
    for recipe in QUEUES {
        let crowd = Crowd::open().await;
        let acquires = crowd.unanswered(recipe).await;
        acquires.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        for task in acquires.tasks {
            assert!(task.await.unwrap_err().is_cancelled());
        }
        let before = crowd.session.traffic();
        crowd.proxy.cut();
        crowd.until_children(recipe.queue(), 0).await;
        crowd.assert_linear(&format!("{recipe:?}"), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_readers_queues_and_is_granted_by_few_listings() {
    let crowd = Crowd::open().await;
    let direct = Session::connect(&crowd.server.connect_string(), SessionConfig::default()).await.unwrap();
    let path = Recipe::Read.path();
    let writer = Recipe::Write.lock(&direct, path).acquire().await.unwrap();
    let before = crowd.session.traffic();
    let acquire = async |lock: AnyLock| lock.acquire().await.unwrap();
    let lock = Recipe::Read.lock(&crowd.session, path);
    let readers: Vec<_> = (0..CROWD).map(|_| tokio::spawn(acquire(lock.clone()))).collect();
    // Each of them creates its node and watches the writer.
    let requests = || crowd.session.traffic().since(before).requests;
    until("all readers watch", async || requests() > 2 * CROWD as u64).await;
    crowd.assert_linear("queueing", before);
    let before = crowd.session.traffic();
    writer.release().await.unwrap();
    let mut held = Vec::new();
    for reader in readers {
        held.push(soon("a grant", reader).await.unwrap());
    }
    crowd.assert_linear("the release of the writer", before);
    for reader in held {
        reader.release().await.unwrap();
    }
    crowd.until_children(path, 0).await;
}
