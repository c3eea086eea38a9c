//! Purchases that are decided in batches: nobody in a batch is concerned by the others.

use std::time::Duration;

use demo_service::telemetry::clock::Moment;
use futures_util::future::join_all;
use sqlx::Executor;
use testbed::StopSignal;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::commits::Gate;
use crate::database::END_SESSIONS;
use crate::history::sections;
use crate::lab::{Answer, Instance, Lab, PATIENT, Shop, wait_until};
use crate::program::Program;

/// The strategies that sell in batches.
const STRATEGIES: [&str; 3] = ["pg-merge", "zk-merge", "zk-owner"];

/// Puts a SKU on sale by each of the strategies.
async fn on_sale(instance: &Shop, stock: i64) -> impl Iterator<Item = (i64, &'static str)> {
    for (goods_no, strategy) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, stock, strategy).await.assert_ok();
    }
    (1..).zip(STRATEGIES)
}

/// Returns how many orders of a SKU each transaction has written, the first transaction first.
async fn batch_sizes(lab: &Lab, goods_no: i64) -> Vec<i64> {
    let sql = "select count(*) from order_lines where goods_no = $1 group by xmin order by min(order_id)";
    sqlx::query_scalar(sql).bind(goods_no).fetch_all(&mut lab.connect().await).await.unwrap()
}

/// Returns the orders of the buyers of a SKU, in the order in which the history says that they arrived.
async fn orders_by_arrival(instance: &Instance, goods_no: i64) -> Vec<Option<i64>> {
    let history = instance.admin_get("/admin/history").await;
    history.assert_ok();
    let records = history.body["records"].as_array().unwrap().iter().filter(|record| record["goods_no"] == goods_no);
    let mut orders: Vec<_> = records.map(|record| (record["asked_ns"].as_u64(), record["order_id"].as_i64())).collect();
    orders.sort_unstable_by_key(|(asked_ns, _)| *asked_ns);
    orders.into_iter().map(|(_, order_id)| order_id).collect()
}

/// Starts a first buyer whose commit waits at the gate, and `count` buyers who wait for the next batch.
async fn crowd_behind_a_commit(
    lab: &Lab,
    instance: &Instance,
    (goods_no, strategy): (i64, &str),
    count: usize,
) -> Vec<JoinHandle<Answer>> {
    let first = instance.spawn_buy(goods_no, strategy);
    lab.wait_for_statement("active", "commit").await;
    let mut buyers = vec![first];
    for waiting in 1..=count {
        buyers.push(instance.spawn_buy(goods_no, strategy));
        instance.wait_for_waiting(strategy, waiting).await;
    }
    buyers
}

// C6, S38
#[tokio::test]
async fn buyers_who_come_during_a_commit_are_sold_by_the_next_one() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    for (goods_no, strategy) in on_sale(&instance, 10).await {
        let gate = Gate::close(&lab).await;
        let buyers = crowd_behind_a_commit(&lab, &instance, (goods_no, strategy), 12).await;
        gate.open().await;
        let answers: Vec<Answer> = join_all(buyers).await.into_iter().map(Result::unwrap).collect();
        let (bought, refused) = answers.split_at(10);
        for (index, answer) in bought.iter().enumerate() {
            answer.assert_ok();
            assert_eq!(answer.body["remaining"], 9 - index, "in the order of arrival: {answer:?}");
        }
        refused.iter().for_each(|answer| answer.assert_problem(409, "sold-out"));
        assert_eq!(batch_sizes(&lab, goods_no).await, [1, 9]);
        assert_eq!(lab.assert_adds_up(goods_no, "a crowd").await, 10);
        let told = bought.iter().map(|answer| answer.body["order_id"].as_i64());
        let expected: Vec<_> = told.chain(refused.iter().map(|_| None)).collect();
        assert_eq!(orders_by_arrival(&instance, goods_no).await, expected, "{strategy}");
    }
}

// S37
#[tokio::test]
async fn two_equal_keys_in_one_batch_are_one_sale() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    for (goods_no, strategy) in on_sale(&instance, 10).await {
        let gate = Gate::close(&lab).await;
        let first = crowd_behind_a_commit(&lab, &instance, (goods_no, strategy), 0).await;
        let waiting = async {
            instance.wait_for_waiting(strategy, 3).await;
            gate.open().await;
        };
        let [same, other] = ["same", "other"].map(|key| format!("{strategy}-{key}"));
        let order = |key| instance.order(goods_no, 2, strategy, key);
        let (one, twin, other, ()) = tokio::join!(order(&same), order(&same), order(&other), waiting);
        for answer in [&one, &twin, &other] {
            answer.assert_created();
        }
        assert_eq!(one.body, twin.body);
        assert_ne!(one.body["order_id"], other.body["order_id"]);
        join_all(first).await.into_iter().for_each(|answer| answer.unwrap().assert_ok());
        assert_eq!(batch_sizes(&lab, goods_no).await, [1, 2]);
        assert_eq!(lab.assert_adds_up(goods_no, "twins").await, 5);
    }
}

