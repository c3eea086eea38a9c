//! Mistakes that are often copied, planted beside the service: the books show each of them.

use redis::aio::MultiplexedConnection;
use redis::{Client, Value};
use serde_json::json;
use testbed::Redis;

use super::{GATE, answers, start};
use crate::commits::Gate;
use crate::lab::{Lab, wait_until};
use crate::redis::shared_redis;

const SCRIPT: &str = include_str!("../../../src/redis_store/gate/promise.lua");

/// A message, and its fields with their values.
type Delivered = (String, Vec<String>);

pub(super) async fn connect(redis: &Redis) -> MultiplexedConnection {
    Client::open(redis.url()).unwrap().get_multiplexed_async_connection().await.unwrap()
}

/// Takes the next order, as a consumer that dies before it has written it. Returns the message and the number of the order.
async fn take(redis: &mut MultiplexedConnection, stream: &str, name: &str) -> (String, i64) {
    let mut read = redis::cmd("XREADGROUP");
    read.arg(&["GROUP", "writers", name, "COUNT", "1", "STREAMS", stream, ">"]);
    let mut of_streams: Vec<(String, Vec<Delivered>)> = read.query_async(redis).await.unwrap();
    let (message, fields) = of_streams.remove(0).1.remove(0);
    assert_eq!(fields[0], "order");
    (message, fields[1].parse().unwrap())
}

/// The consumer of the course acknowledges what it has not written. One of two consumers does so, and both die.
// S118
#[tokio::test]
async fn a_consumer_that_acknowledges_first_loses_the_order() {
    let redis = shared_redis().await;
    let (lab, instance) = start(redis, &[]).await;
    instance.put_on_sale(1, 5, GATE).await.assert_ok();
    let gate = Gate::close(&lab).await;
    let presses = lab.sell_uncommitted(redis, &instance, 1, GATE, 3).await;
    let mut connection = connect(redis).await;
    let stream = lab.gate_key(GATE, "orders").await;
    let (message, lost) = take(&mut connection, &stream, "careless").await;
    let (_, kept) = take(&mut connection, &stream, "careful").await;
    let _: i64 = redis::cmd("XACK").arg(&[&stream, "writers", &message]).query_async(&mut connection).await.unwrap();
    let _: i64 = redis::cmd("XDEL").arg(&[&stream, &message]).query_async(&mut connection).await.unwrap();
    gate.open().await;
    wait_until(async || lab.streamed(redis, GATE).await == 0).await;
    let told: Vec<_> = answers(presses).await.iter().map(|answer| answer.body["order_id"].as_i64().unwrap()).collect();
    assert!(told.contains(&lost) && told.contains(&kept));
    let written: Vec<i64> =
        sqlx::query_scalar("select order_id from orders").fetch_all(&mut lab.connect().await).await.unwrap();
    let missing: Vec<_> = told.into_iter().filter(|order| !written.contains(order)).collect();
    assert_eq!(missing, [lost], "only the order that was acknowledged first is missing");
}

/// Runs a script for a purchase of one unit by ann, as the service does.
async fn promise(lab: &Lab, redis: &mut MultiplexedConnection, script: &str) -> String {
    let mut call = redis::cmd("EVAL");
    call.arg(script).arg(4);
    for name in ["gate:1", "buyers:1", "last-order", "orders"] {
        call.arg(lab.gate_key(GATE, name).await);
    }
    call.arg(&["1", "1", "1", "ann", "", "by hand", "", "1000", "7"]);
    let answer: Vec<Value> = call.query_async(redis).await.unwrap();
    redis::from_redis_value(answer[0].clone()).unwrap()
}

/// A script that does not look at the buyer promises what the row refuses.
// S119
#[tokio::test]
async fn a_script_without_the_buyers_check_promises_too_much() {
    let redis = shared_redis().await;
    let (lab, instance) = start(redis, &[]).await;
    instance.put_sale(1, &json!({ "stock": 5, "strategy": GATE, "per_buyer": 1 })).await.assert_ok();
    let sold = instance.order_for(1, "ann", "key").await;
    sold.assert_created();
    instance.until_written(&sold).await;
    let mut connection = connect(redis).await;
    assert_eq!(promise(&lab, &mut connection, SCRIPT).await, "over-limit");
    let check = SCRIPT.find("if gate[3] then\n    local had").unwrap();
    let behind = SCRIPT.find("-- The number of an order").unwrap();
    let careless = format!("{}{}", &SCRIPT[..check], &SCRIPT[behind..]);
    assert_eq!(promise(&lab, &mut connection, &careless).await, "promised");
    wait_until(async || lab.reasons(1).await == ["over-limit"]).await;
    assert_eq!(lab.assert_adds_up(1, "the row keeps the limit").await, 1);
}
