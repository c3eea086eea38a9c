//! What the gate counts as its orders are settled, and which consumers it forgets, by the scripts of the service alone.

use redis::aio::MultiplexedConnection;

use super::mistakes::connect;
use crate::redis::shared_redis;

const SCRIPT: &str = include_str!("../../../src/redis_store/gate/settle.lua");
const FORGET: &str = include_str!("../../../src/redis_store/gate/forget.lua");

/// A gate that was loaded with 10 units, has promised two orders of 3 units, and none is settled.
struct ByHand {
    redis: MultiplexedConnection,
    /// The beginning of its keys.
    prefix: String,
    messages: Vec<String>,
}

impl ByHand {
    async fn load() -> ByHand {
        let mut redis = connect(shared_redis().await).await;
        let prefix = format!("settling:{:016x}", rand::random::<u64>());
        let [gate, stream] = ["gate", "orders"].map(|name| format!("{prefix}:{name}"));
        let fields = "sale 1 load one free 4 pending 6 withheld 0 in_database 10 version 0";
        let _: i64 = redis::cmd("HSET")
            .arg(&gate)
            .arg(fields.split(' ').collect::<Vec<_>>())
            .query_async(&mut redis)
            .await
            .unwrap();
        let mut messages = Vec::new();
        for _ in 0..2 {
            messages.push(redis::cmd("XADD").arg(&[&stream, "*", "order", "1"]).query_async(&mut redis).await.unwrap());
        }
        let group = ["CREATE", &stream, "writers", "0"];
        let _: String = redis::cmd("XGROUP").arg(&group).query_async(&mut redis).await.unwrap();
        let read = ["GROUP", "writers", "one", "STREAMS", &stream, ">"];
        let _: redis::Value = redis::cmd("XREADGROUP").arg(&read).query_async(&mut redis).await.unwrap();
        ByHand { redis, prefix, messages }
    }

    /// Settles an order. The row had a version and units when that was decided.
    async fn settle(&mut self, order: usize, version: i64, on_hand: i64, is_refused: bool) {
        let mut call = redis::cmd("EVAL");
        call.arg(SCRIPT).arg(3);
        for name in ["orders", "gate", "buyers"] {
            call.arg(format!("{}:{name}", self.prefix));
        }
        call.arg("writers").arg(1).arg(version).arg(on_hand);
        call.arg(&self.messages[order]).arg("one").arg(3).arg("").arg("1").arg(if is_refused { 0 } else { -1 });
        let settled: i64 = call.query_async(&mut self.redis).await.unwrap();
        assert_eq!(settled, 1);
    }

    async fn free(&mut self) -> i64 {
        redis::cmd("HGET").arg(format!("{}:gate", self.prefix)).arg("free").query_async(&mut self.redis).await.unwrap()
    }
}

/// Two consumers may settle their orders in another sequence than they have committed them.
// S119
#[tokio::test]
async fn orders_settled_in_another_sequence_lose_no_unit() {
    let mut gate = ByHand::load().await;
    gate.settle(1, 2, 4, false).await;
    assert_eq!(gate.free().await, 4, "the first order is written, and is not settled yet");
    gate.settle(0, 1, 7, false).await;
    assert_eq!(gate.free().await, 4);
}

/// As long as an order is under way, units that the row may lack are withheld.
// S119
#[tokio::test]
async fn withheld_units_come_back_when_all_is_settled() {
    let mut gate = ByHand::load().await;
    gate.settle(1, 1, 7, true).await;
    assert_eq!(gate.free().await, 4, "another order is under way, and the row may have its units or not");
    gate.settle(0, 1, 7, false).await;
    assert_eq!(gate.free().await, 7);
}

/// A consumer that has an order may be dead, and the order is not lost with it.
// S118
#[tokio::test]
async fn only_an_idle_consumer_without_an_order_is_forgotten() {
    let ByHand { mut redis, prefix, .. } = ByHand::load().await;
    let stream = format!("{prefix}:orders");
    let create = ["CREATECONSUMER", &stream, "writers", "gone"];
    let _: i64 = redis::cmd("XGROUP").arg(&create).query_async(&mut redis).await.unwrap();
    let mut forget = async |after_ms: i64| -> i64 {
        let call = &mut redis::cmd("EVAL");
        call.arg(FORGET).arg(1).arg(&stream).arg("writers").arg(after_ms).query_async(&mut redis).await.unwrap()
    };
    assert_eq!(forget(3_600_000).await, 0, "it has just come");
    assert_eq!(forget(-1).await, 1, "the one that has orders is left");
    assert_eq!(forget(-1).await, 0);
}
