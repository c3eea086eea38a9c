//! Idempotency keys: a key is remembered with the order that was sold under it, and with nothing else.

use std::time::{Duration, Instant};

use demo_service::strategy::registry::STRATEGIES;
use futures_util::future::join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Method;
use serde_json::json;
use sqlx::Executor;
use testbed::StopSignal;
use tokio::time::sleep;

use crate::commits::Gate;
use crate::gate::is_gate;
use crate::lab::{Answer, Lab, PATIENT, SHORT_LIVED_KEYS, cart, wait_until};
use crate::program::Program;

/// Room for purchases that meet.
const LOAD: [&str; 4] = ["--zk-sessions", "4", "--db-connections", "12"];

impl Lab {
    /// Returns how many idempotency keys are remembered.
    pub(crate) async fn keys(&self) -> i64 {
        sqlx::query_scalar("select count(*) from idempotency_keys").fetch_one(&mut self.connect().await).await.unwrap()
    }
}

// S22
#[tokio::test]
async fn the_same_key_sells_once_by_every_strategy() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 5, entry.name).await.assert_ok();
        let key = format!("sold-{goods_no}");
        let first = instance.order(goods_no, 4, entry.name, &key).await;
        first.assert_created();
        assert_eq!(first.header("idempotent-replayed"), None);
        // The order stays as it was, whatever is left by now, and whichever strategy the second request names.
        instance.order(goods_no, 4, entry.name, &key).await.assert_replay_of(&first);
        instance.order(goods_no, 4, "zk-mutex", &key).await.assert_replay_of(&first);
        // A structured string is the text between its quotes.
        instance.order(goods_no, 4, "", &format!("\"{key}\"")).await.assert_replay_of(&first);
        instance.put_on_sale(goods_no, 9, "pg-advisory").await.assert_ok();
        instance.order(goods_no, 4, entry.name, &key).await.assert_replay_of(&first);
        let ordered = (lab.units_ordered(goods_no, 1).await, lab.units_ordered(goods_no, 2).await);
        assert_eq!(ordered, (4, 0), "{}", entry.name);
    }
}

#[tokio::test]
async fn a_replay_is_counted_as_repeated() {
    let (_lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 5, "pg-conditional").await.assert_ok();
    for _ in 0..3 {
        instance.order(1, 1, "pg-conditional", "key").await.assert_created();
    }
    assert_eq!(instance.outcomes("pg-conditional", "sold").await, Some(1.0));
    assert_eq!(instance.outcomes("pg-conditional", "repeated").await, Some(2.0));
}

// S24
#[tokio::test]
async fn a_refusal_writes_neither_a_key_nor_an_order() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    let rows = async || (lab.keys().await, lab.orders().await);
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 0, entry.name).await.assert_ok();
    }
    for number in 0..50 {
        let entry = &STRATEGIES[number % STRATEGIES.len()];
        let goods_no = i64::try_from(number % STRATEGIES.len()).unwrap() + 1;
        instance.order(goods_no, 1, entry.name, &format!("key-{number}")).await.assert_problem(409, "sold-out");
    }
    assert_eq!(rows().await, (0, 0));
    instance.order(1, 1, "hope", "key").await.assert_problem(404, "unknown-strategy");
    instance.order(999, 1, "zk-mutex", "key").await.assert_problem(404, "unknown-goods");
    instance.order(1, 1, "zk-mutex", "key").await.assert_problem(422, "guard-mismatch");
    instance.post("/orders", Some("key"), &cart(&[(1, 1), (2, 1)])).await.assert_problem(422, "guard-mismatch");
    assert_eq!(rows().await, (0, 0));
}

// S24
#[tokio::test]
async fn the_key_of_a_refusal_buys_after_a_restock_by_every_strategy() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        let key = format!("key-{goods_no}");
        instance.put_on_sale(goods_no, 1, entry.name).await.assert_ok();
        instance.order(goods_no, 2, entry.name, &key).await.assert_problem(409, "sold-out");
        // The refusal has used up nothing: even another cart may be bought under the key.
        instance.put_on_sale(goods_no, 3, entry.name).await.assert_ok();
        let bought = instance.order(goods_no, 3, entry.name, &key).await;
        bought.assert_created();
        assert_eq!(bought.header("idempotent-replayed"), None, "{bought:?}");
        assert_eq!(bought.body["lines"][0]["sale"], 2);
        let ordered = (lab.units_ordered(goods_no, 1).await, lab.units_ordered(goods_no, 2).await);
        assert_eq!(ordered, (0, 3), "{}", entry.name);
    }
}

