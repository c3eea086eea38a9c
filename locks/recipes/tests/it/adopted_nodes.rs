//! Nodes whose data were overwritten before their claims knew of them, and claims that handle their answers late.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::poll;
use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use tokio::task::JoinHandle;
use zk_recipes::{Error, HandoffMutex, LockGuard, Session, SessionConfig, revoke};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::support::{soon, until};

const PATH: &str = "/locks/adopted";

type Granted = Result<LockGuard, Error>;
/// An acquire that moves on only when the test polls it.
type PendingAcquire = Pin<Box<dyn Future<Output = Granted> + Send>>;

/// A session behind a proxy, and another one that no fault of it concerns.
struct TwoSessions {
    raw: Client,
    proxy: Proxy,
    session: Session,
    direct: Session,
    _server: ZooKeeper,
}

impl TwoSessions {
    async fn open() -> Self {
        let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
        let proxy = Proxy::start(&server.connect_string()).await.unwrap();
        let raw = Client::connect(&server.connect_string()).await.unwrap();
        let config = || SessionConfig::default().with_timeout(Duration::from_secs(40));
        let session = Session::connect(&proxy.connect_string(), config()).await.unwrap();
        let direct = Session::connect(&server.connect_string(), config()).await.unwrap();
        Self { raw, proxy, session, direct, _server: server }
    }

    fn lock(&self) -> HandoffMutex {
        HandoffMutex::new(&self.session, PATH).unwrap()
    }

    fn acquiring(&self) -> PendingAcquire {
        let lock = self.lock();
        Box::pin(async move { lock.acquire().await })
    }

    /// Returns an acquire of the session that has no faults.
    fn other(&self) -> JoinHandle<Granted> {
        let lock = HandoffMutex::new(&self.direct, PATH).unwrap();
        tokio::spawn(async move { lock.acquire().await })
    }

    async fn children(&self) -> Vec<String> {
        self.raw.list_children(PATH).await.unwrap_or_default()
    }

    async fn until_children(&self, count: usize) {
        until(&format!("there are {count} children"), async || self.children().await.len() == count).await;
    }

    /// Waits until the client has the answers to all that the session has sent.
    async fn until_answered(&self) {
        self.session.ping(Duration::from_secs(20)).await.unwrap();
    }

    async fn revoke(&self, name: &str) {
        revoke(&self.direct, &format!("{PATH}/{name}")).await.unwrap();
    }

    /// Returns an acquire whose first requests are answered, which knows nothing of that, and whose node is revoked by then.
    async fn unaware(&self) -> PendingAcquire {
        let mut unaware = self.acquiring();
        assert!(poll!(&mut unaware).is_pending());
        self.until_children(1).await;
        self.until_answered().await;
        self.revoke(&self.children().await[0]).await;
        unaware
    }

    /// Sends the `create` of an acquire into a black hole, where it is lost.
    async fn lost(&self, acquiring: &mut PendingAcquire) {
        self.proxy.blackhole();
        let before = self.session.traffic().requests;
        assert!(poll!(acquiring).is_pending());
        until("create is sent", async || self.session.traffic().requests > before).await;
        self.proxy.cut();
        self.proxy.deliver();
        self.until_answered().await;
    }
}

// L26
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_another_adopted_and_released_grants_nobody() {
    let lab = TwoSessions::open().await;
    lab.lock().acquire().await.unwrap().release().await.unwrap();
    let mut unaware = lab.unaware().await;
    let mut adopter = lab.acquiring();
    lab.lost(&mut adopter).await;
    soon("the adopter", adopter).await.unwrap().release().await.unwrap();
    let held = soon("the other session", lab.other()).await.unwrap().unwrap();
    assert!(poll!(&mut unaware).is_pending());
    until("the contender queues again or holds", async || {
        assert!(poll!(&mut unaware).is_pending(), "it is granted beside a holder");
        lab.children().await.len() == 2
    })
    .await;
    held.release().await.unwrap();
    soon("the contender", unaware).await.unwrap().release().await.unwrap();
    assert_eq!(lab.children().await, Vec::<String>::new());
}

