//! Redis goes away, or refuses, and comes back.

use serde_json::json;
use testbed::{Redis, RedisConfig};

use super::{GATE, STRATEGIES, start};
use crate::commits::Gate;
use crate::lab::{Answer, Lab, Shop, wait_until};
use crate::redis::shared_redis;

/// Asserts that nothing is promised, and that the detail names Redis.
async fn assert_refused(shop: &Shop, detail: &str) {
    for goods_no in [1, 2] {
        let answer = shop.get(&format!("/goods-stock/{goods_no}")).await;
        answer.assert_problem(503, "lock-service-unavailable");
        assert!(answer.body["detail"].as_str().unwrap().starts_with(detail), "{answer:?}");
    }
}

async fn assert_sells(lab: &Lab, shop: &Shop, ordered: i64) {
    shop.until_ready().await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        shop.buy(goods_no, strategy).await.assert_ok();
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, ordered);
    }
}

// S121
#[tokio::test]
async fn without_redis_nothing_is_promised() {
    let mut redis = Redis::start(RedisConfig::default()).await.unwrap();
    let (lab, instance) = start(&redis, &[]).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 9, strategy).await.assert_ok();
    }
    assert_sells(&lab, &instance, 1).await;
    for (spoil, mend) in [
        (&["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"][..]),
        (&["CONFIG", "SET", "maxmemory"], &["CONFIG", "SET", "maxmemory", "0"][..]),
    ] {
        let limit = if spoil[2] == "maxmemory" { &["1"][..] } else { &[] };
        redis.command(&[&spoil[..], limit].concat()).await.unwrap();
        assert_refused(&instance, "Redis refused").await;
        for (goods_no, strategy) in (1..).zip(STRATEGIES) {
            assert_eq!(lab.streamed(&redis, strategy).await, 0, "no order is half done");
            let free = lab.gate_field(&redis, strategy, goods_no, "free").await;
            assert_eq!(free, lab.on_hand(goods_no).await);
        }
        redis.command(mend).await.unwrap();
        let ordered = lab.units_ordered(1, 1).await + 1;
        assert_sells(&lab, &instance, ordered).await;
    }
    redis.command(&["SCRIPT", "FLUSH"]).await.unwrap();
    assert_sells(&lab, &instance, 4).await;
    redis.command(&["FLUSHALL"]).await.unwrap();
    assert_sells(&lab, &instance, 5).await;
    redis.kill().await.unwrap();
    // A purchase that was sent to it has an unknown outcome.
    wait_until(async || instance.get("/goods-stock/1").await.problem() == Some("lock-service-unavailable")).await;
    assert_refused(&instance, "Redis did not answer").await;
    let backlog = async || instance.metric(r#"seckill_gate_backlog{strategy="redis-gate"}"#).await;
    wait_until(async || backlog().await.is_some_and(f64::is_nan)).await;
    redis.restart().await.unwrap();
    assert_sells(&lab, &instance, 6).await;
}

/// Goal: a repeated request gets its order, also after a restart of Redis before the order is written.
// S121
#[tokio::test]
async fn a_key_of_a_promised_order_outlives_a_restart_of_redis() {
    let mut redis = Redis::start(RedisConfig::default()).await.unwrap();
    let (lab, instance) = start(&redis, &[]).await;
    instance.put_on_sale(1, 5, GATE).await.assert_ok();
    let gate = Gate::close(&lab).await;
    let first = instance.order_for(1, "ann", "key").await;
    first.assert_created();
    redis.restart().await.unwrap();
    instance.until_ready().await;
    instance.order_for(1, "ann", "key").await.assert_replay_of(&first);
    gate.open().await;
    instance.until_written(&first).await;
    redis.command(&["FLUSHALL"]).await.unwrap();
    instance.order_for(1, "ann", "key").await.assert_replay_of(&first);
    assert_eq!(lab.assert_adds_up(1, "a restart").await, 1);
}

