//! Limits of requests, connections and bodies: what is refused, and what goes on.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::lab::{ENDLESS, Lab, PATIENT, TOKEN, wait_until};

/// Longer than anything here takes when it does happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A purchase without the body that it announces.
const HALF_A_REQUEST: &str = "POST /goods/1/orders HTTP/1.1\r\nhost: lab\r\nidempotency-key: half\r\n\
                              content-type: application/json\r\ncontent-length: 14\r\n\r\n";

// S76
#[tokio::test]
async fn above_the_limit_requests_are_shed_and_probes_still_answered() {
    let (lab, instance) = Lab::with_instance(&[&["--concurrency-max", "1"][..], &PATIENT].concat()).await;
    instance.put_on_sale(1, 5, "pg-conditional").await.assert_ok();
    let row = lab.lock_rows().await;
    let slow = instance.spawn_buy(1, "pg-conditional");
    lab.wait_for_statement("active", "update goods").await;

    instance.buy(1, "pg-conditional").await.assert_problem(503, "overloaded");
    instance.get("/goods/1").await.assert_problem(503, "overloaded");
    for path in ["/healthz", "/readyz", "/strategies"] {
        instance.get(path).await.assert_ok();
    }
    // Administrators do not compete with buyers.
    instance.put_on_sale(2, 5, "").await.assert_ok();
    instance.admin_get("/admin/history").await.assert_ok();
    assert_eq!(instance.metric("seckill_requests_shed_total").await, Some(2.0));

    row.release().await;
    slow.await.unwrap().assert_ok();
    instance.get("/goods/1").await.assert_ok();
}

// S33
#[tokio::test]
async fn a_buyer_who_leaves_does_not_stop_the_purchase() {
    let (lab, instance) = Lab::with_instance(&["--concurrency-max", "1"]).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    let row = lab.lock_rows().await;
    let buyer = instance.spawn_buy(1, "zk-mutex");
    lab.wait_for_statement("active", "update goods").await;
    buyer.abort();
    assert!(buyer.await.unwrap_err().is_cancelled());
    // The purchase keeps its slot, so buyers who come and go cannot pile up work.
    instance.get("/goods/1").await.assert_problem(503, "overloaded");

    row.release().await;
    wait_until(async || lab.units_ordered(1, 1).await == 1).await;
    wait_until(async || instance.get("/goods/1").await.body["on_hand"] == 4).await;
}

// S34
#[tokio::test]
async fn a_buyer_who_leaves_while_waiting_leaves_the_queue() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    for (goods_no, strategy) in (1..).zip(["zk-mutex", "zk-handoff", "zk-cohort", "zk-multi"]) {
        instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
        let held = lab.hold_locks(strategy, &[goods_no]).await;
        let buyers: Vec<_> = (0..5).map(|_| instance.spawn_buy(goods_no, strategy)).collect();
        instance.wait_for_waiting(strategy, 5).await;
        buyers.iter().for_each(JoinHandle::abort);
        instance.wait_for_waiting(strategy, 0).await;
        lab.wait_for_queue(strategy, goods_no, 1).await;
        held.release().await.unwrap();
        wait_until(async || instance.outcomes(strategy, "client_gone").await == Some(5.0)).await;
        assert_eq!(lab.units_ordered(goods_no, 1).await, 0, "{strategy}");
    }
}

