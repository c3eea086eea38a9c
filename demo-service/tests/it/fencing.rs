//! A holder that was overtaken: its node is gone, the next one holds, and it does not know.

// S14

use demo_service::strategy::registry;
use zookeeper_client::Client;

use crate::lab::{Answer, Instance, Lab, PATIENT, lock_path, wait_until};

/// Longer than the purchase of the buyer that overtakes.
const BUSINESS: &str = "2s";

/// Lets one buyer read, deletes its node in the queue by hand, and lets another one buy meanwhile.
async fn overtake(lab: &Lab, slow: &Instance, quick: &Instance, goods_no: i64, strategy: &str) -> Answer {
    slow.put_on_sale(goods_no, 5, strategy).await.assert_ok();
    let overtaken = slow.spawn_buy(goods_no, strategy);
    let is_read = "select count(*) from pg_stat_activity where datname = current_database()
                   and state = 'idle in transaction' and starts_with(query, 'select sale, on_hand')";
    let is_fenced = "select count(*) from goods where goods_no = $1 and fence > 0";
    let mut connection = lab.connect().await;
    wait_until(async || {
        let read: i64 = sqlx::query_scalar(is_read).fetch_one(&mut connection).await.unwrap();
        let fenced: i64 = sqlx::query_scalar(is_fenced).bind(goods_no).fetch_one(&mut connection).await.unwrap();
        read + fenced > 0
    })
    .await;
    let client = Client::connect(&lab.zookeeper).await.unwrap();
    let folder = lock_path(strategy, goods_no);
    for node in client.list_children(&folder).await.unwrap() {
        client.delete(&format!("{folder}/{node}"), None).await.unwrap();
    }
    let bought = quick.buy(goods_no, strategy).await;
    bought.assert_ok();
    assert_eq!(bought.body["remaining"], 4);
    overtaken.await.unwrap()
}

#[tokio::test]
async fn only_a_fence_keeps_an_overtaken_holder_from_overwriting() {
    let lab = Lab::new().await;
    let slow = lab.start(&["--business-time", BUSINESS]).await;
    let quick = lab.start(&[]).await;
    for (goods_no, unfenced) in (1..).step_by(2).zip(["zk-mutex", "zk-handoff", "zk-cohort"]) {
        overtake(&lab, &slow, &quick, goods_no, unfenced).await.assert_ok();
        let on_hand = quick.get(&format!("/goods/{goods_no}")).await.body["on_hand"].as_i64();
        assert_eq!((on_hand, lab.units_ordered(goods_no, 1).await), (Some(4), 2), "{unfenced} loses an update");

        let goods_no = goods_no + 1;
        let fenced = format!("{unfenced}-fenced");
        assert!(registry::find(&fenced).is_some());
        overtake(&lab, &slow, &quick, goods_no, &fenced).await.assert_problem(503, "fenced");
        let on_hand = quick.get(&format!("/goods/{goods_no}")).await.body["on_hand"].as_i64();
        assert_eq!((on_hand, lab.units_ordered(goods_no, 1).await), (Some(4), 1), "{fenced}");
        assert_eq!(slow.outcomes(&fenced, "fenced").await, Some(1.0));
    }
}

#[tokio::test]
async fn the_second_part_of_the_token_fences_local_hand_overs() {
    let (lab, instance) = Lab::with_instance(&[&["--business-time", "2ms"][..], &PATIENT].concat()).await;
    instance.put_on_sale(1, 30, "zk-cohort-fenced").await.assert_ok();
    let buyers: Vec<_> = (0..30).map(|_| instance.spawn_buy(1, "zk-cohort-fenced")).collect();
    for buyer in buyers {
        buyer.await.unwrap().assert_ok();
    }
    let sql = "select count(distinct token), count(distinct (token, token_handover)) from order_lines";
    let (tokens, holds): (i64, i64) = sqlx::query_as(sql).fetch_one(&mut lab.connect().await).await.unwrap();
    assert!(tokens < 30, "the lock was handed over in memory");
    assert_eq!(holds, 30);
    let sql = "select bool_and(is_later) from (
                   select (token, token_handover) > lag((token, token_handover)) over (order by remaining desc) as is_later
                   from order_lines) as line";
    let is_ordered: bool = sqlx::query_scalar(sql).fetch_one(&mut lab.connect().await).await.unwrap();
    assert!(is_ordered, "who sold later had the later token");
}
