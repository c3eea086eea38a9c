//! A sale has one guard: the family of strategies that may write it.

use demo_service::strategy::entry::Promise;
use demo_service::strategy::registry::{self, STRATEGIES};
use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::Executor;
use zookeeper_client::Client;

use crate::lab::{Answer, Instance, Lab, Shop, cart, lock_path, wait_until};

impl Shop {
    /// Returns the guard of the current sale of a SKU, and its own strategy.
    async fn guard(&self, goods_no: i64) -> (Value, Value) {
        let goods = self.get(&format!("/goods/{goods_no}")).await;
        goods.assert_ok();
        (goods.body["guard"].clone(), goods.body["strategy"].clone())
    }
}

/// Returns the strategies that sell too much, which only an administrator may choose.
fn controls() -> impl Iterator<Item = &'static str> {
    let is_control = |promise: Promise| matches!(promise, Promise::Oversells | Promise::OversellsOnManyInstances);
    STRATEGIES.iter().filter(move |entry| is_control(entry.promise)).map(|entry| entry.name)
}

/// Asserts a refusal that names the guard of the sale.
#[track_caller]
fn assert_mismatch(answer: &Answer, guard: &str) {
    answer.assert_problem(422, "guard-mismatch");
    assert!(answer.body["detail"].as_str().unwrap().contains(guard), "{guard} in {answer:?}");
}

