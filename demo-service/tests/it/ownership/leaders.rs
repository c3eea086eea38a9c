//! What an instance asks of the election.

// S45

use serde_json::json;

use super::STRATEGY;
use super::instances::{TestOwner, election};
use crate::lab::{Instance, Lab};

/// The SKUs of one range, SKU 1 left out.
const CROWD: std::ops::Range<i64> = 1..31;

/// Puts the SKUs on sale, and lets one buyer of each wait until the deadline. Asserts that ZooKeeper was asked for the range, and
/// not for each SKU. The session itself sends a few requests, too.
async fn assert_few_requests(instance: &Instance) {
    for number in CROWD {
        instance.put_on_sale(1 + 16 * number, 10, STRATEGY).await.assert_ok();
    }
    let requests = async || instance.metric("zookeeper_requests_total").await.unwrap();
    let before = requests().await;
    let buyers: Vec<_> = CROWD.map(|number| instance.spawn_buy(1 + 16 * number, STRATEGY)).collect();
    for buyer in buyers {
        buyer.await.unwrap().assert_problem(503, "lock-timeout");
    }
    let sent = requests().await - before;
    assert!(sent < 30.0, "{sent} requests");
}

/// Goal: buyers who wait for an owner that is gone do not ask ZooKeeper for it again and again. Method: the test leads their
/// range under an address where nobody listens.
#[tokio::test]
async fn buyers_of_an_owner_that_is_gone_spare_zookeeper() {
    let (lab, instance) = Lab::with_instance(&["--lock-wait", "2s"]).await;
    let nowhere = json!({ "at": "127.0.0.1:1", "loopback": "", "secret": "" }).to_string();
    let term = election(&lab, 1).await.with_id(nowhere).unwrap().lead().await.unwrap();
    assert_few_requests(&instance).await;
    drop(term);
}

/// Goal: the same, if the owner answers that it decides nothing.
#[tokio::test]
async fn buyers_of_an_owner_that_decides_nothing_spare_zookeeper() {
    let (lab, instance) = Lab::with_instance(&["--lock-wait", "2s"]).await;
    let owner = TestOwner::elect(&lab).await;
    assert_few_requests(&instance).await;
    drop(owner);
}