/// Goal: a buyer who leaves while waiting for a lock of the database, for a key or for a connection keeps none of them.
/// Method: the test has the locks for longer than anybody waits, and more buyers come than there are connections.
// S34, S92
#[tokio::test]
async fn a_buyer_who_leaves_the_wait_for_the_database_frees_it() {
    let (lab, instance) = Lab::with_instance(&[&ENDLESS[..], &["--db-connections", "3"]].concat()).await;
    // A waiting buyer leaves a connection free.
    let waits = [
        ("pg-row-lock", None, 2),
        ("pg-advisory", None, 2),
        ("pg-conditional", None, 2),
        ("pg-serializable", Some("a-key"), 2),
    ];
    for (wanted, (strategy, key, waiting)) in (1..).step_by(2).zip(waits) {
        let other = wanted + 1;
        for goods_no in [wanted, other] {
            instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
        }
        let locks = if key.is_some() { KEY } else { LOCKS };
        let locked = lab.lock(&locks.replace("$1", &wanted.to_string())).await;
        let buy = || match key {
            None => instance.request(Method::GET, &format!("/goods-stock/{wanted}?strategy={strategy}")),
            Some(key) => {
                let order = instance.request(Method::POST, &format!("/goods/{wanted}/orders?strategy={strategy}"));
                order.header("idempotency-key", key).json(&json!({ "quantity": 1 }))
            }
        };
        let buyers: Vec<_> = (0..4).map(|_| tokio::spawn(buy().send())).collect();
        wait_until(async || lab.lock_waits().await == waiting).await;
        wait_until(async || instance.metric("seckill_requests_in_flight").await == Some(4.0)).await;
        instance.get("/readyz").await.assert_ok();
        buyers.iter().for_each(JoinHandle::abort);
        wait_until(async || lab.lock_waits().await == 0).await;
        wait_until(async || instance.outcomes(strategy, "client_gone").await == Some(4.0)).await;
        instance.buy(other, strategy).await.assert_ok();
        // The pool, and the two aside.
        wait_until(async || lab.service_connections().await <= 5).await;
        locked.release().await;
        assert_eq!((lab.units_ordered(wanted, 1).await, lab.units_ordered(other, 1).await), (0, 1), "{strategy}");
    }
}

/// Takes the locks of a SKU that purchases wait for in the database.
const LOCKS: &str = "select pg_advisory_xact_lock(hashtext('seckill/goods'), hashint8(goods_no))
                     from goods where goods_no = $1 for update";

/// Writes an order under a key. It does not keep others from writing the row of the SKU.
const KEY: &str = "with header as (insert into orders (strategy, instance) values ('', '') returning order_id)
                   insert into idempotency_keys (key, cart, goods_no, sale, order_id)
                   select 'a-key', '[]'::jsonb, $1::bigint, 1, order_id from header";

/// Goal: an instance at its limit refuses the rest at once. When the crowd is gone, it serves the next buyer, and no
/// leftovers of the crowd. Method: the lock is held throughout, so nothing but a refusal can answer.
// S79
#[tokio::test]
async fn an_overloaded_instance_refuses_at_once_and_recovers_at_once() {
    let (lab, instance) = Lab::with_instance(&[&ENDLESS[..], &["--concurrency-max", "8"]].concat()).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    let held = lab.hold_locks("zk-mutex", &[1]).await;
    let queued: Vec<_> = (0..8).map(|_| instance.spawn_buy(1, "zk-mutex")).collect();
    lab.wait_for_queue("zk-mutex", 1, 9).await;
    let refused: Vec<_> = (0..100).map(|_| instance.spawn_buy(1, "zk-mutex")).collect();
    for refused in refused {
        refused.await.unwrap().assert_problem(503, "overloaded");
    }
    assert_eq!(instance.metric("seckill_requests_shed_total").await, Some(100.0));
    assert!(queued.iter().all(|queued| !queued.is_finished()), "who is in the queue stays there");

    queued.iter().for_each(JoinHandle::abort);
    wait_until(async || instance.metric("seckill_requests_in_flight").await == Some(0.0)).await;
    held.release().await.unwrap();
    instance.buy(1, "zk-mutex").await.assert_ok();
    assert_eq!(lab.units_ordered(1, 1).await, 1, "nothing was bought for those who had gone");
}

