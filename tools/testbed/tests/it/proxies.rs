//! The proxy: in front of a real ZooKeeper where the client matters, in front of an echo where only bytes do.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::pin::pin;
use std::time::{Duration, Instant};

use testbed::{Direction, Error, Proxy, ProxyTraffic, ZooKeeper, ZooKeeperConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use zookeeper_client::{Acls, Client, Connector, CreateMode, CreateOptions, Error as ClientError, SessionState};

use crate::support::{eventually, is_listening, soon, until_state};

const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
/// Length of the answer to a ping. A longer answer belongs to a request.
const PONG_BYTES: u64 = 20;
/// Time for something to happen that must not happen: many times the time that it would take.
const WHILE: Duration = Duration::from_millis(100);

async fn zookeeper_behind_proxy() -> (ZooKeeper, Proxy, Client) {
    // During a test, the client must not give up a connection and not send a ping.
    zookeeper_behind_proxy_for(Client::connector().with_session_timeout(Duration::from_secs(300))).await
}

async fn zookeeper_behind_proxy_for(connector: Connector) -> (ZooKeeper, Proxy, Client) {
    let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&zookeeper.connect_string()).await.unwrap();
    let client = soon("a session", connector.connect(&proxy.connect_string())).await.unwrap();
    (zookeeper, proxy, client)
}

/// Makes clients that soon give up a connection without answers.
fn impatient(connection_timeout: Duration) -> Connector {
    Client::connector().with_session_timeout(Duration::from_secs(30)).with_connection_timeout(connection_timeout)
}

#[tokio::test]
async fn a_proxy_of_no_address_says_what_to_give() {
    let error = Proxy::start("localhost").await.unwrap_err();
    let told = program::chain(&error);
    assert!(told.starts_with("could not resolve localhost: ") && told.ends_with("; give one host:port"), "{told}");
}

/// A server that sends back what it gets, until the other side closes its end.
struct Echo {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    // A test may cut the connection, which ends the copy.
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        Self { address, serving }
    }

    async fn behind_proxy() -> (Self, Proxy) {
        let echo = Self::start().await;
        let proxy = Proxy::start(&echo.address.to_string()).await.unwrap();
        (echo, proxy)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(proxy.connect_string()).await.unwrap()
}

async fn is_echoed(stream: &mut TcpStream, word: &[u8]) -> bool {
    let mut answer = vec![0; word.len()];
    let echoed = async {
        stream.write_all(word).await?;
        stream.read_exact(&mut answer).await
    };
    soon("the echo, or the end", echoed).await.is_ok() && answer == word
}

/// Waits until the other side closes the connection or sends something. Returns whether it closed.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    // If the other side had unread bytes, the connection ends with an error.
    soon("the end of a connection", stream.read(&mut byte)).await.unwrap_or(0) == 0
}

/// Returns whether nothing can be read for a while.
async fn is_silent(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    tokio::time::timeout(WHILE, stream.peek(&mut byte)).await.is_err()
}

#[tokio::test]
async fn a_proxy_passes_requests_and_replies_and_counts_them() {
    let (_zookeeper, proxy, client) = zookeeper_behind_proxy().await;
    assert_eq!(proxy.connections(), 1);
    let before = proxy.traffic();
    let data = vec![b'x'; 100_000];
    client.create("/a", &data, &PERSISTENT).await.unwrap();
    assert_eq!(client.get_data("/a").await.unwrap().0, data);
    let ProxyTraffic { bytes_to_server, bytes_from_server, .. } = proxy.traffic();
    for (direction, passed) in [
        ("to the server", bytes_to_server - before.bytes_to_server),
        ("from the server", bytes_from_server - before.bytes_from_server),
    ] {
        assert!((100_000..101_000).contains(&passed), "{passed} bytes {direction}");
    }
    drop(client);
    soon("the end of the connection", proxy.until(|traffic| traffic.connections == 0)).await;
}

