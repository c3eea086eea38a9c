//! Servers of Redis that the service does not start with, and those that it warns of.

use std::net::TcpListener;
use std::process::Command;

use demo_service::http::server::Server;
use demo_service::setup_error::SetupError;
use program::Exit;
use testbed::{Redis, RedisConfig, RedisDurability, StopSignal};

use crate::command;
use crate::lab::Lab;
use crate::program::{PROGRAM, Program};

/// Starts the service, which must refuse a Redis with this exit, and returns what it says.
async fn refusal(exit: Exit, lab: &Lab, url: &str) -> String {
    let refused = Server::start(lab.config(&["--redis-url", url])).await.err().unwrap();
    assert!(matches!(refused, SetupError::Redis { .. } | SetupError::RedisUrl(_)), "{refused:?}");
    assert_eq!(refused.exit(), exit, "{refused:?}");
    let said = refused.to_string();
    assert!(!said.contains("sesame") && !said.contains('\n'), "{said}");
    said
}

#[track_caller]
fn assert_parts(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part} in {said}");
    }
}

// S110
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_does_not_answer_is_refused_at_the_start() {
    let lab = Lab::new().await;
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let said = refusal(Exit::Setup, &lab, &format!("redis://:sesame@{nobody}/")).await;
    assert_parts(&said, &[&nobody, "refused", "--redis-url (REDIS_URL)"]);

    let frozen = Redis::start(RedisConfig::default()).await.unwrap();
    frozen.pause().unwrap();
    let said = refusal(Exit::Setup, &lab, &frozen.url()).await;
    assert_parts(&said, &["did not answer within 2s", "--redis-url (REDIS_URL)"]);

    for wrong in ["http://localhost", "localhost:6379", "redis://sesame:6379:6379"] {
        assert_parts(&refusal(Exit::Usage, &lab, wrong).await, &["url is not valid", "redis://:PASSWORD@HOST:PORT/"]);
    }
}

// S110
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_of_redis_is_refused_at_the_start() {
    let lab = Lab::new().await;
    let password = Some("open sesame".to_owned());
    let redis = Redis::start(RedisConfig { password, ..RedisConfig::default() }).await.unwrap();
    let port = redis.port();
    for url in [format!("redis://127.0.0.1:{port}/"), format!("redis://:sesame@127.0.0.1:{port}/")] {
        assert_parts(&refusal(Exit::Usage, &lab, &url).await, &["give its password in --redis-url (REDIS_URL)"]);
    }
    let wrong = format!("redis://:sesame@127.0.0.1:{port}/");
    let complaint = command::refusal(Exit::Usage, &lab.database_url, &lab.zookeeper, &["--redis-url", &wrong]);
    assert_parts(&complaint, &["give its password in --redis-url (REDIS_URL)"]);
    lab.start(&["--redis-url", &redis.url()]).await;
}

// S110
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_keeps_no_locks_is_refused_at_the_start() {
    let lab = Lab::new().await;
    let primary = Redis::start(RedisConfig::default()).await.unwrap();
    let replica = primary.start_replica(RedisConfig::default()).await.unwrap();
    assert_parts(&refusal(Exit::Usage, &lab, &replica.url()).await, &["it is a replica", "name its primary"]);

    let node = Redis::start(RedisConfig { is_cluster: true, ..RedisConfig::default() }).await.unwrap();
    assert_parts(&refusal(Exit::Usage, &lab, &node.url()).await, &["node of a cluster", "name a single primary"]);

    let evicts = RedisConfig { memory_max: Some(100 << 20), eviction: "allkeys-lru", ..RedisConfig::default() };
    let evicts = Redis::start(evicts).await.unwrap();
    assert_parts(&refusal(Exit::Usage, &lab, &evicts.url()).await, &["allkeys-lru", "set maxmemory-policy noeviction"]);

    let full = Redis::start(RedisConfig { memory_max: Some(1), ..RedisConfig::default() }).await.unwrap();
    assert_parts(&refusal(Exit::Usage, &lab, &full.url()).await, &["OOM", "raise maxmemory"]);
}

