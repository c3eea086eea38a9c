//! Instances of several networks.

// S60

use std::net::TcpListener;
use std::time::Duration;

use demo_service::http::server::Server;
use demo_service::setup_error::SetupError;
use serde_json::json;
use testbed::{Process, ProcessConfig, Stdout};
use zk_recipes::LockGuard;

use super::instances::election;
use crate::lab::{Lab, wait_until};
use crate::program::PROGRAM;

const READY_WITHIN: Duration = Duration::from_secs(30);

/// Makes the test an instance of another network that owns the last range.
async fn owner_elsewhere(lab: &Lab, at: &str) -> LockGuard {
    // The first instance makes the tables.
    lab.start(&["--offer", "pg-conditional"]).await;
    let id = json!({ "at": at, "loopback": "elsewhere", "secret": "" }).to_string();
    election(lab, 15).await.with_id(id).unwrap().lead().await.unwrap()
}

/// Returns a free address to listen at, and its name on other hosts.
fn named() -> [String; 2] {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    [free.to_string(), format!("demo-1:{}", free.port())]
}

/// Goal: with the default addresses on several hosts, the second instance does not start.
#[tokio::test]
async fn an_instance_that_others_do_not_reach_is_refused() {
    let lab = Lab::new().await;
    let term = owner_elsewhere(&lab, "127.0.0.1:7070").await;
    let refused = Server::start(lab.config(&["--zk-session-timeout", "3s"])).await.err().expect("it is refused");
    assert!(matches!(&refused, SetupError::NotReached { theirs, .. } if theirs == "127.0.0.1:7070"), "{refused}");
    let complaint = refused.to_string();
    for part in ["at 127.0.0.1:", "another network", "--peers-listen (PEERS_LISTEN)", "--peers-address (PEERS_ADDRESS)"]
    {
        assert!(complaint.contains(part), "{complaint}");
    }
    // An instance that hands nothing over, and one that the other reaches.
    lab.start(&["--offer", "pg-conditional"]).await;
    let [listen, address] = named();
    lab.start(&["--peers-listen", &listen, "--peers-address", &address]).await;
    drop(term);
}

/// Goal: an instance that has crashed in another container does not keep the next one from starting for ever. Method: the test has
/// the address of the next instance, and leaves while it waits.
#[tokio::test]
async fn an_instance_waits_for_the_end_of_one_elsewhere() {
    let lab = Lab::new().await;
    let [listen, address] = named();
    let term = owner_elsewhere(&lab, &address).await;
    let config = ProcessConfig::new(PROGRAM)
        .args(["--listen", "127.0.0.1:0", "--zk-session-timeout", "2m"])
        .args(["--peers-listen", &listen, "--peers-address", &address])
        .env("DATABASE_URL", &lab.database_url)
        .env("ZOOKEEPER_CONNECT", &lab.zookeeper)
        .env("RUST_LOG", "info");
    let mut next = Process::spawn(ProcessConfig { stdout: Stdout::Lines, ..config }).unwrap();
    wait_until(async || next.log_tail().contains("waiting until it is gone")).await;
    term.release().await.unwrap();
    let line = next.line(READY_WITHIN).await.unwrap();
    assert!(line.is_some_and(|line| line.starts_with("listening on")), "{}", next.log_tail());
}
