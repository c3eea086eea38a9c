//! How many batches an instance hands over at once.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::STRATEGY;
use super::instances::election;
use crate::lab::Lab;

/// Goal: an owner that does not answer takes no more than 16 connections of an instance for a range. Buyers beyond that stay in
/// the queue, and nothing is written for them. Method: the test owns a range of 20 SKUs, accepts and never answers.
// S59
#[tokio::test(flavor = "multi_thread")]
async fn the_batches_of_a_range_on_their_way_have_a_bound() {
    let lab = Lab::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let id = json!({ "at": listener.local_addr().unwrap().to_string(), "loopback": "", "secret": "" }).to_string();
    let instance = lab.start(&["--lock-wait", "6s", "--db-timeout", "7s"]).await;
    let term = election(&lab, 1).await.with_id(id).unwrap().lead().await.unwrap();
    let range: Vec<_> = (0..20).map(|number| 1 + 16 * number).collect();
    for goods_no in range.iter().copied().chain([2]) {
        instance.put_on_sale(goods_no, 10, STRATEGY).await.assert_ok();
    }
    let buyers: Vec<_> = range.iter().map(|goods_no| instance.spawn_buy(*goods_no, STRATEGY)).collect();
    let mut accepted = Vec::new();
    for _ in 0..16 {
        accepted.push(listener.accept().await.unwrap());
    }
    // Other ranges go on.
    instance.buy(2, STRATEGY).await.assert_ok();
    let mut heard = BTreeMap::<_, usize>::new();
    for answer in join_all(buyers).await {
        *heard.entry(answer.unwrap().problem().unwrap().to_owned()).or_default() += 1;
    }
    let expected = [("lock-timeout", 4), ("outcome-unknown", 16)].map(|(kind, count)| (kind.to_owned(), count));
    assert_eq!(heard, BTreeMap::from(expected));
    assert!(timeout(Duration::ZERO, listener.accept()).await.is_err(), "there is no other connection");
    drop(term);
}
