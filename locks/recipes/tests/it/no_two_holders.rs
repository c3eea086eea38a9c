//! Schedules that once had two holders of one lock.

use std::time::Duration;

use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{
    AnyLock, CohortMutex, Error, HandoffMutex, HoldState, LockGuard, Mutex, Session, SessionConfig, revoke,
};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

use crate::support::{Lab, Waiting, soon, until};

const PATH: &str = "/locks/shared";
const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());

/// Makes a lock that queues at [`PATH`].
type LockAtPath = fn(&Session) -> AnyLock;

const HANDOFF: LockAtPath = |session| HandoffMutex::new(session, PATH).unwrap().into();
const HANDOFF_WITH_KAZOO: LockAtPath = |session| HandoffMutex::new(session, PATH).unwrap().with_kazoo().into();
const MUTEX: LockAtPath = |session| Mutex::new(session, PATH).unwrap().into();
const COHORT: LockAtPath = |session| CohortMutex::new(session, PATH).unwrap().into();

fn acquire(lock: AnyLock) -> Waiting {
    tokio::spawn(async move { lock.acquire().await })
}

/// Returns a contender that has its node in the queue, behind `ahead` other children.
async fn queue(lab: &Lab, lock: AnyLock, ahead: usize) -> Waiting {
    let waiting = acquire(lock);
    lab.until_children(PATH, ahead + 1).await;
    waiting
}

/// Waits until a [`HandoffMutex`] of this session, which has done nothing else, watches its predecessor.
async fn until_watching(session: &Session) {
    // The creation, the note and the watch.
    until("the waiter watches", async || session.traffic().requests == 3).await;
    session.ping(Duration::from_secs(20)).await.unwrap();
}

/// Waits until a waiter has acted on the notification that its predecessor is gone.
async fn until_looked_again(session: &Session) {
    until("the waiter hears of it", async || session.traffic().notifications == 1).await;
    // Whatever it sends then is answered before these are.
    for _ in 0..10 {
        session.ping(Duration::from_secs(20)).await.unwrap();
    }
}

/// A session behind a proxy holds a lock that was asked for, and then a [`HandoffMutex`] of that session sends its
/// `create` into a black hole.
struct RevokedHolder {
    raw: Client,
    proxy: Proxy,
    session: Session,
    direct: Session,
    held: LockGuard,
    acquiring: Waiting,
    _server: ZooKeeper,
}

impl RevokedHolder {
    async fn new(holder: LockAtPath, contender: LockAtPath) -> Self {
        let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
        let proxy = Proxy::start(&server.connect_string()).await.unwrap();
        let raw = Client::connect(&server.connect_string()).await.unwrap();
        let config = || SessionConfig::default().with_timeout(Duration::from_secs(20));
        let session = Session::connect(&proxy.connect_string(), config()).await.unwrap();
        let direct = Session::connect(&server.connect_string(), config()).await.unwrap();
        let held = holder(&session).acquire().await.unwrap();
        revoke(&direct, held.node_path()).await.unwrap();
        proxy.blackhole();
        let before = session.traffic().requests;
        let acquiring = acquire(contender(&session));
        until("create is sent", async || session.traffic().requests > before).await;
        Self { raw, proxy, session, direct, held, acquiring, _server: server }
    }

    /// Loses what was sent into the black hole.
    fn lose(&self) {
        self.proxy.cut();
        self.proxy.deliver();
    }

    async fn children(&self) -> usize {
        self.raw.list_children(PATH).await.unwrap().len()
    }
}

