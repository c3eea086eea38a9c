//! `GET /admin/history`: what the times of a record promise to an auditor.

use demo_service::strategy::entry::{Entry, Mechanism, Overlap};
use demo_service::strategy::registry::STRATEGIES;
use demo_service::telemetry::clock::{self, Moment};
use reqwest::Method;
use serde_json::{Value, json};
use testbed::StopSignal;

use crate::commits::Gate;
use crate::gate::is_gate;
use crate::lab::{Answer, Instance, Lab, Shop, cart, wait_until};
use crate::program::Program;
use crate::redis::shared_redis;

/// The times of a section, checked to be in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Times {
    asked: u64,
    entered: u64,
    pub(crate) left: u64,
}

impl Times {
    fn of(record: &Value) -> Self {
        let time = |name: &str| record[name].as_u64().unwrap();
        let times = Self { asked: time("asked_ns"), entered: time("entered_ns"), left: time("left_ns") };
        assert!(times.asked <= times.entered && times.entered <= times.left, "{record}");
        times
    }
}

/// Returns the sections of a SKU, in the order in which they were asked for.
pub(crate) async fn sections(shop: &Shop, goods_no: i64) -> Vec<Times> {
    let history = shop.admin_get("/admin/history").await;
    history.assert_ok();
    let records = history.body["records"].as_array().unwrap();
    let mut sections: Vec<_> = records.iter().filter(|record| record["goods_no"] == goods_no).map(Times::of).collect();
    sections.sort_unstable();
    sections
}

/// Returns whether the buyers of an instance wait for their next batch.
fn sells_in_batches(entry: &Entry) -> bool {
    ["pg-merge", "zk-merge", "zk-owner"].contains(&entry.name)
}

/// Returns whether buyers of a SKU are in a critical section. Without a lock, only the database keeps them apart, by the row's
/// version or by one statement.
fn has_sections(entry: &Entry) -> bool {
    let is_elsewhere = entry.mechanism != Mechanism::Postgres && !is_gate(entry);
    is_elsewhere || entry.sections != Overlap::Overlapping || sells_in_batches(entry)
}

/// Returns whether the second of two buyers waits for the first one in the database, or before it.
fn waits_in_database(entry: &Entry) -> bool {
    let is_mechanism = matches!(entry.mechanism, Mechanism::None | Mechanism::Postgres);
    (is_mechanism && !sells_in_batches(entry)) || entry.name == "zk-mutex-early-release"
}

/// Lets two buyers buy, the second while the commit of the first is held up. Returns a moment at which both of them wait,
/// and their sections.
async fn buy_while_another_commits(lab: &Lab, instance: &Instance, goods_no: i64, entry: &Entry) -> (u64, Vec<Times>) {
    instance.put_on_sale(goods_no, 5, entry.name).await.assert_ok();
    let gate = Gate::close(lab).await;
    let first = instance.spawn_buy(goods_no, entry.name);
    let commits = if ["pg-function", "pg-reserve"].contains(&entry.name) { "select outcome" } else { "commit" };
    lab.wait_for_statement("active", commits).await;
    let second = instance.spawn_buy(goods_no, entry.name);
    let queue_depth = format!(r#"seckill_queue_depth{{strategy="{}"}}"#, entry.name);
    wait_until(async || {
        if entry.name == "pg-queue" {
            lab.tickets_waiting().await == 2
        } else if is_gate(entry) {
            lab.streamed(shared_redis().await, entry.name).await == 2
        } else if waits_in_database(entry) {
            lab.lock_waits().await == 2
        } else {
            instance.metric(&queue_depth).await == Some(1.0)
        }
    })
    .await;
    let both_wait = Moment::now().ns();
    gate.open().await;
    for buyer in [first, second] {
        buyer.await.unwrap().assert_ok();
    }
    (both_wait, sections(instance, goods_no).await)
}

/// Goal: sections are within their holds, and the wait for a hold is between the asking and the entering. Method: a buyer
/// holds while its commit waits at a gate, and a second one waits for it.
// S19
#[tokio::test]
async fn a_section_is_within_its_hold_and_the_wait_for_it_before() {
    let (lab, instance) = Lab::with_instance(&["--permits", "1"]).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        let (both_wait, sections) = buy_while_another_commits(&lab, &instance, goods_no, entry).await;
        let context = format!("{}: {sections:?}, {both_wait}", entry.name);
        if !has_sections(entry) {
            assert_eq!(sections, [], "{context}");
            continue;
        }
        let [first, second] = sections[..] else { panic!("{context}") };
        assert!(first.entered < both_wait && second.asked < both_wait, "{context}");
        let is_apart =
            entry.sections != Overlap::Overlapping || entry.mechanism == Mechanism::Process || sells_in_batches(entry);
        if is_apart {
            assert!(first.left <= second.entered && both_wait < second.entered, "{context}");
        } else {
            assert!(second.entered < both_wait, "{context}");
        }
        // A lock of the database ends with the commit, before the commit is answered. So a section without another lock
        // counts as left when its commit is sent. So does a section of a batch.
        let ends_in_database = entry.mechanism == Mechanism::Postgres || sells_in_batches(entry);
        assert_eq!(first.left < both_wait, ends_in_database, "{context}");
    }
}