/// Asserts that one of the answers is of a purchase, and that the others are its replays.
#[track_caller]
fn assert_one_purchase(answers: &[Answer]) {
    let first = answers.iter().find(|answer| answer.header("idempotent-replayed").is_none());
    let first = first.unwrap_or_else(|| panic!("all are replays: {answers:?}"));
    first.assert_created();
    for answer in answers.iter().filter(|answer| !std::ptr::eq(*answer, first)) {
        answer.assert_replay_of(first);
    }
}

// S22
#[tokio::test(flavor = "multi_thread")]
async fn two_purchases_under_one_key_at_once_are_one_order() {
    let lab = Lab::new().await;
    let arguments = [&PATIENT[..], &LOAD].concat();
    let instances = join_all((0..2).map(|_| lab.start(&arguments))).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        instances[0].put_on_sale(goods_no, 100, entry.name).await.assert_ok();
        for number in 0..5 {
            let key = format!("{}-{number}", entry.name);
            let buyers = instances.iter().map(|instance| instance.order(goods_no, 2, entry.name, &key));
            assert_one_purchase(&join_all(buyers).await);
        }
        assert_eq!(lab.units_ordered(goods_no, 1).await, 10, "{}", entry.name);
    }
}

// S22
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_under_one_key_gets_the_last_unit_once() {
    let lab = Lab::new().await;
    let arguments = [&PATIENT[..], &LOAD, &["--business-time", "5ms"]].concat();
    let instances = join_all((0..3).map(|_| lab.start(&arguments))).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        instances[0].put_on_sale(goods_no, 1, entry.name).await.assert_ok();
        let buyers = (0..12).map(|buyer| instances[buyer % 3].order(goods_no, 1, entry.name, entry.name));
        assert_one_purchase(&join_all(buyers).await);
        assert_eq!(lab.units_ordered(goods_no, 1).await, 1, "{}", entry.name);
    }
}

/// Goal: a purchase whose twin takes the last unit is not told that the SKU is sold out. Method: the twin commits while the
/// second purchase waits for it.
// S22
#[tokio::test]
async fn a_key_whose_twin_took_the_last_unit_replays_the_order() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    let strategies = ["zk-mutex", "zk-mutex-fenced", "pg-conditional", "pg-row-lock", "pg-optimistic", "pg-advisory"];
    for (goods_no, strategy) in (1..).zip(strategies) {
        instance.put_on_sale(goods_no, 1, strategy).await.assert_ok();
        let gate = Gate::close(&lab).await;
        let twin = instance.spawn_order(goods_no, 1, strategy, strategy);
        lab.wait_for_statement("active", "commit").await;
        let second = instance.spawn_order(goods_no, 1, strategy, strategy);
        if strategy.starts_with("zk-") {
            lab.wait_for_queue(strategy, goods_no, 2).await;
        } else {
            wait_until(async || lab.lock_waits().await == 2).await;
        }
        gate.open().await;
        let twin = twin.await.unwrap();
        twin.assert_created();
        second.await.unwrap().assert_replay_of(&twin);
        assert_eq!(lab.units_ordered(goods_no, 1).await, 1, "{strategy}");
        assert_eq!(instance.outcomes(strategy, "sold_out").await, Some(0.0), "{strategy}");
    }
}

/// Goal: a key that another cart has taken meanwhile is refused as such. Method: the first purchase under the key commits
/// while the second one, of another SKU, waits for the key.
// S22
#[tokio::test]
async fn a_key_that_another_cart_takes_at_the_same_time_is_refused() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    for goods_no in [1, 2] {
        instance.put_on_sale(goods_no, 5, "pg-conditional").await.assert_ok();
    }
    let gate = Gate::close(&lab).await;
    let first = instance.spawn_order(1, 1, "", "key");
    lab.wait_for_statement("active", "commit").await;
    let second = instance.spawn_order(2, 1, "", "key");
    wait_until(async || lab.lock_waits().await == 2).await;
    gate.open().await;
    first.await.unwrap().assert_created();
    second.await.unwrap().assert_problem(422, "idempotency-key-reused");
    assert_eq!((lab.units_ordered(1, 1).await, lab.units_ordered(2, 1).await), (1, 0));
}

