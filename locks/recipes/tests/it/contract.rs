//! What every recipe promises, run over each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, HoldState, LostReason, Session, SessionConfig};

use crate::support::{Lab, RECIPES, Recipe, soon, until};

/// What an exclusive holder adds to the count of holders. A holder that shares adds 1.
const ALONE: usize = 1000;

// L1
#[tokio::test(flavor = "multi_thread")]
async fn many_contenders_never_hold_together_and_all_get_their_turn() {
    for recipe in RECIPES {
        let lab = Lab::open().await;
        let sessions = [lab.session().await, lab.session().await, lab.session().await];
        let inside = Arc::new(AtomicUsize::new(0));
        let turns = Arc::new(AtomicUsize::new(0));
        let contenders: Vec<_> = (0..24)
            .map(|i| {
                let session = &sessions[i % sessions.len()];
                // Two kinds of contenders, where the recipe has two.
                let shares = recipe.is_shared() && i % 2 == 0;
                let lock =
                    if shares { recipe.lock(session, recipe.path()) } else { recipe.barrier(session, recipe.path()) };
                let weight = if shares { 1 } else { ALONE };
                let inside = Arc::clone(&inside);
                let turns = Arc::clone(&turns);
                tokio::spawn(async move {
                    for _ in 0..5 {
                        let held = lock.acquire().await.unwrap();
                        let others = inside.fetch_add(weight, Ordering::SeqCst);
                        assert!(others == 0 || shares && others < ALONE, "two holders of {recipe:?}");
                        tokio::task::yield_now().await;
                        inside.fetch_sub(weight, Ordering::SeqCst);
                        turns.fetch_add(1, Ordering::SeqCst);
                        held.release().await.unwrap();
                    }
                })
            })
            .collect();
        for contender in contenders {
            soon("a contender's turns", contender).await.unwrap();
        }
        assert_eq!(turns.load(Ordering::SeqCst), 24 * 5);
        assert_eq!(lab.children(recipe.parent()).await, Vec::<String>::new(), "{recipe:?} left a node");
    }
}

