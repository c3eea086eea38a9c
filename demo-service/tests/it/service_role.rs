//! The role of the service in the database: made by `--migrate-only`, enough to sell by every strategy, and no more.

use std::process::{Command, Output};
use std::time::Duration;

use demo_service::http::server::Server;
use demo_service::secrets::Secret;
use demo_service::setup_error::SetupError;
use demo_service::store::schema::{migrate_only, options};
use demo_service::strategy::registry::STRATEGIES;
use futures_util::future::join_all;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use testbed::{Postgres, PostgresConfig};

use crate::lab::{Lab, SHORT_LIVED_KEYS, cart, wait_until};

const PASSWORD: &str = "it's a \"secret\"";
const WITHIN: Duration = Duration::from_secs(30);

/// Runs the program once, as the owner of a database does.
fn migrate(database_url: &str, password: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo-service"));
    command.args(["--migrate-only", "--database-url", database_url]).env("RUST_LOG", "trace");
    command.env_remove("SERVICE_PASSWORD").envs(password.map(|password| ("SERVICE_PASSWORD", password)));
    command.output().unwrap()
}

#[track_caller]
fn assert_migrates(database_url: &str, password: Option<&str>) {
    let output = migrate(database_url, password);
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b""[..]), "{log}");
    assert!(log.contains("migrated") && !log.contains("secret") && !log.contains("SCRAM-SHA-256$"), "{log}");
}

async fn server() -> Postgres {
    Postgres::start(PostgresConfig::default()).await.unwrap()
}

/// Returns the URL of the same database for another role, on a server that trusts every client.
fn url_as(role: &str, url: &str) -> String {
    url.replace("//postgres@", &format!("//{role}@"))
}

async fn execute(url: &str, statement: &str) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect(url).await?;
    let done = connection.execute(AssertSqlSafe(statement.to_owned())).await.map(drop);
    connection.close().await.and(done)
}

// S93
#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_sells_as_the_role_of_the_service() {
    let postgres = server().await;
    let owner = postgres.url("postgres");
    assert_migrates(&owner, Some(PASSWORD));
    let lab = Lab::on_postgres(url_as("seckill_service", &owner)).await;
    let instance = lab.start(&[]).await;
    for (goods_no, entry) in (1..).zip(STRATEGIES) {
        let name = entry.name;
        instance.put_on_sale(goods_no, 3, name).await.assert_ok();
        instance.put_on_sale(goods_no, 5, name).await.assert_ok();
        instance.buy(goods_no, name).await.assert_ok();
        for replayed in [None, Some("true")] {
            let sold = instance.order(goods_no, 2, name, name).await;
            sold.assert_created();
            assert_eq!(sold.header("idempotent-replayed"), replayed, "{name}: {sold:?}");
            instance.get(sold.header("location").unwrap()).await.assert_ok();
        }
        let refused = instance.order(goods_no, 3, name, &format!("{name}-more")).await;
        refused.assert_problem(409, "sold-out");
        instance.get(&format!("/goods/{goods_no}?strategy={name}")).await.assert_ok();
        assert_eq!(lab.units_ordered(goods_no, 2).await, 3, "{name}");
    }
    for entry in STRATEGIES.iter().filter(|entry| entry.carts) {
        for goods_no in [1, 2] {
            instance.put_on_sale(goods_no, 1, entry.name).await.assert_ok();
        }
        let path = format!("/orders?strategy={}", entry.name);
        let sold = instance.post(&path, Some(&format!("cart-{}", entry.name)), &cart(&[(1, 1), (2, 1)])).await;
        assert_eq!(sold.status.as_u16(), 201, "{}: {sold:?}", entry.name);
    }
    instance.get("/readyz").await.assert_ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_role_of_the_service_claims_sales_and_sweeps_keys() {
    let postgres = server().await;
    let owner = postgres.url("postgres");
    assert_migrates(&owner, Some(PASSWORD));
    let lab = Lab::on_postgres(url_as("seckill_service", &owner)).await;
    let instance = lab.start(&SHORT_LIVED_KEYS).await;
    lab.put_on_sale_unguarded(1, 5).await;
    instance.order(1, 1, "pg-conditional", "a-key").await.assert_created();
    assert_eq!(instance.get("/goods/1").await.body["guard"], "pg-row");
    wait_until(async || lab.keys().await == 0).await;
}