/// Goal: a crash between the commit and the answer costs neither the sale nor the answer. Method: the process is killed
/// while the database commits, and another instance is asked under the same key.
// S22
#[tokio::test(flavor = "multi_thread")]
async fn another_instance_gives_the_answer_of_a_killed_one() {
    let lab = Lab::new().await;
    let killed = Program::start(&lab, StopSignal::Terminate, &[], &[]).await;
    killed.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    Gate::before_commits(&lab, "orders", "insert").await;
    let gate = Gate::close(&lab).await;
    let request = killed.request(Method::POST, "/goods/1/orders?strategy=zk-mutex");
    let request = request.header("idempotency-key", "key").json(&json!({ "quantity": 2 })).send();
    let unanswered = tokio::spawn(request);
    lab.wait_for_statement("active", "commit").await;
    kill(Pid::from_raw(killed.process.pid()), Signal::SIGKILL).unwrap();
    assert!(unanswered.await.unwrap().is_err(), "nobody was answered");
    gate.open().await;
    wait_until(async || lab.units_ordered(1, 1).await == 2).await;

    let staying = lab.start(&[]).await;
    let answer = staying.order(1, 2, "zk-mutex", "key").await;
    answer.assert_created();
    assert_eq!(answer.header("idempotent-replayed"), Some("true"), "{answer:?}");
    assert_eq!(lab.units_ordered(1, 1).await, 2, "it was sold once");
}

// S22
#[tokio::test]
async fn a_key_that_was_used_for_another_cart_is_refused() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    for goods_no in [1, 2] {
        instance.put_on_sale(goods_no, 5, "zk-mutex").await.assert_ok();
    }
    instance.order(1, 1, "zk-mutex", "key").await.assert_created();
    let refused = [
        instance.order(1, 2, "zk-mutex", "key").await,
        instance.order(2, 1, "zk-mutex", "key").await,
        instance.post("/orders", Some("key"), &cart(&[(1, 1), (2, 1)])).await,
    ];
    for answer in refused {
        answer.assert_problem(422, "idempotency-key-reused");
        assert_eq!(answer.header("idempotent-replayed"), Some("true"), "{answer:?}");
    }
    assert_eq!((lab.units_ordered(1, 1).await, lab.units_ordered(2, 1).await), (1, 0));
    // A cart is the same whatever the order of its lines, and a purchase of one SKU is a cart of one line.
    let first = instance.post("/orders", Some("cart"), &cart(&[(2, 1), (1, 1)])).await;
    first.assert_created();
    instance.post("/orders", Some("cart"), &cart(&[(1, 1), (2, 1)])).await.assert_replay_of(&first);
    let first = instance.order(1, 1, "zk-mutex", "one").await;
    first.assert_created();
    instance.post("/orders", Some("one"), &cart(&[(1, 1)])).await.assert_replay_of(&first);
}

// S26
#[tokio::test]
async fn a_key_that_has_expired_is_deleted_and_buys_again() {
    let (lab, instance) = Lab::with_instance(&SHORT_LIVED_KEYS).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    let asked = Instant::now();
    let first = instance.order(1, 1, "zk-mutex", "key").await;
    first.assert_created();
    wait_until(async || lab.keys().await == 0).await;
    assert!(asked.elapsed() > Duration::from_millis(5100), "it lived for {:?}", asked.elapsed());
    let second = instance.order(1, 1, "zk-mutex", "key").await;
    second.assert_created();
    assert_ne!(second.body["order_id"], first.body["order_id"]);
    instance.get(first.header("location").unwrap()).await.assert_ok();
    assert_eq!(lab.units_ordered(1, 1).await, 2);
}

