//! What the counters say is what the server saw.

use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Session, SessionConfig, Traffic};

use crate::support::{RECIPES, Recipe, soon, until};

#[tokio::test(flavor = "multi_thread")]
async fn each_recipe_has_a_fixed_cost_of_an_uncontended_cycle() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let session = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    // The third time a mutex is watched, so that from the fourth time on nobody need look.
    for (recipe, requests) in [
        (Recipe::Mutex, [3, 4, 2, 2]),
        (Recipe::Cohort, [3, 4, 2, 2]),
        (Recipe::Handoff, [3; 4]),
        (Recipe::Read, [3; 4]),
        (Recipe::Write, [3; 4]),
        (Recipe::SemaphoreMutex, [6, 7, 5, 5]),
        (Recipe::Semaphore, [6, 7, 5, 5]),
        (Recipe::Naive, [2; 4]),
        // As a mutex, and the leader watches its own node. That watch fires at the release.
        (Recipe::Leader, [4, 5, 3, 3]),
    ] {
        let lock = recipe.lock(&session, recipe.path());
        let cycle = async || {
            let before = session.traffic();
            lock.acquire().await.unwrap().release().await.unwrap();
            let requests = session.traffic().requests - before.requests;
            let notified = || session.traffic().notifications - before.notifications == recipe.watches_of_holder();
            until("the watches of the holder have fired, and no other", async || notified()).await;
            requests
        };
        cycle().await;
        for requests in requests {
            assert_eq!(cycle().await, requests, "{recipe:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_counted_are_the_bytes_that_the_server_received() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    // A timeout so long that no ping falls into the measurement.
    let config = SessionConfig::default().with_timeout(std::time::Duration::from_secs(40));
    let session = Session::connect(&server.connect_string(), config).await.unwrap();
    for recipe in RECIPES {
        let lock = recipe.lock(&session, recipe.path());
        lock.acquire().await.unwrap().release().await.unwrap();
        let before = (session.traffic(), server.metric("zk_bytes_received_count").await.unwrap());
        for _ in 0..20 {
            let held = recipe.barrier(&session, recipe.path()).acquire().await.unwrap();
            assert!(lock.try_acquire().await.unwrap().is_none());
            held.release().await.unwrap();
        }
        let counted = session.traffic().bytes_sent - before.0.bytes_sent;
        // The server also counts the command `mntr`, which asks for its counters.
        let received = server.metric("zk_bytes_received_count").await.unwrap() - before.1 - "mntr".len() as u64;
        assert_eq!(counted, received, "{recipe:?}");
    }
}

// L3
#[tokio::test(flavor = "multi_thread")]
async fn a_release_notifies_one_waiter_of_a_queue() {
    const WAITERS: u64 = 12;
    for recipe in [Recipe::Naive, Recipe::Mutex, Recipe::Cohort, Recipe::Write] {
        let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
        let connect = async || Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
        let holder = connect().await;
        let held = recipe.lock(&holder, recipe.path()).acquire().await.unwrap();
        let mut sessions = Vec::new();
        for _ in 0..WAITERS {
            sessions.push(connect().await);
        }
        let (granted, mut grants) = tokio::sync::mpsc::unbounded_channel();
        for session in &sessions {
            let lock = recipe.lock(session, recipe.path());
            let granted = granted.clone();
            tokio::spawn(async move { granted.send(lock.acquire().await.unwrap()) });
        }
        // A waiter of a queue watches its predecessor, all of a fixed node watch that. Each holder waits for the others
        // to watch again, so that the figures are those of a full queue.
        let mut held = held;
        for waiting in (0..=WAITERS).rev() {
            until("all waiters watch", async || server.metric("zk_watch_count").await.unwrap() == waiting).await;
            held.release().await.unwrap();
            if waiting == 0 {
                break;
            }
            held = soon("the next grant", grants.recv()).await.expect("a waiter is granted");
        }
        let total: Traffic = sessions.iter().map(Session::traffic).sum();
        let counted = server.metric("zk_sum_node_deleted_watch_count").await.unwrap();
        assert_eq!(counted, total.notifications, "{recipe:?}: the server and the clients agree");
        let expected = match recipe {
            Recipe::Naive => WAITERS * (WAITERS + 1) / 2,
            _ => WAITERS,
        };
        assert_eq!(total.notifications, expected, "{recipe:?}");
    }
}

/// Returns the traffic until each of `waiters` waiters has held the lock. The waiters belong to `sessions` sessions in turn.
async fn cost(recipe: Recipe, sessions: usize, waiters: u64) -> Traffic {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let mut locks = Vec::new();
    for _ in 0..sessions {
        let session = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
        locks.push((recipe.lock(&session, recipe.path()), session));
    }
    let traffic = || {
        let totals = locks.iter().map(|(_, session)| session.traffic());
        totals.sum::<Traffic>()
    };
    let watched = async |watches| {
        until("all waiters watch", async || server.metric("zk_watch_count").await.unwrap() >= watches).await;
    };
    let mut held = locks[0].0.acquire().await.unwrap();
    let before = traffic();
    let (granted, mut grants) = tokio::sync::mpsc::unbounded_channel();
    for (waiting, (lock, _)) in (0..waiters).zip(locks.iter().cycle().skip(1)) {
        // The first find somebody there, and the others of their session reckon with that.
        watched(waiting).await;
        let lock = lock.clone();
        let granted = granted.clone();
        tokio::spawn(async move { granted.send(lock.acquire().await.unwrap()) });
    }
    for waiting in (0..waiters).rev() {
        watched(waiting + 1).await;
        held.release().await.unwrap();
        held = soon("the next grant", grants.recv()).await.expect("a waiter is granted");
    }
    held.release().await.unwrap();
    traffic().since(before)
}

// L62
#[tokio::test(flavor = "multi_thread")]
async fn a_handoff_costs_the_same_however_many_wait() {
    let (few, many) = tokio::join!(cost(Recipe::Handoff, 2, 5), cost(Recipe::Handoff, 2, 150));
    // The creation, the watch, the note with the own node, the release; and the first look at the note of either session, and
    // the release of the first holder.
    assert_eq!((few.requests, many.requests), (5 * 5 + 3, 150 * 5 + 3));
    assert_eq!((few.notifications, many.notifications), (5, 150));
    let bytes = |cost: Traffic| cost.bytes_sent + cost.bytes_received;
    assert!(bytes(many) / 150 <= bytes(few) / 5, "{few:?} {many:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn most_hand_overs_within_a_session_need_no_listing() {
    let many = cost(Recipe::Mutex, 1, 150).await;
    assert_eq!(many.notifications, 150);
    // One listing each, of half of the contenders on average, would be 4 500 bytes. Those that join at the same moment may
    // miss each other, and list.
    let bytes = (many.bytes_sent + many.bytes_received) / 150;
    assert!(bytes < 3500, "{bytes} bytes a hand-over: {many:?}");
}
