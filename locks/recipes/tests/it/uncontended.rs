//! Holds that were granted without a look, because the number was proof enough: what that spares, and that it is no proof
//! once anybody may be ahead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{join, join_all};
use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use tokio::task::JoinHandle;
use zk_recipes::{CohortMutex, Error, HandoffMutex, LockGuard, Mutex, Session, SessionConfig};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::support::{Lab, soon, until};

const PATH: &str = "/locks/mutex";

/// The name of a contender of another program, but for its number.
const FOREIGN: &str = "/locks/mutex/_c_7b1e4f5c-98b2-4e1f-8a55-0d5f60c1a001-lock-";

/// Takes the lock and gives it back, and returns by how many requests.
async fn cycle(session: &Session, lock: &Mutex) -> u64 {
    let before = session.traffic().requests;
    soon("the lock", lock.acquire()).await.unwrap().release().await.unwrap();
    session.traffic().requests - before
}

/// Returns a lock that the session has had so often that it will not look the next time.
async fn had_alone(session: &Session) -> Mutex {
    let lock = Mutex::new(session, PATH).unwrap();
    let mut requests = Vec::new();
    for _ in 0..5 {
        requests.push(cycle(session, &lock).await);
    }
    assert_eq!(requests[1..], [3, 4, 2, 2], "a watch is set, and then nothing is asked");
    lock
}

/// Returns the node of a contender of another program.
async fn contend(raw: &Client) -> String {
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (_, sequence) = raw.create(FOREIGN, b"", &options).await.unwrap();
    format!("{FOREIGN}{sequence}")
}

/// Deletes the lock's node and creates it again with `contenders` contenders below it. Returns their nodes.
async fn begin_anew(raw: &Client, contenders: usize) -> Vec<String> {
    raw.delete(PATH, None).await.unwrap();
    raw.create(PATH, b"", &CreateMode::Container.with_acls(Acls::anyone_all())).await.unwrap();
    let mut nodes = Vec::new();
    for _ in 0..contenders {
        nodes.push(contend(raw).await);
    }
    nodes
}

/// Returns a contender that was sent on its way.
fn acquire(lock: &Mutex) -> JoinHandle<Result<LockGuard, Error>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.acquire().await })
}

/// Expects that a contender waits until the last contender ahead of it has left.
async fn expect_waiting(raw: &Client, waiting: JoinHandle<Result<LockGuard, Error>>, ahead: Vec<String>) {
    let children = async || raw.list_children(PATH).await.unwrap_or_default();
    until("the contender has its place", async || children().await.len() == ahead.len() + 1).await;
    for (i, node) in ahead.iter().enumerate() {
        assert!(!waiting.is_finished(), "granted beside {} others", ahead.len() - i);
        raw.delete(node, None).await.unwrap();
    }
    let held = soon("the grant", waiting).await.unwrap().unwrap();
    assert_eq!(children().await.len(), 1);
    held.release().await.unwrap();
}

// L29
#[tokio::test(flavor = "multi_thread")]
async fn from_the_fourth_time_on_a_lock_costs_two_requests() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    // A timeout so long that no ping falls into the measurement.
    let config = SessionConfig::default().with_timeout(Duration::from_secs(40));
    let session = Session::connect(&server.connect_string(), config).await.unwrap();
    let plain = had_alone(&session).await;
    let cohort = CohortMutex::from(plain.clone());
    let other_data = plain.clone().with_node_data("cart-service").unwrap();
    let received = async || server.metric("zk_bytes_received_count").await.unwrap();
    let before = (session.traffic(), received().await);
    for _ in 0..20 {
        assert_eq!(cycle(&session, &plain).await, 2);
        assert_eq!(cycle(&session, &other_data).await, 2);
        cohort.acquire().await.unwrap().release().await.unwrap();
    }
    let after = (session.traffic(), received().await);
    assert_eq!(after.0.requests - before.0.requests, 20 * 3 * 2);
    // The server also counts the command `mntr`, which asks for its counters.
    let bytes = after.1 - before.1 - "mntr".len() as u64;
    assert_eq!(bytes, after.0.bytes_sent - before.0.bytes_sent, "and the server saw no others");
    assert_eq!(after.0.notifications, 0);
}