// S37, S40
#[tokio::test]
async fn a_busy_key_concerns_nobody_else_in_its_batch() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    for (goods_no, strategy) in on_sale(&instance, 10).await {
        instance.put_on_sale(9, 10, "pg-conditional").await.assert_ok();
        let keys = ["a", "busy", "b"].map(|key| format!("{strategy}-{key}"));
        let busy = lab.lock_key(&keys[1]).await;
        let orders = keys.iter().map(|key| instance.order(goods_no, 1, strategy, key));
        let answers = join_all(orders).await;
        answers[0].assert_created();
        answers[1].assert_problem(503, "lock-timeout");
        answers[2].assert_created();
        busy.release().await;
        instance.order(goods_no, 1, strategy, &keys[1]).await.assert_created();
        assert_eq!(lab.assert_adds_up(goods_no, "a busy key").await, 3);
    }
}

// S37
#[tokio::test]
async fn a_buyer_who_hangs_up_before_the_batch_buys_nothing() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    for (goods_no, strategy) in on_sale(&instance, 10).await {
        let gate = Gate::close(&lab).await;
        let mut buyers = crowd_behind_a_commit(&lab, &instance, (goods_no, strategy), 3).await;
        buyers.remove(2).abort();
        instance.wait_for_waiting(strategy, 2).await;
        gate.open().await;
        join_all(buyers).await.into_iter().for_each(|answer| answer.unwrap().assert_ok());
        assert_eq!(lab.assert_adds_up(goods_no, "one has hung up").await, 3);
    }
}

/// Goal: a worker whose buyers have all gone goes on. Method: they hang up while it waits for the row, in a process whose log tells of a
/// panic.
// S37
#[tokio::test]
async fn a_batch_without_a_buyer_left_ends_in_peace() {
    let lab = Lab::new().await;
    let program = Program::start(&lab, StopSignal::Terminate, &PATIENT, &[]).await;
    for (goods_no, strategy) in on_sale(&program, 10).await {
        let row = lab.lock_rows().await;
        let buyers: Vec<_> = (0..2).map(|_| program.spawn_buy(goods_no, strategy)).collect();
        program.wait_for_waiting(strategy, 2).await;
        lab.wait_for_lock().await;
        buyers.iter().for_each(JoinHandle::abort);
        program.wait_for_waiting(strategy, 0).await;
        row.release().await;
        program.buy(goods_no, strategy).await.assert_ok();
        assert_eq!(lab.assert_adds_up(goods_no, "all have hung up").await, 1);
        assert!(!program.process.log_tail().contains("panicked"), "{strategy}: {}", program.process.log_tail());
    }
}

// S37
#[tokio::test]
async fn a_buyer_who_waited_too_long_is_refused_alone() {
    let (lab, instance) = Lab::with_instance(&["--lock-wait", "2s"]).await;
    for (goods_no, strategy) in on_sale(&instance, 10).await {
        let row = lab.lock_rows().await;
        let early = [(); 5].map(|()| instance.buy(goods_no, strategy));
        join_all(early).await.iter().for_each(|answer| answer.assert_problem(503, "lock-timeout"));
        let late = instance.spawn_buy(goods_no, strategy);
        lab.wait_for_lock().await;
        row.release().await;
        late.await.unwrap().assert_ok();
        assert_eq!(lab.assert_adds_up(goods_no, "a locked row").await, 1);
    }
}

#[tokio::test]
async fn a_batch_that_the_database_ends_is_refused_whole() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    for (goods_no, strategy) in on_sale(&instance, 10).await {
        let row = lab.lock_rows().await;
        let buyers: Vec<_> = (0..3).map(|_| instance.spawn_buy(goods_no, strategy)).collect();
        instance.wait_for_waiting(strategy, 3).await;
        lab.wait_for_lock().await;
        lab.connect().await.execute(END_SESSIONS).await.unwrap();
        for answer in join_all(buyers).await {
            answer.unwrap().assert_problem(503, "database-unavailable");
        }
        row.release().await;
        instance.buy(goods_no, strategy).await.assert_ok();
        assert_eq!(lab.assert_adds_up(goods_no, "a batch was ended").await, 1);
    }
}