// S71
#[tokio::test]
async fn a_client_that_does_not_finish_its_request_is_cut_off() {
    let lab = Lab::new().await;
    // However long a request may be worked on, as in a load test.
    let instance = lab.start(&["--http-timeout", "10m"]).await;
    let answer = raw_answer(instance.address, b"GET /healthz HTTP/1.1\r\nhost: half").await;
    assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
}

// S72
#[tokio::test]
async fn a_client_that_does_not_finish_its_body_is_cut_off() {
    let (_lab, instance) = Lab::with_instance(&["--http-timeout", "10m"]).await;
    let answer = raw_answer(instance.address, HALF_A_REQUEST.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("body-timeout"), "{answer}");
}

// S85
#[tokio::test]
async fn a_head_that_never_ends_is_refused_and_not_collected() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    let mut head = b"GET /healthz HTTP/1.1\r\nhost: lab\r\nx-filler: ".to_vec();
    head.resize(16 * 1024, b'x');
    let answer = raw_answer(instance.address, &head).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

/// Goal: the time for a body is five seconds, and never longer than that for an answer.
// S72
#[tokio::test]
async fn a_refused_body_is_told_the_time_that_it_had() {
    let lab = Lab::new().await;
    let short = ["--lock-wait", "100ms", "--db-timeout", "200ms", "--http-timeout", "300ms"];
    for (times, within) in [(&short[..], "within 300ms"), (&[], "within 5s")] {
        let instance = lab.start(times).await;
        let (_client, answer) = send(instance.address, HALF_A_REQUEST).await;
        assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("body-timeout"), "{answer}");
        assert!(answer.contains(within), "{answer}");
    }
}

/// Returns the head of a reset of SKU 1, without the body that it announces.
fn half_a_reset(authorization: &str) -> String {
    format!(
        "PUT /admin/goods/1 HTTP/1.1\r\nhost: lab\r\nauthorization: {authorization}\r\n\
         content-type: application/json\r\ncontent-length: 11\r\n\r\n"
    )
}

// S77
#[tokio::test]
async fn a_request_without_the_token_is_refused_before_its_body() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    for authorization in ["Bearer wrong".to_owned(), format!("Basic {TOKEN}"), TOKEN.to_owned()] {
        let (_client, answer) = send(instance.address, &half_a_reset(&authorization)).await;
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("unauthorized"), "{answer}");
    }
    // The scheme may be written in any case.
    let (_client, answer) = send(instance.address, &half_a_reset(&format!("bearer {TOKEN}"))).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

/// Goal: administrators have a limit of their own, and take no slot of a buyer. Method: more and more of them send half a
/// request, which is waited for, until the next one is refused.
// S76
#[tokio::test]
async fn administrators_have_permits_of_their_own() {
    let (_lab, instance) = Lab::with_instance(&["--concurrency-max", "1"]).await;
    instance.put_on_sale(1, 5, "pg-conditional").await.assert_ok();
    let half = half_a_reset(&format!("Bearer {TOKEN}"));
    let mut administrators = Vec::new();
    wait_until(async || {
        for _ in 0..8 {
            let mut stream = TcpStream::connect(instance.address).await.unwrap();
            stream.write_all(half.as_bytes()).await.unwrap();
            administrators.push(stream);
        }
        instance.admin_get("/admin/history").await.problem() == Some("overloaded")
    })
    .await;
    assert!(administrators.len() >= 16, "{}", administrators.len());
    instance.buy(1, "pg-conditional").await.assert_ok();
    drop(administrators);
    wait_until(async || instance.admin_get("/admin/history").await.status == 200).await;
}

/// Sends `bytes` and returns what the service has to say until it closes the connection.
async fn raw_answer(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("the service closes").unwrap();
    answer
}

/// Sends `text` and returns the connection with the beginning of the answer.
async fn send(address: SocketAddr, text: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let length = timeout(PATIENCE, stream.read(&mut answer)).await.expect("the service answers").unwrap();
    (stream, String::from_utf8_lossy(&answer[..length]).into_owned())
}