// S110
#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_rights_in_redis_is_refused_at_the_start() {
    let redis = Redis::start(RedisConfig::default()).await.unwrap();
    let lab = Lab::on_redis(&redis).await;
    let url = redis.url().replace("redis://", "redis://shop:sesame@");
    let named = "+set +get +del +incr +pexpire +eval +evalsha +script +ping +info";
    for (rights, is_enough) in
        [("~other:* +@all", false), ("~seckill:* +@read +info", false), (&format!("~seckill:* {named}"), true)]
    {
        let user = ["ACL", "SETUSER", "shop", "reset", "on", ">sesame"];
        let words: Vec<_> = user.into_iter().chain(rights.split(' ')).collect();
        redis.command(&words).await.unwrap();
        if is_enough {
            let instance = lab.start(&["--redis-url", &url]).await;
            instance.put_on_sale(1, 5, "redis-lock-fenced").await.assert_ok();
            instance.buy(1, "redis-lock-fenced").await.assert_ok();
        } else {
            let said = refusal(Exit::Usage, &lab, &url).await;
            assert_parts(&said, &["allow its user the commands", "seckill:*"]);
        }
    }
}

/// Goal: the service tells at its start what a crash of Redis would lose. Method: servers that write less and less to their disks.
// S110
#[tokio::test]
async fn a_redis_without_a_durable_log_is_warned_of_at_the_start() {
    let lab = Lab::new().await;
    for (durability, warned) in [
        (RedisDurability::None, Some("Set appendonly yes and appendfsync always")),
        (RedisDurability::EverySecond, Some("the locks of the last second")),
        (RedisDurability::Always, None),
    ] {
        let redis = Redis::start(RedisConfig { durability, ..RedisConfig::default() }).await.unwrap();
        let program = Program::start(&lab, StopSignal::Terminate, &[], &[("REDIS_URL", &redis.url())]).await;
        let log = program.process.log_tail();
        match warned {
            Some(part) => assert!(log.contains("WARN") && log.contains(part), "{log}"),
            None => assert!(!log.contains("appendfsync"), "{log}"),
        }
    }
}

/// Goal: without a Redis, its strategies are not offered, and naming one says what to set.
// S20
#[tokio::test(flavor = "multi_thread")]
async fn without_a_redis_its_strategies_are_not_offered() {
    let lab = Lab::new().await;
    let program = Program::start(&lab, StopSignal::Terminate, &[], &[("REDIS_URL", "")]).await;
    let listed = program.get("/strategies").await.body;
    let names: Vec<_> =
        listed["strategies"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"zk-mutex") && !names.iter().any(|name| name.starts_with("redis")), "{names:?}");
    program.put_on_sale(1, 5, "zk-mutex").await.assert_ok();
    for answer in [program.buy(1, "redis-lock").await, program.put_on_sale(1, 5, "redis-lock-fenced").await] {
        answer.assert_problem(404, "unknown-strategy");
        assert!(answer.body["detail"].as_str().unwrap().contains("set its REDIS_URL"), "{answer:?}");
    }
    program.get("/readyz").await.assert_ok();
}

#[test]
fn strategies_of_redis_are_listed_and_need_a_redis_to_start() {
    let run = |arguments: &[&str]| {
        let servers = ["--database-url", "postgres://localhost/lab", "--zookeeper", "localhost"];
        Command::new(PROGRAM).args(servers).args(arguments).env_remove("REDIS_URL").output().unwrap()
    };
    let listed = run(&["--list-strategies", "--strategy", "redis-lock"]);
    assert!(listed.status.success());
    assert!(String::from_utf8(listed.stdout).unwrap().contains(r#""name":"redis-lock-fenced""#));
    for arguments in [["--strategy", "redis-lock"], ["--offer", "redis-lock"]] {
        let refused = run(&arguments);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(64), "{said}");
        assert_parts(&said, &["redis-lock needs a Redis", "--redis-url redis://HOST:PORT/ (REDIS_URL)"]);
    }
}