#[tokio::test]
async fn a_session_survives_a_cut_and_comes_back_through_the_proxy() {
    let (_zookeeper, proxy, client) = zookeeper_behind_proxy().await;
    let session = client.session_id();
    client.create("/a", &[], &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await.unwrap();
    proxy.cut();
    // A client that connects anew has noticed the loss.
    soon("the return", proxy.until(|traffic| traffic.connections == 1)).await;
    until_state(&client, SessionState::SyncConnected).await;
    assert_eq!(client.session_id(), session);
    assert!(client.check_stat("/a").await.unwrap().is_some());
}

#[tokio::test]
async fn a_cut_closes_every_connection_that_there_is_and_no_later_one() {
    let (_echo, proxy) = Echo::behind_proxy().await;
    let mut used = connect(&proxy).await;
    assert!(is_echoed(&mut used, b"word").await);
    let mut fresh = connect(&proxy).await;
    proxy.cut();
    assert_eq!(proxy.connections(), 0);
    assert!(is_closed(&mut used).await && is_closed(&mut fresh).await);
    assert!(is_echoed(&mut connect(&proxy).await, b"word").await);
}

#[tokio::test]
async fn a_refusing_proxy_closes_new_connections_and_serves_old_ones() {
    let (_echo, proxy) = Echo::behind_proxy().await;
    let mut open = connect(&proxy).await;
    proxy.refuse();
    assert!(is_closed(&mut connect(&proxy).await).await);
    assert!(is_echoed(&mut open, b"word").await);
    proxy.accept();
    assert!(is_echoed(&mut connect(&proxy).await, b"word").await);
}

#[tokio::test]
async fn a_server_is_unreachable_until_its_proxy_accepts_again() {
    let (_zookeeper, proxy, client) = zookeeper_behind_proxy().await;
    proxy.refuse();
    proxy.cut();
    until_state(&client, SessionState::Disconnected).await;
    let eager = Client::connector().with_fail_eagerly().connect(&proxy.connect_string()).await;
    assert!(eager.is_err(), "nobody gets through");
    assert_eq!(client.state(), SessionState::Disconnected);
    proxy.accept();
    until_state(&client, SessionState::SyncConnected).await;
}

#[tokio::test]
async fn a_swallowed_reply_is_lost_though_its_request_was_carried_out() {
    let (zookeeper, proxy, client) = zookeeper_behind_proxy().await;
    let onlooker = Client::connect(&zookeeper.connect_string()).await.unwrap();
    proxy.swallow_replies();
    let before = proxy.bytes_from_server();
    let mut creating = pin!(client.create("/a", &[], &PERSISTENT));
    let answered = proxy.until(|traffic| traffic.bytes_from_server > before + PONG_BYTES);
    tokio::select! {
        _ = soon("the reply", answered) => {}
        created = &mut creating => panic!("the reply came through: {created:?}"),
    }
    assert!(onlooker.check_stat("/a").await.unwrap().is_some());
    proxy.cut();
    assert_eq!(soon("the answer", creating).await.unwrap_err(), ClientError::ConnectionLoss);
    soon("the return", proxy.until(|traffic| traffic.connections == 1)).await;
    until_state(&client, SessionState::SyncConnected).await;
    assert!(client.check_stat("/a").await.unwrap().is_some(), "the new connection is clean");
}

#[tokio::test]
async fn replies_to_open_connections_are_swallowed_until_delivery() {
    let (_echo, proxy) = Echo::behind_proxy().await;
    // The connection is open, although nothing was sent yet.
    let mut early = connect(&proxy).await;
    proxy.swallow_replies();
    let mut late = connect(&proxy).await;
    assert!(is_echoed(&mut late, b"late").await);
    early.write_all(b"lost").await.unwrap();
    soon("the reply", proxy.until(|traffic| traffic.bytes_from_server == 8)).await;
    proxy.deliver();
    assert!(is_echoed(&mut early, b"word").await, "the lost bytes do not come back");
}

#[tokio::test]
async fn a_reply_that_is_lost_ends_its_connection() {
    let (_echo, proxy) = Echo::behind_proxy().await;
    let mut stream = connect(&proxy).await;
    proxy.lose_replies(1.0);
    assert!(!is_echoed(&mut stream, b"lost").await && proxy.bytes_from_server() == 4);
    proxy.lose_replies(0.0);
    assert!(is_echoed(&mut connect(&proxy).await, b"word").await);
}

#[tokio::test]
async fn a_black_hole_holds_back_both_directions() {
    let (_echo, proxy) = Echo::behind_proxy().await;
    let mut stream = connect(&proxy).await;
    assert!(is_echoed(&mut stream, b"word").await);
    let before = proxy.traffic();
    proxy.blackhole();
    stream.write_all(b"late").await.unwrap();
    let mut newcomer = connect(&proxy).await;
    newcomer.write_all(b"later").await.unwrap();
    assert!(is_silent(&mut stream).await && is_silent(&mut newcomer).await);
    assert_eq!(proxy.traffic(), ProxyTraffic { connections: 2, ..before });

    proxy.deliver();
    for (stream, word) in [(&mut stream, &b"late"[..]), (&mut newcomer, b"later")] {
        let mut answer = vec![0; word.len()];
        soon("the late echo", stream.read_exact(&mut answer)).await.unwrap();
        assert_eq!(answer, word);
    }
}

#[tokio::test]
async fn a_session_survives_a_black_hole_that_its_client_notices() {
    let (_zookeeper, proxy, client) = zookeeper_behind_proxy_for(impatient(Duration::from_secs(1))).await;
    let session = client.session_id();
    proxy.blackhole();
    until_state(&client, SessionState::Disconnected).await;
    proxy.deliver();
    until_state(&client, SessionState::SyncConnected).await;
    assert_eq!(client.session_id(), session);
}

#[tokio::test]
async fn the_end_of_a_connection_is_not_noticed_through_a_black_hole() {
    let (_echo, proxy) = Echo::behind_proxy().await;
    let mut stream = connect(&proxy).await;
    assert!(is_echoed(&mut stream, b"word").await);
    proxy.blackhole();
    drop(stream);
    let ended = proxy.until(|traffic| traffic.connections == 0);
    assert!(tokio::time::timeout(WHILE, ended).await.is_err());
    proxy.deliver();
    soon("the end", proxy.until(|traffic| traffic.connections == 0)).await;
}

#[tokio::test]
async fn a_side_that_has_closed_its_end_still_gets_the_answer() {
    let (_echo, proxy) = Echo::behind_proxy().await;
    let mut stream = connect(&proxy).await;
    stream.write_all(b"word").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    soon("the answer", stream.read_to_string(&mut answer)).await.unwrap();
    assert_eq!(answer, "word");
}

#[tokio::test]
async fn a_proxy_stays_while_its_server_is_away() {
    // A server that is starting may leave a client without an answer.
    let (mut zookeeper, proxy, client) = zookeeper_behind_proxy_for(impatient(Duration::from_secs(5))).await;
    zookeeper.stop().await.unwrap();
    until_state(&client, SessionState::Disconnected).await;
    assert!(is_closed(&mut connect(&proxy).await).await, "as the server cannot be reached");
    zookeeper.start_again().await.unwrap();
    until_state(&client, SessionState::SyncConnected).await;
}

#[test]
fn a_dropped_proxy_leaves_no_port_no_connection_and_no_thread() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_echo, proxy) = runtime.block_on(Echo::behind_proxy());
    let mut stream = runtime.block_on(connect(&proxy));
    assert!(runtime.block_on(is_echoed(&mut stream, b"word")));
    let address = proxy.connect_string();
    // It belongs to no runtime.
    drop(proxy);
    assert!(!is_listening(&address));
    assert!(runtime.block_on(is_closed(&mut stream)));
}