#[tokio::test]
async fn a_batch_that_was_overtaken_writes_nothing() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    for (goods_no, strategy) in [(1, "zk-merge"), (2, "zk-owner")] {
        instance.put_on_sale(goods_no, 10, strategy).await.assert_ok();
        let orders = lab.lock_orders().await;
        let buyers: Vec<_> = (0..3).map(|_| instance.spawn_buy(goods_no, strategy)).collect();
        // A batch has read the stock, and waits for the table. A later holder reads the stock, too.
        lab.wait_for_lock().await;
        lab.connect().await.execute("update goods set fence = fence + 1").await.unwrap();
        orders.release().await;
        let answers: Vec<Answer> = join_all(buyers).await.into_iter().map(Result::unwrap).collect();
        let (bought, fenced): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.problem().is_none());
        assert!(!fenced.is_empty(), "{answers:?}");
        fenced.iter().for_each(|answer| answer.assert_problem(503, "fenced"));
        assert_eq!(usize::try_from(lab.assert_adds_up(goods_no, "overtaken").await), Ok(bought.len()));
    }
}

// S37
#[tokio::test]
async fn a_crowd_around_a_busy_key_is_sold_by_few_transactions() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    for (goods_no, strategy) in on_sale(&instance, 100).await {
        instance.put_on_sale(9, 10, "pg-conditional").await.assert_ok();
        let keys: Vec<_> = (0..64).map(|number| format!("{strategy}-{number}")).collect();
        let busy = lab.lock_key(&keys[40]).await;
        let gate = Gate::close(&lab).await;
        let first = crowd_behind_a_commit(&lab, &instance, (goods_no, strategy), 0).await;
        let waiting = async {
            instance.wait_for_waiting(strategy, keys.len()).await;
            gate.open().await;
        };
        let orders = join_all(keys.iter().map(|key| instance.order(goods_no, 1, strategy, key)));
        let (answers, ()) = tokio::join!(orders, waiting);
        for (index, answer) in answers.iter().enumerate() {
            match index {
                40 => answer.assert_problem(503, "lock-timeout"),
                _ => answer.assert_created(),
            }
        }
        busy.release().await;
        join_all(first).await.into_iter().for_each(|answer| answer.unwrap().assert_ok());
        let sizes = batch_sizes(&lab, goods_no).await;
        // The first buyer, and one half less after each refusal.
        assert!(sizes.len() <= 1 + 6, "{strategy}: {sizes:?}");
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 64);
    }
}

// S19
#[tokio::test]
async fn the_section_of_a_batch_ends_before_the_statement_that_fails() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    for (goods_no, strategy) in on_sale(&instance, 10).await {
        let orders = lab.lock_orders().await;
        let buyer = instance.spawn_buy(goods_no, strategy);
        // The batch is about to write. Its transaction and so the lock of its row may end with this statement.
        lab.wait_for_lock().await;
        let written = Moment::now().ns();
        lab.connect().await.execute(END_SESSIONS).await.unwrap();
        buyer.await.unwrap().assert_problem(503, "database-unavailable");
        orders.release().await;
        let sections = sections(&instance, goods_no).await;
        let [section] = sections[..] else { panic!("{strategy}: {sections:?}") };
        assert!(section.left < written, "{strategy}: {section:?}, {written}");
    }
}