/// On one thread, the confirmation of the release is seen before the answer to the `create` behind it.
#[tokio::test]
async fn a_contender_behind_an_unconfirmed_release_needs_no_look() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    // A timeout so long that no ping falls into the measurement.
    let config = SessionConfig::default().with_timeout(Duration::from_secs(40));
    let session = Session::connect(&server.connect_string(), config).await.unwrap();
    let lock = had_alone(&session).await;
    let mut held = lock.acquire().await.unwrap();
    let before = session.traffic().requests;
    for _ in 0..10 {
        let (released, next) = soon("the lock", join(held.release(), lock.acquire())).await;
        released.unwrap();
        held = next.unwrap();
    }
    assert_eq!(session.traffic().requests - before, 10 * 2);
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_grow_and_another_session_is_granted_in_its_turn() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let lock = had_alone(&one).await;
    let held = lock.acquire().await.unwrap();
    let waiting = acquire(&Mutex::new(&other, PATH).unwrap());
    lab.until_children(PATH, 2).await;
    assert!(!waiting.is_finished());
    let token = held.token();
    held.release().await.unwrap();
    let next = soon("the grant", waiting).await.unwrap().unwrap();
    assert!(next.token() > token);
    // Behind one whose number was between, and then as if it had just begun.
    let behind = acquire(&lock);
    lab.until_children(PATH, 2).await;
    next.release().await.unwrap();
    soon("the grant", behind).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(lab.children(PATH).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contender_of_another_program_costs_a_round_trip() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = had_alone(&session).await;
    let foreign = contend(&lab.raw).await;
    expect_waiting(&lab.raw, acquire(&lock), vec![foreign]).await;
    while cycle(&session, &lock).await > 2 {}
    lab.raw.delete(&contend(&lab.raw).await, None).await.unwrap();
    let requests = [cycle(&session, &lock).await, cycle(&session, &lock).await, cycle(&session, &lock).await];
    assert_eq!(requests, [3, 3, 2], "the node of the lock is watched still");
    // Any child has a number.
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    lab.raw.create(&format!("{PATH}/no-contender"), b"", &options).await.unwrap();
    assert_eq!(cycle(&session, &lock).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_begin_anew_prove_nothing() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = had_alone(&session).await;
    let ahead = begin_anew(&lab.raw, 4).await;
    let waiting = acquire(&lock);
    lab.until_children(PATH, 5).await;
    let children = lab.children(PATH).await;
    assert!(children.iter().any(|name| name.ends_with("lock-0000000004")), "the number that was to be expected");
    expect_waiting(&lab.raw, waiting, ahead).await;
    until("the lock is had without a look", async || cycle(&session, &lock).await == 2).await;
}

// L28
#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_begin_anew_during_a_cut_prove_nothing() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    let config = SessionConfig::default().with_timeout(Duration::from_secs(20));
    let session = Session::connect(&proxy.connect_string(), config).await.unwrap();
    let lock = had_alone(&session).await;
    proxy.refuse();
    proxy.cut();
    let ahead = begin_anew(&raw, 4).await;
    let waiting = acquire(&lock);
    proxy.accept();
    expect_waiting(&raw, waiting, ahead).await;
    until("the lock is had without a look", async || cycle(&session, &lock).await == 2).await;
    // The watch ends with the connection, and is set again on the next one.
    proxy.cut();
    until("the connection is back", async || session.ping(Duration::from_secs(5)).await.is_ok()).await;
    assert!(cycle(&session, &lock).await > 2);
    until("the lock is had without a look", async || cycle(&session, &lock).await == 2).await;
}

// L28
#[tokio::test(flavor = "multi_thread")]
async fn a_creation_whose_reply_is_lost_needs_a_look() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    let config = SessionConfig::default().with_timeout(Duration::from_secs(20));
    let session = Session::connect(&proxy.connect_string(), config).await.unwrap();
    let lock = had_alone(&session).await;
    let children = async || raw.list_children(PATH).await.unwrap_or_default().len();

    proxy.swallow_replies();
    let acquiring = acquire(&lock);
    until("the node is made", async || children().await == 1).await;
    let before = session.traffic().requests;
    proxy.cut();
    let held = soon("the grant", acquiring).await.unwrap().unwrap();
    // A sync, a listing and a stat find it, and then it looks.
    assert_eq!(session.traffic().requests - before, 4);

    // A release that was confirmed late leaves nothing behind.
    proxy.swallow_replies();
    let releasing = tokio::spawn(held.release());
    until("the node is deleted", async || children().await == 0).await;
    proxy.cut();
    soon("the release", releasing).await.unwrap().unwrap();
    until("the lock is had without a look", async || cycle(&session, &lock).await == 2).await;

    drop(lock.acquire().await.unwrap());
    until("the reaper has deleted it", async || children().await == 0).await;
    assert_eq!(cycle(&session, &lock).await, 2);
}