#[tokio::test]
async fn a_proxy_dropped_in_a_busy_black_hole_is_gone_at_once() {
    let (_echo, proxy) = Echo::behind_proxy().await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(connect(&proxy).await);
    }
    proxy.blackhole();
    for stream in &streams {
        // As much as the system takes.
        while stream.try_write(&[0; 16 * 1024]).is_ok() {}
    }
    let address = proxy.connect_string();
    drop(proxy);
    eventually("the port is closed", || !is_listening(&address));
}

#[tokio::test]
async fn an_upstream_that_is_no_address_is_an_error_that_names_it() {
    let error = Proxy::start("127.0.0.1:2181/chroot").await.unwrap_err();
    assert!(matches!(error, Error::System { .. }) && error.to_string().contains("127.0.0.1:2181/chroot"), "{error}");
}

#[tokio::test]
async fn delayed_bytes_arrive_whole_in_order_and_late() {
    const ONE_WAY: Duration = Duration::from_millis(40);
    let (_echo, proxy) = Echo::behind_proxy().await;
    let mut stream = connect(&proxy).await;
    proxy.delay(ONE_WAY);
    let sent = Instant::now();
    assert!(is_echoed(&mut stream, b"first").await && is_echoed(&mut stream, b"second").await);
    assert!(sent.elapsed() >= 4 * ONE_WAY, "{:?} for two round trips", sent.elapsed());
    stream.shutdown().await.unwrap();
    assert!(is_closed(&mut stream).await);
    assert!(sent.elapsed() >= 6 * ONE_WAY, "the end is as late as the bytes");
    let connecting = Instant::now();
    assert!(is_echoed(&mut connect(&proxy).await, b"anew").await);
    assert!(connecting.elapsed() >= 4 * ONE_WAY, "a connection takes a round trip, too");
}

