//! The two servers, started by hand.

use std::pin::pin;
use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};
use testbed::{Error, MariaDb, Postgres, PostgresConfig, ZooKeeper, ZooKeeperConfig};
use tokio::time::{sleep, timeout};
use zookeeper_client::{Acls, Client, CreateMode, EventType};

use crate::support::{DEADLINE, address_of, four_letter_word, is_gone, is_listening};

async fn setting(connection: &mut PgConnection, name: &str) -> String {
    sqlx::query_scalar("select current_setting($1)").bind(name).fetch_one(connection).await.unwrap()
}

#[tokio::test]
async fn a_postgres_is_durable_and_gone_after_its_drop() {
    let postgres = Postgres::start(PostgresConfig { connections_max: 37, ..PostgresConfig::default() }).await.unwrap();
    let url = postgres.url("postgres");
    let mut connection = PgConnection::connect(&url).await.unwrap();
    for (name, value) in [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("max_connections", "37"),
        ("server_encoding", "UTF8"),
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", ""),
    ] {
        assert_eq!(setting(&mut connection, name).await, value, "{name}");
    }
    let data = setting(&mut connection, "data_directory").await;
    assert!(std::fs::exists(&data).unwrap());
    drop(postgres);
    assert!(!std::fs::exists(&data).unwrap());
    assert!(!is_listening(address_of(&url)));
}