// L25
#[tokio::test(flavor = "multi_thread")]
async fn a_second_create_is_not_judged_by_the_look_of_the_first() {
    let lab = TwoSessions::open().await;
    for _ in 0..5 {
        lab.lock().acquire().await.unwrap().release().await.unwrap();
    }
    let mut unaware = lab.unaware().await;
    let mut adopter = lab.acquiring();
    lab.lost(&mut adopter).await;
    soon("the adopter", adopter).await.unwrap().release().await.unwrap();
    // The numbers begin anew: those of the session's last holds say nothing about the new ones.
    lab.raw.delete(PATH, None).await.unwrap();
    let held = soon("the other session", lab.other()).await.unwrap().unwrap();
    let between = lab.other();
    lab.until_children(2).await;
    until("the contender queues", async || {
        assert!(poll!(&mut unaware).is_pending(), "it is granted beside a holder");
        lab.children().await.len() == 3
    })
    .await;
    let unaware = tokio::spawn(unaware);
    between.abort();
    lab.until_children(2).await;
    for _ in 0..10 {
        lab.until_answered().await;
    }
    assert!(!unaware.is_finished(), "it is granted beside a holder");
    held.release().await.unwrap();
    soon("the contender", unaware).await.unwrap().unwrap().release().await.unwrap();
}

// L26
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_its_owner_deletes_during_a_search_is_not_adopted() {
    let lab = TwoSessions::open().await;
    let held = lab.lock().acquire().await.unwrap();
    lab.revoke(&lab.children().await[0]).await;
    let mut looking = lab.acquiring();
    lab.lost(&mut looking).await;
    let before = lab.session.traffic().requests;
    // `sync`, the list of the session's nodes, and the data of the one that is held.
    until("the node has been read", async || {
        assert!(poll!(&mut looking).is_pending());
        lab.session.traffic().requests >= before + 3
    })
    .await;
    lab.until_answered().await;
    held.release().await.unwrap();
    soon("the contender", looking).await.unwrap().release().await.unwrap();
}

// L26
#[tokio::test(flavor = "multi_thread")]
async fn contenders_that_lose_replies_together_have_one_node_each() {
    // Each searches the nodes of all.
    const CONTENDERS: usize = 90;
    let lab = TwoSessions::open().await;
    lab.lock().acquire().await.unwrap().release().await.unwrap();
    let held = soon("the other session", lab.other()).await.unwrap().unwrap();
    lab.proxy.swallow_replies();
    let mut acquiring: Vec<_> = (0..CONTENDERS).map(|_| tokio::spawn(lab.acquiring())).collect();
    lab.until_children(CONTENDERS + 1).await;
    let children = lab.children().await;
    let revoked = children.iter().filter(|name| !held.node_path().ends_with(*name)).step_by(2);
    join_all(revoked.map(|name| lab.revoke(name))).await;
    // Some give up before they know of their nodes.
    for given_up in acquiring.drain(..CONTENDERS / 3) {
        given_up.abort();
    }
    lab.proxy.cut();
    lab.proxy.deliver();
    lab.until_children(acquiring.len() + 1).await;
    held.release().await.unwrap();
    let served = join_all(acquiring.into_iter().map(async |acquiring| {
        acquiring.await.unwrap().unwrap().release().await.unwrap();
    }));
    soon("all contenders in turn", served).await;
    assert_eq!(lab.children().await, Vec::<String>::new());
}

// L27
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_deletion_spares_the_next_node_of_that_name() {
    const DEADLINE: Duration = Duration::from_millis(200);
    let lab = TwoSessions::open().await;
    lab.raw.mkdir(PATH, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    lab.proxy.swallow_replies();
    let lock = lab.lock();
    let begun = Instant::now();
    let mut given_up = Box::pin(lock.acquire_within(DEADLINE));
    assert!(poll!(&mut given_up).is_pending());
    lab.until_children(1).await;
    until("the deadline has passed", async || begun.elapsed() > DEADLINE).await;
    lab.proxy.cut();
    lab.proxy.deliver();
    lab.until_answered().await;
    // `sync`, the list of the session's nodes, the data of ours, and after another `sync` the question whose it is. The request to
    // delete it is answered by nobody.
    let before = lab.session.traffic().requests;
    until("the node has been found", async || {
        assert!(poll!(&mut given_up).is_pending());
        lab.session.traffic().requests >= before + 5
    })
    .await;
    lab.until_answered().await;
    lab.proxy.swallow_replies();
    assert!(poll!(&mut given_up).is_pending());
    lab.until_children(0).await;
    lab.raw.delete(PATH, None).await.unwrap();
    let held = soon("the other session", lab.other()).await.unwrap().unwrap();
    assert!(held.node_path().ends_with("/lock-0000000000"));
    lab.proxy.cut();
    lab.proxy.deliver();
    assert!(soon("the end of the deadline", given_up).await.unwrap().is_none());
    assert_eq!(lab.children().await.len(), 1, "the node of the holder was deleted");
    held.release().await.unwrap();
}
