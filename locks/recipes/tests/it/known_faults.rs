//! Faults that were seen in Apache Curator's locks, shown absent from ours.

use std::time::Duration;

use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, HoldState, Mutex, Owner, RwLock, Session, SessionConfig};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::support::{Lab, soon, until};

// L38
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_does_not_enter_by_the_hold_of_an_expired_session() {
    let quick = ZooKeeperConfig { tick_time: Duration::from_millis(500), ..ZooKeeperConfig::default() };
    let server = ZooKeeper::start(quick).await.unwrap();
    let proxy = testbed::Proxy::start(&server.connect_string()).await.unwrap();
    let config = || SessionConfig::default().with_timeout(Duration::from_secs(1));
    let stale = Session::connect(&proxy.connect_string(), config()).await.unwrap();
    let other = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    let mine = RwLock::new(&stale, "/locks/rw").unwrap();
    let owner = Owner::new();
    let held = mine.write_lock().acquire_as(&owner).await.unwrap();
    proxy.blackhole();
    let next = soon("the next writer", RwLock::new(&other, "/locks/rw").unwrap().write_lock().acquire()).await.unwrap();
    assert!(matches!(held.state(), HoldState::Lost(_)), "lost before another was granted");
    proxy.deliver();
    for lock in [mine.write_lock().acquire_as(&owner).await, mine.read_lock().acquire_as(&owner).await] {
        assert!(matches!(lock, Err(Error::HoldLost { .. })), "{lock:?}");
    }
    assert_eq!(next.state(), HoldState::Held);
    next.release().await.unwrap();
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    assert_eq!(raw.list_children("/locks/rw").await.unwrap(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_child_that_sorts_first_does_not_block_the_lock() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = RwLock::new(&session, "/locks/rw").unwrap();
    lock.read_lock().acquire().await.unwrap().release().await.unwrap();
    for name in ["0", "zzz", "_c_nested-lock-1"] {
        let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        lab.raw.create(&format!("/locks/rw/{name}"), &[], &persistent).await.unwrap();
    }
    lock.write_lock().try_acquire().await.unwrap().expect("not blocked").release().await.unwrap();
    lock.read_lock()
        .acquire_within(Duration::from_secs(20))
        .await
        .unwrap()
        .expect("not blocked")
        .release()
        .await
        .unwrap();
}

// L3
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_waiters_of_one_lock_object_wake_one_at_a_time() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mutex = Mutex::new(&session, "/locks/mutex").unwrap();
    let held = mutex.acquire().await.unwrap();
    let waiters: Vec<_> = (0..100)
        .map(|_| {
            let mutex = mutex.clone();
            tokio::spawn(async move { mutex.acquire().await.unwrap().release().await.unwrap() })
        })
        .collect();
    lab.until_children("/locks/mutex", 101).await;
    held.release().await.unwrap();
    for waiter in waiters {
        soon("a waiter", waiter).await.unwrap();
    }
    let traffic = session.traffic();
    assert!(traffic.notifications <= 100, "{} notifications for 100 hand-overs", traffic.notifications);
    // Create, list, watch, list again, delete; and a list more for those whose predecessor went before they watched it.
    assert!(traffic.requests <= 6 * 101, "{} requests for 101 turns", traffic.requests);
}

// L13
#[tokio::test(flavor = "multi_thread")]
async fn eighteen_thousand_waiters_ahead_do_not_break_an_acquire() {
    const WAITERS: usize = 18_000;
    const CLIENTS: usize = 3;
    let mut server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    // A busy machine takes seconds for the crowd, and answers nobody else meanwhile.
    let patient = SessionConfig::default().with_timeout(Duration::from_secs(40));
    let session = Session::connect(&server.connect_string(), patient).await.unwrap();
    let mutex = Mutex::new(&session, "/locks/mutex").unwrap();
    let holder = mutex.acquire().await.unwrap();
    // Contenders as Curator's clients make them; their listing is larger than the 1 MiB that a Java client accepts.
    // The nodes of one client are not too many for the transaction at its end.
    let mut crowd = Vec::new();
    for _ in 0..CLIENTS {
        crowd.push(Client::connect(&server.connect_string()).await.unwrap());
    }
    let sequential = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let prefix = "/locks/mutex/_c_adbe3469-d9d1-4cf4-af5a-06f4a4e8ea5a-lock-";
    let made: Vec<_> =
        crowd.iter().cycle().take(WAITERS).map(|client| client.create(prefix, &[], &sequential)).collect();
    soon("the crowd", futures_util::future::try_join_all(made)).await.unwrap();
    let last = soon("a place behind the crowd", mutex.enqueue()).await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert!(mutex.acquire_within(Duration::from_secs(2)).await.unwrap().is_none());
    let waiting = tokio::spawn(last.granted());
    until("the last waiter watches", async || server.metric("zk_watch_count").await.unwrap() == 1).await;
    holder.release().await.unwrap();
    // The crowd leaves, its sessions with it.
    drop(crowd);
    let held = soon("the grant", waiting).await.unwrap().unwrap();
    assert_eq!(held.state(), HoldState::Held);
    held.release().await.unwrap();
    session.close().await.unwrap();
    server.stop().await.unwrap();
    server.start_again().await.unwrap();
    let session = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    let mutex = Mutex::new(&session, "/locks/mutex").unwrap();
    soon("a grant after the start", mutex.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_vanishes_between_two_requests_is_made_again() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mutex = Mutex::new(&session, "/locks/mutex").unwrap();
    for _ in 0..50 {
        // As the server does with empty containers, at any moment.
        let (acquired, _) = tokio::join!(mutex.acquire(), async {
            let _ = lab.raw.delete("/locks/mutex", None).await;
            let _ = lab.raw.delete("/locks", None).await;
        });
        acquired.unwrap().release().await.unwrap();
    }
}
