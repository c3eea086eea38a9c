//! The nodes of a session have room: at its end, the servers delete them by one transaction, which must not be too long.

use std::time::Duration;

use futures_util::FutureExt;
use testbed::{Ensemble, EnsembleConfig, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{
    AnyLock, CohortMutex, Error, LockGuard, MultiLock, Mutex, Owner, RwLock, Semaphore, Session, SessionConfig,
};
use zookeeper_client::Client;

use crate::support::{Lab, soon, until};

/// Returns the bytes of one node of a mutex at `path`, in a session without a chroot.
fn room_of(path: &str) -> usize {
    4 + format!("{path}/_c_c8a8a1c2-3b1f-4f0e-9d7c-00000000002a-lock-0000000042").len()
}

async fn small_session(lab: &Lab, nodes: usize) -> Session {
    let (_, chroot) = lab.connect_string().split_once('/').unwrap();
    let bytes = nodes * (room_of("/a") + 1 + chroot.len()) * 8 / 7 + 8;
    let config = SessionConfig::default().with_node_bytes_max(bytes.try_into().unwrap());
    Session::connect(lab.connect_string(), config).await.unwrap()
}

/// Ends a session that has all the nodes that it may have at `path`, while more of its acquires wait.
async fn end_a_full_session(connect_string: &str, path: &str, contenders: usize) {
    let config = SessionConfig::default().with_timeout(Duration::from_secs(40));
    let room = config.node_bytes_max as usize;
    let session = Session::connect(connect_string, config).await.unwrap();
    let mutex = Mutex::new(&session, path).unwrap();
    let acquire = async |mutex: Mutex| mutex.acquire().await;
    let acquires: Vec<_> = (0..contenders).map(|_| tokio::spawn(acquire(mutex.clone()))).collect();
    // All the room but the reserve, and one node from the reserve.
    let nodes = (room - room / 8) / room_of(path) + 1;
    // Servers read transactions of up to twice `jute.maxbuffer`.
    assert!(nodes < contenders && contenders * room_of(path) > 2 * 0xf_ffff);
    let raw = Client::connect(connect_string).await.unwrap();
    let children = async || raw.list_children(path).await.unwrap_or_default().len();
    until("the session has all the nodes that it may have", async || children().await == nodes).await;
    assert!(matches!(mutex.try_acquire().await, Err(Error::NoRoom { .. })));
    session.close().await.unwrap();
    for acquire in acquires {
        // The first of them holds.
        let _ = soon("the end", acquire).await.unwrap();
    }
}

async fn acquire_and_release(connect_string: &str, path: &str) {
    let session = Session::connect(connect_string, SessionConfig::default()).await.unwrap();
    let held = soon("a grant", Mutex::new(&session, path).unwrap().acquire()).await.unwrap();
    held.release().await.unwrap();
}

// L53
#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_again_after_a_session_of_many_nodes() {
    let path = format!("/{}", "a-long-path".repeat(40));
    let mut server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    end_a_full_session(&server.connect_string(), &path, 4_700).await;
    server.stop().await.unwrap();
    server.start_again().await.unwrap();
    acquire_and_release(&server.connect_string(), &path).await;
}

// L53
#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_serves_on_after_a_session_of_many_nodes() {
    // Few nodes take all the room.
    let path = format!("/{}", "a-long-path".repeat(5_000));
    let ensemble = Ensemble::start(EnsembleConfig::default()).await.unwrap();
    end_a_full_session(&ensemble.connect_string(), &path, 40).await;
    for server in ensemble.connect_strings() {
        // This server has the end of the session once it answers.
        acquire_and_release(&server, &path).await;
        let raw = Client::connect(&server).await.unwrap();
        assert!(raw.list_children(&path).await.unwrap().is_empty(), "a node is left on {server}");
    }
}

// L54
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_waits_for_room_and_a_try_does_not() {
    let lab = Lab::open().await;
    let session = small_session(&lab, 7).await;
    let mutex = |path: String| Mutex::new(&session, &path).unwrap();
    let mut held = Vec::new();
    for path in 0..8 {
        held.push(mutex(format!("/{path}")).acquire().await.unwrap());
    }
    let ninth = mutex("/8".to_owned());
    let refused = ninth.try_acquire().await.unwrap_err();
    assert!(matches!(refused, Error::NoRoom { .. }), "{refused:?}");
    assert!(refused.to_string().contains("jute.maxbuffer"), "{refused}");
    assert!(ninth.acquire_within(Duration::from_millis(20)).await.unwrap().is_none());
    let dropped = tokio::spawn({
        let ninth = ninth.clone();
        async move { ninth.acquire().await }
    });
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    assert!(lab.children("/8").await.is_empty(), "nobody without room has a node");
    let waiting = tokio::spawn(async move { ninth.acquire().await.unwrap() });
    held.remove(0).release().await.unwrap();
    soon("the grant", waiting).await.unwrap().release().await.unwrap();
    drop(held);
    // All the room comes back.
    let all = (0..7).map(|path| mutex(format!("/{path}")));
    soon("all locks", MultiLock::new(all).unwrap().acquire()).await.unwrap().release().await.unwrap();
}

