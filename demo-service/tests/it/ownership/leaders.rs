//! What an instance asks of the election.

use serde_json::json;
use zk_recipes::{LeaderLatch, Session, SessionConfig};

use super::STRATEGY;
use super::peers::{ELECTION, Owner};
use crate::lab::Lab;

/// The SKUs of one range, SKU 1 left out.
const CROWD: std::ops::Range<i64> = 1..31;

/// Puts the SKUs on sale, and lets one buyer of each wait until the deadline. Asserts that ZooKeeper was asked for the range, and
/// not for each SKU. The session itself sends a few requests, too.
async fn assert_few_requests(lab: &Lab) {
    let instance = lab.start(&["--lock-wait", "2s"]).await;
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
    let lab = Lab::new().await;
    let session = Session::connect(&lab.zookeeper, SessionConfig::default()).await.unwrap();
    let nowhere = json!({ "at": "127.0.0.1:1", "secret": "" }).to_string();
    let term = LeaderLatch::new(&session, ELECTION).unwrap().with_id(nowhere).unwrap().lead().await.unwrap();
    assert_few_requests(&lab).await;
    drop(term);
}

/// As above, but the owner answers that it decides nothing.
#[tokio::test]
async fn buyers_of_an_owner_that_decides_nothing_spare_zookeeper() {
    let lab = Lab::new().await;
    let owner = Owner::elect(&lab).await;
    assert_few_requests(&lab).await;
    drop(owner);
}
