//! Servers that give no session, and what the error says of each.

use std::time::Duration;

use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Session, SessionConfig};

use crate::support::soon;

/// The error of a connect string that leads to no session, with its causes.
async fn refusal(connect_string: &str) -> String {
    let config = SessionConfig::default().with_connect_within(Duration::from_millis(400));
    let error = soon("the error", Session::connect(connect_string, config)).await.unwrap_err();
    let causes = std::iter::successors(std::error::Error::source(&error), |&error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_name_that_does_not_resolve_is_named() {
    let told = refusal("no.such.host.invalid:2181,127.0.0.1:1/shop").await;
    assert!(told.contains("no.such.host.invalid:2181 does not resolve"), "{told}");
    assert!(told.contains("127.0.0.1:1 refuses connections"), "{told}");
}

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

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stands_still_is_not_said_to_be_away() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    server.pause().unwrap();
    let told = refusal(&server.connect_string()).await;
    assert!(told.contains("accepts connections and gives no session"), "{told}");
    server.resume().unwrap();
}
