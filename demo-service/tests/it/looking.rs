//! `GET /goods/{goods_no}`, the probes, and paths that lead nowhere.

use reqwest::Method;
use serde_json::json;
use sqlx::{Connection, Executor};
use zk_recipes::{RwLock, Session, SessionConfig};

use crate::lab::{Answer, Lab, wait_until};

// S18
#[tokio::test]
async fn stock_is_shown_as_it_stands() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 100, "pg-conditional").await.assert_ok();
    instance.buy(1, "pg-conditional").await.assert_ok();
    let answer = instance.get("/goods/1").await;
    answer.assert_ok();
    let expected = json!({
        "goods_no": 1, "sale": 1, "stock_initial": 100, "on_hand": 99, "per_buyer": null, "guard": "pg-row", "strategy": "pg-conditional",
    });
    assert_eq!(answer.body, expected);
}

/// Goal: any number of looks at one SKU leaves the database to the buyers. Method: the test keeps the table locked until a
/// crowd is waiting, so that no look ends before.
// S18
#[tokio::test]
async fn a_crowd_that_looks_at_once_takes_one_connection() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 100, "").await.assert_ok();
    instance.get("/goods/1").await.assert_ok();
    let mut connection = lab.connect().await;
    let mut table = connection.begin().await.unwrap();
    table.execute("lock table goods in access exclusive mode").await.unwrap();
    let crowd: Vec<_> = (0..50).map(|_| instance.request(Method::GET, "/goods/1").send()).map(tokio::spawn).collect();
    let in_flight = async || instance.metric("seckill_requests_in_flight").await;
    wait_until(async || in_flight().await == Some(50.0)).await;
    lab.wait_for_lock().await;
    assert_eq!(lab.lock_waits().await, 1);

    table.execute("update goods set on_hand = 99").await.unwrap();
    table.commit().await.unwrap();
    for looker in crowd {
        assert_eq!(Answer::of(looker.await.unwrap().unwrap()).await.body["on_hand"], 99);
    }
}

#[tokio::test]
async fn a_look_under_the_read_lock_waits_for_a_sale() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    // Only one that must not get the lock is impatient: on a busy machine a lock that is free may take longer.
    let impatient = lab.start(&["--lock-wait", "500ms"]).await;
    instance.put_on_sale(1, 100, "zk-rwlock").await.assert_ok();
    let session = Session::connect(&lab.zookeeper, SessionConfig::default()).await.unwrap();
    let lock = RwLock::new(&session, "/seckill/zk-rwlock/1").unwrap();
    let reading = lock.read_lock().acquire().await.unwrap();
    instance.get("/goods/1?strategy=zk-rwlock").await.assert_ok();
    impatient.buy(1, "zk-rwlock").await.assert_problem(503, "lock-timeout");
    reading.release().await.unwrap();
    let selling = lock.write_lock().acquire().await.unwrap();
    for query in ["", "?strategy=zk-rwlock"] {
        impatient.get(&format!("/goods/1{query}")).await.assert_problem(503, "lock-timeout");
    }
    instance.get("/goods/1?strategy=zk-mutex").await.assert_problem(422, "guard-mismatch");
    selling.release().await.unwrap();
    instance.get("/goods/1?strategy=zk-rwlock").await.assert_ok();
    instance.get("/goods/1?strategy=hope").await.assert_problem(404, "unknown-strategy");
}

#[tokio::test]
async fn unknown_and_malformed_goods_are_refused() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    instance.get("/goods/7").await.assert_problem(404, "unknown-goods");
    instance.get("/goods/seven").await.assert_problem(422, "invalid-input");
}

#[tokio::test]
async fn the_framework_refuses_with_problems_too() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    for path in ["/", "/goods", "/goods/1/order", "/admin"] {
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
    let (_lab, instance) = Lab::with_instance(&[]).await;
    for (path, status) in [("/healthz", "alive"), ("/readyz", "ready")] {
        let answer = instance.get(path).await;
        answer.assert_ok();
        assert_eq!(answer.body, json!({ "status": status }));
    }
}
