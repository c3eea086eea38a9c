//! `redis-gate` and `redis-gate-confirmed`: what they promise, and what becomes of a promise when something is lost.

mod hazards;
mod mistakes;
mod outages;
mod settling;

use demo_service::strategy::entry::Entry;
use futures_util::future::join_all;
use serde_json::{Value, json};
use testbed::Redis;
use tokio::task::JoinHandle;

use crate::commits::Gate;
use crate::lab::{Answer, Instance, Lab, Shop, cart, wait_until};
use crate::redis::shared_redis;

/// The strategy that answers before there is an order.
const GATE: &str = "redis-gate";
const CONFIRMED: &str = "redis-gate-confirmed";
const STRATEGIES: [&str; 2] = [GATE, CONFIRMED];

/// Returns whether a strategy sells at a gate.
pub(crate) fn is_gate(entry: &Entry) -> bool {
    STRATEGIES.contains(&entry.name)
}

/// Waits that a test can wait for the end of.
const HURRIED: [&str; 6] = ["--lock-wait", "1s", "--db-timeout", "4s", "--http-timeout", "5s"];

impl Shop {
    /// Waits until an order that was promised is written or refused.
    pub(crate) async fn until_written(&self, answer: &Answer) {
        if !answer.status.is_success() || answer.body["strategy"] != GATE {
            return;
        }
        let path = format!("/orders/{}", answer.body["order_id"]);
        // As long as nothing is decided, the order is unknown.
        self.look_until(&path, Answer::is_decided_order).await;
    }

    /// Starts a purchase beside the test, which ends with its answer.
    fn press(&self, goods_no: i64) -> JoinHandle<Answer> {
        let shop = self.another();
        tokio::spawn(async move { shop.get(&format!("/goods-stock/{goods_no}")).await })
    }

    /// Orders a unit for a buyer under a key. Does not wait until the order is written.
    async fn order_for(&self, goods_no: i64, buyer: &str, key: &str) -> Answer {
        let body = json!({ "quantity": 1, "buyer": buyer });
        self.post(&format!("/goods/{goods_no}/orders"), Some(key), &body).await
    }
}

impl Answer {
    fn is_decided_order(&self) -> bool {
        self.status.is_success() || self.body["detail"].as_str().is_some_and(|detail| detail.contains("refused"))
    }
}

impl Lab {
    /// Returns the name of a key of a family's gates.
    async fn gate_key(&self, family: &str, name: &str) -> String {
        self.shop_key(&format!("{family}:{name}")).await
    }

    /// Returns the name of a key of all gates.
    async fn shop_key(&self, name: &str) -> String {
        let sql = "select database from lock_service";
        let database: String = sqlx::query_scalar(sql).fetch_one(&mut self.connect().await).await.unwrap();
        format!("seckill:{{{database}}}:{name}")
    }

    /// Returns the reasons for which promised orders of a SKU were refused.
    async fn reasons(&self, goods_no: i64) -> Vec<String> {
        let sql = "select reason from refused_orders where goods_no = $1 order by order_id";
        sqlx::query_scalar(sql).bind(goods_no).fetch_all(&mut self.connect().await).await.unwrap()
    }

    /// Returns how many orders of a family are in the stream.
    pub(crate) async fn streamed(&self, redis: &Redis, family: &str) -> i64 {
        let length = redis.command(&["XLEN", &self.gate_key(family, "orders").await]).await.unwrap();
        length.unwrap().parse().unwrap()
    }

    /// Returns a number that a gate counts.
    async fn gate_field(&self, redis: &Redis, family: &str, goods_no: i64, field: &str) -> i64 {
        let key = self.gate_key(family, &format!("gate:{goods_no}")).await;
        redis.command(&["HGET", &key, field]).await.unwrap().unwrap().parse().unwrap()
    }

    /// Sells units while no order can be committed: the first is with a consumer, the others are in the stream. Returns who presses.
    async fn sell_uncommitted(
        &self,
        redis: &Redis,
        shop: &Shop,
        goods_no: i64,
        family: &str,
        count: i64,
    ) -> Vec<JoinHandle<Answer>> {
        let committing = self.committing().await;
        let mut presses = vec![shop.press(goods_no)];
        wait_until(async || self.committing().await > committing).await;
        presses.extend((1..count).map(|_| shop.press(goods_no)));
        wait_until(async || self.streamed(redis, family).await == count).await;
        presses
    }

