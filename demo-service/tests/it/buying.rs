//! `GET /goods-stock/{goods_no}` and `GET /strategies`.

use demo_service::strategy::entry::Mechanism;
use demo_service::strategy::registry::STRATEGIES;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::lab::{Lab, tells_what_is_left, wait_until};

#[tokio::test]
async fn every_strategy_takes_one_unit_and_writes_its_order() {
    let (lab, instance) = Lab::with_instance(&["--instance", "till-1"]).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 3, entry.name).await.assert_ok();
        let answer = instance.buy(goods_no, entry.name).await;
        answer.assert_ok();
        let order_id = answer.body["order_id"].as_i64();
        let token = answer.body["token"].as_i64();
        let has_token = entry.mechanism == Mechanism::Zookeeper || entry.name == "redis-lock-fenced";
        assert_eq!(token.is_some(), has_token, "{answer:?}");
        let remaining = tells_what_is_left(entry.name).then_some(2);
        assert_eq!(
            answer.body,
            json!({
                "goods_no": goods_no, "sale": 1, "order_id": order_id, "quantity": 1, "remaining": remaining,
                "strategy": entry.name, "instance": "till-1", "token": token,
            })
        );
        let sql = "select order_id, quantity, strategy, instance, token from order_lines join orders using (order_id)
                   where goods_no = $1 and sale = 1";
        let query = sqlx::query_as(sql).bind(goods_no);
        let order: (i64, i64, String, String, Option<i64>) = query.fetch_one(&mut lab.connect().await).await.unwrap();
        let expected = (order_id.unwrap(), 1, entry.name.to_owned(), "till-1".to_owned(), token);
        assert_eq!(order, expected);
    }
}

#[tokio::test]
async fn fencing_tokens_grow_from_one_purchase_to_the_next() {
    let (_lab, instance) = Lab::with_instance(&["--zk-sessions", "3"]).await;
    for (goods_no, strategy) in (1..).zip(["zk-naive", "zk-mutex"]) {
        instance.put_on_sale(goods_no, 10, strategy).await.assert_ok();
        let mut last = 0;
        for _ in 0..4 {
            let token = instance.buy(goods_no, strategy).await.body["token"].as_i64().unwrap();
            assert!(token > last, "{strategy}: {token} after {last}");
            last = token;
        }
    }
}

/// Goal: a lone buyer sends few requests. Each release is sent after the answer, so it may count for the next purchase. Signs of
/// life of a session count, too.
#[tokio::test]
async fn a_lone_buyer_pays_two_requests_and_none_if_the_lock_lingers() {
    let (_lab, instance) = Lab::with_instance(&["--zk-sessions", "4"]).await;
    let requests = async || instance.metric("zookeeper_requests_total").await.unwrap();
    for (goods_no, (strategy, each)) in (1..).zip([("zk-mutex", 2.0), ("zk-cohort", 2.0), ("zk-cohort-linger", 0.0)]) {
        instance.put_on_sale(goods_no, 1_000_000, strategy).await.assert_ok();
        wait_until(async || {
            let before = requests().await;
            for _ in 0..10 {
                instance.buy(goods_no, strategy).await.assert_ok();
            }
            requests().await - before <= 10.0 * each + 1.0
        })
        .await;
    }
}

#[tokio::test]
async fn the_last_unit_is_sold_and_no_more_by_every_strategy() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 1, entry.name).await.assert_ok();
        instance.buy(goods_no, entry.name).await.assert_ok();
        instance.buy(goods_no, entry.name).await.assert_problem(409, "sold-out");
        assert_eq!(lab.units_ordered(goods_no, 1).await, 1);
    }
}

#[tokio::test]
async fn a_purchase_without_a_strategy_uses_the_strategy_of_the_sale() {
    let lab = Lab::new().await;
    let here = lab.start(&["--strategy", "pg-conditional"]).await;
    let there = lab.start(&[]).await;
    let own = STRATEGIES.iter().map(|entry| (entry.name, entry.name));
    for (goods_no, (named, expected)) in (1..).zip(own.chain([("", "pg-conditional")])) {
        here.put_on_sale(goods_no, 4, named).await.assert_ok();
        for instance in [&here, &there] {
            for query in ["", "?strategy="] {
                let bought = instance.get(&format!("/goods-stock/{goods_no}{query}")).await;
                let bought = instance.decided(bought).await;
                bought.assert_ok();
                assert_eq!(bought.body["strategy"], expected);
            }
        }
    }
}

#[tokio::test]
async fn what_does_not_exist_is_not_found() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    for entry in STRATEGIES {
        instance.buy(7, entry.name).await.assert_problem(404, "unknown-goods");
    }
    instance.put_on_sale(1, 1, "").await.assert_ok();
    let answer = instance.buy(1, "hope").await;
    answer.assert_problem(404, "unknown-strategy");
    assert!(answer.body["detail"].as_str().unwrap().contains("zk-mutex"), "{answer:?}");
    assert_eq!(lab.units_ordered(1, 1).await, 0);
}