// L26
#[tokio::test(flavor = "multi_thread")]
async fn a_contender_takes_no_revoked_node_of_another_after_a_loss() {
    for (holder, contender) in [(MUTEX, HANDOFF), (COHORT, HANDOFF), (HANDOFF, HANDOFF_WITH_KAZOO), (HANDOFF, HANDOFF)]
    {
        let it = RevokedHolder::new(holder, contender).await;
        it.lose();
        until("the contender has a node of its own, or a hold", async || {
            it.acquiring.is_finished() || it.children().await == 2
        })
        .await;
        assert!(!it.acquiring.is_finished(), "it holds beside the holder");
        assert_eq!(it.held.state(), HoldState::Held);
        let last = acquire(HANDOFF(&it.direct));
        until("the last one queues", async || it.children().await == 3).await;
        let path = it.held.node_path().to_owned();
        it.held.release().await.unwrap();
        let held = soon("the contender", it.acquiring).await.unwrap().unwrap();
        assert_ne!(held.node_path(), path);
        assert!(!last.is_finished());
        held.release().await.unwrap();
        soon("the last one", last).await.unwrap().unwrap().release().await.unwrap();
    }
}

// L26
#[tokio::test(flavor = "multi_thread")]
async fn a_reaper_leaves_the_revoked_node_of_another_contender() {
    for (holder, contender) in [(MUTEX, HANDOFF), (HANDOFF, HANDOFF_WITH_KAZOO), (HANDOFF, HANDOFF)] {
        let it = RevokedHolder::new(holder, contender).await;
        let last = acquire(HANDOFF(&it.direct));
        until("the last one queues", async || it.children().await == 2).await;
        it.acquiring.abort();
        let before = it.session.traffic().requests;
        it.lose();
        // `sync` and the list of the session's nodes.
        until("the reaper has looked", async || it.session.traffic().requests >= before + 2).await;
        for _ in 0..10 {
            it.session.ping(Duration::from_secs(20)).await.unwrap();
        }
        assert_eq!(it.children().await, 2, "the reaper has deleted the node of the holder");
        assert!(!last.is_finished());
        it.held.release().await.unwrap();
        soon("the last one", last).await.unwrap().unwrap().release().await.unwrap();
    }
}

// L25
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_child_does_not_grant_a_waiter_without_a_node() {
    let lab = Lab::open().await;
    let sessions = [lab.session().await, lab.session().await, lab.session().await];
    lab.raw.mkdir(PATH, &PERSISTENT).await.unwrap();
    lab.raw.create(&format!("{PATH}/config"), b"", &PERSISTENT).await.unwrap();
    let held = HANDOFF(&sessions[0]).acquire().await.unwrap();
    let second = queue(&lab, HANDOFF(&sessions[1]), 2).await;
    let third = queue(&lab, HANDOFF(&sessions[2]), 3).await;
    lab.raw.delete(&format!("{PATH}/lock-0000000002"), None).await.unwrap();
    held.release().await.unwrap();
    let held = soon("the third", third).await.unwrap().unwrap();
    let deleted = soon("the second", second).await.unwrap();
    assert!(matches!(deleted, Err(Error::NodeDeleted { .. })), "{deleted:?}");
    held.release().await.unwrap();
}

// L25
#[tokio::test(flavor = "multi_thread")]
async fn a_note_copied_to_another_node_of_the_path_grants_nobody() {
    let lab = Lab::open().await;
    let sessions = [lab.session().await, lab.session().await, lab.session().await];
    for _ in 0..2 {
        HANDOFF(&sessions[0]).acquire().await.unwrap().release().await.unwrap();
    }
    let (note, _) = lab.raw.get_data(PATH).await.unwrap();
    lab.raw.delete(PATH, None).await.unwrap();
    lab.raw.create(PATH, &note, &PERSISTENT).await.unwrap();
    let held = HANDOFF(&sessions[0]).acquire().await.unwrap();
    let second = queue(&lab, HANDOFF(&sessions[1]), 1).await;
    let third = queue(&lab, HANDOFF(&sessions[2]), 2).await;
    until_watching(&sessions[2]).await;
    second.abort();
    until_looked_again(&sessions[2]).await;
    assert!(!third.is_finished(), "granted beside a holder");
    assert_eq!(held.state(), HoldState::Held);
    held.release().await.unwrap();
    soon("the third", third).await.unwrap().unwrap().release().await.unwrap();
}