    /// Returns how many transactions wait in their commits.
    async fn committing(&self) -> i64 {
        let sql = "select count(*) from pg_stat_activity
                   where datname = current_database() and state = 'active' and query = 'commit'";
        sqlx::query_scalar(sql).fetch_one(&mut self.connect().await).await.unwrap()
    }
}

/// Starts a lab whose commits of orders a gate can stop.
async fn start(redis: &Redis, arguments: &[&str]) -> (Lab, Instance) {
    let lab = Lab::on_redis(redis).await;
    let instance = lab.start(arguments).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    (lab, instance)
}

async fn answers(presses: Vec<JoinHandle<Answer>>) -> Vec<Answer> {
    join_all(presses).await.into_iter().map(Result::unwrap).collect()
}

fn sold(answers: &[Answer]) -> usize {
    answers.iter().filter(|answer| answer.status.is_success()).count()
}

// S122
#[tokio::test]
async fn the_gate_answers_before_there_is_an_order() {
    let redis = shared_redis().await;
    let (lab, instance) = start(redis, &[]).await;
    instance.put_on_sale(1, 5, GATE).await.assert_ok();
    let gate = Gate::close(&lab).await;
    let one = instance.get("/goods-stock/1").await;
    one.assert_ok();
    let order_id = one.body["order_id"].as_i64().unwrap();
    assert!((1 << 50..1 << 53).contains(&order_id), "{one:?}");
    assert_eq!((&one.body["remaining"], &one.body["sale"]), (&json!(4), &json!(1)));
    let order =
        async |quantity: i64| instance.post("/goods/1/orders", Some("key"), &json!({ "quantity": quantity })).await;
    let first = order(2).await;
    first.assert_created();
    let path = first.header("location").unwrap();
    instance.get(path).await.assert_problem(404, "unknown-order");
    assert_eq!(lab.orders().await, 0);
    // Before there is a row, Redis knows the key.
    order(2).await.assert_replay_of(&first);
    order(1).await.assert_problem(422, "idempotency-key-reused");
    gate.open().await;
    instance.until_written(&first).await;
    assert_eq!(instance.get(path).await.body, first.body, "the order is written as it was told");
    // From now on, the database does.
    redis.command(&["DEL", &lab.gate_key(GATE, "key:key").await]).await.unwrap();
    order(2).await.assert_replay_of(&first);
    wait_until(async || lab.streamed(redis, GATE).await == 0).await;
    assert_eq!(lab.assert_adds_up(1, GATE).await, 3);
    let counted = ["free", "pending", "in_database"].map(|field| lab.gate_field(redis, GATE, 1, field));
    assert_eq!(join_all(counted).await, [2, 0, 2]);
    let both = instance.post(&format!("/orders?strategy={GATE}"), Some("cart"), &cart(&[(1, 1), (2, 1)])).await;
    both.assert_problem(404, "unknown-goods");
    instance.put_on_sale(2, 5, GATE).await.assert_ok();
    let both = instance.post(&format!("/orders?strategy={GATE}"), Some("cart"), &cart(&[(1, 1), (2, 1)])).await;
    both.assert_problem(422, "one-at-a-time");
}

