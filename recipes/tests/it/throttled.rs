//! A server with too much to do: it refuses requests that have waited (`requestThrottled`), and has not carried them out.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Semaphore, Session, SessionConfig, SharedCount};

use crate::support::{RECIPES, soon};

const CONTENDERS: usize = 6;

async fn throttling_server() -> ZooKeeper {
    let properties = ZooKeeperConfig::THROTTLING;
    ZooKeeper::start(ZooKeeperConfig { properties, ..ZooKeeperConfig::default() }).await.unwrap()
}

/// Sessions that live through long waits for a busy server.
async fn sessions(server: &ZooKeeper) -> Vec<Session> {
    let config = SessionConfig::default().with_timeout(Duration::from_secs(40));
    let connects = (0..CONTENDERS).map(async |_| Session::connect(&server.connect_string(), config.clone()).await);
    try_join_all(connects).await.unwrap()
}

async fn throttled(server: &ZooKeeper) -> u64 {
    server.metric("zk_throttled_ops").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_throttles_fails_no_acquire() {
    let server = throttling_server().await;
    let sessions = sessions(&server).await;
    for recipe in RECIPES {
        let before = throttled(&server).await;
        let turns =
            sessions.iter().map(async |session| recipe.lock(session, recipe.path()).acquire().await?.release().await);
        let failures: Vec<_> = soon("all turns", join_all(turns)).await.into_iter().filter_map(Result::err).collect();
        assert!(failures.is_empty(), "{} of {CONTENDERS} for {recipe:?}: {failures:?}", failures.len());
        assert!(throttled(&server).await > before, "{recipe:?} was not throttled");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_throttled_keeps_its_deadline() {
    let server = throttling_server().await;
    let sessions = sessions(&server).await;
    for recipe in RECIPES {
        let barrier = recipe.barrier(&sessions[0], recipe.path()).acquire().await.unwrap();
        let waits = sessions[1..]
            .iter()
            .map(async |session| recipe.lock(session, recipe.path()).acquire_within(Duration::from_millis(200)).await);
        for outcome in soon("all deadlines", join_all(waits)).await {
            assert!(outcome.as_ref().is_ok_and(Option::is_none), "{recipe:?}: {outcome:?}");
        }
        barrier.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_and_counts_are_had_from_a_server_that_throttles() {
    let server = throttling_server().await;
    let sessions = sessions(&server).await;
    let turns = sessions.iter().map(async |session| {
        let count = SharedCount::new(session, "/count", 4)?;
        let permits = Semaphore::with_count(session, "/permits", &count)?;
        permits.acquire_many(3).await?.release().await?;
        let seen = count.get().await?;
        count.try_set(seen, seen.value).await.map(drop)
    });
    for outcome in soon("all turns", join_all(turns)).await {
        outcome.unwrap();
    }
    assert!(throttled(&server).await > 0);
}