// L2
#[tokio::test(flavor = "multi_thread")]
async fn a_fair_lock_is_granted_in_the_order_of_arrival() {
    for recipe in RECIPES.into_iter().filter(|recipe| recipe.is_fair()) {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let held = recipe.barrier(&session, recipe.path()).acquire().await.unwrap();
        let (granted, mut grants) = tokio::sync::mpsc::unbounded_channel();
        for i in 0..10 {
            // Contenders that share alternate with exclusive ones, so that the order can be seen.
            let lock =
                if i % 2 == 0 { recipe.lock(&session, recipe.path()) } else { recipe.barrier(&session, recipe.path()) };
            let granted = granted.clone();
            let mut contending = Box::pin(async move {
                let held = lock.acquire().await.unwrap();
                granted.send(i).unwrap();
                held.release().await.unwrap();
            });
            // Arrived, though it may leave no node to see that by.
            assert!((&mut contending).now_or_never().is_none());
            tokio::spawn(contending);
            let nodes = recipe.holders_in_queue() + recipe.nodes_of_waiters(i + 1);
            lab.until_children(recipe.queue(), nodes).await;
        }
        held.release().await.unwrap();
        for i in 0..10 {
            assert_eq!(soon("the next grant", grants.recv()).await, Some(i), "{recipe:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_acquire_of_a_session_waits_for_the_first_hold() {
    for recipe in RECIPES {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let lock = recipe.lock(&session, recipe.path());
        let held = recipe.barrier(&session, recipe.path()).acquire().await.unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        assert!(lock.acquire_within(Duration::from_millis(100)).await.unwrap().is_none());
        held.release().await.unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
    }
}

// L8
#[tokio::test(flavor = "multi_thread")]
async fn a_try_takes_a_free_lock_and_leaves_a_taken_one_unwritten() {
    for recipe in RECIPES {
        let lab = Lab::open().await;
        let one = lab.session().await;
        let other = lab.session().await;
        let held = recipe.barrier(&one, recipe.path()).try_acquire().await.unwrap().expect("the lock is free");
        let before = other.traffic();
        assert!(recipe.lock(&other, recipe.path()).try_acquire().await.unwrap().is_none());
        let requests = other.traffic().requests - before.requests;
        assert_eq!(requests, recipe.reads_of_a_failed_try(), "{recipe:?} must only read");
        assert_eq!(lab.children(recipe.parent()).await.len(), 1);
        held.release().await.unwrap();
        assert!(recipe.lock(&other, recipe.path()).try_acquire().await.unwrap().is_some());
    }
}

// L6
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_whose_time_is_up_has_left_the_queue() {
    for recipe in RECIPES {
        let lab = Lab::open().await;
        let one = lab.session().await;
        let other = lab.session().await;
        let held = recipe.barrier(&one, recipe.path()).acquire().await.unwrap();
        let waiter = recipe.lock(&other, recipe.path());
        assert!(waiter.acquire_within(Duration::from_millis(200)).await.unwrap().is_none());
        assert_eq!(lab.children(recipe.parent()).await.len(), 1, "{recipe:?}: only the holder's node is left");
        held.release().await.unwrap();
        assert!(waiter.acquire_within(Duration::from_secs(20)).await.unwrap().is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_guard_frees_the_lock() {
    for recipe in RECIPES {
        let lab = Lab::open().await;
        let one = lab.session().await;
        let other = lab.session().await;
        drop(recipe.barrier(&one, recipe.path()).acquire().await.unwrap());
        soon("the lock", recipe.lock(&other, recipe.path()).acquire()).await.unwrap().release().await.unwrap();
        assert_eq!(lab.children(recipe.parent()).await, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_session_frees_its_locks_and_its_holds_know_it() {
    for recipe in RECIPES {
        let lab = Lab::open().await;
        let one = lab.session().await;
        let other = lab.session().await;
        let held = recipe.barrier(&one, recipe.path()).acquire().await.unwrap();
        let waiter = tokio::spawn({
            let lock = recipe.lock(&other, recipe.path());
            async move { lock.acquire().await }
        });
        one.close().await.unwrap();
        assert_eq!(held.state(), HoldState::Lost(LostReason::Closed));
        assert_eq!(soon("the loss", held.lost()).await, LostReason::Closed);
        assert!(matches!(held.run(async {}).await, Err(Error::HoldLost { reason: LostReason::Closed, .. })));
        assert!(matches!(held.release().await, Err(Error::HoldLost { reason: LostReason::Closed, .. })));
        soon("the waiter's grant", waiter).await.unwrap().unwrap().release().await.unwrap();
        let dead = recipe.lock(&one, recipe.path());
        assert!(matches!(dead.acquire().await, Err(Error::SessionEnded { .. })));
        assert!(matches!(dead.try_acquire().await, Err(Error::SessionEnded { .. })));
    }
}

// L9
#[tokio::test(flavor = "multi_thread")]
async fn tokens_grow_in_grant_order_even_if_the_parent_was_deleted() {
    for recipe in RECIPES {
        let lab = Lab::open().await;
        let one = lab.session().await;
        let other = lab.session().await;
        let mut last = None;
        for session in [&one, &other, &one] {
            let held = recipe.lock(session, recipe.path()).acquire().await.unwrap();
            assert!(last < Some(held.token()), "{recipe:?}");
            assert_eq!(held.token().czxid(), stat_czxid(&lab, held.node_path()).await);
            last = Some(held.token());
            held.release().await.unwrap();
            // What the server does with an empty container; the sequence numbers restart.
            lab.raw.delete(recipe.parent(), None).await.unwrap();
        }
    }
}

async fn stat_czxid(lab: &Lab, path: &str) -> i64 {
    lab.raw.check_stat(path).await.unwrap().expect("the hold's node exists").czxid
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_deleted_by_hand_is_reported_at_the_release() {
    for recipe in RECIPES {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let held = recipe.lock(&session, recipe.path()).acquire().await.unwrap();
        lab.raw.delete(held.node_path(), None).await.unwrap();
        let released = held.release().await;
        assert!(matches!(released, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. })), "{released:?}");
    }
}

// L24
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_node_was_deleted_by_hand_is_told() {
    for recipe in [Recipe::Mutex, Recipe::Cohort, Recipe::Read, Recipe::Write, Recipe::Leader] {
        let lab = Lab::open().await;
        let one = lab.session().await;
        let other = lab.session().await;
        let held = recipe.barrier(&one, recipe.path()).acquire().await.unwrap();
        let waiter = tokio::spawn({
            let lock = recipe.lock(&other, recipe.path());
            async move { lock.acquire().await }
        });
        lab.until_children(recipe.parent(), 2).await;
        let children = lab.children(recipe.parent()).await;
        let own =
            children.iter().map(|name| format!("{}/{name}", recipe.parent())).find(|path| path != held.node_path());
        lab.raw.delete(&own.unwrap(), None).await.unwrap();
        held.release().await.unwrap();
        assert!(matches!(soon("the waiter", waiter).await.unwrap(), Err(Error::NodeDeleted { .. })), "{recipe:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_parents_are_created_as_containers() {
    let config = ZooKeeperConfig { container_check_interval: Duration::from_millis(50), ..ZooKeeperConfig::default() };
    let server = ZooKeeper::start(config).await.unwrap();
    let session = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    let raw = zookeeper_client::Client::connect(&server.connect_string()).await.unwrap();
    for recipe in RECIPES {
        recipe.lock(&session, recipe.path()).acquire().await.unwrap().release().await.unwrap();
        until("the containers are gone", async || raw.check_stat("/locks").await.unwrap().is_none()).await;
        // The sequence restarts with the parent, the lock goes on.
        recipe.lock(&session, recipe.path()).acquire().await.unwrap().release().await.unwrap();
    }
}

// L10
#[tokio::test(flavor = "multi_thread")]
async fn grants_timeouts_and_cancelled_waits_leave_no_watch() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let config = SessionConfig::default();
    let one = Session::connect(&server.connect_string(), config.clone()).await.unwrap();
    let other = Session::connect(&server.connect_string(), config.clone()).await.unwrap();
    for recipe in RECIPES {
        let held = recipe.barrier(&one, recipe.path()).acquire().await.unwrap();
        let waiter = recipe.lock(&other, recipe.path());
        for _ in 0..2 {
            assert!(waiter.acquire_within(Duration::from_millis(200)).await.unwrap().is_none());
        }
        let cancelled = tokio::spawn({
            let waiter = waiter.clone();
            async move { waiter.acquire().await }
        });
        // The waiter of a semaphore has had the lease lock twice. Its parent is watched from now on until the lock is dropped.
        let of_waiter = if matches!(recipe, Recipe::Semaphore | Recipe::SemaphoreMutex) { 2 } else { 1 };
        let of_holder = recipe.watches_of_holder();
        let watches = async || server.metric("zk_watch_count").await.unwrap();
        until("the waiter watches", async || watches().await == of_holder + of_waiter).await;
        cancelled.abort();
        drop(waiter);
        until("the watch of the waiter is gone", async || watches().await == of_holder).await;
        held.release().await.unwrap();
        recipe.lock(&other, recipe.path()).acquire().await.unwrap().release().await.unwrap();
        assert_eq!(watches().await, 0, "{recipe:?}");
    }
}
