//! Databases and chroots for single tests, on throwaway and on lasting servers.
//!
//! The lasting servers are given to a second run of this test binary. Its environment can be set without touching the tests
//! beside it.

use std::env;
use std::process::Command;

use sqlx::{Connection, PgConnection};
use testbed::{Postgres, PostgresConfig, TestChroot, TestDatabase, ZooKeeper, ZooKeeperConfig};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::support::Outside;

#[tokio::test]
async fn every_test_has_an_empty_database_of_its_own() {
    let one = TestDatabase::create().await.unwrap();
    let two = TestDatabase::create().await.unwrap();
    for database in [&one, &two] {
        let mut connection = PgConnection::connect(database.url()).await.unwrap();
        sqlx::query("create table goods (goods_no bigint primary key)").execute(&mut connection).await.unwrap();
        let name: String =
            sqlx::query_scalar("select current_database()::text").fetch_one(&mut connection).await.unwrap();
        assert!(name.starts_with("seckill_test_"), "{name}");
        // The connection stays open: the drop of the database must cope with that.
        std::mem::forget(connection);
    }
}

#[tokio::test]
async fn every_test_has_an_empty_chroot_of_its_own() {
    let one = TestChroot::create().await.unwrap();
    let two = TestChroot::create().await.unwrap();
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for chroot in [&one, &two] {
        let client = Client::connect(chroot.connect_string()).await.unwrap();
        for path in ["/locks", "/locks/a", "/locks/a/b", "/goods"] {
            client.create(path, &[], &options).await.unwrap();
        }
    }
}

#[tokio::test]
async fn on_lasting_servers_databases_and_chroots_go_with_their_tests() {
    let (postgres, zookeeper) =
        tokio::try_join!(Postgres::start(PostgresConfig::default()), ZooKeeper::start(ZooKeeperConfig::default()),)
            .unwrap();
    let client = Client::connect(&zookeeper.connect_string()).await.unwrap();
    let root_before = client.get_children("/").await.unwrap().1;
    let output = Command::new(env::current_exe().unwrap())
        .arg("namespaces::every_test_has")
        .env("DATABASE_URL", postgres.url("postgres"))
        .env("ZOOKEEPER_CONNECT", zookeeper.connect_string())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("2 passed"), "{stdout}");

    let mut connection = PgConnection::connect(&postgres.url("postgres")).await.unwrap();
    let left: Vec<String> = sqlx::query_scalar("select datname::text from pg_database where not datistemplate")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(left, ["postgres"]);
    let (left, root) = client.get_children("/").await.unwrap();
    assert_eq!(left, ["zookeeper"]);
    assert_eq!(root.cversion - root_before.cversion, 4, "two chroots were created here and deleted");
}

#[tokio::test]
async fn a_chroot_can_be_made_below_another() {
    let base = TestChroot::create().await.unwrap();
    let output = Command::new(env::current_exe().unwrap())
        .arg("namespaces::every_test_has_an_empty_chroot")
        .env("ZOOKEEPER_CONNECT", base.connect_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let client = Client::connect(base.connect_string()).await.unwrap();
    let (left, stat) = client.get_children("/").await.unwrap();
    assert_eq!((left.len(), stat.cversion), (0, 4), "two chroots were created here and deleted");
}

#[test]
fn the_servers_that_tests_share_end_with_their_process() {
    let mut tests = Outside::spawn(
        Command::new(env::current_exe().unwrap())
            .arg("namespaces::every_test_has")
            .env_remove("DATABASE_URL")
            .env_remove("ZOOKEEPER_CONNECT"),
    );
    let servers = tests.servers();
    assert!(tests.child.wait().unwrap().success());
    tests.assert_nothing_is_left(&servers);
}