// S100
#[tokio::test]
async fn the_wait_of_a_worker_for_its_lock_is_counted_for_nobody() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    instance.put_on_sale(1, 10, "zk-merge").await.assert_ok();
    let held = lab.hold_locks("zk-merge", &[1]).await;
    let buyer = instance.spawn_buy(1, "zk-merge");
    lab.wait_for_queue("zk-merge", 1, 2).await;
    assert_eq!(instance.metric(r#"seckill_queue_depth{strategy="zk-merge"}"#).await, Some(1.0));
    held.release().await.unwrap();
    buyer.await.unwrap().assert_ok();
    assert_eq!(instance.metric(r#"seckill_queue_depth{strategy="zk-merge"}"#).await, Some(0.0));
    assert_eq!(instance.metric(r#"seckill_lock_wait_seconds_count{strategy="zk-merge"}"#).await, Some(1.0));
}

#[tokio::test]
async fn a_batch_whose_sale_is_restarted_buys_of_the_next_sale() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    instance.put_on_sale(1, 10, "zk-merge").await.assert_ok();
    let orders = lab.lock_orders().await;
    let buyer = instance.spawn_buy(1, "zk-merge");
    // The batch has read the stock, and waits for the table.
    lab.wait_for_lock().await;
    instance.put_on_sale(1, 5, "zk-merge").await.assert_ok();
    orders.release().await;
    buyer.await.unwrap().assert_ok();
    assert_eq!((lab.units_ordered(1, 1).await, lab.units_ordered(1, 2).await), (0, 1));
    assert_eq!(lab.assert_adds_up(1, "restarted").await, 1);
}

#[tokio::test]
async fn a_buyer_of_the_next_sale_waits_for_a_batch_of_that_sale() {
    let (lab, instance) = Lab::with_instance(&[&PATIENT[..], &["--business-time", "1ms"]].concat()).await;
    instance.put_on_sale(1, 10, "zk-merge").await.assert_ok();
    let held = lab.hold_locks("zk-merge", &[1]).await;
    let early = instance.spawn_buy(1, "zk-merge");
    lab.wait_for_queue("zk-merge", 1, 2).await;
    instance.put_on_sale(1, 5, "zk-merge").await.assert_ok();
    let late = instance.spawn_buy(1, "zk-merge");
    instance.wait_for_waiting("zk-merge", 2).await;
    held.release().await.unwrap();
    early.await.unwrap().assert_problem(503, "sale-restarted");
    late.await.unwrap().assert_ok();
    assert_eq!(lab.assert_adds_up(1, "two sales").await, 1);
}

/// Goal: a buyer whose deadline comes before the commit is sold nothing, and the others of the batch are. Method: the write
/// of a batch waits until the deadline of its first buyer.
// S37
#[tokio::test]
async fn a_buyer_whose_deadline_precedes_the_commit_buys_nothing() {
    let (lab, instance) =
        Lab::with_instance(&["--lock-wait", "12s", "--db-timeout", "14s", "--http-timeout", "40s"]).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    instance.put_on_sale(1, 10, "zk-merge").await.assert_ok();
    let gate = Gate::close(&lab).await;
    let mut buyers = crowd_behind_a_commit(&lab, &instance, (1, "zk-merge"), 1).await;
    sleep(Duration::from_secs(6)).await;
    buyers.push(instance.spawn_buy(1, "zk-merge"));
    instance.wait_for_waiting("zk-merge", 2).await;
    let open = async {
        // The lock is the next one. Until the gate opens, the first buyer has the table.
        wait_until(async || lab.lock_waits().await == 2).await;
        gate.open().await;
    };
    let (orders, ()) = tokio::join!(lab.lock_orders(), open);
    let [first, early, late] = buyers.try_into().unwrap();
    first.await.unwrap().assert_ok();
    early.await.unwrap().assert_problem(503, "database-unavailable");
    orders.release().await;
    late.await.unwrap().assert_ok();
    assert_eq!(lab.assert_adds_up(1, "a deadline").await, 2);
}

/// Goal: a shutdown waits for no part of a divided batch. Method: the lock is held elsewhere when the batch is divided.
// S80
#[tokio::test]
async fn a_shutdown_refuses_the_parts_of_a_divided_batch_that_wait() {
    let (lab, instance) = Lab::with_instance(&PATIENT).await;
    instance.put_on_sale(1, 10, "zk-merge").await.assert_ok();
    instance.put_on_sale(9, 10, "pg-conditional").await.assert_ok();
    let busy = lab.lock_key("busy").await;
    let held = lab.hold_locks("zk-merge", &[1]).await;
    let buyers = ["a", "busy"].map(|key| instance.spawn_order(1, 1, "zk-merge", key));
    instance.wait_for_waiting("zk-merge", 2).await;
    lab.wait_for_queue("zk-merge", 1, 2).await;
    let (held_again, ()) = tokio::join!(lab.hold_locks("zk-merge", &[1]), async {
        lab.wait_for_queue("zk-merge", 1, 3).await;
        held.release().await.unwrap();
    });
    lab.wait_for_queue("zk-merge", 1, 2).await;
    let stopped = instance.request_stop();
    for answer in join_all(buyers).await {
        answer.unwrap().assert_problem(503, "shutting-down");
    }
    stopped.await.unwrap();
    held_again.release().await.unwrap();
    busy.release().await;
}
