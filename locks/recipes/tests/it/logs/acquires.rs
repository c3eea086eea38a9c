//! The span of an acquire, and the event that ends it.

// L19

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use zk_recipes::{CohortMutex, LockGuard, MultiLock, Mutex, Owner, RwLock, Semaphore};

use super::Log;
use crate::support::{Lab, RECIPES, Recipe, until};

/// Returns the recipe as its span names it.
fn name(recipe: Recipe) -> &'static str {
    match recipe {
        Recipe::Naive => "naive",
        Recipe::Mutex => "mutex",
        Recipe::Handoff => "handoff",
        Recipe::Cohort => "cohort",
        Recipe::Read => "read",
        Recipe::Write => "write",
        Recipe::SemaphoreMutex => "semaphore-mutex",
        Recipe::Semaphore => "semaphore",
        Recipe::Leader => "leader",
    }
}

/// Returns the fields of the `granted` event.
fn grant(held: &LockGuard) -> String {
    format!("granted node=\"{}\" token={}", held.node_path(), held.token())
}

/// Drops an acquire that has to wait.
async fn drop_waiting<T>(acquire: impl Future<Output = T>) {
    let mut acquire = pin!(acquire);
    for _ in 0..3 {
        assert!((&mut acquire).now_or_never().is_none(), "it need not wait");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn every_recipe_has_a_span_an_acquire_and_logs_its_token() {
    for recipe in RECIPES {
        let (log, _guard) = Log::start();
        let lab = Lab::open().await;
        let session = lab.session().await;
        let lock = recipe.lock(&session, recipe.path());
        let held = lock.acquire().await.unwrap();
        let fields =
            format!("acquire{{lock=\"{}\" recipe=\"{}\" session={:#x}", recipe.path(), name(recipe), session.id());
        assert_eq!(log.acquires(), 1, "{recipe:?}");
        log.expect_once(&[&fields, &grant(&held)]);
        log.expect_once(&["granted"]);
        held.release().await.unwrap();
        let held = lock.try_acquire().await.unwrap().expect("nobody is in the way");
        assert_eq!(log.acquires(), 2, "{recipe:?}");
        log.expect_once(&[&fields, &grant(&held)]);
        assert_eq!(log.lines(&["granted"]).len(), 2, "{recipe:?}");
        assert_eq!(log.lines(&["dropped"]).len(), 0, "{recipe:?}");
        held.release().await.unwrap();
        assert_eq!(log.lines(&["dropped"]).len(), 0, "{recipe:?}");
    }
}

#[tokio::test]
async fn every_recipe_logs_once_that_an_acquire_was_given_up() {
    for recipe in RECIPES {
        let (log, _guard) = Log::start();
        let lab = Lab::open().await;
        let session = lab.session().await;
        let lock = recipe.lock(&session, recipe.path());
        let barrier = recipe.barrier(&session, recipe.path());
        let held = barrier.acquire().await.unwrap();
        let span = format!("acquire{{lock=\"{}\" recipe=\"{}\"", recipe.path(), name(recipe));
        assert!(lock.acquire_within(Duration::from_millis(20)).await.unwrap().is_none());
        assert_eq!(log.acquires(), 2, "{recipe:?}");
        log.expect_once(&[&span, "gives up"]);
        assert!(lock.try_acquire().await.unwrap().is_none());
        assert_eq!(log.acquires(), 3, "{recipe:?}");
        assert_eq!(log.lines(&[&span, "gives up"]).len(), 2, "{recipe:?}");
        drop_waiting(lock.acquire()).await;
        assert_eq!(log.acquires(), 4, "{recipe:?}");
        log.expect_once(&[&span, "dropped"]);
        log.expect_once(&["granted"]);
        held.release().await.unwrap();
    }
}

#[tokio::test]
async fn every_recipe_logs_a_dropped_guard_and_its_reaped_node_once() {
    for recipe in RECIPES {
        let (log, _guard) = Log::start();
        let lab = Lab::open().await;
        let session = lab.session().await;
        let held = recipe.lock(&session, recipe.path()).acquire().await.unwrap();
        let lock = format!("lock=\"{}\"", recipe.path());
        let node = format!("node=\"{}\"", held.node_path());
        let token = format!("token={}", held.token());
        drop(held);
        log.expect_once(&["dropped", &lock, &node, &token]);
        until("the node is reaped", async || log.has(&["reaped", &lock, &node])).await;
        log.expect_once(&["dropped"]);
        assert_eq!(log.lines(&["WARN"]), Vec::<String>::new(), "{recipe:?}");
    }
}

#[tokio::test]
async fn each_permit_of_an_acquire_is_logged_in_its_span() {
    let (log, _guard) = Log::start();
    let lab = Lab::open().await;
    let semaphore = Semaphore::new(&lab.session().await, "/logs/semaphore", 3).unwrap();
    let held = semaphore.acquire_many(3).await.unwrap();
    assert_eq!(log.acquires(), 1);
    for guard in held.guards() {
        log.expect_once(&["acquire{lock=\"/logs/semaphore\"", &grant(guard)]);
    }
    assert_eq!(log.lines(&["granted"]).len(), 3);
    held.release().await.unwrap();
}

#[tokio::test]
async fn several_locks_have_one_span_with_a_part_for_each() {
    let (log, _guard) = Log::start();
    let lab = Lab::open().await;
    let session = lab.session().await;
    let id = format!("session={:#x}", session.id());
    let held = MultiLock::from_paths(&session, ["/logs/a", "/logs/b"]).unwrap().acquire().await.unwrap();
    let span = "acquire{lock=[\"/logs/a\", \"/logs/b\"] recipe=\"multi\"";
    assert_eq!(log.acquires(), 1);
    log.expect_once(&[span, &id, "}: ", "all granted"]);
    for (guard, path) in held.guards().iter().zip(["/logs/a", "/logs/b"]) {
        log.expect_once(&[span, &format!(":part{{lock=\"{path}\" recipe=\"mutex\""), &grant(guard)]);
    }
    held.release().await.unwrap();
}

#[tokio::test]
async fn locks_that_are_given_back_or_dropped_are_told_in_their_span() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let taken = Mutex::new(&session, "/logs/b").unwrap().acquire().await.unwrap();
    let locks = MultiLock::from_paths(&session, ["/logs/a", "/logs/b"]).unwrap();
    let mut within = Duration::from_millis(50);
    // On a busy machine, the time may be up before the first lock is granted.
    let (log, _guard) = loop {
        let started = Log::start();
        assert!(locks.acquire_within(within).await.unwrap().is_none());
        if !started.0.lines(&["gives back"]).is_empty() {
            break started;
        }
        within *= 2;
    };
    assert_eq!(log.acquires(), 1);
    let span = "acquire{lock=[\"/logs/a\", \"/logs/b\"]";
    log.expect_once(&[span, "gives back lock=\"/logs/a\" node=\"/logs/a/", "token="]);
    log.expect_once(&[span, ":part{lock=\"/logs/b\"", "gives up"]);
    assert_eq!(log.lines(&[span, "gives up"]).len(), 2, "the part and the whole:\n{}", log.text());
    let mut waiting = Box::pin(locks.acquire());
    let mut polls = waiting.as_mut();
    until("the second lock is waited for", async || {
        assert!(polls.as_mut().now_or_never().is_none());
        lab.children("/logs/b").await.len() == 2
    })
    .await;
    drop(waiting);
    log.expect_once(&[span, "dropped lock=\"/logs/a\" node=\"/logs/a/", "token="]);
    log.expect_once(&[span, ":part{lock=\"/logs/b\"", "dropped"]);
    assert_eq!(log.lines(&[span, "dropped"]).len(), 3, "the hold, the part and the whole:\n{}", log.text());
    taken.release().await.unwrap();
}

#[tokio::test]
async fn an_owner_that_enters_again_has_a_span_and_the_same_token() {
    let (log, _guard) = Log::start();
    let lab = Lab::open().await;
    let mutex = Mutex::new(&lab.session().await, "/logs/owner").unwrap();
    let owner = Owner::new();
    let held = mutex.acquire_as(&owner).await.unwrap();
    let again = mutex.acquire_as(&owner).await.unwrap();
    assert_eq!(log.acquires(), 2);
    assert_eq!(log.lines(&["acquire{lock=\"/logs/owner\"", &grant(&held)]).len(), 2);
    again.release().await.unwrap();
    held.release().await.unwrap();
}

#[tokio::test]
async fn an_owner_that_waits_for_its_own_acquire_has_a_span() {
    let (log, _guard) = Log::start();
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mutex = Mutex::new(&session, "/logs/owner").unwrap();
    let owner = Owner::new();
    let taken = mutex.acquire().await.unwrap();
    let mut first = pin!(mutex.acquire_as(&owner));
    assert!((&mut first).now_or_never().is_none());
    assert!(mutex.acquire_within_as(&owner, Duration::from_millis(20)).await.unwrap().is_none());
    assert_eq!(log.acquires(), 3);
    log.expect_once(&["acquire{lock=\"/logs/owner\"", "gives up"]);
    taken.release().await.unwrap();
    first.await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_waiter_has_one_span_from_its_place_to_its_grant_or_its_end() {
    let (log, _guard) = Log::start();
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = RwLock::new(&session, "/logs/waiter").unwrap().write_lock();
    let waiter = lock.enqueue().await.unwrap();
    let held = waiter.granted().await.unwrap();
    assert_eq!(log.acquires(), 1);
    let node = format!("node=\"{}\"", held.node_path());
    log.expect_once(&["acquire{lock=\"/logs/waiter\" recipe=\"write\"", &node, &grant(&held)]);
    let waiter = lock.enqueue().await.unwrap();
    let node = format!("node=\"{}\"}}", waiter.node_path());
    drop(waiter);
    assert_eq!(log.acquires(), 2);
    log.expect_once(&["acquire{lock=\"/logs/waiter\"", &node, "dropped"]);
    held.release().await.unwrap();
}

#[tokio::test]
async fn members_of_a_cohort_log_their_grants_with_the_hand_over() {
    let (log, _guard) = Log::start();
    let lab = Lab::open().await;
    let lock = CohortMutex::new(&lab.session().await, "/logs/cohort").unwrap();
    let held = lock.with_max_tenure(Duration::from_secs(3_600));
    let lock = held.clone();
    let held = held.acquire().await.unwrap();
    let mut next = pin!(lock.acquire());
    assert!((&mut next).now_or_never().is_none());
    held.release().await.unwrap();
    let held = next.await.unwrap();
    assert_eq!(held.token().handover(), 1);
    assert_eq!(log.acquires(), 2);
    log.expect_once(&["acquire{lock=\"/logs/cohort\" recipe=\"cohort\"", &grant(&held), ".1"]);
    held.release().await.unwrap();
    assert_eq!(log.lines(&["dropped"]).len(), 0, "{}", log.text());
}

#[tokio::test]
async fn an_acquire_that_fails_logs_its_error() {
    let (log, _guard) = Log::start();
    let lab = Lab::open().await;
    let session = lab.session().await;
    session.close().await.unwrap();
    for recipe in RECIPES {
        let lock = format!("acquire{{lock=\"{}\"", recipe.path());
        recipe.lock(&session, recipe.path()).acquire().await.unwrap_err();
        log.expect_once(&[&lock, "fails", "error=\"the ZooKeeper session has ended"]);
    }
}
