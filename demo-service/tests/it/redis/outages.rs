//! Redis goes away, or refuses, and comes back.

use testbed::{Proxy, Redis, RedisConfig, StopSignal};

use super::{SHORT_LIVED, STRATEGIES, instance_with_sale};
use crate::lab::{Instance, Lab, Shop, wait_until};
use crate::program::Program;

async fn start() -> (Redis, Lab, Instance) {
    let redis = Redis::start(RedisConfig::default()).await.unwrap();
    let lab = Lab::on_redis(&redis).await;
    let instance = lab.start(&[]).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
    }
    instance.put_on_sale(9, 5, "pg-conditional").await.assert_ok();
    (redis, lab, instance)
}

/// Asserts that nothing is sold under locks of Redis, that the other strategies sell, and that the probe says so.
async fn assert_refused(lab: &Lab, shop: &Shop, detail: &str) {
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        let answer = shop.buy(goods_no, strategy).await;
        answer.assert_problem(503, "lock-service-unavailable");
        assert!(answer.body["detail"].as_str().unwrap().starts_with(detail), "{answer:?}");
        lab.assert_unsold(goods_no, 5).await;
    }
    shop.buy(9, "pg-conditional").await.assert_ok();
    let readiness = shop.get("/readyz").await;
    readiness.assert_problem(503, "not-ready");
    let said = readiness.body["detail"].as_str().unwrap();
    assert!(said.starts_with("Redis grant"), "{said}");
    shop.get("/healthz").await.assert_ok();
}

async fn assert_sells(lab: &Lab, shop: &Shop) {
    shop.until_ready().await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        shop.buy(goods_no, strategy).await.assert_ok();
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 1);
    }
}

// S108
#[tokio::test]
async fn without_an_answer_of_redis_its_strategies_sell_nothing() {
    let (redis, lab, instance) = start().await;
    redis.pause().unwrap();
    assert_refused(&lab, &instance, "Redis did not answer").await;
    redis.resume().unwrap();
    assert_sells(&lab, &instance).await;
}

/// A server that was started again has forgotten the scripts.
// S108
#[tokio::test]
async fn a_redis_that_was_killed_and_started_again_sells_again() {
    let (mut redis, lab, instance) = start().await;
    redis.kill().await.unwrap();
    assert_refused(&lab, &instance, "Redis did not answer").await;
    redis.restart().await.unwrap();
    assert_sells(&lab, &instance).await;
}

// S108
#[tokio::test]
async fn scripts_that_redis_has_forgotten_are_loaded_again() {
    let (redis, lab, instance) = start().await;
    redis.command(&["SCRIPT", "FLUSH"]).await.unwrap();
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        instance.buy(goods_no, strategy).await.assert_ok();
        redis.command(&["SCRIPT", "FLUSH"]).await.unwrap();
        instance.buy(goods_no, strategy).await.assert_ok();
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 2);
    }
}

/// Starts the program with operators' listener, so that its log and its probe may name the remedy.
async fn program(lab: &Lab, url: &str) -> Program {
    let program = Program::start(lab, StopSignal::Terminate, &[], &[("REDIS_URL", url)]).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        program.put_on_sale(goods_no, 5, strategy).await.assert_ok();
    }
    program.put_on_sale(9, 5, "pg-conditional").await.assert_ok();
    program
}

#[track_caller]
fn assert_logged(program: &Program, part: &str) {
    let log = program.process.log_tail();
    assert!(log.contains(part) && !log.contains("sesame"), "{part} in {log}");
}

// S108
#[tokio::test]
async fn a_refusal_of_redis_is_logged_with_its_remedy() {
    let redis = Redis::start(RedisConfig::default()).await.unwrap();
    let lab = Lab::on_redis(&redis).await;
    for (spoil, remedy, mend) in [
        (
            &["REPLICAOF", "127.0.0.1", "1"][..],
            "name the primary in --redis-url (REDIS_URL)",
            &["REPLICAOF", "NO", "ONE"][..],
        ),
        (&["CONFIG", "SET", "maxmemory", "1"], "raise maxmemory", &["CONFIG", "SET", "maxmemory", "0"]),
    ] {
        let lab = Lab::on_redis(&redis).await;
        let program = program(&lab, &lab.redis).await;
        redis.command(spoil).await.unwrap();
        assert_refused(&lab, &program, "Redis refused").await;
        assert_logged(&program, remedy);
        redis.command(mend).await.unwrap();
        assert_sells(&lab, &program).await;
    }

    // A user whose password has changed learns it when its connection ends.
    redis.command(&["ACL", "SETUSER", "shop", "on", ">sesame", "~seckill:*", "+@all"]).await.unwrap();
    let program = program(&lab, &redis.url().replace("redis://", "redis://shop:sesame@")).await;
    redis.command(&["ACL", "SETUSER", "shop", "resetpass", ">other"]).await.unwrap();
    redis.command(&["CLIENT", "KILL", "USER", "shop"]).await.unwrap();
    wait_until(async || program.process.log_tail().contains("give its password in --redis-url (REDIS_URL)")).await;
    assert_refused(&lab, &program, "Redis refused").await;
    assert_logged(&program, "Password authentication failed");
    redis.command(&["ACL", "SETUSER", "shop", ">sesame"]).await.unwrap();
    assert_sells(&lab, &program).await;
}

