//! A Redis that is killed, frozen, copied, restored and restricted.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use testbed::{Error, Redis, RedisConfig, RedisDurability};

use crate::support::{address_of, is_gone, is_listening, soon};

const DURABILITIES: [RedisDurability; 3] =
    [RedisDurability::None, RedisDurability::EverySecond, RedisDurability::Always];

async fn started(durability: RedisDurability) -> Redis {
    Redis::start(RedisConfig { durability, ..RedisConfig::default() }).await.unwrap()
}

async fn set(redis: &Redis, key: &str, value: &str) {
    assert_eq!(redis.command(&["SET", key, value]).await.unwrap().as_deref(), Some("OK"));
}

async fn get(redis: &Redis, key: &str) -> Option<String> {
    redis.command(&["GET", key]).await.unwrap()
}

async fn keys(redis: &Redis) -> String {
    redis.command(&["DBSIZE"]).await.unwrap().unwrap()
}

/// Returns why the server refuses a command.
async fn refusal(redis: &Redis, words: &[&str]) -> String {
    let error = redis.command(words).await.unwrap_err();
    assert!(matches!(error, Error::System { .. }), "{error}");
    std::error::Error::source(&error).unwrap().to_string()
}

/// Returns all that a client without a password is told.
fn told_without_password(redis: &Redis, line: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
    stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn a_started_redis_answers_and_is_gone_after_its_drop() {
    let redis = Redis::start(RedisConfig::default()).await.unwrap();
    let url = redis.url();
    let address = format!("127.0.0.1:{}", redis.port());
    assert_eq!(url, format!("redis://{address}/"));
    assert_eq!(redis.command(&["PING"]).await.unwrap().as_deref(), Some("PONG"));
    assert_eq!(get(&redis, "a").await, None);
    set(&redis, "a", "two words\r\nand 茶").await;
    assert_eq!(get(&redis, "a").await.as_deref(), Some("two words\r\nand 茶"));
    assert!(refusal(&redis, &["KEYS", "*"]).await.contains("not understood"), "a list");
    assert!(refusal(&redis, &["INCR", "a"]).await.starts_with("ERR value is not an integer"));
    let pid = redis.pid().unwrap();
    drop(redis);
    assert!(!is_listening(&address) && is_gone(pid));
}

#[tokio::test]
async fn a_redis_writes_to_its_disk_what_was_asked_for() {
    for (durability, log, forced) in [
        (RedisDurability::None, "no", "everysec"),
        (RedisDurability::EverySecond, "yes", "everysec"),
        (RedisDurability::Always, "yes", "always"),
    ] {
        let redis = started(durability).await;
        for (name, value) in [("save", ""), ("appendonly", log), ("appendfsync", forced)] {
            let answer = told_without_password(&redis, &format!("CONFIG GET {name}"));
            assert!(answer.contains(&format!("\r\n{name}\r\n${}\r\n{value}\r\n", value.len())), "{answer}");
        }
    }
}

// T14
#[tokio::test]
async fn a_redis_that_is_killed_without_a_log_comes_back_empty() {
    let mut redis = started(RedisDurability::None).await;
    let port = redis.port();
    set(&redis, "a", "1").await;
    // Its file is left in the folder of the server, and is none of its own.
    redis.dump().await.unwrap();
    redis.kill().await.unwrap();
    assert_eq!(redis.pid(), None);
    assert!(!is_listening(&format!("127.0.0.1:{port}")));
    redis.restart().await.unwrap();
    assert_eq!((redis.port(), keys(&redis).await.as_str()), (port, "0"));
}

// T14
#[tokio::test]
async fn a_redis_that_is_killed_with_a_log_comes_back_whole() {
    for durability in [RedisDurability::EverySecond, RedisDurability::Always] {
        let mut redis = started(durability).await;
        let port = redis.port();
        for number in 0..20 {
            set(&redis, &number.to_string(), "1").await;
        }
        redis.kill().await.unwrap();
        redis.kill().await.unwrap();
        redis.restart().await.unwrap();
        assert_eq!((redis.port(), keys(&redis).await.as_str()), (port, "20"), "{durability:?}");
    }
}

#[tokio::test]
async fn a_running_redis_is_stopped_before_it_is_started_again() {
    let mut redis = Redis::start(RedisConfig::default()).await.unwrap();
    let pid = redis.pid().unwrap();
    set(&redis, "a", "1").await;
    redis.pause().unwrap();
    redis.restart().await.unwrap();
    assert!(is_gone(pid));
    assert_eq!(get(&redis, "a").await.as_deref(), Some("1"));
}

// T14
#[tokio::test]
async fn a_restored_redis_has_lost_what_came_after_the_dump() {
    for durability in DURABILITIES {
        let mut redis = started(durability).await;
        set(&redis, "token", "7").await;
        set(&redis, "sold", "3").await;
        let dump = redis.dump().await.unwrap();
        set(&redis, "token", "9").await;
        set(&redis, "later", "1").await;
        let port = redis.port();
        for _ in 0..2 {
            redis.restore(&dump).await.unwrap();
            assert_eq!((redis.port(), keys(&redis).await.as_str()), (port, "2"), "{durability:?}");
            assert_eq!(get(&redis, "token").await.as_deref(), Some("7"), "{durability:?}");
            redis.command(&["INCR", "token"]).await.unwrap();
        }
        redis.kill().await.unwrap();
        redis.restart().await.unwrap();
        let left = (durability != RedisDurability::None).then_some("8");
        assert_eq!(get(&redis, "token").await.as_deref(), left, "{durability:?}: a log goes on from the dump");
    }
}

#[tokio::test]
async fn a_dump_of_one_redis_can_be_restored_by_another() {
    let one = started(RedisDurability::None).await;
    set(&one, "a", "1").await;
    let mut other = started(RedisDurability::Always).await;
    other.kill().await.unwrap();
    other.restore(&one.dump().await.unwrap()).await.unwrap();
    assert_eq!(get(&other, "a").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_password_is_asked_for_and_is_in_the_url() {
    let password = "p: @/\"\\ 'w茶";
    let config = RedisConfig { password: Some(password.to_owned()), ..RedisConfig::default() };
    let mut redis = Redis::start(config).await.unwrap();
    assert!(told_without_password(&redis, "PING").starts_with("-NOAUTH "));
    let url = redis.url();
    assert!(url.starts_with("redis://:p%3A%20%40%2F%22%5C%20%27w%E8%8C%B6@127.0.0.1:"), "{url}");
    assert!(is_listening(address_of(&url)));
    set(&redis, "a", "1").await;
    redis.restart().await.unwrap();
    assert_eq!(redis.url(), url);
    assert_eq!(get(&redis, "a").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_redis_that_cannot_start_says_why() {
    let error = Redis::start(RedisConfig { eviction: "any", ..RedisConfig::default() }).await.unwrap_err();
    assert!(matches!(error, Error::Ended { .. }) && error.to_string().contains("maxmemory-policy"), "{error}");
    let config = RedisConfig { password: Some(String::new()), ..RedisConfig::default() };
    let error = Redis::start(config).await.unwrap_err();
    assert!(matches!(error, Error::Setting(_)), "{error}");
}

#[tokio::test]
async fn commands_are_counted_and_an_unknown_count_is_none() {
    let redis = Redis::start(RedisConfig::default()).await.unwrap();
    assert_eq!(redis.metric("no_such_count").await.unwrap(), None);
    assert_eq!(redis.metric("redis_version").await.unwrap(), None, "no count");
    let before = redis.metrics().await.unwrap();
    for _ in 0..5 {
        redis.command(&["INCR", "a"]).await.unwrap();
    }
    let after = redis.metrics().await.unwrap();
    assert_eq!(after.grown(&before, "total_commands_processed"), Some(6), "and the question before");
    assert_eq!((before.get("cmdstat_incr"), after.get("cmdstat_incr")), (None, Some(5)));

    let script = "for i = 1, 3 do redis.call('INCR', 'a') end";
    redis.command(&["EVAL", script, "0"]).await.unwrap();
    let last = redis.metrics().await.unwrap();
    assert_eq!(last.grown(&after, "total_commands_processed"), Some(5), "and the question before");
    assert_eq!((last.get("cmdstat_eval"), last.get("cmdstat_incr")), (Some(1), Some(8)));
}

#[tokio::test]
async fn a_full_redis_refuses_writes_or_forgets_keys() {
    let full = RedisConfig { memory_max: Some(1), ..RedisConfig::default() };
    let redis = Redis::start(full).await.unwrap();
    assert!(refusal(&redis, &["SET", "a", "1"]).await.starts_with("OOM "));

    let forgetful = RedisConfig { memory_max: Some(4 << 20), eviction: "allkeys-lru", ..RedisConfig::default() };
    let redis = Redis::start(forgetful).await.unwrap();
    let value = "x".repeat(100_000);
    let mut number = 0;
    while redis.metric("evicted_keys").await.unwrap() == Some(0) {
        number += 1;
        assert!(number < 100, "more than 4 MiB are kept");
        set(&redis, &number.to_string(), &value).await;
    }
    assert_ne!(keys(&redis).await, number.to_string());
}

#[tokio::test]
async fn a_replica_follows_its_primary_and_refuses_writes() {
    let config = RedisConfig { password: Some("secret".to_owned()), ..RedisConfig::default() };
    let primary = Redis::start(config).await.unwrap();
    set(&primary, "a", "1").await;
    let mut replica = primary.start_replica(RedisConfig::default()).await.unwrap();
    // The process that made the replica's dump may still be there.
    primary.dump().await.unwrap();
    assert_eq!(get(&replica, "a").await.as_deref(), Some("1"));
    assert!(refusal(&replica, &["SET", "a", "2"]).await.starts_with("READONLY "));
    set(&primary, "b", "2").await;
    soon("the replica has the write", async { while get(&replica, "b").await.is_none() {} }).await;
    assert_eq!(primary.metric("connected_slaves").await.unwrap(), Some(1));

    drop(primary);
    replica.restart().await.unwrap();
    assert_eq!(keys(&replica).await, "2", "from its own log");
}

#[tokio::test]
async fn a_lone_node_of_a_cluster_serves_no_keys() {
    let config = RedisConfig { is_cluster: true, ..RedisConfig::default() };
    let mut redis = Redis::start(config.clone()).await.unwrap();
    redis.restart().await.unwrap();
    assert_eq!(redis.metric("cluster_enabled").await.unwrap(), Some(1));
    assert!(refusal(&redis, &["GET", "a"]).await.starts_with("CLUSTERDOWN "));
    let alone = Redis::start(RedisConfig::default()).await.unwrap();
    assert_eq!(alone.metric("cluster_enabled").await.unwrap(), Some(0));
    let error = alone.start_replica(config).await.unwrap_err();
    assert!(matches!(error, Error::Ended { .. }) && error.to_string().contains("cluster mode"), "{error}");
}

#[tokio::test]
async fn a_paused_redis_answers_when_it_is_resumed() {
    let redis = Redis::start(RedisConfig::default()).await.unwrap();
    redis.pause().unwrap();
    let mut answer = std::pin::pin!(redis.command(&["PING"]));
    let early = tokio::time::timeout(Duration::from_millis(100), &mut answer).await;
    assert!(early.is_err(), "nothing is answered");
    redis.resume().unwrap();
    assert_eq!(answer.await.unwrap().as_deref(), Some("PONG"));
}

#[tokio::test]
async fn a_redis_that_does_not_run_is_neither_asked_nor_frozen() {
    let mut redis = Redis::start(RedisConfig::default()).await.unwrap();
    redis.kill().await.unwrap();
    refusal(&redis, &["PING"]).await;
    for error in [redis.pause().unwrap_err(), redis.resume().unwrap_err()] {
        assert!(matches!(error, Error::System { .. }), "{error}");
    }
}
