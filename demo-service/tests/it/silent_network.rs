//! The network between the service and Postgres falls silent: nothing is refused, and nothing arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use testbed::{Postgres, PostgresConfig, Proxy};
use tokio::task::JoinSet;

use crate::commits::{Gate, slow_down_commits};
use crate::lab::{Answer, Instance, Lab, wait_until};

const DB_TIMEOUT: Duration = Duration::from_secs(2);

/// Short times, so that a silence is found soon.
const TIMES: [&str; 6] = ["--lock-wait", "1s", "--db-timeout", "2s", "--http-timeout", "20s"];

/// Times that leave room for a crowd to come to its commits before the network falls silent.
const PATIENT_TIMES: [&str; 6] = ["--lock-wait", "3s", "--db-timeout", "4s", "--http-timeout", "20s"];

/// The time for a recovery beyond `--db-timeout`.
const RECOVERY: Duration = Duration::from_secs(5);

/// What a busy machine may add to a time of the service.
const SLACK: Duration = Duration::from_secs(4);

/// What one buyer of a crowd was answered.
#[derive(Debug, Default)]
struct Tally {
    sold: AtomicI64,
    refused: AtomicI64,
    unknown: AtomicI64,
}

impl Tally {
    fn count(&self, answer: &Answer) {
        let count = match answer.problem() {
            None => {
                answer.assert_ok();
                &self.sold
            }
            Some("outcome-unknown") => {
                assert!(answer.body["order_id"].is_i64(), "{answer:?}");
                &self.unknown
            }
            // The lock is kept while the outcome of a purchase is unknown.
            Some("database-unavailable" | "lock-timeout") => &self.refused,
            Some(_) => panic!("{answer:?}"),
        };
        count.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns how many purchases did not sell, as far as the buyer knows.
    fn failed(&self) -> i64 {
        self.refused.load(Ordering::SeqCst) + self.unknown.load(Ordering::SeqCst)
    }
}

/// Buyers who buy one unit after the other.
struct LoopingBuyers {
    tallies: Vec<Arc<Tally>>,
    is_over: Arc<AtomicBool>,
    buyers: JoinSet<()>,
}

impl LoopingBuyers {
    const SIZE: usize = 8;

    fn start(instance: &Instance, goods_no: i64) -> Self {
        let mut tallies = Vec::new();
        let mut buyers = JoinSet::new();
        let is_over = Arc::<AtomicBool>::default();
        for _ in 0..Self::SIZE {
            let tally = Arc::<Tally>::default();
            let is_over = Arc::clone(&is_over);
            let request = instance.request(Method::GET, &format!("/goods-stock/{goods_no}"));
            tallies.push(Arc::clone(&tally));
            buyers.spawn(async move {
                while !is_over.load(Ordering::SeqCst) {
                    tally.count(&Answer::of(request.try_clone().unwrap().send().await.unwrap()).await);
                }
            });
        }
        Self { tallies, is_over, buyers }
    }

    fn counts(&self, count: impl Fn(&Tally) -> &AtomicI64) -> Vec<i64> {
        self.tallies.iter().map(|tally| count(tally).load(Ordering::SeqCst)).collect()
    }

    /// Waits until each buyer has `more` answers of that kind than now.
    async fn wait_for_each(&self, count: impl Fn(&Tally) -> &AtomicI64, more: i64) {
        let before = self.counts(&count);
        wait_until(async || self.counts(&count).iter().zip(&before).all(|(now, before)| *now >= before + more)).await;
    }

