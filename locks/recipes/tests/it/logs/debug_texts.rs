//! The `Debug` texts of locks and guards.

use std::fmt::Debug;

use zk_recipes::{
    CohortMutex, HandoffMutex, MultiLock, Mutex, NaiveLock, Owner, RwLock, Semaphore, SemaphoreMutex, SharedCount,
};

use crate::support::Lab;

fn text(value: &impl Debug) -> String {
    format!("{value:?}")
}

#[tokio::test]
async fn a_lock_shows_its_path_and_the_length_of_its_node_data() {
    let session = Lab::open().await.session().await;
    let path = "/logs/a";
    let mutex = Mutex::new(&session, path).unwrap().with_node_data("by hand").unwrap();
    assert_eq!(text(&mutex), "Mutex { path: \"/logs/a\", node_data: 7 bytes, .. }");
    let cohort = CohortMutex::from(mutex);
    assert_eq!(text(&cohort), "CohortMutex { path: \"/logs/a\", node_data: 7 bytes, .. }");
    let handoff = HandoffMutex::new(&session, path).unwrap().with_node_data("by hand").unwrap();
    assert_eq!(text(&handoff), "HandoffMutex { path: \"/logs/a\", node_data: 7 bytes, .. }");
    let lock = RwLock::new(&session, path).unwrap().with_node_data("by hand").unwrap();
    assert_eq!(text(&lock), "RwLock { path: \"/logs/a\", node_data: 7 bytes, .. }");
    assert_eq!(text(&lock.read_lock()), "ReadLock { path: \"/logs/a\", node_data: 7 bytes, .. }");
    assert_eq!(text(&lock.write_lock()), "WriteLock { path: \"/logs/a\", node_data: 7 bytes, .. }");
    let semaphore = Semaphore::new(&session, path, 3).unwrap();
    assert_eq!(text(&semaphore), "Semaphore { path: \"/logs/a\", permits: Fixed(3), node_data: 0 bytes, .. }");
    let count = SharedCount::new(&session, "/logs/count", 3).unwrap();
    assert_eq!(text(&count), "SharedCount { path: \"/logs/count\", .. }");
    let semaphore = Semaphore::from_count(&session, path, &count).unwrap();
    assert!(text(&semaphore).contains("permits: Counted(SharedCount { path: \"/logs/count\", .. })"));
    let mutex = SemaphoreMutex::new(&session, path).unwrap();
    assert_eq!(text(&mutex), "SemaphoreMutex { path: \"/logs/a\", permits: Fixed(1), node_data: 0 bytes, .. }");
    assert_eq!(text(&NaiveLock::new(&session, path).unwrap()), "NaiveLock { path: \"/logs/a\", .. }");
    let locks = MultiLock::from_paths(&session, ["/logs/a", "/logs/b"]).unwrap();
    assert_eq!(text(&locks), "MultiLock { paths: [\"/logs/a\", \"/logs/b\"], .. }");
}

#[tokio::test]
async fn guards_and_waiters_show_their_node_and_token_only() {
    let session = Lab::open().await.session().await;
    let other = Mutex::new(&session, "/logs/other").unwrap();
    let owner = Owner::new();
    let other_held = other.acquire_as(&owner).await.unwrap();
    let mutex = Mutex::new(&session, "/logs/a").unwrap();
    let held = mutex.acquire().await.unwrap();
    let node = held.node_path();
    let token = held.token();
    assert_eq!(text(&held), format!("LockGuard {{ node: {node:?}, token: {token}, state: Held, .. }}"));
    let waiter = mutex.enqueue().await.unwrap();
    let node = waiter.node_path();
    let token = waiter.token();
    assert_eq!(text(&waiter), format!("Waiter {{ node: {node:?}, token: {token}, .. }}"));
    assert_eq!(text(&owner), "Owner { locks: 1, .. }");
    assert_eq!(text(&session), format!("Session {{ id: {:#x}, state: Connected, .. }}", session.id()));
    assert_eq!(text(&session.states()), "ConnectionStates { current: Connected, .. }");
    drop((waiter, held, other_held));
}
