//! Waits for locks of ZooKeeper, of the database and of an instance: how long a purchase waits, and what it is told then.

use std::time::{Duration, Instant};

use sqlx::Executor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zk_recipes::{Mutex, Session, SessionConfig};

use crate::lab::{Lab, lock_path, wait_until};

/// Short enough to wait for something that must not happen.
const MOMENT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn locks_of_the_database_are_waited_for_as_any_other_lock_is() {
    let (lab, instance) = Lab::with_instance(&["--lock-wait", "2s"]).await;
    instance.put_on_sale(1, 5, "pg-row-lock").await.assert_ok();
    instance.put_on_sale(2, 5, "pg-advisory").await.assert_ok();
    let rows = lab.lock_rows().await;
    instance.buy(1, "pg-row-lock").await.assert_problem(503, "lock-timeout");
    instance.buy(1, "pg-conditional").await.assert_problem(503, "lock-timeout");
    rows.release().await;
    let other = lab.lock("select pg_advisory_xact_lock(hashtext('seckill/goods'), hashint8(2))").await;
    instance.buy(2, "pg-advisory").await.assert_problem(503, "lock-timeout");
    other.release().await;
    for (goods_no, strategy) in [(1, "pg-row-lock"), (2, "pg-advisory")] {
        instance.buy(goods_no, strategy).await.assert_ok();
        let waits = format!(r#"seckill_lock_wait_seconds_count{{strategy="{strategy}"}}"#);
        assert_eq!(instance.metric(&waits).await, Some(2.0));
    }
}

/// Goal: attempts are bounded. Method: a rule of the database lets no write change a row. A write whose row was changed since
/// it was read sees the same.
#[tokio::test]
async fn an_overtaken_purchase_is_given_up_after_the_last_attempt() {
    let (lab, instance) = Lab::with_instance(&["--attempts-max", "3"]).await;
    instance.put_on_sale(1, 5, "pg-optimistic").await.assert_ok();
    lab.connect().await.execute("create rule overtaken as on update to goods do instead nothing").await.unwrap();
    instance.buy(1, "pg-optimistic").await.assert_problem(503, "overtaken");
    assert_eq!(instance.metric(r#"seckill_retries_total{strategy="pg-optimistic"}"#).await, Some(2.0));
    assert_eq!(lab.units_ordered(1, 1).await, 0);
}

/// Goal: a purchase never goes on after its buyer was told something else. Method: it waits for a lock that the test
/// holds and then for a row. Each wait is below its own limit. Both together exceed the limit of the answer.
// S31
#[tokio::test]
async fn the_wait_for_a_lock_counts_against_the_time_for_the_database() {
    let lab = Lab::new().await;
    let times = ["--lock-wait", "2900ms", "--db-timeout", "3s", "--http-timeout", "3500ms"];
    let instance = lab.start(&times).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    let row = lab.lock_rows().await;
    let session = Session::connect(&lab.zookeeper, SessionConfig::default()).await.unwrap();
    let held = Mutex::new(&session, &lock_path("zk-mutex", 1)).unwrap().acquire().await.unwrap();

    let mut buyer = instance.spawn_buy(1, "zk-mutex");
    assert!(timeout(3 * MOMENT, &mut buyer).await.is_err(), "it waits for the lock");
    held.release().await.unwrap();
    buyer.await.unwrap().assert_problem(503, "database-unavailable");
    row.release().await;
    // The next update of the row comes after the one that was given up, which must not have been committed.
    instance.buy(1, "zk-mutex").await.assert_ok();
    assert_eq!(lab.units_ordered(1, 1).await, 1, "only the second purchase was made");
    assert_eq!(instance.get("/goods/1").await.body["on_hand"], 4);
}

/// Goal: the deadlines count from the arrival of the request, also if its body comes late. Method: nothing is waited for but the
/// body. It comes when the time for the database is over, and before the time for a body is over.
// S31
#[tokio::test]
async fn the_wait_for_a_body_counts_against_the_time_for_the_database() {
    const DB_TIMEOUT: Duration = Duration::from_secs(2);
    let lab = Lab::new().await;
    let instance = lab.start(&["--lock-wait", "500ms", "--db-timeout", "2s", "--http-timeout", "20s"]).await;
    instance.put_on_sale(1, 5, "pg-conditional").await.assert_ok();
    let mut client = TcpStream::connect(instance.address).await.unwrap();
    let body = r#"{"quantity":1}"#;
    let head = format!(
        "POST /goods/1/orders HTTP/1.1\r\nhost: lab\r\nidempotency-key: late\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).await.unwrap();
    let sent = Instant::now();
    wait_until(async || sent.elapsed() > DB_TIMEOUT + MOMENT).await;
    client.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(!answer.contains("outcome-unknown") && !answer.contains("request-timeout"), "{answer}");
    instance.buy(1, "pg-conditional").await.assert_ok();
    assert_eq!(lab.assert_adds_up(1, "a late body").await, 1, "only the second purchase was made");
}

// S27
#[tokio::test]
async fn a_lock_that_others_hold_is_waited_for_so_long_and_no_longer() {
    let (lab, instance) =
        Lab::with_instance(&["--lock-wait", "1500ms", "--db-timeout", "30s", "--http-timeout", "40s"]).await;
    let strategies = ["local-mutex", "zk-naive", "zk-mutex"];
    for (goods_no, strategy) in (1..).zip(strategies) {
        instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
    }
    let rows = lab.lock_rows().await;
    for (goods_no, strategy) in (1..).zip(strategies) {
        let holder = instance.spawn_buy(goods_no, strategy);
        let entered = format!(r#"seckill_lock_wait_seconds_count{{strategy="{strategy}"}}"#);
        wait_until(async || instance.metric(&entered).await == Some(1.0)).await;
        instance.buy(goods_no, strategy).await.assert_problem(503, "lock-timeout");
        assert_eq!(instance.outcomes(strategy, "lock_timeout").await, Some(1.0));
        holder.abort();
    }
    rows.release().await;
    for goods_no in 1..=3 {
        wait_until(async || lab.units_ordered(goods_no, 1).await == 1).await;
    }
}

#[tokio::test]
async fn a_row_that_others_lock_is_waited_for_so_long_and_no_longer() {
    let (lab, instance) = Lab::with_instance(&["--lock-wait", "1s", "--db-timeout", "2s"]).await;
    instance.put_on_sale(1, 5, "unguarded").await.assert_ok();
    let row = lab.lock_rows().await;
    instance.buy(1, "unguarded").await.assert_problem(503, "database-unavailable");
    instance.put_on_sale(1, 9, "unguarded").await.assert_problem(503, "database-unavailable");
    row.release().await;
    // What was given up must not have been done.
    instance.buy(1, "unguarded").await.assert_ok();
    assert_eq!(lab.units_ordered(1, 1).await, 1);
    assert_eq!(instance.get("/goods/1").await.body["stock_initial"], 5);
}
