//! Postgres as people run it: with other defaults, with few connections, and with tables that somebody changes.

use demo_service::strategy::registry::STRATEGIES;
use futures_util::future::join_all;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use testbed::{Postgres, PostgresConfig, StopSignal};

use crate::database::END_SESSIONS;
use crate::lab::{Lab, PATIENT, Shop, wait_until};
use crate::program::Program;

/// Changes a default of the database, for connections that begin from now on.
async fn set_default(lab: &Lab, setting: &str, value: &str) {
    let sql = format!(
        "do $$ begin execute format('alter database %I set {setting} = %L', current_database(), '{value}'); end $$"
    );
    lab.connect().await.execute(AssertSqlSafe(sql)).await.unwrap();
}

/// Buys one unit by each of these buyers, all at once.
async fn buy_all(shop: &Shop, goods_no: i64, strategy: &str, buyers: usize) {
    for answer in join_all((0..buyers).map(|_| shop.buy(goods_no, strategy))).await {
        assert_eq!(answer.status, 200, "{strategy}: {answer:?}");
    }
}

/// Goal: the defaults of a database change no promise. Method: nobody meets a conflict that only such a default causes.
// S87
#[tokio::test(flavor = "multi_thread")]
async fn a_stricter_default_isolation_fails_no_buyer() {
    let lab = Lab::new().await;
    set_default(&lab, "default_transaction_isolation", "repeatable read").await;
    let instance = lab.start(&[&["--db-connections", "20"][..], &PATIENT].concat()).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        instance.put_on_sale(goods_no, 60, entry.name).await.assert_ok();
        buy_all(&instance, goods_no, entry.name, 40).await;
    }
}

/// Goal: an instance waits for the migration of another one, whatever the defaults of the database are. Method: the table of the
/// migrations is locked while the instance starts.
// S87
#[tokio::test]
async fn a_short_default_lock_timeout_fails_no_start() {
    let lab = Lab::new().await;
    lab.start(&[]).await.request_stop().await.unwrap();
    set_default(&lab, "lock_timeout", "1ms").await;
    let migration = lab.lock("lock table _sqlx_migrations in access exclusive mode").await;
    let until_waiting = async {
        lab.wait_for_lock().await;
        migration.release().await;
    };
    let (instance, ()) = tokio::join!(lab.start(&[]), until_waiting);
    instance.get("/readyz").await.assert_ok();
}

/// Goal: a pool that cannot grow sells by the connections that it has. Method: the server has fewer than the pool may open.
// S89
#[tokio::test(flavor = "multi_thread")]
async fn a_full_postgres_lets_buyers_wait() {
    let postgres = Postgres::start(PostgresConfig { connections_max: 8, ..PostgresConfig::default() }).await.unwrap();
    let lab = Lab::on_postgres(postgres.url("postgres")).await;
    let instance = lab.start(&[&["--db-connections", "20"][..], &PATIENT].concat()).await;
    for (goods_no, strategy) in [(1, "pg-conditional"), (2, "pg-row-lock"), (3, "pg-function"), (4, "zk-semaphore")] {
        instance.put_on_sale(goods_no, 200, strategy).await.assert_ok();
        buy_all(&instance, goods_no, strategy, 60).await;
    }
}

// S89
#[tokio::test]
async fn a_postgres_with_too_little_room_is_warned_of() {
    for (connections_max, warned) in [(6, true), (50, false)] {
        let postgres = Postgres::start(PostgresConfig { connections_max, ..PostgresConfig::default() }).await.unwrap();
        let lab = Lab::on_postgres(postgres.url("postgres")).await;
        let program = Program::start(&lab, StopSignal::Terminate, &[], &[]).await;
        let log = program.process.log_tail();
        assert_eq!(log.contains("raise max_connections"), warned, "{connections_max}: {log}");
    }
}

/// Goal: a pool without any connection waits for the server, and grows again. Method: the test ends the only connection while a
/// buyer uses it, takes all that the server accepts, and gives them back while another buyer waits.
// S89
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_grows_when_postgres_has_room_again() {
    let postgres = Postgres::start(PostgresConfig { connections_max: 8, ..PostgresConfig::default() }).await.unwrap();
    let lab = Lab::on_postgres(postgres.url("postgres")).await;
    let instance = lab.start(&[&["--db-connections", "4"][..], &PATIENT].concat()).await;
    lab.put_on_sale_unguarded(1, 200).await;
    let mut control = lab.connect().await;
    // What is done beside the requests has opened connections, and comes again half a minute later.
    let connections = async |state: &str| instance.metric(&format!(r#"postgres_connections{{state="{state}"}}"#)).await;
    wait_until(async || connections("idle").await >= Some(1.0) && connections("in_use").await == Some(0.0)).await;
    let rows = lab.lock_rows().await;
    let first = instance.spawn_buy(1, "pg-conditional");
    lab.wait_for_lock().await;
    let mut others = Vec::new();
    wait_until(async || {
        control.execute(END_SESSIONS).await.unwrap();
        others.extend(PgConnection::connect(&lab.database_url).await);
        others.len() == 8 - 2
    })
    .await;
    first.await.unwrap().assert_problem(503, "database-unavailable");
    // Without its connection, Postgres would have room for the buyer.
    others.push(rows.release().await);

    let buyer = instance.spawn_buy(1, "pg-conditional");
    wait_until(async || instance.metric("seckill_requests_in_flight").await == Some(1.0)).await;
    drop(others);
    buyer.await.unwrap().assert_ok();
    // One more connection is tried each time. The buyers of one SKU may take two.
    wait_until(async || {
        buy_all(&instance, 1, "pg-conditional", 8).await;
        instance.put_on_sale(1, 200, "pg-conditional").await.assert_ok();
        let open = "select count(*) from pg_stat_activity where application_name like 'demo-service%'";
        sqlx::query_scalar::<_, i64>(open).fetch_one(&mut control).await.unwrap() >= 2
    })
    .await;
}

/// Goal: a changed table fails at most one statement of each connection. Method: the type of a column changes under an instance
/// that has prepared its statements, and the statement is repeated in a transaction and outside of one.
// S90
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_table_fails_no_statement_twice() {
    let (lab, instance) = Lab::with_instance(&["--db-connections", "1"]).await;
    instance.put_on_sale(1, 50, "pg-row-lock").await.assert_ok();
    for (column, length) in [("guard", 200), ("guard", 201)] {
        instance.buy(1, "pg-row-lock").await.assert_ok();
        instance.get("/goods/1").await.assert_ok();
        let sql = format!("alter table goods alter column {column} type varchar({length})");
        lab.connect().await.execute(AssertSqlSafe(sql)).await.unwrap();
        let first = if length == 200 { instance.get("/goods/1").await } else { instance.buy(1, "pg-row-lock").await };
        first.assert_problem(503, "database-unavailable");
        instance.get("/goods/1").await.assert_ok();
        instance.buy(1, "pg-row-lock").await.assert_ok();
    }
}
