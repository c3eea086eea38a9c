//! A ZooKeeper that is stopped and started again.

use std::net::TcpListener;
use std::time::Duration;

use testbed::{Error, ZooKeeper, ZooKeeperConfig};
use zookeeper_client::{Acls, Client, CreateMode, SessionState};

use crate::support::{is_listening, until_state};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_secs(2);

async fn client_of(zookeeper: &ZooKeeper) -> Client {
    let connector = Client::connector().with_session_timeout(Duration::from_secs(60));
    // A server that is starting may leave a client without an answer.
    let connector = connector.with_connection_timeout(Duration::from_secs(5));
    connector.connect(&zookeeper.connect_string()).await.unwrap()
}

#[tokio::test]
async fn a_restarted_zookeeper_keeps_port_nodes_and_sessions() {
    let mut zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let address = zookeeper.connect_string();
    let client = client_of(&zookeeper).await;
    let session = client.session_id();
    client.create("/lasting", b"data", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    client.create("/ephemeral", &[], &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await.unwrap();

    zookeeper.stop().await.unwrap();
    assert!(!is_listening(&address));
    until_state(&client, SessionState::Disconnected).await;
    zookeeper.start_again().await.unwrap();
    until_state(&client, SessionState::SyncConnected).await;

    assert_eq!(zookeeper.connect_string(), address);
    assert_eq!(client.session_id(), session);
    assert_eq!(client.get_data("/lasting").await.unwrap().0, b"data");
    assert_eq!(client.list_ephemerals("/").await.unwrap(), ["/ephemeral"], "the session's own");
}

#[tokio::test]
async fn a_running_zookeeper_is_restarted_and_keeps_its_nodes() {
    let mut zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let client = client_of(&zookeeper).await;
    client.create("/a", &[], &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    let nodes = zookeeper.metric("zk_znode_count").await.unwrap();
    let (started, ()) = tokio::join!(zookeeper.start_again(), until_state(&client, SessionState::Disconnected));
    started.unwrap();
    assert_eq!(zookeeper.metric("zk_znode_count").await.unwrap(), nodes);
    until_state(&client, SessionState::SyncConnected).await;
    assert!(client.check_stat("/a").await.unwrap().is_some());
}

#[tokio::test]
async fn a_stopped_zookeeper_stays_stopped_and_keeps_its_port() {
    let mut zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    zookeeper.stop().await.unwrap();
    zookeeper.stop().await.unwrap();
    let address = zookeeper.connect_string();
    assert!(!is_listening(&address));
    let others: Vec<_> = (0..50).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    assert!(others.iter().all(|other| other.local_addr().unwrap().to_string() != address));
    for error in [zookeeper.pause().unwrap_err(), zookeeper.metric("zk_znode_count").await.unwrap_err()] {
        assert!(matches!(error, Error::System { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_paused_zookeeper_can_be_stopped_and_started_again() {
    let mut zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    zookeeper.pause().unwrap();
    zookeeper.stop().await.unwrap();
    zookeeper.start_again().await.unwrap();
    client_of(&zookeeper).await.check_stat("/").await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_that_nobody_waited_for_is_finished_by_the_next_start() {
    let mut zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let stopped = tokio::time::timeout(Duration::ZERO, zookeeper.stop()).await;
    assert!(stopped.is_err(), "a server does not stop in no time");
    zookeeper.start_again().await.unwrap();
    client_of(&zookeeper).await.check_stat("/").await.unwrap().unwrap();
}

// T6
#[tokio::test]
async fn after_a_restart_new_limits_bound_the_granted_timeouts() {
    let tick_time = Duration::from_millis(500);
    let mut zookeeper = ZooKeeper::start(ZooKeeperConfig { tick_time, ..ZooKeeperConfig::default() }).await.unwrap();
    let address = zookeeper.connect_string();
    let connector = || Client::connector().with_session_timeout(LONG).with_connection_timeout(Duration::from_secs(5));
    let client = connector().with_detached().connect(&address).await.unwrap();
    assert_eq!(client.session_timeout(), LONG);
    let id = client.session_id();
    // No client uses the session until it is taken up again.
    let session = client.into_session();

    zookeeper.stop().await.unwrap();
    zookeeper.set_session_timeouts(tick_time..=SHORT).unwrap();
    zookeeper.start_again().await.unwrap();
    assert_eq!(connector().connect(&address).await.unwrap().session_timeout(), SHORT);
    let returned = connector().with_session(session).connect(&address).await.unwrap();
    assert_eq!((returned.session_id(), returned.session_timeout()), (id, SHORT), "the session from before");
}

// T6
#[tokio::test]
async fn other_limits_count_from_the_next_start_on() {
    let [least, most] = [8, 16].map(Duration::from_secs);
    let config = ZooKeeperConfig { session_timeouts: Some(least..=most), ..ZooKeeperConfig::default() };
    let mut zookeeper = ZooKeeper::start(config).await.unwrap();
    let granted = async |asked: Duration, address: &str| {
        Client::connector().with_session_timeout(asked).connect(address).await.unwrap().session_timeout()
    };
    let address = zookeeper.connect_string();
    zookeeper.set_session_timeouts(SHORT..=SHORT).unwrap();
    assert_eq!(granted(Duration::from_secs(5), &address).await, least);
    assert_eq!(granted(LONG, &address).await, most);
    let error = zookeeper.set_session_timeouts(LONG..=SHORT).unwrap_err();
    assert!(matches!(error, Error::Setting(_)), "{error}");
    zookeeper.start_again().await.unwrap();
    assert_eq!(granted(LONG, &address).await, SHORT, "below the two ticks that are the least by default");
}
