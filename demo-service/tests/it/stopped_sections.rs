//! A hold is lost, or the database does not answer, while a critical section is under way.

use std::sync::Arc;

use demo_service::app::{App, PurchaseAnswer};
use demo_service::failure::{self, Failure};
use demo_service::sale::{GoodsNo, NewStock, Purchase, Quantity, Stock};
use demo_service::strategy::entry::{Answers, Entry, Mechanism, Promise};
use demo_service::strategy::registry::{self, STRATEGIES};
use sqlx::Executor;
use testbed::{StopSignal, ZooKeeper, ZooKeeperConfig};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use zk_recipes::{Mutex, Session, SessionConfig};

use crate::commits::{Gate, slow_down_commits};
use crate::gate::is_gate;
use crate::lab::{Lab, lock_path, wait_until};
use crate::program::Program;

fn goods(number: i64) -> GoodsNo {
    GoodsNo::try_from(number).unwrap()
}

fn one_unit(goods_no: i64) -> Purchase {
    Purchase::of_one(goods(goods_no), Quantity::ONE, None)
}

/// Returns whether the hold outlives the commit.
fn is_locked_to_the_end(entry: &Entry) -> bool {
    is_in_zookeeper(entry) || entry.mechanism == Mechanism::Redis && !is_gate(entry)
}

/// Returns whether such a hold ends with a session of ZooKeeper.
fn is_in_zookeeper(entry: &Entry) -> bool {
    entry.mechanism == Mechanism::Zookeeper && entry.promise != Promise::Oversells
}

/// Returns how many holds of a strategy were lost because their session was closed.
fn losses(app: &App, entry: &Entry) -> u32 {
    let series = format!(r#"seckill_lock_lost_total{{strategy="{}",reason="closed"}} "#, entry.name);
    app.render_metrics().lines().find_map(|line| line.strip_prefix(&series)).unwrap().parse().unwrap()
}

/// Opens an app with a sale for each strategy.
async fn open_app(lab: &Lab, arguments: &[&str]) -> Arc<App> {
    let app = Arc::new(App::open(lab.config(arguments)).await.unwrap());
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        start_sale(&app, goods_no, entry).await;
    }
    app
}

async fn start_sale(app: &App, goods_no: i64, entry: &'static Entry) {
    let stock = NewStock::Units(Stock::new(5).unwrap());
    app.start_sale(goods(goods_no), stock, Some(entry), None).await.unwrap();
}

/// Starts a purchase of one unit that runs beside the test.
fn spawn_purchase(app: &Arc<App>, goods_no: i64, entry: &'static Entry) -> JoinHandle<Result<PurchaseAnswer, Failure>> {
    let app = Arc::clone(app);
    let slot = app.try_slot(Instant::now()).unwrap();
    tokio::spawn(async move { app.purchase(one_unit(goods_no), Some(entry), slot).await })
}

// S27, S101
#[tokio::test]
async fn a_hold_lost_before_the_commit_writes_nothing() {
    let lab = Lab::new().await;
    let app = open_app(&lab, &[]).await;
    let locked = (1..).zip(STRATEGIES).filter(|(_, entry)| entry.mechanism == Mechanism::Zookeeper);
    for (goods_no, entry) in locked {
        wait_until(async || app.shared.sessions.pick().is_some()).await;
        let row = lab.lock_rows().await;
        let purchase = spawn_purchase(&app, goods_no, entry);
        lab.wait_for_lock().await;

        app.shared.sessions.pick().unwrap().close().await.unwrap();
        let failed = purchase.await.unwrap().unwrap_err();
        assert!(failed.is(&failure::HOLD_LOST), "{}: {failed:?}", entry.name);
        assert_eq!(losses(&app, entry), 1, "{}", entry.name);
        row.release().await;
        // The statement that was under way gets its row now, and is rolled back.
        let goods = app.shared.store.goods(goods(goods_no)).await.unwrap().unwrap();
        assert_eq!((goods.on_hand, lab.units_ordered(goods_no, 1).await), (5, 0), "{}", entry.name);
    }
}

