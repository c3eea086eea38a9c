//! A server with too much to do: it refuses requests that have waited (`requestThrottled`), and has not carried them out.

use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, Semaphore, Session, SessionConfig, SharedCount};

use crate::support::{RECIPES, soon, until};

const CONTENDERS: usize = 6;
/// The timeout of sessions that live through long waits for a busy server.
const TIMEOUT: Duration = Duration::from_secs(40);

async fn throttling_server() -> ZooKeeper {
    let properties = ZooKeeperConfig::THROTTLING;
    ZooKeeper::start(ZooKeeperConfig { properties, ..ZooKeeperConfig::default() }).await.unwrap()
}

async fn sessions(server: &ZooKeeper) -> Vec<Session> {
    let config = SessionConfig::default().with_timeout(TIMEOUT);
    let connects = (0..CONTENDERS).map(async |_| Session::connect(&server.connect_string(), config.clone()).await);
    try_join_all(connects).await.unwrap()
}

async fn throttled(server: &ZooKeeper) -> u64 {
    server.metric("zk_throttled_ops").await.unwrap()
}

/// Repeats a round until the server throttles one of its requests.
async fn until_throttled(server: &ZooKeeper, mut round: impl AsyncFnMut()) {
    let before = throttled(server).await;
    until("a request is throttled", async || {
        round().await;
        throttled(server).await > before
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_throttles_fails_no_acquire() {
    let server = throttling_server().await;
    let sessions = sessions(&server).await;
    for recipe in RECIPES {
        until_throttled(&server, async || {
            let turns = sessions
                .iter()
                .map(async |session| recipe.lock(session, recipe.path()).acquire().await?.release().await);
            let turns = soon("all turns", join_all(turns)).await;
            let failures: Vec<_> = turns.into_iter().filter_map(Result::err).collect();
            assert!(failures.is_empty(), "{} of {CONTENDERS} for {recipe:?}: {failures:?}", failures.len());
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_is_throttled_keeps_its_deadline() {
    let server = throttling_server().await;
    let sessions = sessions(&server).await;
    for recipe in RECIPES {
        let barrier = recipe.barrier(&sessions[0], recipe.path()).acquire().await.unwrap();
        until_throttled(&server, async || {
            let waits = sessions[1..].iter().map(async |session| {
                let wait = Duration::from_millis(200);
                let asked = Instant::now();
                let outcome = recipe.lock(session, recipe.path()).acquire_within(wait).await;
                let took = asked.elapsed();
                // The documented bound is a quarter of the session timeout later; the rest is for a busy machine.
                let bound = wait + TIMEOUT / 4 + Duration::from_secs(10);
                assert!(took >= wait && took < bound, "{recipe:?}: {took:?}");
                outcome
            });
            for outcome in soon("all deadlines", join_all(waits)).await {
                assert!(matches!(outcome, Ok(None) | Err(Error::Unconfirmed { .. })), "{recipe:?}: {outcome:?}");
            }
        })
        .await;
        barrier.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_and_counts_are_had_from_a_server_that_throttles() {
    let server = throttling_server().await;
    let sessions = sessions(&server).await;
    until_throttled(&server, async || {
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
    })
    .await;
}
