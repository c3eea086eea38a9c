//! Asking for a lock back.

// L16

mod naive;

use std::time::Duration;

use zk_recipes::{Error, revoke};

use crate::support::{Lab, RECIPES, Recipe, soon};

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_of_any_recipe_is_asked_and_yields_to_the_next() {
    for recipe in RECIPES {
        let lab = Lab::open().await;
        let one = lab.session().await;
        let other = lab.session().await;
        let held = recipe.lock(&one, recipe.path()).acquire().await.unwrap();
        let path = held.node_path().to_owned();
        let yielding = tokio::spawn(async move {
            held.revocation().requested().await.unwrap();
            held.release().await
        });
        revoke(&other, &path).await.unwrap();
        soon("the holder to yield", yielding).await.unwrap().unwrap();
        let next = soon("the next holder", recipe.barrier(&other, recipe.path()).acquire()).await.unwrap();
        next.release().await.unwrap();
        assert_eq!(lab.children(recipe.parent()).await, Vec::<String>::new(), "{recipe:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_may_listen_before_or_after_it_is_asked() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let held = Recipe::Mutex.lock(&session, "/locks/mutex").acquire().await.unwrap();
    revoke(&session, held.node_path()).await.unwrap();
    soon("the request", held.revocation().requested()).await.unwrap();
    soon("the request, again", held.revocation().requested()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_asked_too_and_yields_its_place() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mutex = zk_recipes::Mutex::new(&session, "/locks/mutex").unwrap();
    let held = mutex.acquire().await.unwrap();
    let waiter = mutex.enqueue().await.unwrap();
    let path = waiter.node_path().to_owned();
    let revocation = waiter.revocation();
    let waiting = tokio::spawn(async move {
        tokio::select! {
            held = waiter.granted() => Some(held),
            asked = revocation.requested() => { asked.unwrap(); None }
        }
    });
    revoke(&session, &path).await.unwrap();
    assert!(soon("the waiter to yield", waiting).await.unwrap().is_none());
    lab.until_children("/locks/mutex", 1).await;
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_ends_with_its_hold_and_the_next_can_be_asked() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = Recipe::Mutex.lock(&session, "/locks/mutex");
    let first = lock.acquire().await.unwrap();
    let revocation = first.revocation();
    revoke(&session, first.node_path()).await.unwrap();
    revocation.requested().await.unwrap();
    first.release().await.unwrap();
    assert!(matches!(revocation.requested().await, Err(Error::NodeDeleted { .. })));
    let second = lock.acquire().await.unwrap();
    let unasked = tokio::time::timeout(Duration::from_millis(100), second.revocation().requested()).await;
    assert!(unasked.is_err(), "nobody has asked for this hold yet");
    revoke(&session, second.node_path()).await.unwrap();
    soon("the second request", second.revocation().requested()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn other_data_on_the_node_is_no_request() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let held = Recipe::Mutex.lock(&session, "/locks/mutex").acquire().await.unwrap();
    lab.raw.set_data(held.node_path(), b"unlock", None).await.unwrap();
    let unasked = tokio::time::timeout(Duration::from_millis(100), held.revocation().requested()).await;
    assert!(unasked.is_err(), "that is what ZooKeeper's own description of the recipe writes, not Curator");
    let listening = tokio::spawn({
        let revocation = held.revocation();
        async move { revocation.requested().await }
    });
    lab.raw.set_data(held.node_path(), b"__REVOKE__", None).await.unwrap();
    soon("the request", listening).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_a_node_that_is_gone_is_no_error_and_a_bad_path_is() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    revoke(&session, "/locks/mutex/_c_x-lock-0000000000").await.unwrap();
    assert!(matches!(revoke(&session, "locks").await, Err(Error::InvalidPath { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_tells_of_its_own_node_only() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let lock = |session| zk_recipes::HandoffMutex::new(session, "/locks/handoff").unwrap();
    let held = lock(&one).acquire().await.unwrap();
    let path = held.node_path().to_owned();
    let revocation = held.revocation();
    held.release().await.unwrap();
    lab.raw.delete("/locks/handoff", None).await.unwrap();
    let held = lock(&other).acquire().await.unwrap();
    assert_eq!(held.node_path(), path);
    revoke(&one, &path).await.unwrap();
    let answer = soon("an answer", revocation.requested()).await;
    assert!(matches!(answer, Err(Error::NodeDeleted { .. })), "{answer:?}");
    held.release().await.unwrap();
}
