//! What a promise is worth when Redis, a consumer or the database takes it back.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use sqlx::Executor;
use testbed::{Redis, RedisConfig, RedisDurability, StopSignal};

use super::{CONFIRMED, GATE, HURRIED, STRATEGIES, answers, sold, start};
use crate::commits::Gate;
use crate::lab::{Lab, wait_until};
use crate::program::Program;
use crate::redis::shared_redis;

/// Redis is killed while three orders are promised, of which one is with a consumer.
// S117
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_without_a_log_loses_orders_that_were_told() {
    let mut redis =
        Redis::start(RedisConfig { durability: RedisDurability::None, ..RedisConfig::default() }).await.unwrap();
    let (lab, instance) = start(&redis, &HURRIED).await;
    let gate = Gate::close(&lab).await;
    let mut presses = Vec::new();
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
        presses.push(lab.sell_uncommitted(&redis, &instance, goods_no, strategy, 3).await);
    }
    redis.kill().await.unwrap();
    redis.restart().await.unwrap();
    gate.open().await;
    let confirmed = answers(presses.pop().unwrap()).await;
    let told = answers(presses.pop().unwrap()).await;
    assert_eq!((sold(&told), sold(&confirmed)), (3, 1), "a confirmed buyer is told of an order that there is");
    confirmed[1..].iter().for_each(|answer| answer.assert_problem(503, "outcome-unknown"));
    instance.until_ready().await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 1);
        // The units of the lost orders are sold again.
        for _ in 0..4 {
            instance.buy(goods_no, strategy).await.assert_ok();
        }
        instance.buy(goods_no, strategy).await.assert_problem(409, "sold-out");
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 5, "{strategy}: two buyers were told of no order");
    }
}

/// Redis is killed after it has promised an order of a key. Neither Redis nor the database knows the key any more.
// S117
#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_a_lost_order_buys_another_order() {
    let mut redis =
        Redis::start(RedisConfig { durability: RedisDurability::None, ..RedisConfig::default() }).await.unwrap();
    let (lab, instance) = start(&redis, &HURRIED).await;
    instance.put_on_sale(1, 5, GATE).await.assert_ok();
    let gate = Gate::close(&lab).await;
    // While a consumer writes this one, the next one waits in the stream.
    let presses = lab.sell_uncommitted(&redis, &instance, 1, GATE, 1).await;
    let first = instance.order_for(1, "ann", "key").await;
    first.assert_created();
    redis.kill().await.unwrap();
    redis.restart().await.unwrap();
    gate.open().await;
    assert_eq!(sold(&answers(presses).await), 1);
    instance.until_ready().await;
    let second = instance.order_for(1, "ann", "key").await;
    second.assert_created();
    assert_eq!(second.header("idempotent-replayed"), None);
    assert_ne!(second.body["order_id"], first.body["order_id"]);
    instance.until_written(&second).await;
    instance.get(first.header("location").unwrap()).await.assert_problem(404, "unknown-order");
    assert_eq!(lab.assert_adds_up(1, "a lost key").await, 2);
}

/// Redis is restored from a backup that is older than three orders. It has an older number of the last order, and the same second.
// S117
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_gate_gives_no_number_of_an_order_again() {
    let mut redis = Redis::start(RedisConfig::default()).await.unwrap();
    let (lab, instance) = start(&redis, &HURRIED).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 9, strategy).await.assert_ok();
        let backup = {
            let first = instance.buy(goods_no, strategy).await;
            first.assert_ok();
            instance.until_written(&first).await;
            redis.dump().await.unwrap()
        };
        let mut numbers = Vec::new();
        let mut buy_three = async || {
            for _ in 0..3 {
                let answer = instance.buy(goods_no, strategy).await;
                answer.assert_ok();
                instance.until_written(&answer).await;
                numbers.push(answer.body["order_id"].as_i64().unwrap());
            }
        };
        buy_three().await;
        redis.restore(&backup).await.unwrap();
        instance.until_ready().await;
        buy_three().await;
        assert!(numbers.is_sorted_by(|one, next| one < next), "{strategy}: {numbers:?}");
        assert_eq!(lab.units_ordered(goods_no, 1).await, 7, "{strategy}: each buyer has an order of its own");
    }
}

