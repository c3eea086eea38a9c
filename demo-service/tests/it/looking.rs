//! `GET /goods/{goods_no}`, the probes, and paths that lead nowhere.

use reqwest::Method;
use serde_json::json;

use crate::lab::{Answer, Lab};

#[tokio::test]
async fn stock_is_shown_as_it_stands() {
    let lab = Lab::new().await;
    let instance = lab.start(&[]).await;
    instance.reset(1, 100).await.assert_ok();
    instance.buy(1, "pg-conditional").await.assert_ok();
    let answer = instance.get("/goods/1").await;
    answer.assert_ok();
    assert_eq!(answer.body, json!({ "goods_no": 1, "sale": 1, "stock_initial": 100, "on_hand": 99 }));
}

#[tokio::test]
async fn unknown_and_malformed_goods_are_refused() {
    let lab = Lab::new().await;
    let instance = lab.start(&[]).await;
    instance.get("/goods/7").await.assert_problem(404, "unknown-goods");
    instance.get("/goods/seven").await.assert_problem(422, "invalid-input");
}

#[tokio::test]
async fn the_framework_refuses_with_problems_too() {
    let lab = Lab::new().await;
    let instance = lab.start(&[]).await;
    for path in ["/", "/goods", "/goods/1/orders", "/admin"] {
        instance.get(path).await.assert_refusal(404, "about:blank");
    }
    for path in ["/goods/1", "/strategies", "/healthz", "/readyz", "/metrics"] {
        let answer = Answer::of(instance.request(Method::POST, path).send().await.unwrap()).await;
        answer.assert_refusal(405, "about:blank");
        assert_eq!(answer.header("allow"), Some("GET,HEAD"), "{path}");
    }
}

#[tokio::test]
async fn the_probes_say_alive_and_ready() {
    let lab = Lab::new().await;
    let instance = lab.start(&[]).await;
    for (path, status) in [("/healthz", "alive"), ("/readyz", "ready")] {
        let answer = instance.get(path).await;
        answer.assert_ok();
        assert_eq!(answer.body, json!({ "status": status }));
    }
}