// S28, S101
#[tokio::test]
async fn a_hold_lost_during_the_commit_leaves_the_outcome_unknown() {
    let lab = Lab::new().await;
    let app = open_app(&lab, &[]).await;
    slow_down_commits(&lab, 1.0).await;
    let locked = (1..).zip(STRATEGIES).filter(|(_, entry)| is_in_zookeeper(entry));
    for (goods_no, entry) in locked {
        wait_until(async || app.shared.sessions.pick().is_some()).await;
        let purchase = spawn_purchase(&app, goods_no, entry);
        lab.wait_for_statement("active", "commit").await;

        app.shared.sessions.pick().unwrap().close().await.unwrap();
        let failed = purchase.await.unwrap().unwrap_err();
        assert!(failed.is(&failure::OUTCOME_UNKNOWN), "{}: {failed:?}", entry.name);
        // It was right not to say that nothing was written.
        wait_until(async || lab.units_ordered(goods_no, 1).await == 1).await;
    }
    app.drained().await;
    for entry in STRATEGIES.iter().filter(|entry| is_in_zookeeper(entry)) {
        // An owner takes part in the next election, and loses that term with the next session.
        let expected = if entry.name == "zk-owner" { 1..=u32::MAX } else { 1..=1 };
        assert!(expected.contains(&losses(&app, entry)), "{}, once released as well", entry.name);
    }
}

/// Goal: a loss counts as well when the answer was given before it came. Method: the commit outlasts its time, and the
/// session is closed while the lock is kept for it.
// S101
#[tokio::test]
async fn a_hold_lost_after_the_answer_is_counted() {
    let lab = Lab::new().await;
    let times = ["--lock-wait", "300ms", "--db-timeout", "500ms", "--http-timeout", "20s"];
    let app = open_app(&lab, &times).await;
    slow_down_commits(&lab, 2.0).await;
    let entry = registry::find("zk-mutex").unwrap();
    start_sale(&app, 1, entry).await;
    let failed = app.purchase(one_unit(1), Some(entry), app.try_slot(Instant::now()).unwrap()).await.unwrap_err();
    assert!(failed.is(&failure::OUTCOME_UNKNOWN), "{failed:?}");
    assert_eq!(losses(&app, entry), 0);
    app.shared.sessions.pick().unwrap().close().await.unwrap();
    app.drained().await;
    assert_eq!(losses(&app, entry), 1);
}

/// Goal: a hold that is lost by our own clock only keeps the next holder out until the commit is over. Method: the
/// server is frozen until the hold is given up for lost, which is before it would expire the session. Where the session
/// has not survived all the same, it is tried again.
// S30
#[tokio::test]
async fn a_hold_lost_by_our_clock_keeps_the_lock_until_the_commit() {
    let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let lab = Lab::on_zookeeper(zookeeper.connect_string()).await;
    let app = open_app(&lab, &["--zk-session-timeout", "4s"]).await;
    slow_down_commits(&lab, 7.0).await;
    let entry = registry::find("zk-mutex").unwrap();
    for goods_no in [1, 2, 3, 4, 5] {
        start_sale(&app, goods_no, entry).await;
        wait_until(async || app.shared.sessions.pick().is_some()).await;
        let session = app.shared.sessions.pick().unwrap();
        let purchase = spawn_purchase(&app, goods_no, entry);
        lab.wait_for_statement("active", "commit").await;
        zookeeper.pause().unwrap();
        let failed = purchase.await.unwrap().unwrap_err();
        zookeeper.resume().unwrap();
        assert!(failed.is(&failure::OUTCOME_UNKNOWN), "{failed:?}");
        assert_eq!(lab.units_ordered(goods_no, 2).await, 0, "the commit is still under way");

        let next = Session::connect(&lab.zookeeper, SessionConfig::default()).await.unwrap();
        let path = lock_path("zk-mutex", goods_no);
        let held = Mutex::new(&next, &path).unwrap().acquire().await.unwrap();
        let ordered = lab.units_ordered(goods_no, 2).await;
        held.release().await.unwrap();
        if !session.is_ended() {
            assert_eq!(ordered, 1, "the commit was over before the next holder came");
            return;
        }
        wait_until(async || lab.units_ordered(goods_no, 2).await == 1).await;
    }
    panic!("no session survived");
}

