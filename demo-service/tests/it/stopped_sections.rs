//! A hold is lost, or the database does not answer, while a critical section is under way.

use std::sync::Arc;

use demo_service::app::App;
use demo_service::error::Failure;
use demo_service::stock::{Quantity, Stock};
use demo_service::strategy::Deduction;
use demo_service::strategy::registry::{Guard, STRATEGIES};
use sqlx::{Connection, Executor};

use crate::lab::{Lab, wait_until};

/// Makes every commit of an order take so long: a deferred trigger fires when the commit has already been sent, and
/// no time limit of the server applies to it.
async fn slow_down_commits(lab: &Lab, seconds: f64) {
    let sql = format!(
        "create function linger() returns trigger language plpgsql as
         $$ begin perform pg_sleep({seconds}); return null; end $$;
         create constraint trigger linger after insert on orders deferrable initially deferred
         for each row execute function linger()"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut lab.connect().await).await.unwrap();
}

fn one_unit(goods_no: i64) -> Deduction {
    Deduction { goods_no: goods_no.to_string().parse().unwrap(), quantity: Quantity::ONE }
}

async fn open_app(lab: &Lab) -> Arc<App> {
    let app = Arc::new(App::open(lab.config(&[])).await.unwrap());
    for goods_no in [1, 2, 3, 4, 5] {
        let deduction = one_unit(goods_no);
        app.store.start_sale(deduction.goods_no, Stock::new(5).unwrap()).await.unwrap();
    }
    app
}

#[tokio::test]
async fn a_hold_lost_before_the_commit_stops_the_section_and_nothing_is_written() {
    let lab = Lab::new().await;
    let app = open_app(&lab).await;
    let guarded = (1..).zip(&STRATEGIES).filter(|(_, entry)| entry.guard == Guard::Zookeeper);
    for (goods_no, entry) in guarded {
        wait_until(async || app.sessions.pick().is_some()).await;
        let mut connection = lab.connect().await;
        let mut row = connection.begin().await.unwrap();
        row.execute("select from goods for update").await.unwrap();
        let (buyer, slot) = (Arc::clone(&app), app.try_slot().unwrap());
        let deduction = tokio::spawn(async move { buyer.deduct(entry, one_unit(goods_no), slot).await });
        lab.wait_for_statement("active", "update goods").await;

        app.sessions.pick().unwrap().close().await.unwrap();
        let result = deduction.await.unwrap();
        assert!(matches!(result, Err(Failure::HoldLost(_))), "{}: {result:?}", entry.name);
        row.rollback().await.unwrap();
        // The statement that was under way gets its row now, and is rolled back.
        let goods = app.store.goods(one_unit(goods_no).goods_no).await.unwrap().unwrap();
        assert_eq!((goods.on_hand, lab.units_ordered(goods_no, 1).await), (5, 0), "{}", entry.name);
    }
}

#[tokio::test]
async fn a_hold_lost_during_the_commit_leaves_the_outcome_unknown() {
    let lab = Lab::new().await;
    let app = open_app(&lab).await;
    slow_down_commits(&lab, 1.0).await;
    let guarded = (1..).zip(&STRATEGIES).filter(|(_, entry)| entry.guard == Guard::Zookeeper);
    for (goods_no, entry) in guarded {
        wait_until(async || app.sessions.pick().is_some()).await;
        let (buyer, slot) = (Arc::clone(&app), app.try_slot().unwrap());
        let deduction = tokio::spawn(async move { buyer.deduct(entry, one_unit(goods_no), slot).await });
        lab.wait_for_statement("active", "commit").await;

        app.sessions.pick().unwrap().close().await.unwrap();
        let result = deduction.await.unwrap();
        assert!(matches!(result, Err(Failure::OutcomeUnknown(_))), "{}: {result:?}", entry.name);
        // It was right not to say that nothing was written.
        wait_until(async || lab.units_ordered(goods_no, 1).await == 1).await;
    }
}

/// Goal: a commit that is not answered in time may happen all the same, and a lock is kept until it is over, or the
/// next holder would overwrite it. Method: commits outlast the database timeout, and the next buyer comes as soon as
/// the first one is answered.
#[tokio::test]
async fn a_commit_that_is_not_answered_leaves_the_outcome_unknown_and_keeps_the_lock() {
    let lab = Lab::new().await;
    let instance = lab.start(&["--lock-wait", "900ms", "--db-timeout", "1s"]).await;
    slow_down_commits(&lab, 2.0).await;
    for (goods_no, entry) in (1..).zip(&STRATEGIES) {
        instance.reset(goods_no, 1).await.assert_ok();
        instance.buy(goods_no, entry.name).await.assert_problem(503, "outcome-unknown");
        let series = format!(r#"seckill_deductions_total{{strategy="{}",outcome="unknown"}}"#, entry.name);
        assert_eq!(instance.metric(&series).await, Some(1.0));
        if [Guard::Process, Guard::Zookeeper].contains(&entry.guard) {
            assert_eq!(lab.units_ordered(goods_no, 1).await, 1, "{}: the commit was still under way", entry.name);
            instance.buy(goods_no, entry.name).await.assert_problem(409, "sold-out");
        }
    }
}

/// Goal: a defect of the schema is the service's fault and not the client's. Method: a table goes away.
#[tokio::test]
async fn a_refusal_that_waiting_does_not_cure_is_an_internal_error() {
    let lab = Lab::new().await;
    let instance = lab.start(&[]).await;
    instance.reset(1, 5).await.assert_ok();
    lab.connect().await.execute("drop table orders").await.unwrap();
    for entry in &STRATEGIES {
        let answer = instance.buy(1, entry.name).await;
        answer.assert_problem(500, "internal");
        assert!(!answer.body.to_string().contains("orders"), "{answer:?}");
    }
    assert_eq!(instance.get("/goods/1").await.body["on_hand"], 5, "the whole transaction was rolled back");
}