/// The rights are those that docs/service.md names.
// S110
#[tokio::test(flavor = "multi_thread")]
async fn the_rights_that_are_named_are_enough_for_gates() {
    let redis = Redis::start(RedisConfig::default()).await.unwrap();
    let lab = Lab::on_redis(&redis).await;
    let rights = "reset on >sesame ~seckill:* &seckill:* +set +get +del +incr +pexpire +eval +evalsha +script +ping +info +@hash \
                  +@stream +@pubsub +time";
    let user: Vec<&str> = ["ACL", "SETUSER", "shop"].into_iter().chain(rights.split(' ')).collect();
    redis.command(&user).await.unwrap();
    let url = redis.url().replace("redis://", "redis://shop:sesame@");
    let instance = lab.start(&["--redis-url", &url]).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 2, strategy).await.assert_ok();
        let bought = instance.buy(goods_no, strategy).await;
        bought.assert_ok();
        instance.until_written(&bought).await;
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 1);
    }
}

/// Goal: a gate does nothing by half. Method: its user may read the gate and take units, and may not append orders.
// S121
#[tokio::test]
async fn a_gate_that_cannot_append_an_order_keeps_its_units() {
    let redis = Redis::start(RedisConfig::default()).await.unwrap();
    let lab = Lab::on_redis(&redis).await;
    let set_user = async |rights: &str| {
        let words = ["ACL", "SETUSER", "shop", "reset", "on", ">sesame", "~seckill:*", "&seckill:*"];
        redis.command(&words.into_iter().chain(rights.split(' ')).collect::<Vec<_>>()).await.unwrap();
    };
    set_user("+@all").await;
    let instance = lab.start(&["--redis-url", &redis.url().replace("redis://", "redis://shop:sesame@")]).await;
    instance.put_sale(1, &json!({ "stock": 5, "strategy": GATE, "per_buyer": 2 })).await.assert_ok();
    let first = instance.order_for(1, "ann", "first").await;
    first.assert_created();
    instance.until_written(&first).await;
    for missing in ["-xadd", "-time"] {
        set_user(&format!("+@all {missing}")).await;
        instance.order_for(1, "ann", "second").await.assert_problem(503, "lock-service-unavailable");
    }
    set_user("+@all").await;
    wait_until(async || lab.streamed(&redis, GATE).await == 0).await;
    let counted = async |field| lab.gate_field(&redis, GATE, 1, field).await;
    assert_eq!((counted("free").await, counted("pending").await), (4, 0));
    instance.order_for(1, "ann", "second").await.assert_created();
    instance.order_for(1, "ann", "third").await.assert_problem(403, "over-limit");
}

/// Goal: a gate of an earlier sale that nobody has closed sells and refuses no longer. Method: an instance without Redis starts the
/// next sale.
// S6, S120
#[tokio::test]
async fn a_gate_that_nobody_closed_gives_way_to_the_next_sale() {
    let redis = shared_redis().await;
    let lab = Lab::on_redis(redis).await;
    let instance = lab.start(&[]).await;
    let without = Lab::at(lab.database_url.clone(), lab.zookeeper.clone(), String::new());
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        for (sale, left) in [(1, 0), (2, 3)] {
            instance.put_on_sale(goods_no, 1 + left, strategy).await.assert_ok();
            let sold = instance.buy(goods_no, strategy).await;
            sold.assert_ok();
            instance.until_written(&sold).await;
            let other = without.start(&["--instance", "other"]).await;
            other.put_on_sale(goods_no, 5, "pg-conditional").await.assert_ok();
            let path = format!("/goods-stock/{goods_no}");
            let is_of_next = |answer: &Answer| answer.body["strategy"] == "pg-conditional";
            instance.look_until(&path, is_of_next).await.assert_ok();
            assert!(lab.units_ordered(goods_no, 2 * sale).await >= 1, "{strategy}, sale {sale}");
        }
    }
}