/// Goal: a commit that is not answered in time may happen all the same. The buyer is told so while it is under way, and
/// a lock is kept until it is over, or the next holder would overwrite it. Method: commits wait at a gate, and the next
/// buyers come before it opens.
// S30
#[tokio::test]
async fn a_commit_that_is_not_answered_keeps_its_lock() {
    let lab = Lab::new().await;
    // Each purchase keeps a connection until its commit is over.
    let times = ["--lock-wait", "2900ms", "--db-timeout", "3s", "--http-timeout", "3500ms", "--db-connections", "80"];
    let instance = lab.start(&times).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    let gate = Gate::close(&lab).await;
    let mut buyers = Vec::new();
    for (goods_no, entry) in (1..).zip(STRATEGIES.iter().filter(|entry| entry.answers == Answers::AtCommit)) {
        instance.put_on_sale(goods_no, 1, entry.name).await.assert_ok();
        buyers.push((goods_no, entry, instance.spawn_buy(goods_no, entry.name)));
    }
    let mut next = Vec::new();
    for (goods_no, entry, buyer) in buyers {
        buyer.await.unwrap().assert_problem(503, "outcome-unknown");
        assert_eq!(instance.outcomes(entry.name, "unknown").await, Some(1.0));
        assert_eq!(lab.units_ordered(goods_no, 1).await, 0, "{}: the commit is still under way", entry.name);
        if entry.mechanism == Mechanism::Process || is_locked_to_the_end(entry) {
            next.push((goods_no, entry, instance.spawn_buy(goods_no, entry.name)));
        }
    }
    for (_, _, buyer) in &mut next {
        // Some wait for the lock in ZooKeeper, and some for the row.
        assert_eq!(buyer.await.unwrap().status, 503);
    }
    gate.open().await;
    for (goods_no, entry, _) in next {
        wait_until(async || lab.units_ordered(goods_no, 1).await == 1).await;
        instance.buy(goods_no, entry.name).await.assert_problem(409, "sold-out");
    }
}

/// Goal: a defect of the schema is the service's fault and not the client's. Method: a table goes away.
#[tokio::test]
async fn a_refusal_that_waiting_does_not_cure_is_an_internal_error() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    // Nobody asks the database at a gate. Its orders wait in the stream until the table is there again.
    let strategies = || (1..).zip(STRATEGIES.iter().filter(|entry| !is_gate(entry)));
    for (goods_no, entry) in strategies() {
        instance.put_on_sale(goods_no, 5, entry.name).await.assert_ok();
    }
    lab.connect().await.execute("drop table orders cascade").await.unwrap();
    for (goods_no, entry) in strategies() {
        let answer = instance.buy(goods_no, entry.name).await;
        answer.assert_problem(500, "internal");
        assert!(!answer.body.to_string().contains("orders"), "{answer:?}");
        let on_hand = instance.get(&format!("/goods/{goods_no}")).await.body["on_hand"].clone();
        assert_eq!(on_hand, 5, "{}: the whole transaction was rolled back", entry.name);
    }
}

/// Goal: a commit that comes after the server has ended its idle transaction is known to have sold nothing. Method: a batch waits
/// at a gate behind its statement, and the process is paused before the gate opens. It goes on when its session is gone.
// S27
#[tokio::test]
async fn a_transaction_that_the_server_has_ended_sold_nothing() {
    let lab = Lab::new().await;
    let times = ["--lock-wait", "10m", "--db-timeout", "11m", "--http-timeout", "12m"];
    let program = Program::start(&lab, StopSignal::Terminate, &times, &[]).await;
    program.put_on_sale(1, 10, "pg-merge").await.assert_ok();
    Gate::behind_statements(&lab, "order_lines", "insert").await;
    let gate = Gate::close(&lab).await;
    let buyer = program.spawn_buy(1, "pg-merge");
    lab.wait_for_lock().await;
    program.pause().await;
    gate.open().await;
    let mut connection = lab.connect().await;
    wait_until(async || {
        let sql = "select not exists (select from pg_stat_activity where datname = current_database()
                   and application_name like 'demo-service%' and query like 'with bounded%')";
        sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
    })
    .await;
    program.go_on();
    buyer.await.unwrap().assert_problem(503, "database-unavailable");
    // The connection that the server has closed serves no other buyer.
    program.buy(1, "pg-merge").await.assert_ok();
    assert_eq!(lab.assert_adds_up(1, "a paused process").await, 1);
}
