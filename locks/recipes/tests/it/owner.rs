//! Owners: who holds, where a task is not a thread.

use std::time::Duration;

use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, HoldState, Mutex, Owner, RwLock, Session, SessionConfig};

use crate::support::{Lab, soon, until};

fn mutex(session: &Session) -> Mutex {
    Mutex::new(session, "/locks/mutex").unwrap()
}

// L33
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_has_its_lock_again_without_a_request() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mutex = mutex(&session);
    let owner = Owner::new();
    let mut held = vec![mutex.acquire_as(&owner).await.unwrap()];
    let before = session.traffic().requests;
    held.push(mutex.try_acquire_as(&owner).await.unwrap().expect("it holds"));
    held.push(mutex.acquire_within_as(&owner.clone(), Duration::ZERO).await.unwrap().expect("it holds"));
    assert_eq!(session.traffic().requests, before);
    assert!(held.iter().all(|guard| guard.token() == held[0].token() && guard.node_path() == held[0].node_path()));
    // Held until the last guard goes, whichever that is.
    for guard in held.drain(..2) {
        guard.release().await.unwrap();
        assert!(mutex.try_acquire().await.unwrap().is_none(), "still held");
    }
    held.pop().unwrap().release().await.unwrap();
    mutex.try_acquire().await.unwrap().expect("free").release().await.unwrap();
}

// L33
#[tokio::test(flavor = "multi_thread")]
async fn another_owner_waits_however_deep_the_hold_is() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mutex = mutex(&session);
    let owner = Owner::new();
    let other = Owner::new();
    let outer = mutex.acquire_as(&owner).await.unwrap();
    let inner = mutex.acquire_as(&owner).await.unwrap();
    assert!(mutex.acquire_within_as(&other, Duration::from_millis(200)).await.unwrap().is_none());
    drop(outer);
    assert!(mutex.try_acquire_as(&other).await.unwrap().is_none());
    drop(inner);
    soon("the other owner", mutex.acquire_as(&other)).await.unwrap().release().await.unwrap();
}

// L33
#[tokio::test(flavor = "multi_thread")]
async fn two_locks_made_for_one_path_know_the_same_owner() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let owner = Owner::new();
    let outer = mutex(&session).acquire_as(&owner).await.unwrap();
    let inner = mutex(&session).try_acquire_as(&owner).await.unwrap().expect("the same lock, the same owner");
    assert_eq!(outer.token(), inner.token());
    let elsewhere = Mutex::new(&session, "/locks/other").unwrap().try_acquire_as(&owner).await.unwrap().unwrap();
    assert_ne!(elsewhere.token(), outer.token());
}

// L33
#[tokio::test(flavor = "multi_thread")]
async fn two_tasks_of_one_owner_that_acquire_together_share_one_hold() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let mine = mutex(&session);
    let owner = Owner::new();
    let barrier = mutex(&other).acquire().await.unwrap();
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let mine = mine.clone();
            let owner = owner.clone();
            tokio::spawn(async move { mine.acquire_as(&owner).await })
        })
        .collect();
    lab.until_children("/locks/mutex", 2).await;
    assert!(mine.try_acquire_as(&owner).await.unwrap().is_none(), "it is still queueing");
    barrier.release().await.unwrap();
    let mut held = Vec::new();
    for task in tasks {
        held.push(soon("a task's hold", task).await.unwrap().unwrap());
    }
    assert!(held.iter().all(|guard| guard.token() == held[0].token()));
    assert_eq!(lab.children("/locks/mutex").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_may_be_released_by_any_task() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let held = mutex(&session).acquire_as(&Owner::new()).await.unwrap();
    tokio::spawn(held.release()).await.unwrap().unwrap();
    mutex(&session).try_acquire().await.unwrap().expect("free").release().await.unwrap();
}

// L38
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_does_not_enter_by_a_hold_that_was_lost() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let mine = mutex(&session);
    let owner = Owner::new();
    let held = mine.acquire_as(&owner).await.unwrap();
    session.close().await.unwrap();
    assert!(matches!(held.state(), HoldState::Lost(_)));
    let next = soon("the next holder", mutex(&other).acquire()).await.unwrap();
    for attempt in [mine.acquire_as(&owner).await.map(Some), mine.try_acquire_as(&owner).await] {
        assert!(matches!(attempt, Err(Error::HoldLost { .. })), "{attempt:?}");
    }
    drop(held);
    assert!(matches!(mine.acquire_as(&owner).await, Err(Error::SessionEnded { .. })));
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_guard_of_a_lost_hold_says_so_at_its_release() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mutex = mutex(&session);
    let owner = Owner::new();
    let outer = mutex.acquire_as(&owner).await.unwrap();
    let inner = mutex.acquire_as(&owner).await.unwrap();
    session.close().await.unwrap();
    assert!(matches!(inner.release().await, Err(Error::HoldLost { .. })));
    assert!(matches!(outer.release().await, Err(Error::HoldLost { .. })));
}

