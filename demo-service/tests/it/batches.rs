//! Purchases that are decided in batches: nobody in a batch is concerned by the others.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use sqlx::{Connection, Executor};
use tokio::task::JoinHandle;

use crate::commits::Gate;
use crate::lab::{Answer, Instance, Lab, wait_until};

const STRATEGY: &str = "pg-merge";

/// Nobody gives up while a test looks at those who wait.
const PATIENT: [&str; 6] = ["--lock-wait", "50s", "--db-timeout", "55s", "--http-timeout", "60s"];

/// The purchases of an instance that wait for a batch.
async fn wait_for_waiting(instance: &Instance, count: usize) {
    let series = format!("seckill_queue_depth{{strategy=\"{STRATEGY}\"}}");
    let count = f64::from(u32::try_from(count).unwrap());
    wait_until(async || instance.metric(&series).await == Some(count)).await;
}

/// How many orders each transaction has written, the first transaction first.
async fn batch_sizes(lab: &Lab) -> Vec<i64> {
    let sql = "select count(*) from orders group by xmin order by min(order_id)";
    sqlx::query_scalar(sql).fetch_all(&mut lab.connect().await).await.unwrap()
}

/// A first buyer whose commit waits at the gate, and so many who wait for the next batch.
async fn crowd_behind_a_commit(lab: &Lab, instance: &Instance, goods_no: i64, count: usize) -> Vec<JoinHandle<Answer>> {
    let first = instance.spawn_buy(goods_no, STRATEGY);
    lab.wait_for_statement("active", "commit").await;
    let mut buyers = vec![first];
    for place in 1..=count {
        buyers.push(instance.spawn_buy(goods_no, STRATEGY));
        wait_for_waiting(instance, place).await;
    }
    buyers
}

#[tokio::test]
async fn those_who_come_during_a_commit_are_sold_by_the_next_one_in_the_order_of_their_arrival() {
    let lab = Lab::new().await;
    let instance = lab.start(&PATIENT).await;
    instance.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    Gate::before_commits(&lab, "orders", "insert").await;
    let gate = Gate::close(&lab).await;
    let buyers = crowd_behind_a_commit(&lab, &instance, 1, 12).await;
    gate.open().await;
    let answers: Vec<Answer> = join_all(buyers).await.into_iter().map(Result::unwrap).collect();
    let (bought, refused) = answers.split_at(10);
    for (place, answer) in bought.iter().enumerate() {
        answer.assert_ok();
        assert_eq!(answer.body["remaining"], 9 - place, "{answer:?}");
    }
    refused.iter().for_each(|answer| answer.assert_problem(409, "sold-out"));
    assert_eq!(batch_sizes(&lab).await, [1, 9]);
    assert_eq!(lab.assert_adds_up(1, "a crowd").await, 10);
}

#[tokio::test]
async fn two_equal_keys_in_one_batch_are_one_sale() {
    let lab = Lab::new().await;
    let instance = lab.start(&PATIENT).await;
    instance.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    Gate::before_commits(&lab, "orders", "insert").await;
    let gate = Gate::close(&lab).await;
    let first = crowd_behind_a_commit(&lab, &instance, 1, 0).await;
    let waiting = async {
        wait_for_waiting(&instance, 3).await;
        gate.open().await;
    };
    let order = |key| instance.order(1, 2, STRATEGY, key);
    let (one, twin, other, ()) = tokio::join!(order("same"), order("same"), order("other"), waiting);
    for answer in [&one, &twin, &other] {
        answer.assert_created();
    }
    assert_eq!(one.body, twin.body);
    assert_ne!(one.body["order_id"], other.body["order_id"]);
    join_all(first).await.into_iter().for_each(|answer| answer.unwrap().assert_ok());
    assert_eq!(batch_sizes(&lab).await, [1, 2]);
    assert_eq!(lab.assert_adds_up(1, "twins").await, 5);
}

