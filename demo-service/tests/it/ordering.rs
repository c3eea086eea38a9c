//! `POST /goods/{goods_no}/orders`, `POST /orders` and `GET /orders/{order_id}`.

use demo_service::strategy::registry::STRATEGIES;
use futures_util::future::join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use testbed::StopSignal;

use crate::lab::{Answer, Lab, Shop, wait_until};
use crate::program::Program;
use crate::stopped_sections::slow_down_commits;

impl Shop {
    async fn post(&self, path: &str, key: Option<&str>, body: &Value) -> Answer {
        let mut request = self.request(Method::POST, path).json(body);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        Answer::of(request.send().await.unwrap()).await
    }

    async fn order(&self, goods_no: i64, quantity: i64, strategy: &str, key: &str) -> Answer {
        let path = format!("/goods/{goods_no}/orders?strategy={strategy}");
        self.post(&path, Some(key), &json!({ "quantity": quantity })).await
    }
}

impl Answer {
    #[track_caller]
    fn assert_created(&self) {
        assert_eq!(self.status, StatusCode::CREATED, "{self:?}");
        let location = format!("/orders/{}", self.body["order_id"]);
        assert_eq!(self.header("location"), Some(&*location), "{self:?}");
    }

    #[track_caller]
    fn assert_replay_of(&self, first: &Self) {
        assert_eq!(self.header("idempotent-replayed"), Some("true"), "{self:?}");
        // A problem names its own request; the rest is as it was.
        let (mut body, mut first_body) = (self.body.clone(), first.body.clone());
        if !self.status.is_success() {
            assert_ne!(body["instance"].take(), first_body["instance"].take(), "{self:?}");
        }
        assert_eq!((self.status, body), (first.status, first_body));
        assert_eq!(self.header("location"), first.header("location"));
    }
}

fn cart(lines: &[(i64, i64)]) -> Value {
    let line = |(goods_no, quantity): &(i64, i64)| json!({ "goods_no": goods_no, "quantity": quantity });
    let lines: Vec<_> = lines.iter().map(line).collect();
    json!({ "lines": lines })
}

#[tokio::test]
async fn an_order_takes_its_units_and_can_be_looked_at_by_every_strategy() {
    let lab = Lab::new().await;
    let instance = lab.start(&["--instance", "till-1"]).await;
    for (goods_no, entry) in (1..).zip(&STRATEGIES) {
        instance.reset(goods_no, 10).await.assert_ok();
        let answer = instance.order(goods_no, 3, entry.name, entry.name).await;
        answer.assert_created();
        assert_eq!(answer.header("idempotent-replayed"), None);
        let line = &answer.body["lines"][0];
        assert_eq!(answer.body["strategy"], entry.name);
        assert_eq!(answer.body["instance"], "till-1");
        assert_eq!((&line["goods_no"], &line["quantity"]), (&json!(goods_no), &json!(3)));
        assert_eq!((&line["sale"], &line["remaining"]), (&json!(1), &json!(7)));
        let looked = instance.get(answer.header("location").unwrap()).await;
        looked.assert_ok();
        assert_eq!(looked.body, answer.body);
    }
}