// S118
#[tokio::test]
async fn the_backlog_of_a_gate_is_shown() {
    let redis = shared_redis().await;
    let (lab, instance) = start(redis, &[]).await;
    instance.put_on_sale(1, 5, GATE).await.assert_ok();
    let gate = Gate::close(&lab).await;
    let presses = lab.sell_uncommitted(redis, &instance, 1, GATE, 3).await;
    let shows =
        async |orders: f64| instance.metric(r#"seckill_gate_backlog{strategy="redis-gate"}"#).await == Some(orders);
    wait_until(async || shows(3.0).await).await;
    gate.open().await;
    answers(presses).await;
    wait_until(async || shows(0.0).await).await;
    assert!(instance.metric(r#"seckill_gate_backlog{strategy="zk-mutex"}"#).await.unwrap().is_nan());
}

/// Goal: the two families never give out one number, whatever the clock of Redis says. Method: the last number is one of the future.
// S122
#[tokio::test]
async fn both_families_number_the_orders_of_one_table() {
    let redis = shared_redis().await;
    let (lab, instance) = start(redis, &[]).await;
    let last = lab.shop_key("last-order").await;
    let future: i64 = 1 << 52;
    redis.command(&["SET", &last, &future.to_string()]).await.unwrap();
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
        let sold = instance.get(&format!("/goods-stock/{goods_no}")).await;
        assert_eq!(sold.body["order_id"], json!(future + goods_no), "{sold:?}");
        wait_until(async || lab.streamed(redis, strategy).await == 0).await;
    }
    assert_eq!(lab.orders().await, 2);
}

/// Goal: a buyer is answered at the commit of any instance. Method: one of two instances has taken the orders of both.
// S122
#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_buyer_is_answered_at_the_commit() {
    let redis = shared_redis().await;
    let (lab, hurried) = start(redis, &HURRIED).await;
    let patient = lab.start(&["--instance", "other"]).await;
    hurried.put_on_sale(1, 5, CONFIRMED).await.assert_ok();
    let gate = Gate::close(&lab).await;
    let late = hurried.order_for(1, "ann", "key").await;
    late.assert_problem(503, "outcome-unknown");
    let order_id = late.body["order_id"].as_i64().unwrap();
    assert!(late.body["detail"].as_str().unwrap().contains(&format!("/orders/{order_id}")), "{late:?}");
    let buyers = [hurried.press(1), patient.press(1)];
    wait_until(async || lab.streamed(redis, CONFIRMED).await == 3).await;
    assert!(buyers.iter().all(|buyer| !buyer.is_finished()));
    let repeated = patient.order_for(1, "ann", "key");
    let opened = async {
        assert_eq!(lab.orders().await, 0);
        gate.open().await;
    };
    let (repeated, ()) = tokio::join!(repeated, opened);
    repeated.assert_created();
    assert_eq!(
        (repeated.body["order_id"].as_i64(), repeated.header("idempotent-replayed")),
        (Some(order_id), Some("true"))
    );
    for buyer in buyers {
        let sold = buyer.await.unwrap();
        sold.assert_ok();
        hurried.get(&format!("/orders/{}", sold.body["order_id"])).await.assert_ok();
    }
    assert_eq!(lab.assert_adds_up(1, CONFIRMED).await, 3);
}

/// Goal: an instance that remembers an older sale promises nothing of it. Method: another instance starts the next sale.
// S120
#[tokio::test]
async fn the_gate_of_an_older_sale_promises_nothing() {
    let lab = Lab::new().await;
    let starting = lab.start(&[]).await;
    let other = lab.start(&[]).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        starting.put_on_sale(goods_no, 5, strategy).await.assert_ok();
        other.buy(goods_no, "").await.assert_ok();
        starting.put_on_sale(goods_no, 3, strategy).await.assert_ok();
        let bought = other.buy(goods_no, "").await;
        bought.assert_ok();
        assert_eq!((&bought.body["sale"], &bought.body["remaining"]), (&json!(2), &json!(2)));
        assert_eq!(lab.reasons(goods_no).await, [""; 0]);
        assert_eq!(other.get(&format!("/goods/{goods_no}")).await.body["per_buyer"], Value::Null);
    }
}

/// Goal: a gate forgets no buyer when it is loaded. Method: more buyers than one call of the script loads have all that they may.
// S105
#[tokio::test]
async fn a_gate_is_loaded_with_every_buyer_of_a_large_sale() {
    let redis = shared_redis().await;
    let (lab, instance) = start(redis, &[]).await;
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        instance.put_sale(goods_no, &json!({ "stock": 9, "strategy": strategy, "per_buyer": 1 })).await.assert_ok();
        let had =
            "insert into buyer_units select $1, 1, 'buyer-' || number, 1, 1 from generate_series(1, 10001) as number";
        sqlx::query(had).bind(goods_no).execute(&mut lab.connect().await).await.unwrap();
        let order = async |buyer: &str| instance.order_for(goods_no, buyer, &format!("{strategy}-{buyer}")).await;
        for number in [1, 5000, 5001, 10_000, 10_001] {
            order(&format!("buyer-{number}")).await.assert_problem(403, "over-limit");
        }
        order("ann").await.assert_created();
    }
}