#[tokio::test]
async fn a_key_that_is_in_use_elsewhere_concerns_nobody_else_in_its_batch() {
    let lab = Lab::new().await;
    let instance = lab.start(&PATIENT).await;
    instance.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    instance.put_on_sale(2, 10, "pg-conditional").await.assert_ok();
    // Another purchase under that key is written and not committed.
    let mut connection = lab.connect().await;
    let mut elsewhere = connection.begin().await.unwrap();
    elsewhere
        .execute(
            "with header as (insert into orders (strategy, instance) values ('x', 'x') returning order_id)
             insert into idempotency_keys (key, cart, goods_no, sale, order_id)
             select 'busy', '[]', 2, 1, order_id from header",
        )
        .await
        .unwrap();
    let orders = ["a", "busy", "b"].map(|key| instance.order(1, 1, STRATEGY, key));
    let answers = join_all(orders).await;
    answers[0].assert_created();
    answers[1].assert_problem(503, "lock-timeout");
    answers[2].assert_created();
    elsewhere.rollback().await.unwrap();
    instance.order(1, 1, STRATEGY, "busy").await.assert_created();
    assert_eq!(lab.assert_adds_up(1, "a busy key").await, 3);
}

#[tokio::test]
async fn a_buyer_who_hangs_up_before_the_batch_begins_buys_nothing() {
    let lab = Lab::new().await;
    let instance = lab.start(&PATIENT).await;
    instance.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    Gate::before_commits(&lab, "orders", "insert").await;
    let gate = Gate::close(&lab).await;
    let mut buyers = crowd_behind_a_commit(&lab, &instance, 1, 3).await;
    buyers.remove(2).abort();
    wait_for_waiting(&instance, 2).await;
    gate.open().await;
    join_all(buyers).await.into_iter().for_each(|answer| answer.unwrap().assert_ok());
    assert_eq!(lab.assert_adds_up(1, "one has hung up").await, 3);
}

#[tokio::test]
async fn a_buyer_who_has_waited_too_long_is_refused_and_the_others_go_on() {
    let lab = Lab::new().await;
    let instance = lab.start(&["--lock-wait", "500ms"]).await;
    instance.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    let mut connection = lab.connect().await;
    let mut row = connection.begin().await.unwrap();
    row.execute("select from goods for update").await.unwrap();
    let early = [(); 5].map(|()| instance.buy(1, STRATEGY));
    join_all(early).await.iter().for_each(|answer| answer.assert_problem(503, "lock-timeout"));
    let late = instance.spawn_buy(1, STRATEGY);
    lab.wait_for_lock().await;
    row.rollback().await.unwrap();
    late.await.unwrap().assert_ok();
    assert_eq!(lab.assert_adds_up(1, "a locked row").await, 1);
}

#[tokio::test]
async fn a_batch_that_the_database_ends_is_refused_whole_and_the_next_one_sells() {
    let lab = Lab::new().await;
    let instance = lab.start(&PATIENT).await;
    instance.put_on_sale(1, 10, STRATEGY).await.assert_ok();
    let mut connection = lab.connect().await;
    let mut row = connection.begin().await.unwrap();
    row.execute("select from goods for update").await.unwrap();
    let buyers: Vec<_> = (0..3).map(|_| instance.spawn_buy(1, STRATEGY)).collect();
    wait_for_waiting(&instance, 3).await;
    lab.wait_for_lock().await;
    let end = "select pg_terminate_backend(pid) from pg_stat_activity
               where datname = current_database() and application_name like 'demo-service%'";
    row.execute(end).await.unwrap();
    let answers = join_all(buyers).await;
    let mut outcomes: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for answer in answers.iter().map(|answer| answer.as_ref().unwrap()) {
        *outcomes.entry(answer.problem().map(str::to_owned)).or_default() += 1;
    }
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    answers[0].as_ref().unwrap().assert_problem(503, "database-unavailable");
    row.rollback().await.unwrap();
    instance.buy(1, STRATEGY).await.assert_ok();
    assert_eq!(lab.assert_adds_up(1, "a batch was ended").await, 1);
}