// L28
#[tokio::test(flavor = "multi_thread")]
async fn two_that_expect_the_same_number_do_not_hold_together() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let inside = Arc::new(AtomicBool::new(false));
    let section = async |lock: &Mutex, inside: &AtomicBool| {
        let held = soon("the lock", lock.acquire()).await.unwrap();
        assert!(!inside.swap(true, Ordering::SeqCst), "two hold");
        tokio::task::yield_now().await;
        inside.store(false, Ordering::SeqCst);
        held.release().await.unwrap();
    };
    let lock = Mutex::new(&session, PATH).unwrap();
    let of_other = Mutex::new(&other, PATH).unwrap();
    for _ in 0..30 {
        // Both of one session, or one of another, at the moment at which the session expects to be alone.
        until("the session looks no more", async || cycle(&session, &lock).await == 2).await;
        tokio::join!(section(&lock, &inside), section(&lock, &inside));
        until("the session looks no more", async || cycle(&session, &lock).await == 2).await;
        tokio::join!(section(&lock, &inside), section(&of_other, &inside));
    }
    let tasks: Vec<_> = (0..16)
        .map(|i| {
            let lock = if i % 4 == 0 { of_other.clone() } else { lock.clone() };
            let inside = Arc::clone(&inside);
            tokio::spawn(async move {
                for _ in 0..20 {
                    let held = lock.acquire().await.unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst), "two hold");
                    tokio::task::yield_now().await;
                    inside.store(false, Ordering::SeqCst);
                    held.release().await.unwrap();
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        soon("a task's turns", task).await.unwrap();
    }
    assert_eq!(lab.children(PATH).await, Vec::<String>::new());
}

// L28
#[tokio::test(flavor = "multi_thread")]
async fn the_lock_s_node_may_go_whenever_nobody_is_there() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let inside = AtomicBool::new(false);
    let turn = async |lock: &Mutex| {
        let held = soon("the lock", lock.acquire()).await.unwrap();
        assert!(!inside.swap(true, Ordering::SeqCst), "two hold");
        tokio::task::yield_now().await;
        inside.store(false, Ordering::SeqCst);
        held.release().await.unwrap();
    };
    let locks = [&session, &session, &other].map(|session| Mutex::new(session, PATH).unwrap());
    for round in 0..50 {
        // As the servers do with empty containers: at any moment of the turns, and certainly between them.
        let turns = futures_util::future::join_all(locks.iter().map(&turn));
        tokio::select! {
            _ = turns => {}
            () = async {
                loop {
                    let _ = lab.raw.delete(PATH, None).await;
                    tokio::task::yield_now().await;
                }
            } => {}
        }
        let deleted = lab.raw.delete(PATH, None).await;
        assert!(matches!(deleted, Ok(()) | Err(zookeeper_client::Error::NoNode)), "{deleted:?}");
        // One session alone, several times in a row, so that it relies on its numbers.
        for _ in 0..round % 4 {
            turn(&locks[0]).await;
        }
    }
}

// L10
#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_one_watch_for_each_lock_that_it_uses_again() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    // Thousands of requests at once may keep a busy machine from a proof of life for long.
    let config = SessionConfig::default().with_timeout(Duration::from_secs(40));
    let session = Session::connect(&proxy.connect_string(), config).await.unwrap();
    let watches = async || server.metric("zk_watch_count").await.unwrap();
    let mutex = |i: usize| Mutex::new(&session, &format!("/locks/{i:0100}")).unwrap();
    let once = mutex(0);
    cycle(&session, &once).await;
    drop(once);
    assert_eq!(watches().await, 0, "a lock that is used once needs no watch");

    // Their paths have more bytes than a client may put into one request to set them all again.
    let locks: Vec<Mutex> = (0..1500).map(mutex).collect();
    let use_all = async |times: usize| {
        for _ in 0..times {
            futures_util::future::join_all(locks.iter().map(|lock| cycle(&session, lock))).await;
        }
    };
    use_all(3).await;
    assert_eq!(watches().await, locks.len() as u64);
    // A proof of life now and then adds its requests to those of the lock.
    let mut spared = 0;
    for lock in &locks {
        spared += usize::from(cycle(&session, lock).await == 2);
    }
    assert!(spared > locks.len() * 9 / 10, "{spared} of {} locks were acquired by one request", locks.len());
    proxy.cut();
    until("the watches end with their connection", async || watches().await == 0).await;
    use_all(3).await;
    assert_eq!(watches().await, locks.len() as u64);
    drop(locks);
    until("the watches are taken back", async || watches().await == 0).await;
    had_alone(&session).await;
}

/// Goal: a change of the lock's node wakes no crowd. Method: each of many sessions has the mutex twice, in turn with the others.
/// Then a `HandoffMutex` leaves its note.
// L62
#[tokio::test(flavor = "multi_thread")]
async fn a_note_wakes_no_session_that_came_with_a_crowd() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let address = server.connect_string();
    let connect = (0..12).map(async |_| Session::connect(&address, SessionConfig::default()).await.unwrap());
    let sessions = join_all(connect).await;
    let locks: Vec<_> = sessions.iter().map(|session| Mutex::new(session, PATH).unwrap()).collect();
    for _ in 0..2 {
        join_all(sessions.iter().zip(&locks).map(async |(session, lock)| cycle(session, lock).await)).await;
    }
    HandoffMutex::new(&sessions[0], PATH).unwrap().acquire().await.unwrap().release().await.unwrap();
    let woken = server.metric("zk_sum_node_changed_watch_count").await.unwrap();
    assert_eq!(woken, 0, "sessions");
}