/// Goal: an order that is delivered twice is written once. Method: the process is killed between the commit and the acknowledgement.
// S118
#[tokio::test(flavor = "multi_thread")]
async fn an_order_of_a_killed_consumer_is_written_once() {
    let redis = shared_redis().await;
    let lab = Lab::new().await;
    let killed = Program::start(&lab, StopSignal::Terminate, &[], &[("REDIS_URL", &redis.url())]).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    killed.put_on_sale(1, 5, GATE).await.assert_ok();
    let gate = Gate::close(&lab).await;
    let told = answers(lab.sell_uncommitted(redis, &killed, 1, GATE, 3).await).await;
    assert_eq!(sold(&told), 3);
    kill(Pid::from_raw(killed.process.pid()), Signal::SIGKILL).unwrap();
    gate.open().await;
    wait_until(async || lab.orders().await == 1).await;
    assert_eq!(lab.streamed(redis, GATE).await, 3, "the committed order is not acknowledged");
    let other = lab.start(&[]).await;
    for answer in &told {
        other.until_written(answer).await;
    }
    wait_until(async || lab.streamed(redis, GATE).await == 0).await;
    assert_eq!(lab.assert_adds_up(1, "delivered twice").await, 3);
    assert_eq!(lab.gate_field(redis, GATE, 1, "pending").await, 0);
}

/// Orders are trimmed from the stream. Their units are nobody's, until the gate is loaded again.
// S117
#[tokio::test(flavor = "multi_thread")]
async fn units_of_orders_that_were_trimmed_are_nobodys() {
    let redis = shared_redis().await;
    let (lab, instance) = start(redis, &HURRIED).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
        let gate = Gate::close(&lab).await;
        let presses = lab.sell_uncommitted(redis, &instance, goods_no, strategy, 3).await;
        redis.command(&["XTRIM", &lab.gate_key(strategy, "orders").await, "MAXLEN", "0"]).await.unwrap();
        gate.open().await;
        assert_eq!(sold(&answers(presses).await), if strategy == GATE { 3 } else { 1 });
        wait_until(async || lab.units_ordered(goods_no, 1).await == 1).await;
        for _ in 0..2 {
            instance.buy(goods_no, strategy).await.assert_ok();
        }
        instance.buy(goods_no, strategy).await.assert_problem(409, "sold-out");
        assert_eq!(lab.on_hand(goods_no).await, 2, "{strategy}: the database has what nobody gets");
        // The remedy of an operator.
        redis.command(&["DEL", &lab.gate_key(strategy, &format!("gate:{goods_no}")).await]).await.unwrap();
        for _ in 0..2 {
            instance.buy(goods_no, strategy).await.assert_ok();
        }
        instance.buy(goods_no, strategy).await.assert_problem(409, "sold-out");
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 5);
    }
}

/// Goal: units of a refused order come back if the database has them. Method: somebody has taken all units by hand, or what a buyer
/// may have.
// S119
#[tokio::test]
async fn units_of_a_refused_order_come_back_if_the_row_has_them() {
    let redis = shared_redis().await;
    let (lab, instance) = start(redis, &[]).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        instance.put_sale(goods_no, &json!({ "stock": 3, "strategy": strategy, "per_buyer": 1 })).await.assert_ok();
        let order = async |buyer: &str, key: &str| {
            let answer = instance.order_for(goods_no, buyer, &format!("{strategy}-{key}")).await;
            instance.until_written(&answer).await;
            answer
        };
        order("ann", "1").await.assert_created();
        let by_hand = "insert into buyer_units values ($1, 1, 'bob', 1, 1)";
        sqlx::query(by_hand).bind(goods_no).execute(&mut lab.connect().await).await.unwrap();
        let refused = order("bob", "2").await;
        if strategy == GATE {
            refused.assert_created();
            let told = instance.get(refused.header("location").unwrap()).await;
            told.assert_problem(404, "unknown-order");
            let detail = told.body["detail"].as_str().unwrap();
            assert!(detail.contains("refused: limit per buyer reached"), "{detail}");
        } else {
            refused.assert_problem(403, "over-limit");
        }
        assert_eq!(lab.reasons(goods_no).await, ["over-limit"]);
        wait_until(async || lab.gate_field(redis, strategy, goods_no, "free").await == 2).await;
        // So does the key.
        let bought = order("cat", "2").await;
        bought.assert_created();
        assert_eq!(bought.header("idempotent-replayed"), None);
        let taken = "update goods set on_hand = 0 where goods_no = $1";
        sqlx::query(taken).bind(goods_no).execute(&mut lab.connect().await).await.unwrap();
        let refused = order("dan", "3").await;
        if strategy == GATE {
            refused.assert_created();
        } else {
            refused.assert_problem(409, "sold-out");
        }
        assert_eq!(lab.reasons(goods_no).await, ["over-limit", "sold-out"]);
        wait_until(async || lab.gate_field(redis, strategy, goods_no, "pending").await == 0).await;
        order("eve", "4").await.assert_problem(409, "sold-out");
        assert_eq!(lab.units_ordered(goods_no, 1).await, 2);
    }
}

