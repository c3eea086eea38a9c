//! The ends of a hold that lingers: its lock object, its session, its connection or its node is gone.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join;
use futures_util::poll;
use zk_recipes::{Error, LostReason, Mutex, NaiveLock, Session, SessionConfig};

use super::linger::{leave_lingering, own_server, watches};
use super::losses::line;
use super::{LONG, PATH, WAYS, arrived, cohort};
use crate::support::{Lab, soon, until};

// L77
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_lingering_hold_once_its_users_are_gone() {
    for is_closed in [true, false] {
        let (server, session) = own_server().await;
        let other = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
        let lock = cohort(&session).with_linger(LONG);
        leave_lingering(&lock).await;
        assert_eq!(watches(&server).await, 2, "of the queue and of the node");
        if is_closed {
            session.close().await.unwrap();
            assert!(matches!(lock.acquire().await, Err(Error::SessionEnded { reason: LostReason::Closed, .. })));
            assert!(matches!(lock.try_acquire().await, Err(Error::SessionEnded { .. })));
        }
        drop((lock, session));
        until("the watch is gone", async || watches(&server).await == 0).await;
        let rival = Mutex::new(&other, PATH).unwrap();
        until("the node is gone", async || rival.participants().await.unwrap().is_empty()).await;
    }
}

/// A session never watches a node and its children by two watches. A queue that is used again and again would watch its node.
// L10
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_lingers_costs_two_watches_each_time() {
    for way in WAYS {
        let (server, session) = own_server().await;
        let plain = Mutex::new(&session, PATH).unwrap();
        for _ in 0..5 {
            plain.acquire().await.unwrap().release().await.unwrap();
        }
        let lock = way(&session).with_linger(LONG);
        for _ in 0..4 {
            leave_lingering(&lock).await;
            let held = lock.try_acquire().await.unwrap().expect("it lingers");
            assert_eq!((held.token().handover(), watches(&server).await), (1, 2), "of the queue and of the node");
            // It does not linger again.
            drop(held);
            until("the watches are gone", async || watches(&server).await == 0).await;
        }
    }
}

// L11
#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_used_for_two_things_has_watches_of_one_kind() {
    let (server, session) = own_server().await;
    let lock = cohort(&session).with_linger(LONG);
    let naive = NaiveLock::new(&session, PATH).unwrap();
    leave_lingering(&lock).await;
    let refused = naive.acquire().await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    let held = lock.try_acquire().await.unwrap().expect("it lingers");
    drop(held);
    until("the watches are gone", async || watches(&server).await == 0).await;
    let mut waiting = Box::pin(naive.acquire());
    until("it watches the node", async || {
        assert!(poll!(&mut waiting).is_pending());
        watches(&server).await == 1
    })
    .await;
    leave_lingering(&lock).await;
    assert_eq!(lock.participants().await.unwrap(), [], "it lingers");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_whose_guard_outlives_its_lock_does_not_linger() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let held = cohort(&session).with_linger(LONG).acquire().await.unwrap();
    held.release().await.unwrap();
    lab.until_children(PATH, 0).await;
}

// L76
#[tokio::test(flavor = "multi_thread")]
async fn a_lingering_hold_whose_node_is_deleted_is_not_taken_again() {
    for way in WAYS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let lock = way(&session).with_linger(LONG);
        let held = lock.acquire().await.unwrap();
        let node = held.node_path().to_owned();
        held.release().await.unwrap();
        let before = session.traffic();
        lab.raw.delete(&node, None).await.unwrap();
        // The reaper asks for the deletion, and finds nothing.
        until("the hold is given up", async || session.traffic().since(before).requests > 0).await;
        let rival = Mutex::new(&other, PATH).unwrap().acquire().await.unwrap();
        let mut next = arrived(&lock);
        lab.until_children(PATH, 2).await;
        assert!((&mut next).now_or_never().is_none());
        rival.release().await.unwrap();
        let held = soon("the lock", next).await.unwrap();
        assert_eq!(held.token().handover(), 0);
        held.release().await.unwrap();
    }
}

// L76
#[tokio::test(flavor = "multi_thread")]
async fn a_lingering_hold_whose_lock_is_deleted_is_not_taken_again() {
    for way in WAYS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let lock = way(&session).with_linger(LONG);
        let held = lock.acquire().await.unwrap();
        let node = held.node_path().to_owned();
        held.release().await.unwrap();
        let before = session.traffic();
        lab.raw.delete(&node, None).await.unwrap();
        lab.raw.delete(PATH, None).await.unwrap();
        until("the hold is given up", async || session.traffic().since(before).requests > 0).await;
        let rival = Mutex::new(&other, PATH).unwrap().acquire().await.unwrap();
        let mut next = arrived(&lock);
        lab.until_children(PATH, 2).await;
        assert!((&mut next).now_or_never().is_none());
        rival.release().await.unwrap();
        let held = soon("the lock", next).await.unwrap();
        assert_eq!(held.token().handover(), 0);
        held.release().await.unwrap();
    }
}

