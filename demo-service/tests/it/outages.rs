//! The servers behind the service go away.

use std::time::Duration;

use demo_service::sessions::{SessionCounts, SessionPool};
use demo_service::strategy::entry::Mechanism;
use demo_service::strategy::registry::STRATEGIES;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::Executor;
use testbed::{Postgres, PostgresConfig, StopSignal, TestChroot, ZooKeeper, ZooKeeperConfig};
use zk_recipes::SessionConfig;

use crate::commits::Gate;
use crate::lab::{Lab, PATIENT, wait_until};
use crate::program::Program;

// S32
#[tokio::test]
async fn without_zookeeper_its_strategies_refuse_and_the_others_sell() {
    let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let lab = Lab::on_zookeeper(zookeeper.connect_string()).await;
    let instance = lab.start(&["--zk-sessions", "2"]).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 5, entry.name).await.assert_ok();
        instance.buy(goods_no, entry.name).await.assert_ok();
    }

    drop(zookeeper);
    wait_until(async || instance.metric(r#"zookeeper_sessions{state="connected"}"#).await == Some(0.0)).await;
    // An owner sells until its term is lost.
    let lost = r#"seckill_lock_lost_total{strategy="zk-owner",reason="silence"}"#;
    wait_until(async || instance.metric(lost).await == Some(1.0)).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        let answer = instance.buy(goods_no, entry.name).await;
        if entry.mechanism == Mechanism::Zookeeper {
            answer.assert_problem(503, "lock-service-unavailable");
            assert_eq!(lab.units_ordered(goods_no, 1).await, 1, "{} sold unguarded", entry.name);
        } else {
            answer.assert_ok();
        }
    }
    let readiness = instance.get("/readyz").await;
    readiness.assert_problem(503, "not-ready");
    assert_eq!(readiness.body["detail"], "no ZooKeeper session is connected");
    instance.get("/healthz").await.assert_ok();
}

#[tokio::test]
async fn without_postgres_nothing_is_sold_and_the_service_says_so() {
    let postgres = Postgres::start(PostgresConfig::default()).await.unwrap();
    let lab = Lab::on_postgres(postgres.url("postgres")).await;
    let instance = lab.start(&["--lock-wait", "900ms", "--db-timeout", "1s"]).await;
    instance.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    instance.buy(1, "zk-mutex").await.assert_ok();

    drop(postgres);
    for entry in STRATEGIES {
        instance.buy(1, entry.name).await.assert_problem(503, "database-unavailable");
    }
    instance.get("/goods/1").await.assert_problem(503, "database-unavailable");
    let readiness = instance.get("/readyz").await;
    readiness.assert_problem(503, "not-ready");
    assert_eq!(readiness.body["detail"], "no answer from Postgres");
}

#[tokio::test]
async fn an_outage_of_postgres_is_logged_once_for_many_requests() {
    let postgres = Postgres::start(PostgresConfig::default()).await.unwrap();
    let lab = Lab::on_postgres(postgres.url("postgres")).await;
    let times = ["--lock-wait", "200ms", "--db-timeout", "300ms"];
    let program = Program::start(&lab, StopSignal::Terminate, &times, &[]).await;
    program.put_on_sale(1, 5, "pg-conditional").await.assert_ok();
    drop(postgres);
    for _ in 0..5 {
        program.buy(1, "pg-conditional").await.assert_problem(503, "database-unavailable");
    }
    let log = program.process.log_tail();
    assert_eq!(log.matches("a request failed").count(), 1, "{log}");
}

#[tokio::test]
async fn a_postgres_that_cannot_be_written_to_is_named() {
    let (lab, instance) = Lab::with_instance(&[]).await;
    // For sessions that begin from now on; the one for probes does with the first probe.
    let sql = "do $$ begin execute format('alter database %I set default_transaction_read_only = on',
               current_database()); end $$";
    lab.connect().await.execute(sql).await.unwrap();
    let readiness = instance.get("/readyz").await;
    readiness.assert_problem(503, "not-ready");
    assert_eq!(readiness.body["detail"], "Postgres is read-only");
}

#[tokio::test]
async fn a_session_that_ends_is_replaced_and_its_traffic_still_counts() {
    let chroot = TestChroot::create().await.unwrap();
    let pool = SessionPool::open(chroot.connect_string(), SessionConfig::default(), 2).await.unwrap();
    let ended = pool.pick().unwrap();
    for _ in 0..10 {
        ended.ping(Duration::from_secs(10)).await.unwrap();
    }
    let requests = pool.traffic().requests;
    assert!(requests >= 10);
    ended.close().await.unwrap();
    for _ in 0..2 {
        assert_ne!(pool.pick().unwrap().id(), ended.id(), "a session that has ended is skipped");
    }
    let both = SessionCounts { connected: 2, ended: 1, ..SessionCounts::default() };
    wait_until(async || pool.counts() == both).await;
    assert!(pool.traffic().requests >= requests);
    let ids: std::collections::HashSet<_> = (0..4).map(|_| pool.pick().unwrap().id()).collect();
    assert_eq!(ids.len(), 2, "sessions are used in rotation");
    pool.close().await;
    assert!(pool.pick().is_none());
}

/// Goal: after a crash of the database, a key tells what came of a purchase whose commit was not answered. The number of its
/// order does not, as the database may give it to another buyer. Method: a process of the server is killed while the commit
/// waits, so the server starts again without what it had not flushed.
// S29
#[tokio::test(flavor = "multi_thread")]
async fn a_key_tells_the_outcome_after_a_crash_of_postgres() {
    let postgres = Postgres::start(PostgresConfig::default()).await.unwrap();
    let lab = Lab::on_postgres(postgres.url("postgres")).await;
    let instance = lab.start(&PATIENT).await;
    instance.put_on_sale(1, 100, "pg-conditional").await.assert_ok();
    Gate::before_commits(&lab, "orders", "insert").await;
    // The server logs 32 numbers in advance. The next number after these is lost if its transaction is.
    let mut connection = lab.connect().await;
    wait_until(async || {
        instance.buy(1, "pg-conditional").await.assert_ok();
        let in_advance = sqlx::query_scalar::<_, i64>("select log_cnt from orders_order_id_seq");
        in_advance.fetch_one(&mut connection).await.unwrap() == 0
    })
    .await;
    let _gate = Gate::close(&lab).await;
    let buyer = instance.spawn_order(1, 1, "pg-conditional", "key");
    lab.wait_for_statement("active", "commit").await;
    let process = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut connection).await.unwrap();
    kill(Pid::from_raw(process), Signal::SIGKILL).unwrap();
    let unknown = buyer.await.unwrap();
    unknown.assert_problem(503, "outcome-unknown");
    assert!(unknown.body["detail"].as_str().unwrap().contains("crashed"), "{unknown:?}");

    wait_until(async || instance.get("/readyz").await.status == 200).await;
    let other = instance.buy(1, "pg-conditional").await;
    other.assert_ok();
    let own = instance.order(1, 1, "pg-conditional", "key").await;
    own.assert_created();
    assert_eq!(own.header("idempotent-replayed"), None, "{own:?}");
    assert_ne!(own.body["order_id"], other.body["order_id"]);
    lab.assert_adds_up(1, "a crash").await;
}
