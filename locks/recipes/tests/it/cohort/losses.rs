//! Sessions that are silent, or end, under a cohort.

use std::time::Duration;

use futures_util::FutureExt;
use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, HoldState, LostReason, Session, SessionConfig};

use super::{LONG, arrived, cohort};
use crate::support::{Lab, soon, until};

/// Returns a session whose connection can be taken away.
pub(super) async fn line(timeout: Duration, tick_time: Duration) -> (ZooKeeper, Proxy, Session) {
    let server = ZooKeeper::start(ZooKeeperConfig { tick_time, ..ZooKeeperConfig::default() }).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let config = SessionConfig::default().with_timeout(timeout);
    let session = Session::connect(&proxy.connect_string(), config).await.unwrap();
    (server, proxy, session)
}

// L71
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_session_is_told_to_its_holder_and_all_waiters() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = cohort(&session);
    let held = lock.acquire().await.unwrap();
    let waiting: Vec<_> = (0..50).map(|_| arrived(&lock)).collect();
    let bounded = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire_within(LONG).await }
    });
    session.close().await.unwrap();
    assert_eq!(held.state(), HoldState::Lost(LostReason::Closed));
    for waiter in waiting {
        let told = soon("a waiter", waiter).await;
        assert!(matches!(told, Err(Error::SessionEnded { reason: LostReason::Closed, .. })), "{told:?}");
    }
    let told = soon("the waiter with a deadline", bounded).await.unwrap();
    assert!(matches!(told, Err(Error::SessionEnded { reason: LostReason::Closed, .. })), "{told:?}");
    for lock in [lock, cohort(&session)] {
        assert!(matches!(lock.acquire().await, Err(Error::SessionEnded { reason: LostReason::Closed, .. })));
        assert!(matches!(lock.try_acquire().await, Err(Error::SessionEnded { .. })));
    }
    assert!(matches!(held.release().await, Err(Error::HoldLost { reason: LostReason::Closed, .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_session_is_told_to_waiters_behind_a_local_holder() {
    let tick_time = Duration::from_millis(500);
    let (server, proxy, session) = line(Duration::from_secs(1), tick_time).await;
    let other = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    let lock = cohort(&session);
    let held = lock.acquire().await.unwrap();
    let waiting = arrived(&lock);
    proxy.blackhole();
    let next = soon("another process", cohort(&other).acquire()).await.unwrap();
    assert!(matches!(held.state(), HoldState::Lost(_)), "lost before another was granted");
    proxy.deliver();
    let told = soon("the waiter", waiting).await;
    assert!(matches!(told, Err(Error::SessionEnded { .. })), "{told:?}");
    assert!(held.token() < next.token());
    drop(held);
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_runtime_is_told_to_waiters_in_another() {
    let home = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let lab = Lab::open().await;
    let connect_string = lab.connect_string().to_owned();
    let connecting = async move { Session::connect(&connect_string, SessionConfig::default()).await };
    let session = home.spawn(connecting).await.unwrap().unwrap();
    let lock = cohort(&session);
    let held = lock.acquire().await.unwrap();
    let waiting = arrived(&lock);
    home.shutdown_background();
    let told = soon("the waiter", waiting).await;
    assert!(matches!(told, Err(Error::SessionEnded { reason: LostReason::RuntimeEnded, .. })), "{told:?}");
    assert!(matches!(held.release().await, Err(Error::HoldLost { .. })));
}

// L67
#[tokio::test(flavor = "multi_thread")]
async fn a_suspect_hold_is_handed_over_only_once_it_is_certain() {
    let (_server, proxy, session) = line(Duration::from_secs(20), Duration::from_secs(2)).await;
    let lock = cohort(&session).with_max_tenure(LONG);
    let held = lock.acquire().await.unwrap();
    let mut hurried = Box::pin(lock.acquire_within(Duration::from_millis(300)));
    assert!((&mut hurried).now_or_never().is_none());
    let mut waiting = arrived(&lock);
    let node = held.node_path().to_owned();
    proxy.refuse();
    proxy.cut();
    until("the hold is suspect", async || held.state() == HoldState::Suspect).await;
    held.release().now_or_never().expect("there is nothing to wait for").unwrap();
    assert!((&mut waiting).now_or_never().is_none(), "it may be lost yet");
    assert!(soon("the deadline", hurried).await.unwrap().is_none());
    assert!((&mut waiting).now_or_never().is_none());
    proxy.accept();
    let held = soon("the connection", waiting).await.unwrap();
    assert_eq!((held.node_path(), held.token().handover(), held.state()), (node.as_str(), 1, HoldState::Held));
    held.release().await.unwrap();
}

// L67
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_hold_is_told_at_its_release_and_not_handed_over() {
    let (server, proxy, session) = line(Duration::from_secs(2), Duration::from_millis(500)).await;
    let lock = cohort(&session).with_max_tenure(LONG);
    let held = lock.acquire().await.unwrap();
    let lost = held.token();
    let waiting = tokio::spawn(arrived(&lock));
    proxy.blackhole();
    assert_eq!(soon("the loss", held.lost()).await, LostReason::Silence);
    proxy.deliver();
    let released = soon("the release", held.release()).await;
    assert!(matches!(released, Err(Error::HoldLost { .. })), "{released:?}");
    // Whether the session has survived depends on when the line came back.
    match soon("the next", waiting).await.unwrap() {
        Ok(held) => {
            assert_eq!(held.token().handover(), 0, "it was granted anew");
            assert!(lost < held.token());
            held.release().await.unwrap();
        }
        Err(error) => assert!(matches!(error, Error::SessionEnded { .. }), "{error:?}"),
    }
    let fresh = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    let held = soon("a fresh session", cohort(&fresh).acquire()).await.unwrap();
    assert!(lost < held.token());
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_is_lost_on_its_way_to_the_next_is_not_taken() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = cohort(&session).with_max_tenure(LONG);
    let held = lock.acquire().await.unwrap();
    let waiting = arrived(&lock);
    // Handed over, and nobody has looked yet.
    held.release().await.unwrap();
    session.close().await.unwrap();
    let told = soon("the waiter", waiting).await;
    assert!(matches!(told, Err(Error::SessionEnded { reason: LostReason::Closed, .. })), "{told:?}");
}