// L54
#[tokio::test(flavor = "multi_thread")]
async fn more_permits_than_have_room_are_refused_at_once() {
    let lab = Lab::open().await;
    let session = small_session(&lab, 10).await;
    let semaphore = Semaphore::new(&session, "/s", 100).unwrap();
    for refused in [semaphore.acquire_many(20).await, semaphore.try_acquire_many(20).await.map(Option::unwrap)] {
        assert!(matches!(refused, Err(Error::NoRoom { .. })), "{refused:?}");
    }
    assert!(lab.children("/s").await.is_empty());
    semaphore.acquire_many(5).await.unwrap().release().await.unwrap();
    // Every attempt has room for all its nodes or for none, so they follow each other.
    let take = async |semaphore: Semaphore| semaphore.acquire_many(5).await.unwrap().release().await.unwrap();
    let attempts: Vec<_> = (0..10).map(|_| tokio::spawn(take(semaphore.clone()))).collect();
    for attempt in attempts {
        soon("an attempt", attempt).await.unwrap();
    }
}

// L55
#[tokio::test(flavor = "multi_thread")]
async fn several_locks_take_their_room_together() {
    let lab = Lab::open().await;
    let session = small_session(&lab, 7).await;
    let locks = |name: &str| MultiLock::from_paths(&session, (0..5).map(|i| format!("/{name}{i}"))).unwrap();
    let rounds = async |locks: MultiLock| {
        for _ in 0..20 {
            locks.acquire().await.unwrap().release().await.unwrap();
        }
    };
    let tasks: Vec<_> = ["a", "b", "c"].map(|name| tokio::spawn(rounds(locks(name)))).into_iter().collect();
    for task in tasks {
        soon("the rounds", task).await.unwrap();
    }
}

// L55
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_with_a_crowd_behind_it_has_room_for_another_lock() {
    let lab = Lab::open().await;
    let session = small_session(&lab, 16).await;
    let lock = RwLock::new(&session, "/a").unwrap();
    let owner = Owner::new();
    let writing = lock.write_lock().acquire_as(&owner).await.unwrap();
    let crowd: Vec<_> = (0..30)
        .map(|_| {
            let lock = lock.write_lock();
            tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() })
        })
        .collect();
    lab.until_children("/a", 16).await;
    let other = Mutex::new(&session, "/b").unwrap();
    soon("another lock", other.acquire()).await.unwrap().release().await.unwrap();
    let reading = soon("the downgrade", lock.read_lock().acquire_as(&owner)).await.unwrap();
    writing.release().await.unwrap();
    reading.release().await.unwrap();
    for waiter in crowd {
        soon("a waiter", waiter).await.unwrap();
    }
    lab.until_children("/a", 0).await;
}

/// Holds locks until the session has no room.
async fn fill(session: &Session) -> Vec<LockGuard> {
    let mut held = Vec::new();
    loop {
        match Mutex::new(session, &format!("/{}", held.len())).unwrap().try_acquire().await {
            Err(Error::NoRoom { .. }) => return held,
            tried => held.push(tried.unwrap().unwrap()),
        }
    }
}

// L55
#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_room_does_not_keep_the_turn() {
    let lab = Lab::open().await;
    let session = small_session(&lab, 7).await;
    let rival = lab.session().await;
    let first = Mutex::new(&session, "/m").unwrap();
    let cohort = CohortMutex::new(&session, "/c").unwrap();
    let held = Mutex::new(&rival, "/m").unwrap().acquire().await.unwrap();
    let both = MultiLock::new([AnyLock::from(first), cohort.clone().into()]).unwrap();
    let both = tokio::spawn(async move { both.acquire().await.unwrap() });
    lab.until_children("/m", 2).await;
    let others = fill(&session).await;
    let mut waiting = Box::pin(async move { cohort.acquire().await.unwrap() });
    assert!((&mut waiting).now_or_never().is_none(), "there is no room");
    let waiting = tokio::spawn(waiting);
    // From here on, both locks have their room and are free.
    held.release().await.unwrap();
    soon("both locks", both).await.unwrap().release().await.unwrap();
    drop(others);
    soon("the member", waiting).await.unwrap().release().await.unwrap();
}

// L53
#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_room_says_that_it_has_ended() {
    let lab = Lab::open().await;
    let session = small_session(&lab, 7).await;
    let _held = fill(&session).await;
    session.close().await.unwrap();
    let tried = Mutex::new(&session, "/other").unwrap().try_acquire().await;
    assert!(matches!(tried, Err(Error::SessionEnded { .. })), "{tried:?}");
}