#[tokio::test]
async fn a_crashed_postgres_recovers_with_what_was_committed() {
    let postgres = Postgres::start(PostgresConfig::default()).await.unwrap();
    let url = postgres.url("postgres");
    let mut connection = PgConnection::connect(&url).await.unwrap();
    connection.execute("create table kept as select 7 as number").await.unwrap();
    postgres.crash().unwrap();
    let ended = async { while connection.execute("select 1").await.is_ok() {} };
    timeout(DEADLINE, ended).await.expect("the crash ends every connection");
    let again = async {
        loop {
            match PgConnection::connect(&url).await {
                Ok(again) => return again,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let mut again = timeout(DEADLINE, again).await.expect("it serves again");
    let number: i32 = sqlx::query_scalar("select number from kept").fetch_one(&mut again).await.unwrap();
    assert_eq!(number, 7);
}

#[tokio::test]
async fn a_frozen_postgres_answers_when_it_is_resumed() {
    let postgres = Postgres::start(PostgresConfig::default()).await.unwrap();
    let mut connection = PgConnection::connect(&postgres.url("postgres")).await.unwrap();
    postgres.pause().unwrap();
    let mut answer = pin!(connection.execute("select 1"));
    assert!(timeout(Duration::from_millis(100), &mut answer).await.is_err());
    postgres.resume().unwrap();
    timeout(DEADLINE, answer).await.expect("it goes on").unwrap();
}

#[tokio::test]
async fn a_postgres_with_a_full_disk_loses_nothing_that_it_confirmed() {
    let mut postgres = Postgres::start(PostgresConfig::default()).await.unwrap();
    let url = postgres.url("postgres");
    let mut connection = PgConnection::connect(&url).await.unwrap();
    connection.execute("create table kept (number int)").await.unwrap();
    connection.execute("insert into kept values (7)").await.unwrap();
    postgres.fill_disk().unwrap();
    let mut confirmed = 0;
    let refused = async {
        while connection.execute("insert into kept values (8)").await.is_ok() {
            confirmed += 1;
        }
    };
    timeout(DEADLINE, refused).await.expect("a commit needs the disk");
    postgres.restart().await.unwrap();
    let mut again = PgConnection::connect(&url).await.unwrap();
    let kept: i64 = sqlx::query_scalar("select count(*) from kept").fetch_one(&mut again).await.unwrap();
    assert!(kept > confirmed, "{kept} of {} rows are there", confirmed + 1);
}

#[tokio::test]
async fn every_connection_that_was_asked_for_can_be_had() {
    let connections_max = 20;
    let postgres = Postgres::start(PostgresConfig { connections_max, ..PostgresConfig::default() }).await.unwrap();
    let mut connections = Vec::new();
    for _ in 0..connections_max {
        connections.push(PgConnection::connect(&postgres.url("postgres")).await.unwrap());
    }
}

#[tokio::test]
async fn a_postgres_that_cannot_start_says_why() {
    let error =
        Postgres::start(PostgresConfig { connections_max: 1_000_000, ..PostgresConfig::default() }).await.unwrap_err();
    assert!(matches!(error, Error::Ended { .. }), "{error}");
    assert!(error.to_string().contains("max_connections"), "{error}");
}

#[tokio::test]
async fn a_started_mariadb_listens_and_is_gone_after_its_drop() {
    let mariadb = MariaDb::start().await.unwrap();
    let url = mariadb.url("mysql");
    let pid = mariadb.pid();
    assert!(url.starts_with("mysql://root@127.0.0.1:"), "{url}");
    assert!(is_listening(address_of(&url)) && !is_gone(pid));
    drop(mariadb);
    assert!(!is_listening(address_of(&url)) && is_gone(pid));
}

#[tokio::test]
async fn a_started_zookeeper_serves_and_is_gone_after_its_drop() {
    let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let address = zookeeper.connect_string();
    let client = Client::connect(&address).await.unwrap();
    client.create("/a", b"b", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    assert_eq!(client.get_data("/a").await.unwrap().0, b"b");
    for (word, part) in
        [("ruok", "imok"), ("mntr", "zk_packets_received"), ("srvr", "Mode: standalone"), ("conf", "dataDir=")]
    {
        let answer = four_letter_word(&address, word);
        assert!(answer.contains(part), "{word}: {answer}");
    }
    let conf = four_letter_word(&address, "conf");
    let data = conf.lines().find_map(|line| line.strip_prefix("dataDir=")).unwrap();
    assert!(std::fs::exists(data).unwrap());
    drop(zookeeper);
    assert!(!std::fs::exists(data).unwrap());
    assert!(!is_listening(&address));
}

#[tokio::test]
async fn a_session_timeout_follows_from_the_tick_and_may_be_long() {
    let tick_time = Duration::from_secs(10);
    let zookeeper = ZooKeeper::start(ZooKeeperConfig { tick_time, ..ZooKeeperConfig::default() }).await.unwrap();
    for (asked, granted) in [(tick_time, 2 * tick_time), (30 * tick_time, 30 * tick_time)] {
        let client =
            Client::connector().with_session_timeout(asked).connect(&zookeeper.connect_string()).await.unwrap();
        assert_eq!(client.session_timeout(), granted);
    }
}

#[tokio::test]
async fn a_duration_of_zero_is_refused_before_anything_starts() {
    let session_timeouts = Some(Duration::ZERO..=Duration::from_secs(1));
    for config in [
        ZooKeeperConfig { session_timeouts, ..ZooKeeperConfig::default() },
        ZooKeeperConfig { tick_time: Duration::ZERO, ..ZooKeeperConfig::default() },
        ZooKeeperConfig { container_check_interval: Duration::ZERO, ..ZooKeeperConfig::default() },
    ] {
        let error = ZooKeeper::start(config).await.unwrap_err();
        assert!(matches!(error, Error::Setting(_)), "{error}");
    }
}

#[tokio::test]
async fn a_paused_zookeeper_answers_when_it_is_resumed() {
    let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let client = Client::connect(&zookeeper.connect_string()).await.unwrap();
    zookeeper.pause().unwrap();
    let mut answer = std::pin::pin!(client.check_stat("/"));
    let early = tokio::time::timeout(Duration::from_millis(100), &mut answer).await;
    assert!(early.is_err(), "nothing is answered");
    zookeeper.resume().unwrap();
    assert!(answer.await.unwrap().is_some());
}

#[tokio::test]
async fn a_paused_zookeeper_stops_like_a_running_one() {
    let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let address = zookeeper.connect_string();
    zookeeper.pause().unwrap();
    drop(zookeeper);
    assert!(!is_listening(&address));
}

#[tokio::test]
async fn a_counter_of_the_server_is_read_by_its_name() {
    let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let nodes = zookeeper.metric("zk_znode_count").await.unwrap();
    let client = Client::connect(&zookeeper.connect_string()).await.unwrap();
    client.create("/a", &[], &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    assert_eq!(zookeeper.metric("zk_znode_count").await.unwrap(), nodes + 1);
    assert_eq!(zookeeper.metric("zk_no_such_counter").await.unwrap(), 0);
}

#[tokio::test]
async fn an_empty_container_is_deleted_at_the_given_interval() {
    let container_check_interval = Duration::from_millis(50);
    let config = ZooKeeperConfig { container_check_interval, ..ZooKeeperConfig::default() };
    let zookeeper = ZooKeeper::start(config).await.unwrap();
    let client = Client::connect(&zookeeper.connect_string()).await.unwrap();
    let acls = Acls::anyone_all();
    client.create("/container", &[], &CreateMode::Container.with_acls(acls)).await.unwrap();
    let (_, _, watcher) = client.get_and_watch_data("/container").await.unwrap();
    client.create("/container/a", &[], &CreateMode::Persistent.with_acls(acls)).await.unwrap();
    client.delete("/container/a", None).await.unwrap();
    let event = tokio::time::timeout(DEADLINE, watcher.changed()).await.unwrap();
    assert_eq!(event.event_type, EventType::NodeDeleted);
}

#[tokio::test]
async fn several_servers_run_side_by_side() {
    let start = || Postgres::start(PostgresConfig::default());
    let (one, two) = tokio::try_join!(start(), start()).unwrap();
    assert_ne!(one.url("postgres"), two.url("postgres"));
    for postgres in [&one, &two] {
        PgConnection::connect(&postgres.url("postgres")).await.unwrap().close().await.unwrap();
    }
}