// S93
#[tokio::test(flavor = "multi_thread")]
async fn the_role_of_the_service_can_do_nothing_that_it_need_not() {
    let postgres = server().await;
    let owner = postgres.url("postgres");
    assert_migrates(&owner, Some(PASSWORD));
    let service = url_as("seckill_service", &owner);
    for forbidden in [
        "drop table orders",
        "truncate order_lines",
        "delete from goods",
        "delete from orders",
        "delete from order_lines",
        "truncate idempotency_keys",
        "delete from sales",
        "update orders set strategy = ''",
        "update order_lines set quantity = 1",
        "update goods set goods_no = 7",
        "update sales set stock_initial = 7",
        "update sales set started_at = now()",
        "update idempotency_keys set cart = '[]'",
        "insert into key_clock (ms) values (7)",
        "delete from key_clock",
        "update key_clock set is_only = true",
        "update key_marks set ms = 0",
        "truncate key_marks",
        "insert into goods (goods_no, guard) values (1, '')",
        "insert into orders (strategy, instance, created_at) values ('', '', now())",
        "insert into _sqlx_migrations (version) values (7)",
        "update _sqlx_migrations set success = false",
        "alter table goods add column price bigint",
        "create table mine ()",
        "create schema mine",
        "create role mine",
        "alter role postgres login password 'mine'",
        "select from pg_authid",
        "copy goods to program 'true'",
    ] {
        let error = execute(&service, forbidden).await.expect_err(forbidden);
        let code = error.as_database_error().and_then(|refusal| refusal.code());
        assert_eq!(code.as_deref(), Some("42501"), "{forbidden}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_role_of_the_service_logs_in_with_its_latest_password() {
    let postgres = server().await;
    let owner = postgres.url("postgres");
    assert_migrates(&owner, None);
    let service = |password: &str| url_as(&format!("seckill_service:{password}"), &owner);
    let may_not = execute(&service("any"), "select").await.unwrap_err();
    assert!(may_not.to_string().contains("not permitted to log in"), "{may_not}");

    let ask = "copy (values ('host all seckill_service 127.0.0.1/32 scram-sha-256'),
                            ('host all postgres 127.0.0.1/32 trust')) to program 'cat > pg_hba.conf'";
    execute(&owner, ask).await.unwrap();
    execute(&owner, "select pg_reload_conf()").await.unwrap();
    for (password, other) in [("first", "second"), ("second", "first")] {
        assert_migrates(&owner, Some(password));
        execute(&service(password), "select from goods").await.unwrap();
        let refused = execute(&service(other), "select").await.unwrap_err();
        assert!(refused.to_string().contains("password authentication failed"), "{refused}");
    }
    // Without a password, the one that it has stays.
    assert_migrates(&owner, None);
    execute(&service("second"), "select from goods").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_of_one_server_can_be_migrated_at_the_same_time() {
    let postgres = server().await;
    let names: Vec<_> = (0..8).map(|number| format!("shop_{number}")).collect();
    for name in &names {
        execute(&postgres.url("postgres"), &format!("create database {name}")).await.unwrap();
    }
    let password = Secret::new(PASSWORD.to_owned());
    // Each twice, as an impatient owner would.
    let all = names.iter().chain(&names).map(async |name| {
        let options = options(&postgres.url(name)).unwrap();
        migrate_only(&options, password.as_ref(), WITHIN).await.unwrap();
    });
    join_all(all).await;
    for name in &names {
        execute(&url_as("seckill_service", &postgres.url(name)), "select from goods").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_who_may_not_create_roles_can_still_migrate() {
    let postgres = server().await;
    let root = postgres.url("postgres");
    execute(&root, "create role landlord login").await.unwrap();
    execute(&root, "create database shop owner landlord").await.unwrap();
    let owner = url_as("landlord", &postgres.url("shop"));
    assert_migrates(&owner, None);

    let refused = migrate(&owner, Some(PASSWORD));
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(3), "{complaint}");
    let complaint = complaint.lines().last().unwrap();
    for part in ["demo-service: cannot prepare the role seckill_service", "create the role by hand", "SERVICE_PASSWORD"]
    {
        assert!(complaint.contains(part), "{complaint}");
    }

    execute(&root, "create role seckill_service login").await.unwrap();
    assert_migrates(&owner, None);
    let lab = Lab::on_postgres(url_as("seckill_service", &owner.replace("//landlord@", "//postgres@"))).await;
    let instance = lab.start(&[]).await;
    instance.put_on_sale(1, 1, "pg-conditional").await.assert_ok();
    instance.buy(1, "pg-conditional").await.assert_ok();
}

// S94
#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_create_is_told_to_have_tables_migrated() {
    let postgres = server().await;
    let owner = postgres.url("postgres");
    execute(&owner, "create role seckill_service login").await.unwrap();
    let lab = Lab::on_postgres(url_as("seckill_service", &owner)).await;
    let assert_refused = async || {
        let refused = Server::start(lab.config(&[])).await.err().unwrap();
        assert!(matches!(refused, SetupError::SchemaOlder { version: 10, .. }), "{refused}");
        let complaint = refused.to_string();
        for part in ["migration 10", "seckill_service", "--migrate-only", "owner's url"] {
            assert!(complaint.contains(part), "{complaint}");
        }
    };
    assert_refused().await;
    assert_migrates(&owner, None);
    lab.start(&[]).await.request_stop().await.unwrap();
    execute(&owner, "delete from _sqlx_migrations").await.unwrap();
    assert_refused().await;
}