#[tokio::test]
async fn malformed_purchases_are_refused() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 5, "").await.assert_ok();
    for path in [
        "/goods-stock/0",
        "/goods-stock/-1",
        "/goods-stock/one",
        "/goods-stock/01",
        "/goods-stock/9223372036854775808",
        "/goods-stock/%FF",
        "/goods-stock/1?stratgy=zk-mutex",
        "/goods-stock/1?strategy=zk-mutex&strategy=unguarded",
    ] {
        instance.get(path).await.assert_problem(422, "invalid-input");
    }
    assert_eq!(lab.units_ordered(1, 1).await, 0);
}

#[tokio::test]
async fn only_get_buys() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 5, "").await.assert_ok();
    for method in [Method::HEAD, Method::POST, Method::PUT, Method::DELETE] {
        let response = instance.request(method.clone(), "/goods-stock/1").send().await.unwrap();
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert!(response.headers()["allow"].to_str().unwrap().contains("GET"), "{method}");
    }
    assert_eq!(lab.units_ordered(1, 1).await, 0);
}

// S20
#[tokio::test]
async fn only_what_is_offered_can_be_named() {
    let lab = Lab::new().await;
    let offer = ["--strategy", "pg-conditional", "--offer", "pg-row-lock,zk-mutex-fenced"];
    let instance = lab.start(&offer).await;
    instance.put_on_sale(1, 5, "").await.assert_ok();
    instance.put_on_sale(2, 5, "zk-mutex-fenced").await.assert_ok();
    for (goods_no, offered) in [(1, ""), (1, "pg-conditional"), (1, "pg-row-lock"), (2, "zk-mutex-fenced")] {
        instance.buy(goods_no, offered).await.assert_ok();
    }
    for kept in ["unguarded", "zk-mutex", "hope"] {
        instance.buy(1, kept).await.assert_problem(404, "unknown-strategy");
        instance.get(&format!("/goods/1?strategy={kept}")).await.assert_problem(404, "unknown-strategy");
    }
    assert_eq!((lab.units_ordered(1, 1).await, lab.units_ordered(2, 1).await), (3, 1));
    // Another instance may offer more: a sale by what is not offered here is not sold here.
    lab.start(&[]).await.put_on_sale(3, 5, "zk-cohort").await.assert_ok();
    instance.buy(3, "").await.assert_problem(404, "unknown-strategy");
    assert_eq!(lab.units_ordered(3, 1).await, 0);

    let listed = instance.get("/strategies").await.body;
    let names: Vec<_> =
        listed["strategies"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["zk-mutex-fenced", "pg-conditional", "pg-row-lock"]);
    let document = instance.get("/openapi.json").await.body;
    let parameters = document["paths"]["/goods-stock/{goods_no}"]["get"]["parameters"].as_array().unwrap();
    let named = parameters.iter().find(|parameter| parameter["name"] == "strategy").unwrap();
    assert_eq!(named["schema"]["enum"], json!(["zk-mutex-fenced", "pg-conditional", "pg-row-lock", ""]));
}

#[tokio::test]
async fn the_registry_is_published_in_its_order() {
    let lab = Lab::new().await;
    let answer = lab.start(&["--strategy", "zk-naive", "--permits", "7"]).await.get("/strategies").await;
    answer.assert_ok();
    assert_eq!(answer.body["default"], "zk-naive");
    let rows = answer.body["strategies"].as_array().unwrap();
    let expected = STRATEGIES.iter().map(|entry| {
        let mut row = serde_json::to_value(entry).unwrap();
        row["permits"] = json!(entry.sections.permits(7));
        row
    });
    assert_eq!(*rows, expected.collect::<Vec<_>>());
    // Clients know these words.
    let columns = ["name", "promise", "mechanism", "family", "wakes", "sections"];
    for words in [
        ["unguarded", "oversells", "none", "unguarded", "none", "overlapping"],
        ["local-mutex", "oversells-on-many-instances", "process", "local-mutex", "none", "overlapping"],
        ["zk-naive", "safe-while-session-lives", "zookeeper", "zk-naive", "all", "exclusive"],
        ["zk-semaphore", "never-oversells", "zookeeper", "pg-row", "one", "permits"],
        ["pg-conditional", "never-oversells", "postgres", "pg-row", "none", "exclusive"],
    ] {
        let row = rows.iter().find(|row| row["name"] == words[0]).unwrap();
        assert_eq!(columns.map(|column| row[column].as_str().unwrap()), words);
    }
}
