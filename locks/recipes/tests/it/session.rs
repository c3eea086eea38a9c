//! Sessions: connecting, states, and what a hold learns of them.

mod away;
mod paths;
mod reconnects;
mod replaced;
mod runtime;
mod unreachable;

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FusedStream;
use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{ConnectionState, Error, HoldState, LostReason, Mutex, Session, SessionConfig};

use crate::support::{Lab, RECIPES, soon, until};

fn quick_server() -> ZooKeeperConfig {
    ZooKeeperConfig { tick_time: Duration::from_millis(500), ..ZooKeeperConfig::default() }
}

fn quick_session() -> SessionConfig {
    SessionConfig::default().with_timeout(Duration::from_secs(2))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_named_after_the_time_given() {
    let config = SessionConfig::default().with_connect_within(Duration::from_millis(400));
    let asked = Instant::now();
    let error = Session::connect("127.0.0.1:1", config).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }));
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    assert!(asked.elapsed() >= Duration::from_millis(400));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_connect_string_fails_at_once() {
    for malformed in ["", "127.0.0.1:99999", "127.0.0.1:0", ":2181", "127.0.0.1:2181,", "127.0.0.1:2181/shop/"] {
        let asked = Instant::now();
        let error = Session::connect(malformed, SessionConfig::default()).await.unwrap_err();
        assert!(matches!(error, Error::InvalidConnectString { .. }), "{malformed:?}: {error:?}");
        assert!(error.to_string().contains(&format!("{malformed:?}")), "{error}");
        assert!(asked.elapsed() < SessionConfig::default().connect_within);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chroot_that_does_not_exist_is_named_at_once() {
    let lab = Lab::open().await;
    let nowhere = format!("{}/nowhere", lab.connect_string());
    let error = soon("the answer", Session::connect(&nowhere, SessionConfig::default())).await.unwrap_err();
    let Error::NoChroot { chroot, .. } = &error else { panic!("{error:?}") };
    assert!(nowhere.ends_with(chroot.as_str()) && chroot.ends_with("/nowhere"), "{chroot}");
    assert!(error.to_string().contains(chroot.as_str()), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_closes_at_once_despite_a_new_watch_of_a_hold() {
    let lab = Lab::open().await;
    for _ in 0..20 {
        let session = lab.session().await;
        let mutex = Mutex::new(&session, "/watched").unwrap();
        mutex.acquire().await.unwrap().release().await.unwrap();
        let _held = mutex.acquire().await.unwrap();
        session.close().await.unwrap();
    }
    assert_eq!(lab.children("/watched").await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_connects_to_a_server_that_starts_late() {
    let server = ZooKeeper::start(quick_server()).await.unwrap();
    let connect_string = server.connect_string();
    server.pause().unwrap();
    let connecting = tokio::spawn(async move { Session::connect(&connect_string, quick_session()).await });
    server.resume().unwrap();
    soon("the session", connecting).await.unwrap().unwrap().ping(Duration::from_secs(10)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_reckons_with_the_timeout_that_it_was_granted() {
    let server = ZooKeeper::start(quick_server()).await.unwrap();
    let longest = Duration::from_secs(600);
    let config = SessionConfig::default().with_timeout(longest * 4);
    let session = Session::connect(&server.connect_string(), config).await.unwrap();
    assert_eq!(session.timeout(), longest, "the testbed's longest session timeout");
    // The first connection, made for the longer timeout, was given up for one that notices a silence sooner.
    until("one session is left", async || server.metric("zk_num_alive_connections").await.unwrap() == 1 + 1).await;
    session.ping(Duration::from_secs(10)).await.unwrap();
}

// L36
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_makes_holds_suspect_and_lost_in_time() {
    let server = ZooKeeper::start(quick_server()).await.unwrap();
    // A hold is suspect for seconds, which a busy machine does not sleep through.
    let config = SessionConfig::default().with_timeout(Duration::from_secs(12));
    let mut holds = Vec::new();
    for recipe in RECIPES {
        let session = Session::connect(&server.connect_string(), config.clone()).await.unwrap();
        let held = recipe.lock(&session, recipe.path()).acquire().await.unwrap();
        assert_eq!(held.state(), HoldState::Held);
        holds.push((recipe, session, held));
    }
    // The server has heard of us at the latest now.
    server.pause().unwrap();
    let frozen = Instant::now();
    let lost = holds.iter().map(async |(recipe, session, held)| {
        assert_eq!(soon("the suspension", session.states().changed()).await, Some(ConnectionState::Suspended));
        assert_eq!(held.state(), HoldState::Suspect);
        let stopped = soon("the loss", held.run(std::future::pending::<()>())).await;
        assert!(matches!(stopped, Err(Error::HoldLost { reason: LostReason::Silence, .. })), "{recipe:?}: {stopped:?}");
        assert!(frozen.elapsed() <= session.timeout(), "{recipe:?}: lost only after {:?}", frozen.elapsed());
    });
    futures_util::future::join_all(lost).await;
    server.resume().unwrap();
    // Whether the sessions survived or not, no hold turns back, and each says so at the release.
    for (.., held) in holds {
        assert!(matches!(soon("the release", held.release()).await, Err(Error::HoldLost { .. })));
    }
}

// L36
#[tokio::test]
async fn a_task_that_blocks_its_thread_finds_its_hold_lost_at_once() {
    let server = ZooKeeper::start(quick_server()).await.unwrap();
    let session = Session::connect(&server.connect_string(), quick_session()).await.unwrap();
    let held = RECIPES[1].lock(&session, "/locks/a").acquire().await.unwrap();
    // Nothing else runs meanwhile on this runtime of one thread: no ping is sent, nothing is received.
    let blocked = Instant::now();
    while blocked.elapsed() < session.timeout() {
        std::hint::spin_loop();
    }
    assert_eq!(held.state(), HoldState::Lost(LostReason::Silence));
    let mut steps = 0;
    let ran = held.run(async { steps += 1 }).await;
    assert!(matches!(ran, Err(Error::HoldLost { reason: LostReason::Silence, .. })), "{ran:?}");
    assert_eq!(steps, 0, "a lost hold lets the section take no step");
}

// L36
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_knows_of_a_closed_session_before_the_server_answers() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let session = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    let held = RECIPES[1].lock(&session, "/locks/a").acquire().await.unwrap();
    server.pause().unwrap();
    let closing = tokio::spawn(async move { session.close().await });
    assert_eq!(soon("the loss", held.lost()).await, LostReason::Closed);
    assert!(!closing.is_finished());
    server.resume().unwrap();
    soon("the confirmation", closing).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_freeze_leaves_the_hold_held() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let config = SessionConfig::default().with_timeout(Duration::from_secs(8));
    let session = Session::connect(&server.connect_string(), config).await.unwrap();
    let held = RECIPES[1].lock(&session, "/locks/a").acquire().await.unwrap();
    let mut states = session.states();
    server.pause().unwrap();
    assert_eq!(soon("the suspension", states.changed()).await, Some(ConnectionState::Suspended));
    server.resume().unwrap();
    assert_eq!(soon("the reconnection", states.changed()).await, Some(ConnectionState::Connected));
    assert_eq!(held.state(), HoldState::Held);
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_a_session_deletes_its_nodes_despite_open_guards() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let held = RECIPES[1].lock(&session, "/locks/a").acquire().await.unwrap();
    assert_eq!(lab.children("/locks/a").await.len(), 1);
    let mut states = session.states();
    assert_eq!(states.current(), ConnectionState::Connected);
    let mut stream = session.states().into_stream();
    session.close().await.unwrap();
    assert_eq!(lab.children("/locks/a").await.len(), 0);
    assert_eq!(states.changed().await, Some(ConnectionState::Lost(LostReason::Closed)));
    assert_eq!(states.changed().await, None);
    // The first item is the first change. The stream may be polled after its end, as `select!` in a loop does.
    assert_eq!(stream.next().await, Some(ConnectionState::Lost(LostReason::Closed)));
    assert!(!stream.is_terminated());
    for _ in 0..3 {
        assert_eq!(stream.next().await, None);
        assert!(stream.is_terminated());
    }
    assert!(session.is_ended());
    session.close().await.expect("closing again is harmless");
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_last_clone_closes_the_session() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let held = RECIPES[1].lock(&session, "/locks/a").acquire().await.unwrap();
    drop(session);
    assert_eq!(lab.children("/locks/a").await.len(), 1, "a guard keeps its session open");
    drop(held);
    lab.until_children("/locks/a", 0).await;
}

// L36
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_only_reads_asks_for_signs_of_life() {
    let server = ZooKeeper::start(quick_server()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let session = Session::connect(&proxy.connect_string(), quick_session()).await.unwrap();
    let lock = RECIPES[1].lock(&session, "/locks/a");
    let held = lock.acquire().await.unwrap();
    let uncounted = || proxy.bytes_to_server() - session.traffic().bytes_sent;
    let before = uncounted();
    // Too often for the client library to send pings of its own.
    until("it has asked", async || {
        assert!(lock.try_acquire().await.unwrap().is_none());
        uncounted() > before
    })
    .await;
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_the_end_of_a_session_is_told_the_reason() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let waiting = tokio::spawn({
        let session = session.clone();
        async move { session.ended().await }
    });
    session.clone().close().await.unwrap();
    assert_eq!(soon("the end", waiting).await.unwrap(), LostReason::Closed);
    assert_eq!(session.ended().await, LostReason::Closed, "it is final");
}
