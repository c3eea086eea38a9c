//! Servers, and proxies before them, that open another session when a session connects again.

// L41

use std::time::Duration;

use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, HoldState, LostReason, Mutex, Session, SessionConfig};

use crate::support::{soon, until};

const PATH: &str = "/locks/a";

/// A session behind a proxy. At its next reconnect the proxy asks the server for another session.
struct ReplacedSession {
    server: ZooKeeper,
    proxy: Proxy,
    session: Session,
    /// Another session, beside the proxy.
    other: Session,
}

impl ReplacedSession {
    async fn open(timeout: Duration) -> Self {
        let tick_time = Duration::from_millis(500);
        let server = ZooKeeper::start(ZooKeeperConfig { tick_time, ..ZooKeeperConfig::default() }).await.unwrap();
        let proxy = Proxy::start(&server.connect_string()).await.unwrap();
        let config = SessionConfig::default().with_timeout(timeout);
        let session = Session::connect(&proxy.connect_string(), config.clone()).await.unwrap();
        let other = Session::connect(&server.connect_string(), config).await.unwrap();
        Self { server, proxy, session, other }
    }

    fn replace_the_session(&self) {
        self.proxy.replace_sessions();
        self.proxy.cut();
    }

    async fn sessions(&self) -> u64 {
        self.server.metric("zk_global_sessions").await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_lost_when_its_session_is_replaced() {
    let lab = ReplacedSession::open(Duration::from_secs(2)).await;
    let held = Mutex::new(&lab.session, PATH).unwrap().acquire().await.unwrap();
    let queued = Mutex::new(&lab.other, PATH).unwrap().enqueue().await.unwrap();
    lab.replace_the_session();
    let next = soon("the next holder", queued.granted()).await.unwrap();
    assert!(matches!(held.state(), HoldState::Lost(_)), "two hold: the first is {}", held.state());
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_replaced_has_expired() {
    // So long that nothing else ends the session in this test.
    let lab = ReplacedSession::open(Duration::from_secs(600)).await;
    let taken = Mutex::new(&lab.other, PATH).unwrap().acquire().await.unwrap();
    let held = Mutex::new(&lab.session, "/locks/b").unwrap().acquire().await.unwrap();
    let queued = Mutex::new(&lab.session, PATH).unwrap().enqueue().await.unwrap();
    let before = lab.sessions().await;
    lab.replace_the_session();
    assert_eq!(soon("the loss", held.lost()).await, LostReason::Expired);
    let waited = soon("the end of the wait", queued.granted()).await;
    assert!(matches!(waited, Err(Error::SessionEnded { reason: LostReason::Expired, .. })), "{waited:?}");
    assert_eq!(lab.session.ended().await, LostReason::Expired);
    until("the session in its place is closed", async || lab.sessions().await == before).await;
    taken.release().await.unwrap();
}