    /// Ends the buyers, and returns how many units they were sold for certain, and how many perhaps.
    async fn end(mut self) -> (i64, i64) {
        self.is_over.store(true, Ordering::SeqCst);
        while let Some(buyer) = self.buyers.join_next().await {
            buyer.unwrap();
        }
        let sold = self.counts(|tally| &tally.sold).iter().sum::<i64>();
        (sold, sold + self.counts(|tally| &tally.unknown).iter().sum::<i64>())
    }
}

/// Waits until no connection of the pool is in use, and until the server has no other connections than those of the pool
/// and the two aside.
async fn wait_for_pool(lab: &Lab, instance: &Instance) {
    wait_until(async || {
        let in_use = instance.metric(r#"postgres_connections{state="in_use"}"#).await;
        let idle = instance.metric(r#"postgres_connections{state="idle"}"#).await.unwrap();
        let open: i32 = lab.service_connections().await.try_into().unwrap();
        in_use == Some(0.0) && f64::from(open) <= idle + 2.0
    })
    .await;
}

/// Lets a crowd buy while the network falls silent and heals. The silence lasts until every buyer has failed twice.
async fn buyers_come_through_again_after_a_silence(strategy: &str) {
    let (lab, proxy) = Lab::behind_proxy().await;
    let instance = lab.start(&TIMES).await;
    instance.put_on_sale(1, 1_000_000, strategy).await.assert_ok();
    let crowd = LoopingBuyers::start(&instance, 1);
    crowd.wait_for_each(|tally| &tally.sold, 3).await;

    proxy.blackhole();
    let before: Vec<_> = crowd.tallies.iter().map(|tally| tally.failed()).collect();
    let readiness = instance.get("/readyz").await;
    readiness.assert_problem(503, "not-ready");
    assert_eq!(readiness.body["detail"], "no answer from Postgres");
    wait_until(async || crowd.tallies.iter().zip(&before).all(|(tally, before)| tally.failed() >= before + 2)).await;
    instance.get("/readyz").await.assert_problem(503, "not-ready");
    instance.get("/healthz").await.assert_ok();

    proxy.deliver();
    let healed = Instant::now();
    crowd.wait_for_each(|tally| &tally.sold, 1).await;
    let took = healed.elapsed();
    assert!(took < DB_TIMEOUT + RECOVERY, "{strategy}: the last buyer came through after {took:?}");
    wait_until(async || instance.get("/readyz").await.status == 200).await;

    let (sold, at_most) = crowd.end().await;
    wait_for_pool(&lab, &instance).await;
    let ordered = lab.assert_adds_up(1, strategy).await;
    assert!((sold..=at_most).contains(&ordered), "{strategy}: {ordered} ordered, {sold} to {at_most} answered");
}

// S86
#[tokio::test(flavor = "multi_thread")]
async fn buyers_of_pg_conditional_come_through_again_after_a_silence() {
    buyers_come_through_again_after_a_silence("pg-conditional").await;
}

// S86
#[tokio::test(flavor = "multi_thread")]
async fn buyers_of_zk_mutex_come_through_again_after_a_silence() {
    buyers_come_through_again_after_a_silence("zk-mutex").await;
}

/// Goal: a silence does not keep a lock for good. A lock is kept for a commit that was not answered as long as the database
/// says that the commit is under way, and for twice `--db-timeout` of silence. Method: the network falls silent during a
/// commit that outlasts the test.
// S30
#[tokio::test]
async fn a_lock_kept_for_a_commit_is_freed_after_a_long_silence() {
    let (lab, proxy) = Lab::behind_proxy().await;
    let instance = lab.start(&TIMES).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    slow_down_commits(&lab, 600.0).await;
    let buyer = instance.spawn_buy(1, "zk-mutex");
    lab.wait_for_statement("active", "commit").await;
    proxy.blackhole();
    buyer.await.unwrap().assert_problem(503, "outcome-unknown");
    let answered = Instant::now();
    // The purchase keeps its lock, and its slot with it.
    lab.wait_for_queue("zk-mutex", 1, 1).await;
    assert_eq!(instance.metric("seckill_requests_in_flight").await, Some(1.0));
    lab.wait_for_queue("zk-mutex", 1, 0).await;
    let kept = answered.elapsed();
    assert!(kept >= DB_TIMEOUT, "the lock was kept for {kept:?} only");
    assert!(kept < 2 * DB_TIMEOUT + SLACK, "the lock was kept for {kept:?}");
    wait_until(async || instance.metric("seckill_requests_in_flight").await == Some(0.0)).await;
}

/// Goal: a refusal is no silence. A database that refuses connections is there, so a lock is kept for a commit that was not
/// answered, until the commit is over. Method: the commit waits at a gate, every other connection of the service is ended,
/// and the test takes all that the server accepts.
// S30
#[tokio::test]
async fn a_lock_is_kept_for_a_commit_while_connections_are_refused() {
    let config = PostgresConfig { connections_max: 20, ..PostgresConfig::default() };
    let postgres = Postgres::start(config).await.unwrap();
    let lab = Lab::on_postgres(postgres.url("postgres")).await;
    let instance = lab.start(&TIMES).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    Gate::before_commits(&lab, "orders", "insert").await;
    let gate = Gate::close(&lab).await;
    let buyer = instance.spawn_buy(1, "zk-mutex");
    lab.wait_for_statement("active", "commit").await;

    let mut control = lab.connect().await;
    let mut others = Vec::new();
    wait_until(async || {
        let end = "select pg_terminate_backend(pid) from pg_stat_activity
                   where application_name like 'demo-service%' and query <> 'commit'";
        sqlx::query(end).execute(&mut control).await.unwrap();
        match PgConnection::connect(&lab.database_url).await {
            Ok(other) => others.push(other),
            Err(refusal) => {
                let sqlstate = refusal.as_database_error().and_then(|refusal| refusal.code());
                assert_eq!(sqlstate.as_deref(), Some("53300"), "{refusal}");
            }
        }
        // The gate, this test, and the connection of the commit.
        others.len() == 20 - 3
    })
    .await;
    buyer.await.unwrap().assert_problem(503, "outcome-unknown");
    let answered = Instant::now();
    wait_until(async || answered.elapsed() > 3 * DB_TIMEOUT).await;
    lab.wait_for_queue("zk-mutex", 1, 1).await;
    assert_eq!(instance.metric("seckill_requests_in_flight").await, Some(1.0), "the purchase keeps its lock");

    for other in others {
        other.close().await.unwrap();
    }
    gate.open().await;
    lab.wait_for_queue("zk-mutex", 1, 0).await;
    wait_until(async || instance.metric("seckill_requests_in_flight").await == Some(0.0)).await;
    assert_eq!(lab.assert_adds_up(1, "connections refused").await, 1);
}

/// Lets every commit that waits at the gate happen, and loses the replies.
async fn lose_replies(proxy: &Proxy, gate: Gate) {
    proxy.swallow_replies();
    gate.open().await;
}

/// Returns the order that an answer of an unknown outcome names.
#[track_caller]
fn unknown_order(answer: &Answer) -> i64 {
    answer.assert_problem(503, "outcome-unknown");
    let order_id = answer.body["order_id"].as_i64().unwrap_or_else(|| panic!("{answer:?}"));
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(detail.contains(&format!("/orders/{order_id}")) && detail.contains("same key"), "{answer:?}");
    order_id
}

// S28, S86
#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_to_commits_do_not_cost_connections_for_good() {
    let (lab, proxy) = Lab::behind_proxy().await;
    // Five of seven connections are for purchases that wait for a lock of the database.
    let instance = lab.start(&[&PATIENT_TIMES[..], &["--db-connections", "7"]].concat()).await;
    for goods_no in 1..=5 {
        instance.put_on_sale(goods_no, 5, "pg-conditional").await.assert_ok();
    }
    Gate::before_commits(&lab, "orders", "insert").await;
    for _ in 0..2 {
        let gate = Gate::close(&lab).await;
        let buyers: Vec<_> = (1..=5).map(|goods_no| instance.spawn_buy(goods_no, "pg-conditional")).collect();
        wait_until(async || lab.lock_waits().await == 5).await;
        lose_replies(&proxy, gate).await;
        for buyer in buyers {
            let order_id = unknown_order(&buyer.await.unwrap());
            instance.get(&format!("/orders/{order_id}")).await.assert_ok();
        }
    }
    // All five at once, at the first attempt.
    join_all((1..=5).map(|goods_no| instance.buy(goods_no, "pg-conditional"))).await.iter().for_each(Answer::assert_ok);
    wait_for_pool(&lab, &instance).await;
    for goods_no in 1..=5 {
        assert_eq!(lab.assert_adds_up(goods_no, "lost replies").await, 3, "SKU {goods_no}");
    }
}

// S28, S39
#[tokio::test]
async fn after_an_unknown_outcome_the_order_and_the_key_tell() {
    let (lab, proxy) = Lab::behind_proxy().await;
    let instance = lab.start(&[&PATIENT_TIMES[..], &["--db-connections", "20"]].concat()).await;
    Gate::before_commits(&lab, "orders", "insert").await;
    let strategies =
        ["zk-mutex", "zk-mutex-fenced", "zk-merge", "zk-owner", "pg-conditional", "pg-advisory", "pg-merge"];
    for (goods_no, strategy) in (1..).zip(strategies) {
        instance.put_on_sale(goods_no, 5, strategy).await.assert_ok();
    }
    let gate = Gate::close(&lab).await;
    let order = |(goods_no, strategy)| (goods_no, strategy, instance.spawn_order(goods_no, 2, strategy, strategy));
    let buyers: Vec<_> = (1..).zip(strategies).map(order).collect();
    wait_until(async || lab.lock_waits().await == 7).await;
    lose_replies(&proxy, gate).await;
    for (goods_no, strategy, buyer) in buyers {
        let order_id = unknown_order(&buyer.await.unwrap());

        let order = instance.get(&format!("/orders/{order_id}")).await;
        order.assert_ok();
        assert_eq!((&order.body["lines"][0]["quantity"], &order.body["strategy"]), (&json!(2), &json!(strategy)));
        let replayed = instance.order(goods_no, 2, strategy, strategy).await;
        replayed.assert_created();
        assert_eq!(replayed.header("idempotent-replayed"), Some("true"), "{replayed:?}");
        assert_eq!(replayed.body, order.body);
        instance.buy(goods_no, strategy).await.assert_ok();
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 3);
    }
}

// S28
#[tokio::test]
async fn a_start_that_was_not_answered_is_not_said_to_be_unwritten() {
    let (lab, proxy) = Lab::behind_proxy().await;
    let instance = lab.start(&PATIENT_TIMES).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    Gate::before_commits(&lab, "sales", "insert").await;
    let gate = Gate::close(&lab).await;
    let lose = async {
        lab.wait_for_statement("active", "commit").await;
        lose_replies(&proxy, gate).await;
    };
    let (answer, ()) = tokio::join!(instance.put_on_sale(1, 9, "pg-conditional"), lose);
    answer.assert_problem(503, "outcome-unknown");
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(!detail.contains("nothing was written") && detail.contains("GET /goods/1"), "{answer:?}");
    assert_eq!(answer.body["order_id"], Value::Null);

    // The instance knows the guard of the sale before, and finds that it is another one.
    let bought = instance.buy(1, "").await;
    bought.assert_ok();
    assert_eq!(bought.body["strategy"], "pg-conditional");
    let goods = instance.get("/goods/1").await;
    goods.assert_ok();
    assert_eq!((&goods.body["sale"], &goods.body["on_hand"]), (&json!(2), &json!(8)));
}

// S27
#[tokio::test]
async fn a_claim_that_was_not_answered_is_said_to_have_sold_nothing() {
    let (lab, proxy) = Lab::behind_proxy().await;
    let instance = lab.start(&TIMES).await;
    lab.put_on_sale_unguarded(1, 5).await;
    Gate::before_commits(&lab, "goods", "update").await;
    let gate = Gate::close(&lab).await;
    let buyer = instance.spawn_buy(1, "pg-conditional");
    lab.wait_for_statement("active", "commit").await;
    lose_replies(&proxy, gate).await;
    let answer = buyer.await.unwrap();
    answer.assert_problem(503, "database-unavailable");
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(detail.contains("no unit was sold") && !detail.contains("nothing was written"), "{answer:?}");

    let goods = instance.get("/goods/1").await;
    goods.assert_ok();
    assert_eq!((&goods.body["strategy"], &goods.body["on_hand"]), (&json!("pg-conditional"), &json!(5)));
    instance.buy(1, "pg-conditional").await.assert_ok();
    assert_eq!(lab.assert_adds_up(1, "a lost claim").await, 1);
}

/// Goal: a connection with an unanswered `BEGIN` is not used again. The driver forgets that transaction, and the statements of
/// others would run in it, which nobody commits.
// S36
#[tokio::test]
async fn a_purchase_given_up_at_its_begin_takes_nothing_along() {
    let (lab, proxy) = Lab::behind_proxy().await;
    let instance = lab.start(&[&PATIENT_TIMES[..], &["--db-connections", "1"]].concat()).await;
    for (goods_no, strategy) in (1..).zip(["pg-conditional", "pg-serializable", "zk-mutex"]) {
        instance.put_on_sale(goods_no, 1_000, strategy).await.assert_ok();
        let begun = async || {
            let sql = "select count(*) from pg_stat_activity where datname = current_database()
                       and state = 'idle in transaction' and query like 'begin%'";
            sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut lab.connect().await).await.unwrap()
        };
        loop {
            // A connection that was just heard of is not pinged first, so the first reply that is lost is that to `BEGIN`.
            // If the purchase comes too late for that, it goes through on another connection, and the next one tries.
            instance.buy(goods_no, strategy).await.assert_ok();
            proxy.swallow_replies();
            let buyer = instance.spawn_buy(goods_no, strategy);
            wait_until(async || buyer.is_finished() || begun().await == 1).await;
            if !buyer.is_finished() {
                buyer.abort();
                break;
            }
        }
        wait_until(async || instance.outcomes(strategy, "client_gone").await == Some(1.0)).await;

        instance.put_on_sale(goods_no, 7, strategy).await.assert_ok();
        let committed = sqlx::query_as("select sale, on_hand from goods where goods_no = $1").bind(goods_no);
        let committed: (i64, i64) = committed.fetch_one(&mut lab.connect().await).await.unwrap();
        assert_eq!(committed, (2, 7), "{strategy}");
        instance.buy(goods_no, strategy).await.assert_ok();
        assert_eq!(lab.assert_adds_up(goods_no, strategy).await, 1);
        wait_until(async || begun().await == 0).await;
    }
}