/// Goal: after a failover, an instance finds the new primary behind the name in its URL. Method: the old primary becomes a replica and
/// keeps its connections.
// S108
#[tokio::test]
async fn a_primary_that_was_demoted_is_left_for_its_successor() {
    let [old, new] =
        [Redis::start(RedisConfig::default()).await.unwrap(), Redis::start(RedisConfig::default()).await.unwrap()];
    let name = Proxy::start(&format!("127.0.0.1:{}", old.port())).await.unwrap();
    let mut lab = Lab::new().await;
    lab.redis = format!("redis://{}", name.connect_string());
    let instance = lab.start(&[]).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
    }
    name.lead_to(([127, 0, 0, 1], new.port()).into());
    old.command(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]).await.unwrap();
    instance.buy(1, STRATEGIES[0]).await.assert_problem(503, "lock-service-unavailable");
    assert_sells(&lab, &instance).await;
}

/// Goal: a hold that cannot be renewed is lost by our own clock. Method: Redis is frozen while a buyer waits for the row.
// S27, S101
#[tokio::test]
async fn a_hold_that_cannot_be_renewed_writes_nothing() {
    let redis = Redis::start(RedisConfig::default()).await.unwrap();
    let lab = Lab::on_redis(&redis).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        let instance = instance_with_sale(&lab, &SHORT_LIVED, goods_no, strategy).await;
        let row = lab.lock_row(goods_no).await;
        let buyer = instance.spawn_buy(goods_no, strategy);
        lab.wait_for_lock().await;
        redis.pause().unwrap();
        buyer.await.unwrap().assert_problem(503, "hold-lost");
        row.release().await;
        lab.assert_unsold(goods_no, 5).await;
        assert_eq!(instance.losses(strategy, "silence").await, Some(1.0), "{strategy}");
        redis.resume().unwrap();
        instance.until_ready().await;
        instance.buy(goods_no, strategy).await.assert_ok();
    }
}

/// Goal: a lock that Redis grants after its buyer has given up is given back. Method: Redis is frozen when the command comes, and its
/// locks live longer than this test.
// S109
#[tokio::test]
async fn a_lock_that_was_granted_too_late_is_given_back() {
    let redis = Redis::start(RedisConfig::default()).await.unwrap();
    let lab = Lab::on_redis(&redis).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        let instance = instance_with_sale(&lab, &["--redis-lock-ttl", "10m"], goods_no, strategy).await;
        redis.pause().unwrap();
        instance.buy(goods_no, strategy).await.assert_problem(503, "lock-service-unavailable");
        redis.resume().unwrap();
        instance.until_ready().await;
        // It waits for the late lock, if that is still there.
        instance.buy(goods_no, strategy).await.assert_ok();
    }
}

/// Goal: a release that Redis did not hear is sent again. Method: Redis is frozen when the buyer is answered, and its locks live longer
/// than this test.
// S109
#[tokio::test]
async fn a_release_that_was_not_answered_is_sent_again() {
    let redis = Redis::start(RedisConfig::default()).await.unwrap();
    let lab = Lab::on_redis(&redis).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        let instance = instance_with_sale(&lab, &["--redis-lock-ttl", "10m"], goods_no, strategy).await;
        let row = lab.lock_row(goods_no).await;
        let buyer = instance.spawn_buy(goods_no, strategy);
        lab.wait_for_lock().await;
        redis.pause().unwrap();
        row.release().await;
        buyer.await.unwrap().assert_ok();
        redis.resume().unwrap();
        instance.until_ready().await;
        instance.buy(goods_no, strategy).await.assert_ok();
        assert_eq!(instance.losses(strategy, "key_gone").await, Some(0.0), "{strategy}");
    }
}
