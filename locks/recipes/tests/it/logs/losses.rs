//! Losses: one warning each, wherever they are found.

// L20

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use zk_recipes::{CohortMutex, Error, LockGuard, LostReason, MultiLock, Mutex, Owner, RwLock, Semaphore};

use super::Log;
use crate::handover::faults::delete_all;
use crate::handover::{FIRST, until_it_follows};
use crate::support::{Lab, RECIPES, until};

/// Returns the fields of the warning that a hold is lost.
fn loss(lock: &str, held: &LockGuard, reason: &str) -> String {
    let node = held.node_path();
    let token = held.token();
    format!("the hold is lost lock=\"{lock}\" node=\"{node}\" token={token} reason={reason}")
}

#[tokio::test]
async fn a_loss_that_a_release_finds_is_warned_of_once() {
    for recipe in RECIPES {
        let (log, _guard) = Log::start();
        let lab = Lab::open().await;
        let session = lab.session().await;
        let held = recipe.lock(&session, recipe.path()).acquire().await.unwrap();
        let expected = loss(recipe.path(), &held, "NodeDeleted");
        lab.raw.delete(held.node_path(), None).await.unwrap();
        let released = held.release().await;
        assert!(matches!(released, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. })), "{released:?}");
        session.close().await.unwrap();
        log.expect_once(&["WARN", &expected]);
        log.expect_once(&["WARN"]);
        assert_eq!(log.lines(&["dropped"]).len(), 0, "{recipe:?}");
    }
}

#[tokio::test]
async fn a_loss_that_the_reaper_finds_after_a_drop_is_warned_of_once() {
    for recipe in RECIPES {
        let (log, _guard) = Log::start();
        let lab = Lab::open().await;
        let session = lab.session().await;
        let held = recipe.lock(&session, recipe.path()).acquire().await.unwrap();
        let expected = loss(recipe.path(), &held, "NodeDeleted");
        lab.raw.delete(held.node_path(), None).await.unwrap();
        drop(held);
        until("the loss is logged", async || log.has(&["WARN", &expected])).await;
        session.close().await.unwrap();
        log.expect_once(&["WARN"]);
    }
}

#[tokio::test]
async fn a_loss_with_the_session_is_warned_of_once_for_each_hold() {
    for recipe in RECIPES {
        let (log, _guard) = Log::start();
        let lab = Lab::open().await;
        let session = lab.session().await;
        let second = format!("{}-b", recipe.path());
        let released = recipe.lock(&session, recipe.path()).acquire().await.unwrap();
        let dropped = recipe.lock(&session, &second).acquire().await.unwrap();
        session.close().await.unwrap();
        log.expect_once(&["WARN", &loss(recipe.path(), &released, "Closed")]);
        log.expect_once(&["WARN", &loss(&second, &dropped, "Closed")]);
        assert!(matches!(released.release().await, Err(Error::HoldLost { .. })));
        drop(dropped);
        assert_eq!(log.lines(&["WARN"]).len(), 2, "{recipe:?}");
    }
}

#[tokio::test]
async fn a_hold_that_lingers_is_not_warned_of_until_it_is_taken_again() {
    for is_taken in [false, true] {
        let (log, _guard) = Log::start();
        let lab = Lab::open().await;
        let session = lab.session().await;
        let lock = CohortMutex::new(&session, "/locks/cohort").unwrap().with_linger(Duration::from_secs(3_600));
        lock.acquire().await.unwrap().release().await.unwrap();
        let held = if is_taken { Some(lock.acquire().await.unwrap()) } else { None };
        session.close().await.unwrap();
        held.iter().for_each(|held| log.expect_once(&["WARN", &loss("/locks/cohort", held, "Closed")]));
        assert_eq!(log.lines(&["WARN"]).len(), usize::from(is_taken));
    }
}

#[tokio::test]
async fn a_hold_that_was_given_back_is_not_warned_of() {
    for recipe in RECIPES {
        let (log, _guard) = Log::start();
        let lab = Lab::open().await;
        let session = lab.session().await;
        let lock = recipe.lock(&session, recipe.path());
        lock.acquire().await.unwrap().release().await.unwrap();
        drop(lock.acquire().await.unwrap());
        session.close().await.unwrap();
        assert_eq!(log.lines(&["the hold is lost"]).len(), 0, "{recipe:?}: {}", log.text());
    }
}

