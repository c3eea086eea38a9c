//! One deadline over everything, on a server that does not answer.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{AnyLock, Error, HoldState, Session, SessionConfig};

use crate::support::{Lab, RECIPES, soon};

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

// L93
#[tokio::test]
async fn acquires_that_give_up_at_once_let_other_tasks_run() {
    /// Enough to use up any budget of a task.
    const ACQUIRES: usize = 10_000;
    /// A newcomer behind them waits for its batch, and sends nothing before.
    const WAITERS: usize = 8;
    for recipe in RECIPES.into_iter().filter(|recipe| recipe.is_fair() && !recipe.is_shared()) {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let lock = recipe.lock(&session, recipe.path());
        let held = lock.acquire().await.unwrap();
        let acquire = async |lock: AnyLock| lock.acquire().await.unwrap().release().await.unwrap();
        let waiters: Vec<_> = (0..WAITERS).map(|_| tokio::spawn(acquire(lock.clone()))).collect();
        let nodes = recipe.nodes_of_waiters(WAITERS) + recipe.holders_in_queue();
        lab.until_children(recipe.queue(), nodes).await;
        let mut giving_up = pin!(async {
            for _ in 0..ACQUIRES {
                assert!(lock.acquire_within(Duration::ZERO).await.unwrap().is_none());
            }
        });
        let first = giving_up.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(first.is_pending(), "{recipe:?}: other tasks waited for {ACQUIRES} acquires");
        held.release().await.unwrap();
        for waiter in waiters {
            soon("the next waiter", waiter).await.unwrap();
        }
    }
}