#[tokio::test]
async fn a_sale_without_a_guard_is_claimed_by_its_first_purchase() {
    let lab = Lab::new().await;
    let here = lab.start(&[]).await;
    let there = lab.start(&["--strategy", "pg-advisory"]).await;
    for goods_no in [1, 2, 3] {
        lab.put_on_sale_unguarded(goods_no, 5).await;
        // A look claims nothing.
        assert_eq!(here.guard(goods_no).await, (json!(null), json!(null)));
        assert_eq!(there.guard(goods_no).await, (json!(null), json!(null)));
    }
    here.buy(1, "pg-row-lock").await.assert_ok();
    assert_eq!(here.guard(1).await, (json!("pg-row"), json!("pg-row-lock")));
    assert_mismatch(&there.buy(1, "pg-advisory").await, "pg-row");
    // Without a name, the default of the service claims.
    assert_eq!(there.buy(2, "").await.body["strategy"], "pg-advisory");
    assert_eq!(here.buy(2, "").await.body["strategy"], "pg-advisory");
    // A cart claims too, for a strategy that sells carts.
    let sold = here.post("/orders", Some("key"), &cart(&[(3, 1), (2, 1)])).await;
    sold.assert_created();
    assert_eq!(here.guard(3).await.0, "pg-advisory");
    for (goods_no, ordered) in [(1, 1), (2, 3), (3, 1)] {
        assert_eq!(lab.assert_adds_up(goods_no, "claimed").await, ordered, "SKU {goods_no}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn purchases_that_come_together_claim_a_sale_once() {
    let lab = Lab::new().await;
    let instances = [lab.start(&[]).await, lab.start(&[]).await];
    let strategies = ["zk-mutex", "pg-conditional", "pg-advisory", "zk-mutex-fenced", "zk-naive"];
    for goods_no in 1..=10 {
        lab.put_on_sale_unguarded(goods_no, 100).await;
        let buyers = (0..20).map(|buyer| instances[buyer % 2].buy(goods_no, strategies[buyer % 5]));
        let answers = join_all(buyers).await;
        let (guard, _) = instances[0].guard(goods_no).await;
        let mut bought = 0;
        for (buyer, answer) in answers.iter().enumerate() {
            if registry::find(strategies[buyer % 5]).unwrap().family == guard {
                answer.assert_ok();
                bought += 1;
            } else {
                assert_mismatch(answer, guard.as_str().unwrap());
            }
        }
        assert_eq!(lab.assert_adds_up(goods_no, "claimed").await, bought);
    }
}

// S3
#[tokio::test]
async fn a_control_cannot_claim_a_sale() {
    let (lab, instance) = Lab::with_instance(&["--strategy", "unguarded"]).await;
    lab.put_on_sale_unguarded(1, 5).await;
    for control in controls().chain([""]) {
        instance.buy(1, control).await.assert_problem(422, "guard-mismatch");
        instance.order(1, 1, control, "key").await.assert_problem(422, "guard-mismatch");
    }
    assert_eq!((lab.orders().await, lab.keys().await), (0, 0));
    let sql = "select guard, strategy from goods where goods_no = 1";
    let guard: (Option<String>, Option<String>) =
        sqlx::query_as(sql).fetch_one(&mut lab.connect().await).await.unwrap();
    assert_eq!(guard, (None, None));
    // An administrator may choose one.
    for control in controls() {
        instance.put_on_sale(2, 5, control).await.assert_ok();
        instance.buy(2, "").await.assert_ok();
    }
}

/// Goal: a refused purchase has no effect and waits for nobody. Method: each strategy tries to buy from sales of other
/// families. Everything that it could have touched is as it was.
// S2
#[tokio::test]
async fn a_strategy_of_another_family_neither_locks_nor_writes() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    let zookeeper = Client::connect(&lab.zookeeper).await.unwrap();
    // `xmin` is the transaction that wrote the row.
    let row = async |goods_no: i64| -> (String, i64, i64, i64) {
        let sql = "select xmin::text, on_hand, version, fence from goods where goods_no = $1";
        sqlx::query_as(sql).bind(goods_no).fetch_one(&mut lab.connect().await).await.unwrap()
    };
    let own = ["zk-mutex", "zk-mutex-fenced", "pg-conditional", "pg-advisory", "zk-naive", "unguarded"];
    for (goods_no, own) in (1..).zip(own) {
        let family = registry::find(own).unwrap().family;
        instance.put_on_sale(goods_no, 5, own).await.assert_ok();
        let before = row(goods_no).await;
        for other in STRATEGIES.iter().filter(|other| other.family != family) {
            let waits = format!(r#"seckill_lock_wait_seconds_count{{strategy="{}"}}"#, other.name);
            assert_mismatch(&instance.buy(goods_no, other.name).await, family);
            assert_mismatch(&instance.order(goods_no, 1, other.name, "key").await, family);
            let path = format!("/orders?strategy={}", other.name);
            assert_mismatch(&instance.post(&path, Some("key"), &cart(&[(goods_no, 1)])).await, family);
            let path = format!("/goods/{goods_no}?strategy={}", other.name);
            assert_mismatch(&instance.get(&path).await, family);
            assert_eq!(instance.metric(&waits).await, Some(0.0), "{} waited", other.name);
            let queue = lock_path(other.name, goods_no);
            assert!(zookeeper.check_stat(&queue).await.unwrap().is_none(), "{} has queued", other.name);
        }
        assert_eq!(row(goods_no).await, before, "{own}");
    }
    assert_eq!((lab.orders().await, lab.keys().await), (0, 0));
    assert!(instance.outcomes("zk-cohort", "guard_mismatch").await > Some(0.0));
}

/// Starts buyers who come at the same time: half of them to each instance, and half of them without a strategy.
fn spawn_crowd(instances: &[Instance; 2], goods_no: i64, strategy: &str) -> Vec<tokio::task::JoinHandle<Answer>> {
    let named = |buyer: usize| if buyer % 4 < 2 { strategy } else { "" };
    (0..12).map(|buyer| instances[buyer % 2].spawn_buy(goods_no, named(buyer))).collect()
}

/// Goal: a sale with another guard than the sale before is safe from the buyers of that one. Method: the new sale starts
/// while buyers of the old one are in their business time. The second instance does not know of the new sale.
// S7
#[tokio::test(flavor = "multi_thread")]
async fn a_new_guard_sells_rightly_with_buyers_of_the_old_one_inside() {
    let lab = Lab::new().await;
    let arguments = ["--business-time", "100ms", "--lock-wait", "30s", "--db-timeout", "40s", "--http-timeout", "50s"];
    let arguments = [&arguments[..], &["--db-connections", "15"]].concat();
    let instances = [lab.start(&arguments).await, lab.start(&arguments).await];
    let changes = [
        ("zk-mutex", "pg-conditional"),
        ("pg-conditional", "zk-mutex"),
        ("pg-row-lock", "pg-advisory"),
        ("pg-advisory", "zk-mutex-fenced"),
        ("zk-mutex-fenced", "zk-cohort"),
        ("zk-cohort", "zk-naive"),
        ("unguarded", "pg-optimistic"),
        ("pg-conditional", "pg-units"),
        ("pg-units", "pg-buckets"),
        ("pg-buckets", "pg-reserve"),
        ("pg-reserve", "zk-mutex"),
    ];
    for (goods_no, (old, new)) in (1..).zip(changes) {
        instances[0].put_on_sale(goods_no, 100, old).await.assert_ok();
        let of_the_old = spawn_crowd(&instances, goods_no, old);
        wait_until(async || instances[1].metric("seckill_requests_in_flight").await > Some(0.0)).await;
        instances[0].put_on_sale(goods_no, 100, new).await.assert_ok();
        let of_the_new = spawn_crowd(&instances, goods_no, new);
        let answers = join_all(of_the_old.into_iter().chain(of_the_new)).await;
        let context = format!("from {old} to {new}");
        let mut bought = 0;
        for answer in answers.into_iter().map(Result::unwrap) {
            match (answer.status, answer.problem()) {
                (StatusCode::OK, _) => bought += 1,
                (_, Some("guard-mismatch" | "sale-restarted")) => {}
                _ => panic!("{context}: {answer:?}"),
            }
        }
        let of_the_new = lab.assert_adds_up(goods_no, &context).await;
        assert!(of_the_new >= 6, "{context}: buyers who name no strategy buy by the new one");
        let sql = "select on_hand_final from sales where goods_no = $1 and sale = 1";
        let left = sqlx::query_scalar(sql).bind(goods_no).fetch_one(&mut lab.connect().await).await;
        let left: i64 = left.unwrap();
        let of_the_old = lab.units_ordered(goods_no, 1).await;
        // The control loses updates, but none of its writes reaches the next sale.
        assert!(old == "unguarded" || left + of_the_old == 100, "{context}: {left} left, {of_the_old} ordered");
        assert_eq!(of_the_old + of_the_new, bought, "{context}");
    }
}

// S6
#[tokio::test]
async fn every_instance_notices_a_restart_under_another_strategy() {
    let lab = Lab::new().await;
    let here = lab.start(&[]).await;
    let there = lab.start(&[]).await;
    let changes = [
        ("zk-mutex", "zk-handoff"),
        ("zk-mutex-fenced", "zk-cohort-fenced"),
        ("pg-conditional", "pg-row-lock"),
        ("pg-optimistic", "zk-semaphore"),
    ];
    for (goods_no, (old, new)) in (1..).zip(changes) {
        for strategy in [old, new, old] {
            here.put_on_sale(goods_no, 5, strategy).await.assert_ok();
            let bought = there.buy(goods_no, "").await;
            bought.assert_ok();
            assert_eq!(bought.body["strategy"], strategy, "{old} and {new}");
        }
        assert_eq!(lab.assert_adds_up(goods_no, old).await, 1);
    }
}

// S4
#[tokio::test]
async fn a_cart_over_two_families_is_refused() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 5, "zk-multi").await.assert_ok();
    instance.put_on_sale(2, 5, "pg-conditional").await.assert_ok();
    for strategy in ["", "zk-multi", "pg-conditional", "pg-advisory"] {
        for lines in [[(1, 1), (2, 1)], [(2, 1), (1, 1)]] {
            let refused = instance.post(&format!("/orders?strategy={strategy}"), Some("key"), &cart(&lines)).await;
            refused.assert_problem(422, "guard-mismatch");
        }
    }
    assert_eq!((lab.orders().await, lab.keys().await), (0, 0));
    for goods_no in [1, 2] {
        assert_eq!(instance.get(&format!("/goods/{goods_no}")).await.body["on_hand"], 5);
    }
}

