//! Places in a queue: waiting that is cancelled and goes on, and the confirmed way out.

use std::time::Duration;

use zk_recipes::{Error, HoldState, Mutex, Session};

use crate::support::{Lab, soon};

const PATH: &str = "/locks/mutex";

fn mutex(session: &Session) -> Mutex {
    Mutex::new(session, PATH).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_of_a_waiter_is_gone_once_its_withdrawal_returns() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let barrier = mutex(&other).acquire().await.unwrap();
    let waiter = mutex(&session).enqueue().await.unwrap();
    assert_eq!(waiter.path(), PATH);
    assert_eq!(waiter.revocation().node_path(), waiter.node_path());
    assert_eq!(lab.children(PATH).await.len(), 2);
    waiter.withdraw().await.unwrap();
    assert_eq!(lab.children(PATH).await.len(), 1);
    // Of a waiter that was granted, too.
    let mut next = mutex(&session).enqueue().await.unwrap();
    barrier.release().await.unwrap();
    soon("the grant", next.wait()).await;
    assert!(mutex(&other).try_acquire().await.unwrap().is_none(), "it holds");
    next.withdraw().await.unwrap();
    assert_eq!(lab.children(PATH).await, Vec::<String>::new());
    // Of one whose session has ended.
    let waiter = mutex(&session).enqueue().await.unwrap();
    session.close().await.unwrap();
    let withdrawn = waiter.withdraw().await;
    assert!(matches!(withdrawn, Ok(()) | Err(Error::SessionEnded { .. })), "{withdrawn:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_dropped_keeps_the_place_and_goes_on() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let barrier = mutex(&other).acquire().await.unwrap();
    let mut waiter = mutex(&session).enqueue().await.unwrap();
    let behind = mutex(&other).enqueue().await.unwrap();
    let node = waiter.node_path().to_owned();
    for _ in 0..5 {
        let waited = tokio::time::timeout(Duration::from_millis(50), waiter.wait()).await;
        assert!(waited.is_err(), "somebody is ahead");
    }
    barrier.release().await.unwrap();
    soon("the grant", waiter.wait()).await;
    soon("the same grant", waiter.wait()).await;
    let held = waiter.granted_within(Duration::ZERO).await.unwrap().expect("it was granted");
    assert_eq!((held.node_path(), held.path(), held.state()), (node.as_str(), PATH, HoldState::Held));
    held.release().await.unwrap();
    // A grant that nobody takes is given back.
    let mut waiter = mutex(&session).enqueue().await.unwrap();
    soon("the next grant", behind.granted()).await.unwrap().release().await.unwrap();
    soon("the last grant", waiter.wait()).await;
    drop(waiter);
    lab.until_children(PATH, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_wait_is_continued_by_the_wait_for_the_guard() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let barrier = mutex(&other).acquire().await.unwrap();
    let mut waiter = mutex(&session).enqueue().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(50), waiter.wait()).await.is_err());
    let granting = tokio::spawn(waiter.granted());
    barrier.release().await.unwrap();
    soon("the grant", granting).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_when_the_lock_can_no_longer_be_granted() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let barrier = mutex(&other).acquire().await.unwrap();
    let mut waiter = mutex(&session).enqueue().await.unwrap();
    lab.raw.delete(waiter.node_path(), None).await.unwrap();
    // The release wakes nobody whose node is gone, so the waiter looks because the node ahead goes.
    let waiting = tokio::spawn(async move {
        waiter.wait().await;
        waiter
    });
    barrier.release().await.unwrap();
    let mut waiter = soon("the outcome", waiting).await.unwrap();
    soon("the same outcome", waiter.wait()).await;
    let granted = waiter.granted().await;
    assert!(matches!(granted, Err(Error::NodeDeleted { .. })), "{granted:?}");
}