#[tokio::test]
async fn the_same_key_gives_the_first_answer_again_and_sells_once() {
    let lab = Lab::new().await;
    let instance = lab.start(&[]).await;
    for (goods_no, entry) in (1..).zip(&STRATEGIES) {
        instance.reset(goods_no, 5).await.assert_ok();
        let key = format!("sold {goods_no}").replace(' ', "-");
        let first = instance.order(goods_no, 4, entry.name, &key).await;
        first.assert_created();
        // The answer stays as it was, whatever is left by now; a structured string is the text in it.
        instance.order(goods_no, 4, entry.name, &key).await.assert_replay_of(&first);
        instance.order(goods_no, 4, "zk-mutex", &format!("\"{key}\"")).await.assert_replay_of(&first);

        let key = format!("none-{goods_no}");
        let refused = instance.order(goods_no, 2, entry.name, &key).await;
        refused.assert_problem(409, "sold-out");
        instance.reset(goods_no, 5).await.assert_ok();
        instance.order(goods_no, 2, entry.name, &key).await.assert_replay_of(&refused);
        assert_eq!(
            (lab.units_ordered(goods_no, 1).await, lab.units_ordered(goods_no, 2).await),
            (4, 0),
            "{}",
            entry.name
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_at_the_same_time_sells_once_by_every_strategy() {
    let lab = Lab::new().await;
    let times = ["--lock-wait", "50s", "--db-timeout", "55s", "--http-timeout", "60s", "--zk-sessions", "4"];
    let arguments = [&times[..], &["--hold", "5ms", "--db-connections", "12"]].concat();
    let instances = join_all((0..3).map(|_| lab.start(&arguments))).await;
    for (goods_no, entry) in (1..).zip(&STRATEGIES) {
        // The last unit: who came second must not be told that it was sold out.
        instances[0].reset(goods_no, 1).await.assert_ok();
        let buyers = (0..12).map(|buyer| instances[buyer % 3].order(goods_no, 1, entry.name, entry.name));
        let answers = join_all(buyers).await;
        let first = answers.iter().find(|answer| answer.header("idempotent-replayed").is_none()).unwrap();
        first.assert_created();
        for answer in answers.iter().filter(|answer| !std::ptr::eq(*answer, first)) {
            answer.assert_replay_of(first);
        }
        assert_eq!(lab.units_ordered(goods_no, 1).await, 1, "{}", entry.name);
    }
}

/// Goal: a crash between the commit and the answer costs neither the sale nor the answer. Method: the process is killed
/// while the database commits, and another instance is asked under the same key.
#[tokio::test(flavor = "multi_thread")]
async fn the_answer_that_a_killed_instance_did_not_give_is_given_by_another_one() {
    let lab = Lab::new().await;
    let killed = Program::start(&lab, StopSignal::Terminate, &[], &[]).await;
    killed.reset(1, 5).await.assert_ok();
    slow_down_commits(&lab, 1.0).await;
    let request = killed.request(Method::POST, "/goods/1/orders?strategy=zk-mutex");
    let request = request.header("idempotency-key", "key").json(&json!({ "quantity": 2 })).send();
    let unanswered = tokio::spawn(request);
    lab.wait_for_statement("active", "commit").await;
    kill(Pid::from_raw(killed.process.pid()), Signal::SIGKILL).unwrap();
    assert!(unanswered.await.unwrap().is_err(), "nobody was answered");
    wait_until(async || lab.units_ordered(1, 1).await == 2).await;

    let staying = lab.start(&[]).await;
    let answer = staying.order(1, 2, "zk-mutex", "key").await;
    answer.assert_created();
    assert_eq!(answer.header("idempotent-replayed"), Some("true"), "{answer:?}");
    assert_eq!(lab.units_ordered(1, 1).await, 2, "it was sold once");
}

#[tokio::test]
async fn a_key_that_was_used_for_something_else_is_refused() {
    let lab = Lab::new().await;
    let instance = lab.start(&[]).await;
    instance.reset(1, 5).await.assert_ok();
    instance.reset(2, 5).await.assert_ok();
    instance.order(1, 1, "zk-mutex", "key").await.assert_created();
    instance.order(1, 2, "zk-mutex", "key").await.assert_problem(422, "idempotency-key-reused");
    instance.order(2, 1, "zk-mutex", "key").await.assert_problem(422, "idempotency-key-reused");
    instance.post("/orders", Some("key"), &cart(&[(1, 1), (2, 1)])).await.assert_problem(422, "idempotency-key-reused");
    assert_eq!((lab.units_ordered(1, 1).await, lab.units_ordered(2, 1).await), (1, 0));
    // A cart is the same whatever the order of its lines, and a cart of one is that one.
    let first = instance.post("/orders", Some("cart"), &cart(&[(2, 1), (1, 1)])).await;
    first.assert_created();
    instance.post("/orders", Some("cart"), &cart(&[(1, 1), (2, 1)])).await.assert_replay_of(&first);
}

#[tokio::test]
async fn malformed_orders_are_refused_and_use_no_key() {
    let lab = Lab::new().await;
    let instance = lab.start(&[]).await;
    instance.reset(1, 5).await.assert_ok();
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
    instance.order(1, 1, "zk-mutex", "key").await.assert_created();
}

#[tokio::test]
async fn a_cart_is_sold_whole_or_not_at_all_by_every_strategy_that_sells_carts() {
    let lab = Lab::new().await;
    let instance = lab.start(&[]).await;
    for (first, entry) in (1..).step_by(2).zip(&STRATEGIES) {
        let second = first + 1;
        instance.reset(first, 3).await.assert_ok();
        instance.reset(second, 1).await.assert_ok();
        let path = format!("/orders?strategy={}", entry.name);
        let post = async |key: &str, lines: &[(i64, i64)]| {
            instance.post(&path, Some(&format!("{key}-{first}")), &cart(lines)).await
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

#[tokio::test(flavor = "multi_thread")]
async fn carts_that_cross_are_all_sold_in_the_canonical_order() {
    let lab = Lab::new().await;
    let times = ["--lock-wait", "50s", "--db-timeout", "55s", "--http-timeout", "60s"];
    let arguments = [&times[..], &["--hold", "5ms", "--zk-sessions", "4"]].concat();
    let instances = join_all((0..2).map(|_| lab.start(&arguments))).await;
    let rows =
        STRATEGIES.iter().filter(|entry| entry.carts && entry.name.starts_with("pg-") || entry.name == "zk-multi");
    for (first, entry) in (1..).step_by(2).zip(rows) {
        for goods_no in [first, first + 1] {
            instances[0].reset(goods_no, 20).await.assert_ok();
        }
        let path = format!("/orders?strategy={}", entry.name);
        let carts = [cart(&[(first, 1), (first + 1, 1)]), cart(&[(first + 1, 1), (first, 1)])];
        let answers = join_all((0..20).map(|buyer: usize| {
            let (path, carts) = (&path, &carts);
            let instance = &instances[buyer % 2];
            async move { instance.post(path, Some(&format!("{first}-{buyer}")), &carts[buyer / 2 % 2]).await }
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
/// Method: two buyers, each of whom has the lock that the other wants, as the test held both until they queued.
#[tokio::test]
async fn carts_that_cross_in_the_given_order_end_by_their_deadline_and_sell_nothing_half() {
    let lab = Lab::new().await;
    let instance = lab.start(&["--lock-order", "given", "--lock-wait", "2s", "--zk-sessions", "2"]).await;
    for goods_no in [1, 2] {
        instance.reset(goods_no, 5).await.assert_ok();
    }
    let held = lab.hold_locks("zk-multi", &[1, 2]).await;
    let (one, other) = (cart(&[(1, 1), (2, 1)]), cart(&[(2, 1), (1, 1)]));
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
    let lab = Lab::new().await;
    let instance = lab.start(&[]).await;
    instance.get("/orders/1").await.assert_problem(404, "unknown-order");
    for path in ["/orders/0", "/orders/x", "/orders/01"] {
        instance.get(path).await.assert_problem(422, "invalid-input");
    }
}