#[tokio::test]
async fn a_cart_without_a_strategy_gets_one_that_sells_carts() {
    let lab = Lab::new().await;
    let here = lab.start(&[]).await;
    let there = lab.start(&[]).await;
    let families = [
        (["zk-mutex", "zk-mutex"], "zk-multi"),
        (["zk-handoff", "zk-cohort"], "zk-multi"),
        (["pg-conditional", "pg-conditional"], "pg-conditional"),
        (["pg-serializable", "pg-row-lock"], "pg-serializable"),
        (["zk-semaphore", "zk-semaphore"], "pg-conditional"),
        (["pg-advisory", "pg-advisory"], "pg-advisory"),
        (["local-mutex", "local-mutex"], "local-mutex"),
    ];
    for (first, (own, expected)) in (1..).step_by(2).zip(families) {
        let second = first + 1;
        here.put_on_sale(first, 5, own[0]).await.assert_ok();
        here.put_on_sale(second, 5, own[1]).await.assert_ok();
        for (instance, key) in [(&here, "here"), (&there, "there")] {
            let lines = cart(&[(first, 1), (second, 1)]);
            let sold = instance.post("/orders", Some(&format!("{key}-{first}")), &lines).await;
            sold.assert_created();
            assert_eq!(sold.body["strategy"], expected, "{own:?}");
        }
        for goods_no in [first, second] {
            assert_eq!(lab.assert_adds_up(goods_no, expected).await, 2);
        }
    }
    for goods_no in [101, 102] {
        here.put_on_sale(goods_no, 5, "zk-naive").await.assert_ok();
    }
    let refused = here.post("/orders", Some("naive"), &cart(&[(101, 1), (102, 1)])).await;
    refused.assert_problem(422, "one-at-a-time");
    let sold = here.post("/orders", Some("naive"), &cart(&[(101, 1)])).await;
    sold.assert_created();
    assert_eq!(sold.body["strategy"], "zk-naive");
}

