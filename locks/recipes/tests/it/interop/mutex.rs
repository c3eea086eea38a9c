//! Mutexes.

// L23

use std::time::Duration;

use zk_recipes::{CohortMutex, HandoffMutex, Mutex};

use super::exclusion::Pair;
use super::kazoo_session;
use super::rival::Rival;
use crate::support::{Lab, soon, until};

const PATH: &str = "/locks/mutex";

#[tokio::test(flavor = "multi_thread")]
async fn our_mutex_and_curator_s_exclude_each_other() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mut curator = Rival::curator(&lab).await;
    let pair = Pair::new(Mutex::new(&session, PATH).unwrap(), "mutex", PATH);
    pair.assert_exclusion(&lab, &mut curator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_cohort_and_curator_s_mutex_exclude_each_other() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mut curator = Rival::curator(&lab).await;
    let pair = Pair::new(CohortMutex::new(&session, PATH).unwrap(), "mutex", PATH);
    pair.assert_exclusion(&lab, &mut curator).await;
}

// L73
#[tokio::test(flavor = "multi_thread")]
async fn curator_s_mutex_gets_the_lock_from_a_lingering_cohort() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mut curator = Rival::curator(&lab).await;
    let lock = CohortMutex::new(&session, PATH).unwrap().with_linger(Duration::from_secs(3_600));
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
        let before = session.traffic();
        curator.acquire("mutex", PATH).await;
        let spent = || session.traffic().since(before);
        // The second notification is of the deletion.
        until("one deletion", async || spent().requests == 1 && spent().notifications == 2).await;
        let held = lock.participants().await.unwrap();
        assert!(held.len() == 1 && held[0].session != session.id(), "{held:?}");
        let mut waiting = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await }
        });
        lab.until_children(PATH, 2).await;
        curator.release("mutex", PATH).await;
        soon("our turn", &mut waiting).await.unwrap().unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_mutex_excludes_a_kazoo_lock_with_curator_s_names() {
    let lab = Lab::open().await;
    let session = kazoo_session(&lab).await;
    let mut kazoo = Rival::kazoo(&lab).await;
    let pair = Pair::new(Mutex::new(&session, PATH).unwrap(), "mutex", PATH);
    pair.assert_exclusion(&lab, &mut kazoo).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_mutex_with_the_kazoo_option_excludes_kazoo_s_own_lock() {
    let lab = Lab::open().await;
    let session = kazoo_session(&lab).await;
    let mut kazoo = Rival::kazoo(&lab).await;
    let ours = Mutex::new(&session, PATH).unwrap().with_kazoo();
    Pair::new(ours, "kazoo-lock", PATH).assert_exclusion(&lab, &mut kazoo).await;
}

// L63
#[tokio::test(flavor = "multi_thread")]
async fn our_handoff_mutex_and_curator_s_mutex_exclude_each_other() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mut curator = Rival::curator(&lab).await;
    let pair = Pair::new(HandoffMutex::new(&session, PATH).unwrap(), "mutex", PATH);
    pair.assert_exclusion(&lab, &mut curator).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_handoff_mutex_excludes_a_kazoo_lock_with_curator_s_names() {
    let lab = Lab::open().await;
    let session = kazoo_session(&lab).await;
    let mut kazoo = Rival::kazoo(&lab).await;
    let pair = Pair::new(HandoffMutex::new(&session, PATH).unwrap(), "mutex", PATH);
    pair.assert_exclusion(&lab, &mut kazoo).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_handoff_mutex_with_the_option_excludes_kazoo_s_lock() {
    let lab = Lab::open().await;
    let session = kazoo_session(&lab).await;
    let mut kazoo = Rival::kazoo(&lab).await;
    let ours = HandoffMutex::new(&session, PATH).unwrap().with_kazoo();
    Pair::new(ours, "kazoo-lock", PATH).assert_exclusion(&lab, &mut kazoo).await;
}
