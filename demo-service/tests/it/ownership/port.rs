//! The port on which an owner listens for the other instances: who is served there, and what becomes of odd batches.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::instances::{ElectedOwner, Sender};
use super::{STRATEGY, TIMES};
use crate::commits::Gate;
use crate::lab::{Instance, Lab, wait_until};

/// Longer than anything here takes when it does happen.
const PATIENCE: Duration = Duration::from_secs(30);

async fn owner(lab: &Lab, arguments: &[&str]) -> Instance {
    let owner = lab.start(arguments).await;
    owner.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    owner.buy(1, STRATEGY).await.assert_ok();
    owner
}

fn wanted(quantity: i64) -> Value {
    json!({ "sale": 1, "has_decided": false, "quantity": quantity, "key": null, "within_ms": 5000 })
}

// S62
#[tokio::test]
async fn the_port_for_the_others_is_open_only_if_it_is_needed() {
    let lab = Lab::new().await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = free.local_addr().unwrap().to_string();
    drop(free);
    for (offer, is_open) in [("pg-conditional", false), (STRATEGY, true)] {
        let instance = lab.start(&["--peers-listen", &at, "--offer", offer]).await;
        assert_eq!(TcpStream::connect(&at).await.is_ok(), is_open, "{offer}");
        instance.request_stop().await.unwrap();
    }
}

/// Goal: clients that send nothing do not keep the batches of other instances out. Method: they open many more connections than
/// the owner has room for.
// S63
#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_do_not_keep_a_batch_out() {
    let lab = Lab::new().await;
    let _owner = owner(&lab, &["--connections-max", "16"]).await;
    let other = lab.start(&["--lock-wait", "8s", "--db-timeout", "9s"]).await;
    let at = ElectedOwner::of(&lab).await.at;
    let mut silent = Vec::new();
    for _ in 0..3000 {
        silent.push(TcpStream::connect(&at).await.unwrap());
    }
    other.buy(1, STRATEGY).await.assert_ok();
    for mut stream in silent {
        // Closed or reset.
        timeout(PATIENCE, stream.read_u8()).await.expect("the owner closes").unwrap_err();
    }
    other.buy(1, STRATEGY).await.assert_ok();
    assert_eq!(lab.assert_adds_up(1, "silent connections").await, 3);
}

// S57
#[tokio::test]
async fn a_batch_whose_body_does_not_come_is_refused() {
    let lab = Lab::new().await;
    let _owner = owner(&lab, &["--lock-wait", "3s", "--db-timeout", "4s", "--http-timeout", "5s"]).await;
    let mut sender = Sender::connect(&lab).await;
    let [head, _] = sender.batch();
    sender.send(&head).await;
    let answer = sender.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert_eq!(lab.orders().await, 1);
}

// S58
#[tokio::test]
async fn one_bad_purchase_of_a_batch_is_refused_alone() {
    let lab = Lab::new().await;
    let _owner = owner(&lab, &[]).await;
    let mut bad_key = wanted(1);
    bad_key["key"] = json!("");
    let purchases = [wanted(0), wanted(2), bad_key];
    let answer = ElectedOwner::of(&lab).await.post(&json!({ "goods_no": 1, "nonce": 7, "purchases": purchases })).await;
    let text = answer.text().await.unwrap();
    let mut replies: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    replies.sort_by_key(|reply| reply["index"].as_i64());
    assert_eq!(replies.len(), 3, "{text}");
    assert_eq!(replies[1]["told"]["sold"]["lines"][0]["remaining"], 7, "{text}");
    for index in [0, 2] {
        assert_eq!(replies[index]["told"]["refused"]["kind"], "internal", "{text}");
    }
    assert_eq!(lab.assert_adds_up(1, "bad purchases").await, 3);
}

// S56
#[tokio::test]
async fn a_batch_that_comes_again_is_not_decided_again() {
    let lab = Lab::new().await;
    let _owner = owner(&lab, &[]).await;
    let leader = ElectedOwner::of(&lab).await;
    for (nonce, status) in [(7, StatusCode::OK), (7, StatusCode::CONFLICT), (8, StatusCode::OK)] {
        let answer = leader.post(&json!({ "goods_no": 1, "nonce": nonce, "purchases": [wanted(1)] })).await;
        assert_eq!(answer.status(), status, "{nonce}");
        answer.text().await.unwrap();
    }
    assert_eq!(lab.assert_adds_up(1, "a batch again").await, 3);
}

/// Goal: an owner takes any number of batches from one address. Method: an instance has batches of two SKUs under way at once.
// S68
#[tokio::test]
async fn the_limit_for_a_client_does_not_count_for_instances() {
    let lab = Lab::new().await;
    let owner = owner(&lab, &[&["--connections-per-client", "1"], &TIMES[..]].concat()).await;
    let other = lab.start(&TIMES).await;
    owner.put_on_sale(17, 10, STRATEGY).await.assert_ok();
    Gate::before_commits(&lab, "orders", "insert").await;
    let gate = Gate::close(&lab).await;
    let buyers = [1, 17].map(|goods_no| other.spawn_buy(goods_no, STRATEGY));
    wait_until(async || lab.lock_waits().await == 2 || buyers.iter().any(JoinHandle::is_finished)).await;
    gate.open().await;
    for answer in join_all(buyers).await {
        answer.unwrap().assert_ok();
    }
}