/// The key of the gate is deleted while three orders are on their way. What is loaded counts their units once more.
// S117
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_loaded_too_early_promises_units_twice() {
    let redis = shared_redis().await;
    let (lab, instance) = start(redis, &[]).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 3, strategy).await.assert_ok();
        let gate = Gate::close(&lab).await;
        let mut presses = lab.sell_uncommitted(redis, &instance, goods_no, strategy, 3).await;
        instance.buy(goods_no, "").await.assert_problem(409, "sold-out");
        redis.command(&["DEL", &lab.gate_key(strategy, &format!("gate:{goods_no}")).await]).await.unwrap();
        presses.extend((0..3).map(|_| instance.press(goods_no)));
        wait_until(async || lab.streamed(redis, strategy).await == 6).await;
        gate.open().await;
        let told = answers(presses).await;
        assert_eq!(sold(&told), if strategy == GATE { 6 } else { 3 }, "{strategy}");
        wait_until(async || lab.streamed(redis, strategy).await == 0).await;
        assert_eq!(lab.reasons(goods_no).await, ["sold-out"; 3]);
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 3);
        instance.buy(goods_no, "").await.assert_problem(409, "sold-out");
        assert_eq!(lab.gate_field(redis, strategy, goods_no, "free").await, 0);
    }
}

/// Goal: an order that cannot be written keeps no other waiting. Method: a trigger fails for one buyer, and a message is none.
// S118
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_cannot_be_written_blocks_no_other() {
    let redis = shared_redis().await;
    let (lab, instance) = start(redis, &[]).await;
    let sql = "create function spoil() returns trigger language plpgsql as
               $$ begin if new.buyer = 'poison' then raise exception 'poison'; end if; return new; end $$;
               create trigger spoil before insert on orders for each row execute function spoil()";
    lab.connect().await.execute(sql).await.unwrap();
    instance.put_on_sale(1, 9, CONFIRMED).await.assert_ok();
    let gate = Gate::close(&lab).await;
    let mut presses = lab.sell_uncommitted(redis, &instance, 1, CONFIRMED, 2).await;
    redis.command(&["XADD", &lab.gate_key(CONFIRMED, "orders").await, "*", "order", "none"]).await.unwrap();
    let shop = instance.another();
    let poison = tokio::spawn(async move { shop.order_for(1, "poison", "poison").await });
    wait_until(async || lab.streamed(redis, CONFIRMED).await == 4).await;
    presses.push(instance.press(1));
    wait_until(async || lab.streamed(redis, CONFIRMED).await == 5).await;
    gate.open().await;
    assert_eq!(sold(&answers(presses).await), 3);
    poison.await.unwrap().assert_problem(500, "internal");
    wait_until(async || lab.streamed(redis, CONFIRMED).await == 0).await;
    assert_eq!(lab.reasons(1).await, ["internal"]);
    assert_eq!(lab.assert_adds_up(1, "poison").await, 3);
    assert_eq!(lab.gate_field(redis, CONFIRMED, 1, "free").await, 6);
}
