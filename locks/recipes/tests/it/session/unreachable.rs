//! Servers that give no session, and what the error says of each.

use std::net::TcpListener as StdTcpListener;
use std::time::{Duration, Instant};

use testbed::{Authority, Ensemble, EnsembleConfig, ZooKeeper, ZooKeeperConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use zk_recipes::{Error, Session, SessionConfig, Tls};

use crate::support::soon;

/// Returns the error of a connect string that leads to no session, with its causes.
async fn refusal(connect_string: &str) -> String {
    refusal_of(connect_string, SessionConfig::default()).await
}

async fn refusal_of(connect_string: &str, config: SessionConfig) -> String {
    // Enough for a busy machine to look at a server.
    let config = config.with_connect_within(Duration::from_secs(4));
    let error = soon("the error", Session::connect(connect_string, config)).await.unwrap_err();
    let causes = std::iter::successors(std::error::Error::source(&error), |&error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

// L50
#[tokio::test(flavor = "multi_thread")]
async fn a_host_name_that_does_not_resolve_is_named() {
    let told = refusal("no.such.host.invalid:2181,127.0.0.1:1/shop").await;
    assert!(told.contains("no.such.host.invalid:2181 does not resolve"), "{told}");
    assert!(told.contains("127.0.0.1:1 refuses connections"), "{told}");
}

// L50
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_connections_is_named() {
    let limited = ZooKeeperConfig { connections_max: Some(2), ..ZooKeeperConfig::default() };
    let server = ZooKeeper::start(limited).await.unwrap();
    let place = server.connect_string();
    let connect = || Session::connect(&place, SessionConfig::default());
    let sessions = (soon("a session", connect()).await.unwrap(), soon("a session", connect()).await.unwrap());
    let told = refusal(&place).await;
    assert!(told.contains("closes each connection at once") && told.contains("maxClientCnxns"), "{told}");
    drop(sessions);
}

// L50
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stands_still_is_not_said_to_be_away() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    server.pause().unwrap();
    let told = refusal(&server.connect_string()).await;
    assert!(told.contains("accepts connections and gives no session"), "{told}");
    server.resume().unwrap();
}

// L50
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_quorum_is_told() {
    let mut ensemble = Ensemble::start(EnsembleConfig::default()).await.unwrap();
    let alone = ensemble.connect_strings().remove(0);
    for other in [1, 2] {
        ensemble.stop_server(other).await.unwrap();
    }
    let told = refusal(&alone).await;
    assert!(told.contains("does a quorum of its ensemble run?"), "{told}");
}

/// Answers as a server of another protocol.
async fn answer_as_another_server(listener: TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            // Its client may be gone by then.
            if stream.read_u8().await.is_ok() {
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            }
        });
    }
}

// L50
#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_another_server_is_told_with_its_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let serving = tokio::spawn(answer_as_another_server(listener));
    let told = refusal(&place).await;
    assert!(told.contains("HTTP/1.1 400 Bad Request") && !told.contains("quorum"), "{told}");
    serving.abort();
}

// L50
#[tokio::test(flavor = "multi_thread")]
async fn a_port_without_tls_is_told_to_an_encrypted_session() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let authority = Authority::create().unwrap();
    let tls = Tls::trusting(std::fs::read_to_string(authority.certificate()).unwrap());
    let told = refusal_of(&server.connect_string(), SessionConfig::default().with_tls(tls)).await;
    assert!(told.contains("does it speak TLS") && !told.contains("quorum"), "{told}");
}

/// The clock of this test moves on whenever nothing else happens.
// L51
#[tokio::test]
async fn the_look_at_silent_servers_is_part_of_the_time() {
    let silent = StdTcpListener::bind("127.0.0.1:0").unwrap();
    let place = silent.local_addr().unwrap().to_string();
    let within = SessionConfig::default().connect_within;
    tokio::time::pause();
    let asked = tokio::time::Instant::now();
    let error = Session::connect(&place, SessionConfig::default()).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    assert!(asked.elapsed() < within + Duration::from_millis(500), "{:?}", asked.elapsed());
}

// L51
#[tokio::test(flavor = "multi_thread")]
async fn names_that_never_resolve_end_the_attempts_early() {
    let within = Duration::from_secs(24);
    let config = SessionConfig::default().with_connect_within(within);
    let asked = Instant::now();
    let error = soon("the error", Session::connect("no.such.host.invalid,nor.this.invalid", config)).await.unwrap_err();
    let told = std::error::Error::source(&error).unwrap().to_string();
    assert!(asked.elapsed() < within, "{:?}", asked.elapsed());
    assert!(told.contains("nor.this.invalid does not resolve"), "{told}");
}