/// Goal: the clock of the database may jump, and no retry buys twice. Method: the clock is replaced by one that is 25 hours ahead,
/// and the lifetime of the keys is a day.
// S25
#[tokio::test]
async fn a_key_outlives_a_jump_of_the_database_s_clock() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    let first = instance.order(1, 1, "zk-mutex", "key").await;
    first.assert_created();
    let mut connection = lab.connect().await;
    for sql in [
        "create function public.clock_timestamp() returns timestamptz language sql as
         $$ select pg_catalog.clock_timestamp() + interval '25 hours' $$",
        "do $$ begin execute format(
         'alter database %I set search_path = public, pg_catalog', current_database()); end $$",
    ] {
        connection.execute(sql).await.unwrap();
    }
    // An instance sweeps when it starts. Until then, its sweep waits for the table.
    connection.execute("begin; lock table idempotency_keys").await.unwrap();
    let other = lab.start(&[]).await;
    wait_until(async || lab.lock_waits().await > 0).await;
    connection.execute("commit").await.unwrap();
    wait_until(async || lab.lock_waits().await == 0).await;
    other.order(1, 1, "zk-mutex", "key").await.assert_replay_of(&first);
    assert_eq!(lab.units_ordered(1, 1).await, 1, "it was sold once");
}

// S26
#[tokio::test]
async fn keys_that_have_expired_are_deleted_however_many_they_are() {
    let (lab, instance) = Lab::with_instance(&SHORT_LIVED_KEYS).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    // More than one statement deletes.
    let sql = "with header as (
                   insert into orders (strategy, instance) select '', '' from generate_series(1, 2500) returning order_id
               )
               insert into idempotency_keys (key, cart, goods_no, sale, order_id)
               select 'old-' || order_id, '[]'::jsonb, 1, 1, order_id from header";
    let written = sqlx::query(sql).execute(&mut lab.connect().await).await.unwrap();
    assert_eq!(written.rows_affected(), 2500);
    wait_until(async || lab.keys().await == 0).await;
}

/// Goal: the wait for a row and the wait for a key end at the same deadline. Method: the row comes free late, and the key
/// does not.
// S31
#[tokio::test]
async fn one_statement_waits_for_all_of_its_locks_within_one_deadline() {
    let (lab, instance) =
        Lab::with_instance(&["--lock-wait", "2s", "--db-timeout", "2500ms", "--http-timeout", "20s"]).await;
    for goods_no in [1, 2] {
        instance.put_on_sale(goods_no, 5, "pg-function").await.assert_ok();
    }
    instance.put_on_sale(9, 5, "pg-conditional").await.assert_ok();
    let busy = lab.lock_key("busy").await;
    let last = lab.lock_row(2).await;
    let first = lab.lock_row(1).await;
    let release = async {
        wait_until(async || lab.lock_waits().await == 2).await;
        sleep(Duration::from_millis(1200)).await;
        first.release().await;
    };
    let lines = cart(&[(1, 1), (2, 1)]);
    let buyers = async {
        tokio::join!(
            instance.order(1, 1, "pg-function", "busy"),
            instance.post("/orders?strategy=pg-function", Some("cart"), &lines)
        )
    };
    let ((one, cart), ()) = tokio::join!(buyers, release);
    one.assert_problem(503, "lock-timeout");
    cart.assert_problem(503, "lock-timeout");
    busy.release().await;
    last.release().await;
    for goods_no in [1, 2] {
        assert_eq!(lab.assert_adds_up(goods_no, "locks that came late").await, 0);
    }
}

/// Goal: a purchase is a repetition only if its key has an order. Method: the sequence of order numbers is set back behind the
/// orders, as logical replication leaves it.
// S23
#[tokio::test]
async fn a_number_that_has_an_order_is_no_repeated_key() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    // A gate numbers its orders itself.
    let numbered = STRATEGIES.iter().filter(|entry| !is_gate(entry));
    for (goods_no, entry) in (1..).zip(numbered) {
        instance.put_on_sale(goods_no, 5, entry.name).await.assert_ok();
        instance.order(goods_no, 1, entry.name, entry.name).await.assert_created();
        let mut connection = lab.connect().await;
        let key = format!("{}-again", entry.name);
        for _ in 0..2 {
            connection.execute("alter table orders alter order_id restart").await.unwrap();
            instance.order(goods_no, 1, entry.name, &key).await.assert_problem(500, "internal");
        }
        connection.execute("alter table orders alter order_id restart").await.unwrap();
        instance.buy(goods_no, entry.name).await.assert_problem(500, "internal");
        let catch_up = "select setval(pg_get_serial_sequence('orders', 'order_id'), max(order_id)) from orders";
        connection.execute(catch_up).await.unwrap();
        instance.order(goods_no, 1, entry.name, &key).await.assert_created();
        assert_eq!(lab.units_ordered(goods_no, 1).await, 2, "{}", entry.name);
    }
}