#[tokio::test]
async fn a_silent_direction_holds_back_what_goes_that_way() {
    let (_echo, proxy) = Echo::behind_proxy().await;
    for (direction, reaches_server) in [(Direction::ToServer, false), (Direction::FromServer, true)] {
        let mut stream = connect(&proxy).await;
        assert!(is_echoed(&mut stream, b"word").await);
        let before = proxy.bytes_to_server();
        proxy.silence(direction);
        stream.write_all(b"late").await.unwrap();
        assert!(is_silent(&mut stream).await);
        assert_eq!(proxy.bytes_to_server() > before, reaches_server, "{direction:?}");
        proxy.heal();
        let mut answer = [0; 4];
        soon("the late echo", stream.read_exact(&mut answer)).await.unwrap();
        assert_eq!(&answer, b"late");
    }
}

#[tokio::test]
async fn a_narrow_or_jittery_link_passes_everything_in_order() {
    let (_echo, proxy) = Echo::behind_proxy().await;
    let mut stream = connect(&proxy).await;
    proxy.jitter(Duration::from_millis(20));
    assert!(is_echoed(&mut stream, b"first").await && is_echoed(&mut stream, b"second").await);
    proxy.heal();
    proxy.limit(NonZeroU32::new(10_000));
    let word: Vec<u8> = (0..5000_u32).map(|number| (number % 251) as u8).collect();
    let sent = Instant::now();
    assert!(is_echoed(&mut stream, &word).await);
    assert!(sent.elapsed() >= Duration::from_millis(500), "{:?} for 5000 bytes", sent.elapsed());
}

#[tokio::test]
async fn a_healed_proxy_serves_as_if_nothing_had_been() {
    let (_echo, proxy) = Echo::behind_proxy().await;
    let mut lossy = connect(&proxy).await;
    assert!(is_echoed(&mut lossy, b"word").await);
    proxy.swallow_replies();
    proxy.refuse();
    proxy.delay(Duration::from_secs(60));
    proxy.heal();
    assert!(is_closed(&mut lossy).await, "it may have lost bytes");
    assert!(is_echoed(&mut connect(&proxy).await, b"word").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_session_gets_another_id_from_the_server() {
    let (_zookeeper, proxy, client) = zookeeper_behind_proxy().await;
    let again = || Client::connector().with_session(client.session().clone());
    proxy.replace_sessions();
    let replaced = soon("another session", again().connect(&proxy.connect_string())).await.unwrap();
    assert_ne!(replaced.session_id(), client.session_id());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_session_does_not_connect_and_a_new_one_does() {
    let (_zookeeper, proxy, client) = zookeeper_behind_proxy().await;
    proxy.refuse_sessions();
    let again = Client::connector().with_session(client.session().clone()).with_fail_eagerly();
    soon("a refusal", again.connect(&proxy.connect_string())).await.unwrap_err();
    soon("a new session", Client::connect(&proxy.connect_string())).await.unwrap();
}
