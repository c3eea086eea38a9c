//! Replies that never come: the server applied the request, and the sender does not know.

use std::time::Duration;

use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, HoldState, LockGuard, Session, SessionConfig};
use zookeeper_client::Client;

use crate::support::{RECIPES, Recipe, soon, until};

/// A server whose replies can be lost for one session, and a client that sees all.
struct LossyServer {
    server: ZooKeeper,
    proxy: Proxy,
    raw: Client,
}

impl LossyServer {
    async fn open() -> Self {
        let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
        let proxy = Proxy::start(&server.connect_string()).await.unwrap();
        let raw = Client::connect(&server.connect_string()).await.unwrap();
        Self { server, proxy, raw }
    }

    async fn session(&self) -> Session {
        let config = SessionConfig::default().with_timeout(Duration::from_secs(20));
        Session::connect(&self.proxy.connect_string(), config).await.unwrap()
    }

    async fn direct(&self) -> Session {
        Session::connect(&self.server.connect_string(), SessionConfig::default()).await.unwrap()
    }

    /// Returns an acquire that was sent and applied, and whose reply never comes.
    async fn unanswered_acquire(
        &self,
        recipe: Recipe,
        session: &Session,
    ) -> tokio::task::JoinHandle<Result<LockGuard, Error>> {
        let lock = recipe.lock(session, recipe.path());
        lock.acquire().await.unwrap().release().await.unwrap();
        self.proxy.swallow_replies();
        let acquiring = tokio::spawn(async move { lock.acquire().await });
        self.until_children(recipe.queue(), 1).await;
        acquiring
    }

    async fn until_children(&self, path: &str, count: usize) {
        let children = async || self.raw.list_children(path).await.unwrap_or_default().len();
        until(&format!("{path} has {count} children"), async || children().await == count).await;
    }
}

// L5
#[tokio::test(flavor = "multi_thread")]
async fn a_create_whose_reply_is_lost_makes_no_second_node() {
    for recipe in RECIPES {
        let server = LossyServer::open().await;
        let session = server.session().await;
        let acquiring = server.unanswered_acquire(recipe, &session).await;
        server.proxy.cut();
        let held = soon("the grant", acquiring).await.unwrap().unwrap();
        assert_eq!(held.state(), HoldState::Held);
        server.until_children(recipe.parent(), 1).await;
        let next = recipe.barrier(&server.direct().await, recipe.path());
        assert!(next.try_acquire().await.unwrap().is_none(), "{recipe:?}");
        held.release().await.unwrap();
        soon("the next holder", next.acquire()).await.unwrap().release().await.unwrap();
        server.until_children(recipe.parent(), 0).await;
    }
}

// L4
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_cancelled_while_its_reply_is_lost_leaves_no_node() {
    for recipe in RECIPES {
        let server = LossyServer::open().await;
        let session = server.session().await;
        let acquiring = server.unanswered_acquire(recipe, &session).await;
        acquiring.abort();
        assert!(acquiring.await.unwrap_err().is_cancelled());
        server.proxy.cut();
        server.until_children(recipe.queue(), 0).await;
        let next = recipe.barrier(&server.direct().await, recipe.path());
        soon("the next holder", next.acquire()).await.unwrap().release().await.unwrap();
    }
}

// L5
#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_reply_is_lost_is_confirmed() {
    for recipe in RECIPES {
        let server = LossyServer::open().await;
        let session = server.session().await;
        let held = recipe.lock(&session, recipe.path()).acquire().await.unwrap();
        server.proxy.swallow_replies();
        let releasing = tokio::spawn(held.release());
        server.until_children(recipe.parent(), 0).await;
        // The next holder is in before the release is sent again, and must not be thrown out by it.
        let next = recipe.barrier(&server.direct().await, recipe.path());
        let next_held = soon("the next holder", next.acquire()).await.unwrap();
        server.proxy.cut();
        soon("the release", releasing).await.unwrap().unwrap();
        next_held.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_survives_a_cut_connection_and_keeps_its_turn() {
    for recipe in RECIPES {
        let server = LossyServer::open().await;
        let session = server.session().await;
        let direct = server.direct().await;
        let held = recipe.barrier(&direct, recipe.path()).acquire().await.unwrap();
        let waiting = tokio::spawn({
            let lock = recipe.lock(&session, recipe.path());
            async move { lock.acquire().await }
        });
        let watches = async || server.server.metric("zk_watch_count").await.unwrap();
        let expected = recipe.watches_of_holder() + 1;
        until("the waiter watches", async || watches().await == expected).await;
        server.proxy.cut();
        held.release().await.unwrap();
        soon("the grant", waiting).await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_expires_during_a_lost_create_leaves_nothing() {
    let quick = ZooKeeperConfig { tick_time: Duration::from_millis(500), ..ZooKeeperConfig::default() };
    let server = ZooKeeper::start(quick).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    // A busy machine does not stand still for as long as the session lives.
    let config = SessionConfig::default().with_timeout(Duration::from_secs(5));
    let session = Session::connect(&proxy.connect_string(), config).await.unwrap();
    let lock = Recipe::Mutex.lock(&session, "/locks/mutex");
    lock.acquire().await.unwrap().release().await.unwrap();
    proxy.swallow_replies();
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    let children = async || raw.list_children("/locks/mutex").await.unwrap_or_default().len();
    until("the node is made", async || children().await == 1).await;
    proxy.blackhole();
    until("the server expires the session", async || children().await == 0).await;
    proxy.deliver();
    let ended = soon("the answer", acquiring).await.unwrap();
    assert!(matches!(ended, Err(Error::SessionEnded { .. })), "{ended:?}");
    assert_eq!(children().await, 0);
    let fresh = Session::connect(&proxy.connect_string(), SessionConfig::default()).await.unwrap();
    let held = Recipe::Mutex.lock(&fresh, "/locks/mutex").acquire().await.unwrap();
    assert_eq!(children().await, 1, "exactly the new one");
    held.release().await.unwrap();
}
