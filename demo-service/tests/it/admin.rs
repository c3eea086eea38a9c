//! `PUT /admin/goods/{goods_no}`.

use demo_service::config::Config;
use demo_service::strategy::registry::STRATEGIES;
use reqwest::Method;
use serde_json::json;

use crate::lab::{Answer, Instance, Lab, TOKEN};

#[tokio::test]
async fn a_reset_starts_the_next_sale_and_keeps_the_orders() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    let sale = |sale: i64, stock: i64| {
        json!({
            "goods_no": 1, "sale": sale, "stock_initial": stock, "on_hand": stock,
            "guard": "zk-queue", "strategy": "zk-mutex", "per_buyer": null,
        })
    };
    let answer = instance.put_on_sale(1, 2, "zk-mutex").await;
    answer.assert_ok();
    assert_eq!(answer.body, sale(1, 2));
    instance.buy(1, "zk-mutex").await.assert_ok();
    let answer = instance.put_on_sale(1, 0, "zk-mutex").await;
    answer.assert_ok();
    assert_eq!(answer.body, sale(2, 0));
    instance.buy(1, "zk-mutex").await.assert_problem(409, "sold-out");
    assert_eq!((lab.units_ordered(1, 1).await, lab.units_ordered(1, 2).await), (1, 0));
}

#[tokio::test]
async fn a_sale_has_the_strategy_of_its_reset_and_else_the_default() {
    let (_lab, instance) = Lab::with_instance(&["--strategy", "pg-advisory"]).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        let answer = instance.put_on_sale(goods_no, 2, entry.name).await;
        answer.assert_ok();
        assert_eq!((&answer.body["guard"], &answer.body["strategy"]), (&json!(entry.family), &json!(entry.name)));
        assert_eq!(instance.get(&format!("/goods/{goods_no}")).await.body, answer.body);
        // The next sale of a SKU has nothing of the one before.
        let answer = instance.put_on_sale(goods_no, 2, "").await;
        answer.assert_ok();
        assert_eq!((&answer.body["guard"], &answer.body["strategy"]), (&json!("pg-advisory"), &json!("pg-advisory")));
        assert_eq!(instance.get(&format!("/goods/{goods_no}")).await.body, answer.body);
    }
}

#[tokio::test]
async fn a_strategy_that_is_not_offered_cannot_guard_a_sale() {
    let (_lab, instance) = Lab::with_instance(&["--offer", "zk-multi"]).await;
    instance.put_on_sale(1, 2, "zk-multi").await.assert_ok();
    for unknown in ["hope", "pg-conditional"] {
        instance.put_on_sale(1, 9, unknown).await.assert_problem(404, "unknown-strategy");
    }
    assert_eq!(instance.get("/goods/1").await.body["stock_initial"], 2);
}

#[tokio::test]
async fn a_reset_without_the_token_is_not_authorized() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    let wrong = [
        None,
        Some("Bearer".to_owned()),
        Some("Bearer wrong".to_owned()),
        Some(format!("Bearer {TOKEN}x")),
        Some(format!("Basic {TOKEN}")),
        Some(TOKEN.to_owned()),
    ];
    for authorization in wrong {
        let mut request = instance.request(Method::PUT, "/admin/goods/1").json(&json!({ "stock": 1 }));
        if let Some(value) = &authorization {
            request = request.header("authorization", value);
        }
        let answer = Answer::of(request.send().await.unwrap()).await;
        answer.assert_problem(401, "unauthorized");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{authorization:?}");
    }
    instance.get("/goods/1").await.assert_problem(404, "unknown-goods");
}

#[tokio::test]
async fn without_a_token_there_is_no_administration() {
    let lab = Lab::new().await;
    let instance = Instance::start(Config { admin_token: None, ..lab.config(&[]) }).await;
    instance.put_on_sale(1, 1, "").await.assert_refusal(404, "about:blank");
}

#[tokio::test]
async fn malformed_resets_are_refused() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    let put = async |path: &str, body: &str, content_type: Option<&str>| {
        let mut request = instance.request(Method::PUT, path).bearer_auth(TOKEN).body(body.to_owned());
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        Answer::of(request.send().await.unwrap()).await
    };
    let json = Some("application/json");
    put("/admin/goods/x", r#"{"stock":1}"#, json).await.assert_problem(422, "invalid-input");
    for body in [
        r#"{"stock":-1}"#,
        r#"{"stock":"1"}"#,
        r#"{"stock":1.5}"#,
        r#"{"stock":"Remaining"}"#,
        r#"{"strategy":"zk-mutex"}"#,
        r#"{"stock":1,"strategy":1}"#,
        r#"{"stock":1,"sale":9}"#,
        "{}",
        "[1]",
    ] {
        put("/admin/goods/1", body, json).await.assert_problem(422, "invalid-body");
    }
    put("/admin/goods/1", "{", json).await.assert_problem(400, "invalid-body");
    put("/admin/goods/1", r#"{"stock":1}"#, None).await.assert_problem(415, "invalid-body");
    let large = format!(r#"{{"stock":1{}}}"#, " ".repeat(5000));
    put("/admin/goods/1", &large, json).await.assert_problem(413, "invalid-body");
    instance.get("/goods/1").await.assert_problem(404, "unknown-goods");
}

/// Goal: a purchase that read one sale cannot sell out of the next one. Method: the sale is restarted while the purchase is
/// in its business time.
// S7
#[tokio::test]
async fn a_straggler_of_an_earlier_sale_cannot_touch_the_next_one() {
    let (lab, instance) = Lab::with_instance(&["--business-time", "400ms"]).await;
    // The last statement before the business time: one looks before its transaction, the other one within it.
    let looked = ("idle", "select sale, stock_initial");
    let has_read = ("idle in transaction", "select sale, on_hand");
    for (goods_no, strategy, (state, statement)) in [(1, "pg-conditional", looked), (2, "unguarded", has_read)] {
        instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
        let straggler = instance.spawn_buy(goods_no, strategy);
        lab.wait_for_statement(state, statement).await;
        instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
        straggler.await.unwrap().assert_problem(503, "sale-restarted");
        assert_eq!(instance.get(&format!("/goods/{goods_no}")).await.body["on_hand"], 5, "{strategy}");
        assert_eq!((lab.units_ordered(goods_no, 1).await, lab.units_ordered(goods_no, 2).await), (0, 0));
    }
}
