//! Asking for a [`NaiveLock`], whose node has the same path for all: the request overwrites what its contender wrote.

use std::time::Duration;

use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, HoldState, LockGuard, NaiveLock, Session, SessionConfig, revoke};
use zookeeper_client::Client;

use crate::support::{Lab, soon, until};

const PATH: &str = "/locks/naive";

/// A contender on a line that loses replies, and others that see all.
struct LossyContender {
    server: ZooKeeper,
    proxy: Proxy,
    raw: Client,
    session: Session,
    other: Session,
}

impl LossyContender {
    async fn open() -> Self {
        let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
        let proxy = Proxy::start(&server.connect_string()).await.unwrap();
        let raw = Client::connect(&server.connect_string()).await.unwrap();
        let config = SessionConfig::default().with_timeout(Duration::from_secs(20));
        let session = Session::connect(&proxy.connect_string(), config).await.unwrap();
        let other = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
        // From now on the parent is there, and an acquire is one request.
        NaiveLock::new(&session, PATH).unwrap().acquire().await.unwrap().release().await.unwrap();
        Self { server, proxy, raw, session, other }
    }

    fn acquiring(&self) -> tokio::task::JoinHandle<Result<LockGuard, Error>> {
        let lock = NaiveLock::new(&self.session, PATH).unwrap();
        tokio::spawn(async move { lock.acquire().await })
    }

    async fn is_there(&self) -> bool {
        self.raw.check_stat(PATH).await.unwrap().is_some()
    }

    /// Returns an acquire that has made its node and does not know, and that was asked for the lock meanwhile.
    async fn unanswered_and_asked_for(&self) -> tokio::task::JoinHandle<Result<LockGuard, Error>> {
        self.proxy.swallow_replies();
        let acquiring = self.acquiring();
        until("the node is made", async || self.is_there().await).await;
        revoke(&self.other, PATH).await.unwrap();
        acquiring
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_asked_for_before_its_grant_is_granted() {
    let line = LossyContender::open().await;
    let acquiring = line.unanswered_and_asked_for().await;
    line.proxy.cut();
    let held = soon("the grant", acquiring).await.unwrap().unwrap();
    assert_eq!(held.state(), HoldState::Held);
    soon("the request", held.revocation().requested()).await.unwrap();
    held.release().await.unwrap();
    assert!(!line.is_there().await);
    let next = NaiveLock::new(&line.other, PATH).unwrap().try_acquire().await.unwrap();
    next.expect("the lock is free").release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_acquire_leaves_no_overwritten_node() {
    let line = LossyContender::open().await;
    let acquiring = line.unanswered_and_asked_for().await;
    acquiring.abort();
    assert!(acquiring.await.unwrap_err().is_cancelled());
    line.proxy.cut();
    until("the node is gone", async || !line.is_there().await).await;
    let next = NaiveLock::new(&line.session, PATH).unwrap();
    soon("the next holder", next.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overwritten_node_of_another_contender_is_not_adopted() {
    let line = LossyContender::open().await;
    let held = soon("the lock", line.acquiring()).await.unwrap().unwrap();
    revoke(&line.other, PATH).await.unwrap();
    line.proxy.swallow_replies();
    let sent = line.session.traffic().requests;
    let waiting = line.acquiring();
    until("the create is sent", async || line.session.traffic().requests > sent).await;
    line.proxy.cut();
    until("the other waits", async || line.server.metric("zk_watch_count").await.unwrap() == 1).await;
    assert_eq!(held.state(), HoldState::Held);
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    let next = soon("the grant", waiting).await.unwrap().unwrap();
    assert_eq!(next.state(), HoldState::Held);
    next.release().await.unwrap();
    assert!(!line.is_there().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_hears_nothing_of_the_next_hold() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let held = NaiveLock::new(&session, PATH).unwrap().acquire().await.unwrap();
    let revocation = held.revocation();
    held.release().await.unwrap();
    let next = NaiveLock::new(&other, PATH).unwrap().acquire().await.unwrap();
    let ended = soon("the end", revocation.requested()).await;
    let Err(Error::NodeDeleted { path, .. }) = &ended else { panic!("{ended:?}") };
    assert_eq!(path, PATH);
    let told = ended.unwrap_err().to_string();
    assert_eq!(told, format!("the node {PATH} has been deleted"), "it was its own release");
    revoke(&session, next.node_path()).await.unwrap();
    assert!(matches!(revocation.requested().await, Err(Error::NodeDeleted { .. })));
    soon("the request", next.revocation().requested()).await.unwrap();
}