// L33
#[tokio::test(flavor = "multi_thread")]
async fn three_tasks_of_an_owner_that_holds_have_the_lock_at_once() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mutex = mutex(&session);
    let owner = Owner::new();
    let held = mutex.acquire_as(&owner).await.unwrap();
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let mutex = mutex.clone();
            let owner = owner.clone();
            tokio::spawn(async move {
                for _ in 0..2000 {
                    mutex.try_acquire_as(&owner).await.unwrap().expect("the owner holds").release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        soon("a task", task).await.unwrap();
    }
    held.release().await.unwrap();
    assert_eq!(lab.children("/locks/mutex").await, Vec::<String>::new(), "the last release was confirmed");
}

// L33
#[tokio::test(flavor = "multi_thread")]
async fn a_write_hold_released_during_a_downgrade_is_gone() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let lock = RwLock::new(&session, "/locks/rw").unwrap();
    let owner = Owner::new();
    let next = RwLock::new(&other, "/locks/rw").unwrap().read_lock();
    for _ in 0..50 {
        let read = lock.read_lock();
        let write = lock.write_lock();
        let writing = write.acquire_as(&owner).await.unwrap();
        let (reading, released) = tokio::join!(read.acquire_as(&owner), async {
            let path = writing.node_path().to_owned();
            writing.release().await.unwrap();
            lab.raw.check_stat(&path).await.unwrap()
        });
        assert_eq!(released, None, "the writer's node is gone");
        let shared = next.try_acquire().await.unwrap().expect("readers share");
        shared.release().await.unwrap();
        reading.unwrap().release().await.unwrap();
    }
}

// L33
#[tokio::test(flavor = "multi_thread")]
async fn a_release_on_a_dead_line_is_not_confirmed_by_another_acquire() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let session = Session::connect(&proxy.connect_string(), SessionConfig::default()).await.unwrap();
    let mutex = mutex(&session);
    let owner = Owner::new();
    let held = mutex.acquire_as(&owner).await.unwrap();
    proxy.blackhole();
    until("the hold is suspect", async || held.state() == HoldState::Suspect).await;
    let again = tokio::spawn({
        let mutex = mutex.clone();
        let owner = owner.clone();
        async move { mutex.acquire_as(&owner).await }
    });
    let mut releasing = std::pin::pin!(held.release());
    let early = tokio::time::timeout(Duration::from_millis(200), &mut releasing).await;
    assert!(early.is_err(), "no server has confirmed anything: {early:?}");
    proxy.deliver();
    let released = soon("the release", releasing).await;
    let again = soon("the other acquire", again).await.unwrap();
    // It depends on when the line comes back whether the first hold had been lost by then.
    assert!(matches!(released, Ok(()) | Err(Error::HoldLost { .. })), "{released:?}");
    again.unwrap().release().await.unwrap();
}

// L33
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_s_hold_counts_for_its_own_recipe_only() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let owner = Owner::new();
    let path = "/locks/shared-by-mistake";
    let held = Mutex::new(&session, path).unwrap().acquire_as(&owner).await.unwrap();
    let other = RwLock::new(&session, path).unwrap().write_lock().acquire_as(&owner).await.unwrap();
    assert_ne!(held.node_path(), other.node_path());
    assert!(other.node_path().contains("__WRIT__"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_of_a_lost_read_hold_says_that_it_was_lost() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = RwLock::new(&session, "/locks/rw").unwrap();
    let owner = Owner::new();
    let reading = lock.read_lock().acquire_as(&owner).await.unwrap();
    session.close().await.unwrap();
    assert!(matches!(lock.write_lock().acquire_as(&owner).await, Err(Error::HoldLost { .. })));
    assert!(matches!(reading.release().await, Err(Error::HoldLost { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_with_an_unconfirmed_hold_is_not_told_of_others() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let config = SessionConfig::default().with_timeout(Duration::from_secs(20));
    let session = Session::connect(&proxy.connect_string(), config).await.unwrap();
    let lock = RwLock::new(&session, "/locks/rw").unwrap();
    let owner = Owner::new();
    let held = lock.write_lock().acquire_as(&owner).await.unwrap();
    // The downgrade is not answered.
    proxy.swallow_replies();
    let within = Duration::from_millis(100);
    let downgraded = soon("the downgrade", lock.read_lock().acquire_within_as(&owner, within)).await;
    assert!(matches!(downgraded, Err(Error::NoAnswer { .. } | Error::Unconfirmed { .. })), "{downgraded:?}");
    // The hold itself is suspect.
    proxy.blackhole();
    until("the hold is suspect", async || held.state() == HoldState::Suspect).await;
    for wait in [Duration::ZERO, within] {
        let again = lock.write_lock().acquire_within_as(&owner, wait).await;
        assert!(matches!(again, Err(Error::NoAnswer { within, .. }) if within == wait), "{again:?}");
    }
    // Contention is a value still.
    let other = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    let lock = RwLock::new(&other, "/locks/rw").unwrap();
    assert!(lock.write_lock().acquire_within_as(&Owner::new(), within).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_whose_other_task_queues_is_told_of_others() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let mine = mutex(&session);
    let owner = Owner::new();
    let barrier = mutex(&other).acquire().await.unwrap();
    let waiting = tokio::spawn({
        let mine = mine.clone();
        let owner = owner.clone();
        async move { mine.acquire_as(&owner).await }
    });
    lab.until_children("/locks/mutex", 2).await;
    assert!(mine.acquire_within_as(&owner, Duration::from_millis(50)).await.unwrap().is_none());
    barrier.release().await.unwrap();
    soon("the grant", waiting).await.unwrap().unwrap().release().await.unwrap();
}
