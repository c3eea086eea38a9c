//! `POST /goods/{goods_no}/orders`, `POST /orders` and `GET /orders/{order_id}`.

use demo_service::strategy::registry::STRATEGIES;
use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::json;

use crate::lab::{Answer, Lab, PATIENT, cart, tells_what_is_left};

#[tokio::test]
async fn every_strategy_writes_an_order_that_can_be_looked_at() {
    let (_lab, instance) = Lab::with_instance(&["--instance", "till-1"]).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 10, entry.name).await.assert_ok();
        let answer = instance.order(goods_no, 3, entry.name, entry.name).await;
        answer.assert_created();
        assert_eq!(answer.header("idempotent-replayed"), None);
        let line = &answer.body["lines"][0];
        assert_eq!(answer.body["strategy"], entry.name);
        assert_eq!(answer.body["instance"], "till-1");
        assert_eq!((&line["goods_no"], &line["quantity"]), (&json!(goods_no), &json!(3)));
        let remaining = tells_what_is_left(entry.name).then_some(7);
        assert_eq!((&line["sale"], &line["remaining"]), (&json!(1), &json!(remaining)));
        let looked = instance.get(answer.header("location").unwrap()).await;
        looked.assert_ok();
        assert_eq!(looked.body, answer.body);
    }
}

#[tokio::test]
async fn malformed_orders_are_refused_and_use_no_key() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 5, "").await.assert_ok();
    let one = json!({ "quantity": 1 });
    instance.post("/goods/1/orders", None, &one).await.assert_problem(400, "idempotency-key-missing");
    instance.post("/orders", None, &cart(&[(1, 1)])).await.assert_problem(400, "idempotency-key-missing");
    instance.post("/goods/1/orders", Some("two words"), &one).await.assert_problem(422, "invalid-input");
    instance.post("/goods/1/orders", Some(&"k".repeat(256)), &one).await.assert_problem(422, "invalid-input");
    instance.post("/goods/0/orders", Some("key"), &one).await.assert_problem(422, "invalid-input");
    instance.post("/goods/7/orders", Some("key"), &one).await.assert_problem(404, "unknown-goods");
    instance.post("/goods/1/orders?strategy=hope", Some("key"), &one).await.assert_problem(404, "unknown-strategy");
    for quantity in [0, -1] {
        let body = json!({ "quantity": quantity });
        instance.post("/goods/1/orders", Some("key"), &body).await.assert_problem(422, "invalid-input");
    }
    for body in [json!({}), json!({ "quantity": "1" }), json!({ "quantity": 1, "price": 0 })] {
        instance.post("/goods/1/orders", Some("key"), &body).await.assert_problem(422, "invalid-body");
    }
    for lines in [&[][..], &[(0, 1)], &[(1, 0)]] {
        instance.post("/orders", Some("key"), &cart(lines)).await.assert_problem(422, "invalid-input");
    }
    instance.post("/orders", Some("key"), &cart(&[(1, 1), (1, 2)])).await.assert_problem(422, "repeated-goods");
    let many: Vec<_> = (1..=21).map(|goods_no| (goods_no, 1)).collect();
    instance.post("/orders", Some("key"), &cart(&many)).await.assert_problem(422, "invalid-input");
    assert_eq!((lab.orders().await, lab.keys().await), (0, 0));
    instance.order(1, 1, "zk-mutex", "key").await.assert_created();
}

// S15
#[tokio::test]
async fn every_strategy_sells_a_cart_whole_or_not_at_all() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    for (first, entry) in (1..).step_by(2).zip(STRATEGIES) {
        let second = first + 1;
        instance.put_on_sale(first, 3, entry.name).await.assert_ok();
        instance.put_on_sale(second, 1, entry.name).await.assert_ok();
        let path = format!("/orders?strategy={}", entry.name);
        let post = async |key: &str, lines: &[(i64, i64)]| {
            instance.decided_order(instance.post(&path, Some(&format!("{key}-{first}")), &cart(lines)).await).await
        };
        if !entry.carts {
            post("two", &[(second, 1), (first, 2)]).await.assert_problem(422, "one-at-a-time");
            post("one", &[(first, 1)]).await.assert_created();
            continue;
        }
        let answer = post("two", &[(second, 1), (first, 2)]).await;
        answer.assert_created();
        let sold: Vec<_> = answer.body["lines"].as_array().unwrap().iter().map(|line| &line["remaining"]).collect();
        assert_eq!(sold, [&json!(1), &json!(0)], "{}", entry.name);
        let answer = post("more", &[(first, 1), (second, 1)]).await;
        answer.assert_problem(409, "sold-out");
        assert!(answer.body["detail"].as_str().unwrap().contains(&second.to_string()), "{answer:?}");
        post("unknown", &[(first, 1), (999, 1)]).await.assert_problem(404, "unknown-goods");
        let left = instance.get(&format!("/goods/{first}")).await.body["on_hand"].clone();
        assert_eq!((left, lab.units_ordered(first, 1).await), (json!(1), 2), "{}", entry.name);
    }
}