/// Goal: a sale goes on if no token of the current ZooKeeper ensemble reaches its fence, and no unit is lost. Method: the
/// fence is raised by hand.
// S13
#[tokio::test]
async fn remaining_units_go_on_as_the_next_sale_with_a_new_fence() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    for (goods_no, strategy) in (1..).zip(["zk-mutex-fenced", "zk-handoff-fenced", "zk-cohort-fenced"]) {
        instance.put_on_sale(goods_no, 10, strategy).await.assert_ok();
        instance.order(goods_no, 3, strategy, strategy).await.assert_created();
        lab.connect().await.execute("update goods set fence = 9223372036854775807").await.unwrap();
        for _ in 0..2 {
            instance.buy(goods_no, strategy).await.assert_problem(503, "fenced");
        }
        let next = instance.put_sale(goods_no, &json!({ "stock": "remaining", "strategy": strategy })).await;
        next.assert_ok();
        let expected = json!({
            "goods_no": goods_no, "sale": 2, "stock_initial": 7, "on_hand": 7, "per_buyer": null,
            "guard": "zk-queue-fenced", "strategy": strategy,
        });
        assert_eq!(next.body, expected);
        instance.order(goods_no, 7, strategy, &format!("{strategy}-rest")).await.assert_created();
        instance.buy(goods_no, strategy).await.assert_problem(409, "sold-out");
        let ordered = (lab.units_ordered(goods_no, 1).await, lab.assert_adds_up(goods_no, strategy).await);
        assert_eq!(ordered, (3, 7), "{strategy}");
    }
}

#[tokio::test]
async fn the_units_that_remain_may_go_on_under_another_guard() {
    let (_lab, instance) = Lab::with_instance(&["--strategy", "pg-optimistic"]).await;
    instance.put_on_sale(1, 10, "zk-naive").await.assert_ok();
    instance.order(1, 4, "zk-naive", "key").await.assert_created();
    let next = instance.put_sale(1, &json!({ "stock": "remaining" })).await;
    next.assert_ok();
    assert_eq!((&next.body["on_hand"], &next.body["guard"]), (&json!(6), &json!("pg-row")));
    assert_eq!(instance.buy(1, "").await.body["strategy"], "pg-optimistic");
}

#[tokio::test]
async fn nothing_remains_of_a_sku_that_there_is_not() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_sale(1, &json!({ "stock": "remaining" })).await.assert_problem(404, "unknown-goods");
    instance.get("/goods/1").await.assert_problem(404, "unknown-goods");
    let sql = "select (select count(*) from goods) + (select count(*) from sales)";
    let rows: i64 = sqlx::query_scalar(sql).fetch_one(&mut lab.connect().await).await.unwrap();
    assert_eq!(rows, 0);
}
