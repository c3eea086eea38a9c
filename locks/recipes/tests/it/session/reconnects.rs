//! Sessions that connect again. `make reconnects` measures which round trips a hold survives meanwhile.

use std::time::Duration;

use futures_util::future::join_all;
use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{ConnectionState, HoldState, LockGuard, LostReason, Mutex, Session, SessionConfig};

use crate::support::{soon, until};

const PATH: &str = "/locks/a";

/// A hold of a session, whose connection is cut over slow links.
struct Cut {
    server: ZooKeeper,
    _links: Vec<Proxy>,
    session: Session,
    held: LockGuard,
}

/// Acquires a lock over links to `links` servers, and cuts the connection.
async fn cut(links: usize, timeout: Duration, round_trip: Duration) -> Cut {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let address = server.connect_string();
    let links: Vec<Proxy> = join_all((0..links).map(async |_| Proxy::start(&address).await.unwrap())).await;
    let servers = links.iter().map(Proxy::connect_string).collect::<Vec<_>>().join(",");
    let config = SessionConfig::default().with_timeout(timeout);
    let session = Session::connect(&servers, config).await.unwrap();
    let held = Mutex::new(&session, PATH).unwrap().acquire().await.unwrap();
    let received = || links.iter().map(Proxy::bytes_from_server).sum::<u64>();
    links.iter().for_each(|link| link.delay(round_trip / 2));
    let before = received();
    until("answers have come over the slow links", async || received() > before + 200).await;
    links.iter().for_each(Proxy::cut);
    Cut { server, _links: links, session, held }
}

// L42
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_survives_a_reconnect_over_slow_links() {
    // Most of the time that the hold survives is left for a busy machine.
    let timeout = Duration::from_secs(20);
    let reconnects = [1, 3].map(async |links| {
        let Cut { server: _server, _links, session, held } = cut(links, timeout, timeout / 25).await;
        let mut states = session.states();
        soon("the cut", async {
            while states.current() == ConnectionState::Connected {
                states.changed().await;
            }
        })
        .await;
        assert_eq!(soon("the reconnect", states.changed()).await, Some(ConnectionState::Connected), "{links} servers");
        assert_eq!(held.state(), HoldState::Held, "{links} servers");
        soon("the release", held.release()).await.unwrap();
    });
    join_all(reconnects).await;
}

// L42
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_lost_if_a_reconnect_takes_too_long() {
    let timeout = Duration::from_secs(8);
    let Cut { server, _links, session, held } = cut(3, timeout, timeout / 10).await;
    let other = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    let queued = Mutex::new(&other, PATH).unwrap().enqueue().await.unwrap();
    let mut granted = Box::pin(queued.granted());
    tokio::select! {
        biased;
        reason = soon("the loss", held.lost()) => assert_eq!(reason, LostReason::Silence),
        _ = &mut granted => panic!("two hold"),
    }
    drop((held, session));
    soon("the next holder", granted).await.unwrap().release().await.unwrap();
}

// L44
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_always_fails_does_not_keep_out_a_slow_one() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let links =
        [Proxy::start(&server.connect_string()).await.unwrap(), Proxy::start(&server.connect_string()).await.unwrap()];
    let timeout = Duration::from_secs(12);
    let config = SessionConfig::default().with_timeout(timeout);
    let servers = links.each_ref().map(Proxy::connect_string).join(",");
    let session = Session::connect(&servers, config).await.unwrap();
    // To connect and to ask takes two round trips, which is longer than the session waits before it asks the other server, too.
    let [failing, slow] = &links;
    slow.delay(timeout / 48);
    failing.refuse_sessions();
    let mut states = session.states();
    links.iter().for_each(Proxy::cut);
    assert_ne!(soon("the cut", states.changed()).await, Some(ConnectionState::Connected));
    until("the session is back", async || session.state() == ConnectionState::Connected).await;
    assert!(slow.connections() > 0);
    soon("an answer", session.ping(timeout)).await.unwrap();
}

/// The session that asks the server what it grants needs the only place first.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_connects_again_to_a_server_with_one_place() {
    let config = ZooKeeperConfig { connections_max: Some(1), ..ZooKeeperConfig::default() };
    let server = ZooKeeper::start(config).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let config = SessionConfig::default().with_timeout(Duration::from_secs(20));
    let session = Session::connect(&proxy.connect_string(), config).await.unwrap();
    let held = Mutex::new(&session, PATH).unwrap().acquire().await.unwrap();
    proxy.cut();
    until("the cut is noticed", async || held.state() == HoldState::Suspect).await;
    until("the session is back", async || session.state() == ConnectionState::Connected).await;
    assert_eq!(held.state(), HoldState::Held);
    held.release().await.unwrap();
}
