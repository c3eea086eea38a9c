//! `--remember-sold-out`: an instance refuses the buyers of a SKU that it has seen sold out without a lock.

// S8

use crate::lab::Lab;

const WAITS: &str = r#"seckill_lock_wait_seconds_count{strategy="zk-mutex"}"#;

#[tokio::test]
async fn a_buyer_of_a_sku_seen_sold_out_waits_for_no_lock() {
    let lab = Lab::new().await;
    let here = lab.start(&["--remember-sold-out"]).await;
    let there = lab.start(&[]).await;
    there.put_on_sale(1, 2, "zk-mutex").await.assert_ok();
    here.order(1, 1, "zk-mutex", "first").await.assert_created();
    here.buy(1, "zk-mutex").await.assert_ok();
    here.buy(1, "zk-mutex").await.assert_problem(409, "sold-out");
    let waited = here.metric(WAITS).await;
    for _ in 0..20 {
        here.buy(1, "zk-mutex").await.assert_problem(409, "sold-out");
    }
    here.order(1, 1, "zk-mutex", "second").await.assert_problem(409, "sold-out");
    assert_eq!(here.metric(WAITS).await, waited);
    // A key replays its order all the same.
    here.order(1, 1, "zk-mutex", "first").await.assert_created();
    // Another instance brings units back.
    there.put_on_sale(1, 2, "zk-mutex").await.assert_ok();
    here.order(1, 1, "zk-mutex", "second").await.assert_created();
    assert_eq!(lab.assert_adds_up(1, "after the restock").await, 1);
}

#[tokio::test]
async fn a_refused_large_quantity_keeps_no_smaller_one_from_buying() {
    let (_lab, instance) = Lab::with_instance(&["--remember-sold-out"]).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    instance.order(1, 6, "zk-mutex", "six").await.assert_problem(409, "sold-out");
    instance.order(1, 5, "zk-mutex", "five").await.assert_created();
}

#[tokio::test]
async fn without_the_option_every_refusal_waits_for_the_lock() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 0, "zk-mutex").await.assert_ok();
    for _ in 0..3 {
        instance.buy(1, "zk-mutex").await.assert_problem(409, "sold-out");
    }
    assert_eq!(instance.metric(WAITS).await, Some(3.0));
}