// L73
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_mutex_of_the_same_session_ends_the_lingering() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = cohort(&session).with_linger(LONG);
    let mutex = Mutex::new(&session, PATH).unwrap();
    for _ in 0..3 {
        leave_lingering(&lock).await;
        assert!(mutex.try_acquire().await.unwrap().is_none());
        let held = soon("the mutex", mutex.acquire()).await.unwrap();
        let mut next = arrived(&lock);
        assert!((&mut next).now_or_never().is_none());
        held.release().await.unwrap();
        let held = soon("the cohort", next).await.unwrap();
        assert_eq!(held.token().handover(), 0);
        held.release().await.unwrap();
    }
}

// L77
#[tokio::test(flavor = "multi_thread")]
async fn a_session_closed_during_the_first_look_leaves_nothing() {
    for way in WAYS {
        let (server, session) = own_server().await;
        let lock = way(&session).with_linger(LONG);
        let held = lock.acquire().await.unwrap();
        let mut releasing = Box::pin(held.release());
        assert!((&mut releasing).now_or_never().is_none(), "it looks");
        let (closed, released) = soon("the end", join(session.close(), releasing)).await;
        closed.unwrap();
        assert!(matches!(released, Err(Error::HoldLost { reason: LostReason::Closed, .. })), "{released:?}");
        assert!(matches!(lock.try_acquire().await, Err(Error::SessionEnded { .. })));
        until("the watch is gone", async || watches(&server).await == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_before_lingering_reports_a_deleted_node() {
    for way in WAYS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let lock = way(&session).with_linger(LONG);
        let held = lock.acquire().await.unwrap();
        lab.raw.delete(held.node_path(), None).await.unwrap();
        let released = held.release().await;
        assert!(matches!(released, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. })), "{released:?}");
        let held = soon("the next hold", lock.acquire()).await.unwrap();
        assert_eq!(held.token().handover(), 0);
        held.release().await.unwrap();
    }
}

// L76
#[tokio::test(flavor = "multi_thread")]
async fn a_lingering_hold_whose_session_expires_goes_to_nobody() {
    let (server, proxy, session) = line(Duration::from_secs(1), Duration::from_millis(500)).await;
    let other = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    let lock = cohort(&session).with_linger(LONG);
    leave_lingering(&lock).await;
    proxy.blackhole();
    let rival = soon("a rival", cohort(&other).acquire()).await.unwrap();
    let mut next = arrived(&lock);
    proxy.deliver();
    let told = soon("the end of the session", &mut next).await;
    assert!(matches!(told, Err(Error::SessionEnded { .. })), "{told:?}");
    rival.release().await.unwrap();
}

// L76
#[tokio::test(flavor = "multi_thread")]
async fn a_lingering_hold_that_silence_loses_goes_to_nobody() {
    let (_server, proxy, session) = line(Duration::from_secs(2), Duration::from_millis(500)).await;
    let lock = cohort(&session).with_linger(LONG);
    leave_lingering(&lock).await;
    let probe = Mutex::new(&session, "/locks/probe").unwrap().acquire().await.unwrap();
    proxy.blackhole();
    assert_eq!(soon("the loss", probe.lost()).await, LostReason::Silence);
    let next = tokio::spawn(arrived(&lock));
    proxy.deliver();
    // Whether the session has survived depends on when the line came back.
    match soon("the next", next).await.unwrap() {
        Ok(held) => assert_eq!(held.token().handover(), 0, "it was granted anew"),
        Err(error) => assert!(matches!(error, Error::SessionEnded { .. }), "{error:?}"),
    }
}

// L77
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_whose_connection_ends_while_it_lingers_is_given_up() {
    let (server, proxy, session) = line(Duration::from_secs(20), Duration::from_secs(2)).await;
    let other = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    let lock = cohort(&session).with_linger(LONG);
    leave_lingering(&lock).await;
    proxy.cut();
    let rival = Mutex::new(&other, PATH).unwrap();
    until("the node is gone", async || rival.participants().await.unwrap().is_empty()).await;
    let held = soon("the lock", lock.acquire()).await.unwrap();
    assert_eq!(held.token().handover(), 0);
    held.release().await.unwrap();
}
