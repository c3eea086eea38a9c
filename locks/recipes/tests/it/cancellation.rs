//! The cancellation tokens of holds: when they are cancelled, and that they keep nothing.

// L18

use std::time::Duration;

use futures_util::FutureExt;
use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;
use zk_recipes::{
    CohortMutex, ConnectionState, HoldState, LostReason, MultiGuard, MultiLock, Mutex, Owner, Session, SessionConfig,
};

use crate::support::{Lab, RECIPES, soon};

async fn until_cancelled(token: &CancellationToken) {
    soon("the token", token.cancelled()).await;
}

#[tokio::test]
async fn a_release_or_a_drop_cancels_the_token_at_once() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    for recipe in RECIPES {
        let lock = recipe.lock(&session, recipe.path());
        for is_released in [true, false] {
            let held = lock.acquire().await.unwrap();
            let token = held.cancellation_token();
            assert!(!token.is_cancelled(), "{recipe:?}");
            match is_released {
                // The first poll sends the request, and nothing else runs meanwhile.
                true => assert!(held.release().now_or_never().is_none(), "{recipe:?}"),
                false => drop(held),
            }
            assert!(token.is_cancelled(), "{recipe:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_cancels_the_token() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let session = Session::connect(&proxy.connect_string(), SessionConfig::default()).await.unwrap();
    let held = Mutex::new(&session, "/locks/a").unwrap().acquire().await.unwrap();
    let token = held.cancellation_token();
    proxy.blackhole();
    until_cancelled(&token).await;
    assert_eq!(held.state(), HoldState::Lost(LostReason::Silence));
    assert!(held.cancellation_token().is_cancelled(), "it was lost before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_term_whose_node_is_deleted_cancels_its_token() {
    let lab = Lab::open().await;
    let term = zk_recipes::LeaderLatch::new(&lab.session().await, "/leaders/a").unwrap().lead().await.unwrap();
    let token = term.cancellation_token();
    lab.raw.delete(term.node_path(), None).await.unwrap();
    until_cancelled(&token).await;
    assert_eq!(term.state(), HoldState::Lost(LostReason::NodeDeleted));
}

#[tokio::test]
async fn a_caller_that_cancels_its_token_cancels_no_other() {
    let lab = Lab::open().await;
    let held = Mutex::new(&lab.session().await, "/locks/a").unwrap().acquire().await.unwrap();
    let ours = held.cancellation_token();
    let theirs = held.cancellation_token();
    ours.cancel();
    assert!(!theirs.is_cancelled() && !held.cancellation_token().is_cancelled());
    held.release().await.unwrap();
    assert!(theirs.is_cancelled());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_keeps_neither_the_lock_nor_the_session() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mut states = session.states();
    let held = Mutex::new(&session, "/locks/a").unwrap().acquire().await.unwrap();
    let token = held.cancellation_token();
    drop(session);
    drop(held);
    assert_eq!(soon("the end", states.changed()).await, Some(ConnectionState::Lost(LostReason::Closed)));
    assert!(token.is_cancelled());
    lab.until_children("/locks/a", 0).await;
}

#[tokio::test]
async fn a_hand_over_cancels_the_token_of_the_last_holder_only() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = CohortMutex::new(&session, "/locks/cohort").unwrap().with_max_tenure(Duration::from_secs(3_600));
    let held = lock.acquire().await.unwrap();
    let token = held.cancellation_token();
    let mut next = Box::pin(lock.acquire());
    assert!((&mut next).now_or_never().is_none(), "it need not wait");
    held.release().await.unwrap();
    assert!(token.is_cancelled());
    let held = soon("the next holder", next).await.unwrap();
    let token = held.cancellation_token();
    assert_eq!((held.token().handover(), token.is_cancelled()), (1, false));
    held.release().await.unwrap();
    assert!(token.is_cancelled());
}

#[tokio::test]
async fn the_last_guard_of_an_owner_cancels_the_token() {
    let lab = Lab::open().await;
    let mutex = Mutex::new(&lab.session().await, "/locks/mutex").unwrap();
    let owner = Owner::new();
    let outer = mutex.acquire_as(&owner).await.unwrap();
    let inner = mutex.acquire_as(&owner).await.unwrap();
    let tokens = [outer.cancellation_token(), inner.cancellation_token()];
    outer.release().await.unwrap();
    assert!(!tokens.iter().any(CancellationToken::is_cancelled));
    drop(inner);
    assert!(tokens.iter().all(CancellationToken::is_cancelled));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_several_holds_is_cancelled_with_the_first() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let locks = MultiLock::from_paths(&session, ["/locks/a", "/locks/b"]).unwrap();
    for is_released in [true, false] {
        let held = locks.acquire().await.unwrap();
        let token = held.cancellation_token();
        assert!(!token.is_cancelled());
        match is_released {
            true => held.release().await.unwrap(),
            false => drop(held),
        }
        assert!(token.is_cancelled());
    }
    // A guard that is split ends with the first of its holds.
    let held = locks.acquire().await.unwrap();
    let token = held.cancellation_token();
    let mut guards = held.into_guards();
    assert!(!token.is_cancelled());
    guards.pop().unwrap().release().await.unwrap();
    until_cancelled(&token).await;
    drop(guards);
    // The holds of two sessions as one.
    let one = Mutex::new(&session, "/locks/a").unwrap().acquire().await.unwrap();
    let two = Mutex::new(&other, "/locks/b").unwrap().acquire().await.unwrap();
    let held: MultiGuard = [one, two].into_iter().collect();
    let token = held.cancellation_token();
    other.close().await.unwrap();
    until_cancelled(&token).await;
    assert!(!MultiGuard::from_iter([]).cancellation_token().is_cancelled());
}

#[test]
fn the_end_of_the_session_s_runtime_cancels_the_token() {
    let runtime = || Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let home = runtime();
    let elsewhere = runtime();
    let lab = elsewhere.block_on(Lab::open());
    let session = home.block_on(lab.session());
    let held = elsewhere.block_on(Mutex::new(&session, "/locks/a").unwrap().acquire()).unwrap();
    let token = held.cancellation_token();
    assert!(!token.is_cancelled());
    home.shutdown_background();
    elsewhere.block_on(until_cancelled(&token));
    // The tasks of the runtime end one by one: that which cancels the token may end before the one that ends the session.
    assert_eq!(elsewhere.block_on(held.lost()), LostReason::RuntimeEnded);
    assert!(held.cancellation_token().is_cancelled(), "no task can tell the loss any more");
    elsewhere.block_on(async move { drop((lab, held, session)) });
}