#[tokio::test]
async fn a_deleted_cohort_node_is_warned_of_with_its_holder_s_token() {
    let (log, _guard) = Log::start();
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = CohortMutex::new(&session, "/logs/cohort").unwrap().with_max_handovers(1);
    let held = lock.acquire().await.unwrap();
    let mut second = pin!(lock.acquire());
    assert!((&mut second).now_or_never().is_none());
    held.release().await.unwrap();
    let held = second.await.unwrap();
    let mut third = pin!(lock.acquire());
    assert!((&mut third).now_or_never().is_none());
    assert_eq!(held.token().handover(), 1);
    let expected = loss("/logs/cohort", &held, "NodeDeleted");
    lab.raw.delete(held.node_path(), None).await.unwrap();
    assert!(matches!(held.release().await, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. })));
    let held = third.await.unwrap();
    log.expect_once(&["WARN", &expected]);
    held.release().await.unwrap();
    session.close().await.unwrap();
    log.expect_once(&["WARN"]);
}

#[tokio::test]
async fn a_handed_over_hold_is_lost_under_its_last_holder_s_token() {
    let (log, _guard) = Log::start();
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = CohortMutex::new(&session, "/logs/cohort").unwrap().with_max_tenure(Duration::from_secs(3_600));
    let held = lock.acquire().await.unwrap();
    let mut next = pin!(lock.acquire());
    assert!((&mut next).now_or_never().is_none());
    held.release().await.unwrap();
    let held = next.await.unwrap();
    session.close().await.unwrap();
    log.expect_once(&["WARN", &loss("/logs/cohort", &held, "Closed"), ".1 reason"]);
    log.expect_once(&["WARN"]);
}

#[tokio::test]
async fn the_loss_of_a_passed_on_hold_is_warned_of_once() {
    const PATH: &str = "/logs/handover";
    let (log, _guard) = Log::start();
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mutex = Mutex::new(&session, PATH).unwrap();
    let held = mutex.acquire().await.unwrap();
    let mut next = pin!(mutex.acquire());
    until_it_follows(&session, FIRST, next.as_mut()).await;
    delete_all(&lab, PATH).await;
    let first = loss(PATH, &held, "NodeDeleted");
    let mut releasing = pin!(held.release());
    assert!((&mut releasing).now_or_never().is_none());
    let next = next.now_or_never().expect("the hold was passed on").unwrap();
    let second = loss(PATH, &next, "NodeDeleted");
    assert!(matches!(releasing.await, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. })));
    next.lost().await;
    assert!(matches!(next.release().await, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. })));
    session.close().await.unwrap();
    log.expect_once(&["WARN", &first]);
    log.expect_once(&["WARN", &second]);
    assert_eq!(log.lines(&["WARN"]).len(), 2, "{}", log.text());
}

#[tokio::test]
async fn each_permit_and_each_lock_of_several_is_warned_of_once() {
    let (log, _guard) = Log::start();
    let lab = Lab::open().await;
    let session = lab.session().await;
    let permits = Semaphore::new(&session, "/logs/permits", 2).unwrap().acquire_many(2).await.unwrap();
    let locks = MultiLock::from_paths(&session, ["/logs/a", "/logs/b"]).unwrap().acquire().await.unwrap();
    let permit = &permits.guards()[0];
    let expected = loss("/logs/permits", permit, "NodeDeleted");
    lab.raw.delete(permit.node_path(), None).await.unwrap();
    assert!(matches!(permits.release().await, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. })));
    log.expect_once(&["WARN", &expected]);
    log.expect_once(&["WARN"]);
    session.close().await.unwrap();
    for (guard, path) in locks.guards().iter().zip(["/logs/a", "/logs/b"]) {
        log.expect_once(&["WARN", &loss(path, guard, "Closed")]);
    }
    assert!(matches!(locks.release().await, Err(Error::Several { .. })));
    assert_eq!(log.lines(&["WARN"]).len(), 3);
}

#[tokio::test]
async fn guards_of_one_hold_are_warned_of_once_and_readers_apart() {
    let (log, _guard) = Log::start();
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = RwLock::new(&session, "/logs/owner").unwrap();
    let owner = Owner::new();
    let writing = lock.write_lock().acquire_as(&owner).await.unwrap();
    let again = lock.write_lock().acquire_as(&owner).await.unwrap();
    let reading = lock.read_lock().acquire_as(&owner).await.unwrap();
    session.close().await.unwrap();
    log.expect_once(&["WARN", &loss("/logs/owner", &writing, "Closed")]);
    log.expect_once(&["WARN", &loss("/logs/owner", &reading, "Closed")]);
    drop((writing, again, reading));
    assert_eq!(log.lines(&["WARN"]).len(), 2);
}