/// Goal: the times of a cart are those of all of its locks. Method: the second SKU of the cart is held by somebody else.
// S19
#[tokio::test]
async fn a_cart_asks_before_the_first_lock_and_enters_after_the_last() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    for (first, strategy) in (1..).step_by(2).zip(["zk-multi", "pg-row-lock", "pg-conditional"]) {
        let second = first + 1;
        for goods_no in [first, second] {
            instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
        }
        let other = lab.hold_locks(strategy, &[second]).await;
        let row = lab.lock_row(second).await;
        let request = instance.request(Method::POST, &format!("/orders?strategy={strategy}"));
        let request = request.header("idempotency-key", strategy).json(&cart(&[(second, 1), (first, 1)]));
        let buyer = tokio::spawn(async move { Answer::of(request.send().await.unwrap()).await });
        if strategy == "zk-multi" {
            lab.wait_for_queue(strategy, second, 2).await;
        } else {
            lab.wait_for_lock().await;
        }
        let waiting = Moment::now().ns();
        row.release().await;
        other.release().await.unwrap();
        assert_eq!(buyer.await.unwrap().status.as_u16(), 201, "{strategy}");
        let first = sections(&instance, first).await[0];
        let second = sections(&instance, second).await[0];
        assert_eq!(first, second, "{strategy}");
        assert!(first.asked < waiting && waiting < first.entered, "{strategy}: {first:?}, {waiting}");
    }
}

/// Goal: an auditor can tell whether the history has the section of every order. Method: a buyer of each strategy.
#[tokio::test]
async fn a_section_names_the_order_that_it_wrote() {
    let (_lab, instance) = Lab::with_instance(&["--permits", "1"]).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES).filter(|(_, entry)| has_sections(entry)) {
        instance.put_on_sale(goods_no, 5, entry.name).await.assert_ok();
        let bought = instance.buy(goods_no, entry.name).await;
        bought.assert_ok();
        let history = instance.admin_get("/admin/history").await;
        let records = history.body["records"].as_array().unwrap().iter();
        let orders: Vec<_> =
            records.filter(|record| record["goods_no"] == goods_no).map(|it| &it["order_id"]).collect();
        assert_eq!(orders, [&bought.body["order_id"]], "{}", entry.name);
    }
}

#[tokio::test]
async fn every_instance_has_a_history_of_its_own() {
    let lab = Lab::new().await;
    let one = lab.start(&["--instance", "twin"]).await;
    let other = lab.start(&["--instance", "twin"]).await;
    let id = async |instance: &Instance| instance.admin_get("/admin/history").await.body["history_id"].clone();
    let first = id(&one).await;
    let second = id(&other).await;
    assert!(first.as_str().is_some_and(|id| id.len() == 32) && first != second, "{first} {second}");
    assert_eq!(id(&one).await, first);
}

// S19
#[tokio::test]
async fn instances_of_one_host_have_one_clock() {
    let lab = Lab::new().await;
    let here = lab.start(&[]).await;
    let there = Program::start(&lab, StopSignal::Terminate, &[], &[]).await;
    let clock = here.admin_get("/admin/history").await.body["clock"].clone();
    assert_eq!(clock, json!(clock::id()));
    assert!(clock.as_str().is_some_and(|clock| !clock.is_empty()), "{clock}");
    assert_eq!(there.admin_get("/admin/history").await.body["clock"], clock);

    there.put_on_sale(1, 1, "zk-mutex").await.assert_ok();
    let before = Moment::now().ns();
    there.buy(1, "zk-mutex").await.assert_ok();
    let after = Moment::now().ns();
    let sections = sections(&there, 1).await;
    assert!(sections.len() == 1 && before < sections[0].asked && sections[0].left < after, "{sections:?}");
}