// S16
#[tokio::test(flavor = "multi_thread")]
async fn carts_that_cross_are_all_sold_in_the_canonical_order() {
    let lab = Lab::new().await;
    let arguments = [&PATIENT[..], &["--business-time", "5ms", "--zk-sessions", "4"]].concat();
    let instances = join_all((0..2).map(|_| lab.start(&arguments))).await;
    let rows =
        STRATEGIES.iter().filter(|entry| entry.carts && entry.name.starts_with("pg-") || entry.name == "zk-multi");
    for (first, entry) in (1..).step_by(2).zip(rows) {
        for goods_no in [first, first + 1] {
            instances[0].put_on_sale(goods_no, 20, entry.name).await.assert_ok();
        }
        let path = format!("/orders?strategy={}", entry.name);
        let carts = [cart(&[(first, 1), (first + 1, 1)]), cart(&[(first + 1, 1), (first, 1)])];
        let answers = join_all((0..20).map(|buyer: usize| {
            let instance = &instances[buyer % 2];
            let path = &path;
            let cart = &carts[buyer / 2 % 2];
            async move { instance.post(path, Some(&format!("{first}-{buyer}")), cart).await }
        }));
        answers.await.iter().for_each(Answer::assert_created);
        assert_eq!(
            (lab.units_ordered(first, 1).await, lab.units_ordered(first + 1, 1).await),
            (20, 20),
            "{}",
            entry.name
        );
    }
}

/// Goal: carts that are locked in the order in which they were given wait for each other, and the deadline ends that.
/// Method: two buyers, and each has the lock that the other wants. The test held both locks until the buyers queued.
#[tokio::test]
async fn carts_that_cross_in_the_given_order_sell_nothing_half() {
    let (lab, instance) =
        Lab::with_instance(&["--lock-order", "given", "--lock-wait", "2s", "--zk-sessions", "2"]).await;
    for goods_no in [1, 2] {
        instance.put_on_sale(goods_no, 5, "zk-multi").await.assert_ok();
    }
    let held = lab.hold_locks("zk-multi", &[1, 2]).await;
    let [one, other] = [[(1, 1), (2, 1)], [(2, 1), (1, 1)]].map(|lines| cart(&lines));
    let buyers =
        async { tokio::join!(instance.post("/orders", Some("a"), &one), instance.post("/orders", Some("b"), &other)) };
    let release = async {
        lab.wait_for_queue("zk-multi", 1, 2).await;
        lab.wait_for_queue("zk-multi", 2, 2).await;
        held.release().await.unwrap();
    };
    let ((one, other), ()) = tokio::join!(buyers, release);
    let refused = [&one, &other].into_iter().filter(|answer| answer.status == StatusCode::SERVICE_UNAVAILABLE);
    let refused: Vec<_> = refused.inspect(|answer| answer.assert_problem(503, "lock-timeout")).collect();
    // The one that gives up first may let the other one in just in time.
    assert!(!refused.is_empty(), "{one:?} {other:?}");
    let sold = 2 - i64::try_from(refused.len()).unwrap();
    assert_eq!((lab.units_ordered(1, 1).await, lab.units_ordered(2, 1).await), (sold, sold));
}

#[tokio::test]
async fn an_order_that_does_not_exist_is_not_found() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    instance.get("/orders/1").await.assert_problem(404, "unknown-order");
    for path in ["/orders/0", "/orders/x", "/orders/01"] {
        instance.get(path).await.assert_problem(422, "invalid-input");
    }
}
