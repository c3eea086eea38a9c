//! Sessions without any server: what they know, and how a user gives up.

use std::time::{Duration, Instant};

use futures_util::poll;
use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{AnyLock, ConnectionState, Error, HoldState, LostReason, Mutex, Session, SessionConfig};

use crate::support::{RECIPES, soon, until};

const PATH: &str = "/locks/a";
const TIMEOUT: Duration = Duration::from_secs(1);
/// The timeout of a session that must be back within it, however busy the machine is.
const PATIENT: Duration = Duration::from_secs(8);

async fn server() -> ZooKeeper {
    ZooKeeper::start(ZooKeeperConfig { tick_time: TIMEOUT / 2, ..ZooKeeperConfig::default() }).await.unwrap()
}

async fn session(server: &ZooKeeper, timeout: Duration) -> Session {
    Session::connect(&server.connect_string(), SessionConfig::default().with_timeout(timeout)).await.unwrap()
}

/// Waits until the session has been without a server for two session timeouts.
async fn until_away_for_long(session: &Session) {
    until("the session is taken for expired", async || session.state() == ConnectionState::Lost(LostReason::Silence))
        .await;
    let since = Instant::now();
    until("two session timeouts have passed", async || since.elapsed() > 2 * session.timeout()).await;
}

// L39
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_keeps_its_place_while_all_servers_are_away() {
    let mut server = server().await;
    let one = session(&server, PATIENT).await;
    let other = session(&server, PATIENT).await;
    let held = Mutex::new(&one, PATH).unwrap().acquire().await.unwrap();
    let queued = Mutex::new(&other, PATH).unwrap().enqueue().await.unwrap();
    let node = queued.node_path().to_owned();
    server.stop().await.unwrap();
    let mut granted = Box::pin(soon("the grant", queued.granted()));
    assert!(poll!(&mut granted).is_pending());
    until_away_for_long(&other).await;
    assert_eq!(held.state(), HoldState::Lost(LostReason::Silence));
    assert!(poll!(&mut granted).is_pending(), "nobody has said that the session has expired");
    assert!(!one.is_ended() && !other.is_ended());
    // It gives every session a whole timeout.
    server.start_again().await.unwrap();
    drop(held);
    let granted = granted.await.unwrap();
    assert_eq!(granted.node_path(), node, "the waiter has kept its place");
    granted.release().await.unwrap();
}

// L40
#[tokio::test(flavor = "multi_thread")]
async fn without_servers_a_user_can_give_up_at_any_time() {
    let server = server().await;
    let session = session(&server, TIMEOUT).await;
    let lock: AnyLock = RECIPES[1].lock(&session, PATH);
    let held = lock.acquire().await.unwrap();
    drop(server);
    until_away_for_long(&session).await;
    assert_eq!(held.state(), HoldState::Lost(LostReason::Silence));
    let acquired = soon("the deadline", lock.acquire_within(TIMEOUT)).await;
    assert!(matches!(acquired, Ok(None) | Err(Error::Unconfirmed { .. })), "{acquired:?}");
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    assert!(matches!(session.ping(TIMEOUT).await, Err(Error::NoAnswer { .. })));
    assert!(matches!(soon("the try", lock.try_acquire()).await, Err(Error::NoAnswer { .. })));
    let closed = soon("the close", session.close()).await;
    assert!(matches!(closed, Err(Error::NoAnswer { .. })), "{closed:?}");
    let waited = soon("the waiter", waiting).await.unwrap();
    assert!(matches!(waited, Err(Error::SessionEnded { reason: LostReason::Closed, .. })), "{waited:?}");
    assert!(session.is_ended());
    assert_eq!(session.ended().await, LostReason::Closed);
    assert!(matches!(lock.try_acquire().await, Err(Error::SessionEnded { .. })));
    assert!(matches!(session.ping(TIMEOUT).await, Err(Error::SessionEnded { .. })));
    assert!(matches!(held.release().await, Err(Error::HoldLost { .. })));
}

// L40
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_dropped_without_servers_ends() {
    let server = server().await;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let config = SessionConfig::default().with_timeout(TIMEOUT);
    let servers = server.connect_string();
    let session = runtime.spawn(async move { Session::connect(&servers, config).await.unwrap() }).await.unwrap();
    let held = Mutex::new(&session, PATH).unwrap().acquire().await.unwrap();
    drop(server);
    until_away_for_long(&session).await;
    // The reaper is to delete its node.
    drop(held);
    drop(session);
    until("all tasks of the session have ended", async || runtime.metrics().num_alive_tasks() == 0).await;
    runtime.shutdown_background();
}
