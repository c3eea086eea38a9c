//! Owners: who holds, where a task is not a thread.

use std::time::Duration;

use zk_recipes::{Error, HoldState, Mutex, Owner, Session};

use crate::support::{Lab, soon};

fn mutex(session: &Session) -> Mutex {
    Mutex::new(session, "/locks/mutex").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_holds_a_lock_has_it_again_without_a_request_and_with_the_same_token() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let (mutex, owner) = (mutex(&session), Owner::new());
    let mut held = vec![mutex.acquire_as(&owner).await.unwrap()];
    let before = session.traffic().requests;
    held.push(mutex.try_acquire_as(&owner).await.unwrap().expect("it holds"));
    held.push(mutex.acquire_within_as(&owner.clone(), Duration::ZERO).await.unwrap().expect("it holds"));
    assert_eq!(session.traffic().requests, before);
    assert!(held.iter().all(|guard| guard.token() == held[0].token() && guard.path() == held[0].path()));
    // Held until the last guard goes, whichever that is.
    for guard in held.drain(..2) {
        guard.release().await.unwrap();
        assert!(mutex.try_acquire().await.unwrap().is_none(), "still held");
    }
    held.pop().unwrap().release().await.unwrap();
    mutex.try_acquire().await.unwrap().expect("free").release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_owner_waits_however_deep_the_hold_is() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let (mutex, owner, other) = (mutex(&session), Owner::new(), Owner::new());
    let outer = mutex.acquire_as(&owner).await.unwrap();
    let inner = mutex.acquire_as(&owner).await.unwrap();
    assert!(mutex.acquire_within_as(&other, Duration::from_millis(200)).await.unwrap().is_none());
    drop(outer);
    assert!(mutex.try_acquire_as(&other).await.unwrap().is_none());
    drop(inner);
    soon("the other owner", mutex.acquire_as(&other)).await.unwrap().release().await.unwrap();
}

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

#[tokio::test(flavor = "multi_thread")]
async fn two_tasks_of_one_owner_that_acquire_together_share_one_hold() {
    let lab = Lab::open().await;
    let (session, other) = (lab.session().await, lab.session().await);
    let (mine, owner) = (mutex(&session), Owner::new());
    let barrier = mutex(&other).acquire().await.unwrap();
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let (mine, owner) = (mine.clone(), owner.clone());
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

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_does_not_enter_by_a_hold_that_was_lost() {
    let lab = Lab::open().await;
    let (session, other) = (lab.session().await, lab.session().await);
    let (mine, owner) = (mutex(&session), Owner::new());
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
async fn a_guard_of_a_lost_hold_says_so_at_its_release_even_if_it_is_not_the_last() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let (mutex, owner) = (mutex(&session), Owner::new());
    let (outer, inner) = (mutex.acquire_as(&owner).await.unwrap(), mutex.acquire_as(&owner).await.unwrap());
    session.close().await.unwrap();
    assert!(matches!(inner.release().await, Err(Error::HoldLost { .. })));
    assert!(matches!(outer.release().await, Err(Error::HoldLost { .. })));
}
