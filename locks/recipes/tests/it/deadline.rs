//! One deadline over everything, on a server that does not answer.

use std::time::{Duration, Instant};

use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, HoldState, Session, SessionConfig};

use crate::support::{RECIPES, soon};

// L7
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_does_not_keep_an_acquire_beyond_its_deadline() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let session = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    for recipe in RECIPES {
        let lock = recipe.lock(&session, recipe.path());
        lock.acquire().await.unwrap().release().await.unwrap();
        server.pause().unwrap();
        let wait = Duration::from_millis(500);
        let asked = Instant::now();
        let answer = lock.acquire_within(wait).await;
        let took = asked.elapsed();
        server.resume().unwrap();
        // The documented bound is a quarter of the session timeout later; the rest is for a busy machine.
        assert!(took >= wait && took < wait + session.timeout() / 4 + Duration::from_secs(2), "{recipe:?}: {took:?}");
        assert!(matches!(answer, Err(Error::Unconfirmed { .. })), "{recipe:?}: {answer:?}");
        let held = soon("the lock after the freeze", lock.acquire()).await.unwrap();
        assert_eq!(held.state(), HoldState::Held);
        held.release().await.unwrap();
    }
}
