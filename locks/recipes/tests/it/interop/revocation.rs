//! Asking a contender to give way, across clients.

use std::time::Duration;

use tokio::time::timeout;
use zk_recipes::{Mutex, Session, revoke};

use super::rival::Rival;
use crate::support::{Lab, soon};

const PATH: &str = "/locks/mutex";
/// What a contender of Curator says when it was asked.
const REVOKED: &str = "revoked";
/// How long it may take to say so before it is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn curator_s_revoker_asks_our_holder_and_our_waiter() {
    let lab = Lab::open().await;
    let lock = Mutex::new(&lab.session().await, PATH).unwrap();
    let mut curator = Rival::curator(&lab).await;
    let held = lock.acquire().await.unwrap();
    let waiter = lock.enqueue().await.unwrap();

    let asked = waiter.revocation();
    curator.request(&format!("revoke {}", waiter.node_path()), "asked").await;
    soon("the waiter being asked", asked.requested()).await.unwrap();
    let granted = tokio::spawn(waiter.granted());

    let asked = held.revocation();
    curator.request(&format!("revoke {}", held.node_path()), "asked").await;
    soon("the holder being asked", asked.requested()).await.unwrap();
    held.release().await.unwrap();
    let held = soon("the grant to a waiter that was asked, and stayed", granted).await.unwrap().unwrap();
    soon("the request, which stays", held.revocation().requested()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn we_ask_curator_s_holder_and_its_waiter() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = Mutex::new(&session, PATH).unwrap();
    let mut holder = Rival::curator(&lab).await;
    let mut waiter = Rival::curator(&lab).await;
    for (curator, count) in [(&mut holder, 1), (&mut waiter, 2)] {
        curator.request(&format!("revocable mutex {PATH}"), "armed").await;
        curator.queue("mutex", PATH).await;
        lab.until_children(PATH, count).await;
    }
    holder.says("acquired").await;
    let queue = lock.participants().await.unwrap();

    until_revoked(&session, &queue[1].path, &mut waiter).await;
    holder.assert_silent().await;
    revoke(&session, &queue[0].path).await.unwrap();
    holder.says(REVOKED).await;

    holder.release("mutex", PATH).await;
    let mut told = waiter.answer().await;
    while told == REVOKED {
        told = waiter.answer().await;
    }
    assert_eq!(told, "acquired");
    revoke(&session, &queue[0].path).await.expect("a node that is gone needs no asking");
}

/// Asks a waiter of Curator until it says so. It watches its node a moment after it has made it, and passes over what came before. It may
/// say so again.
async fn until_revoked(session: &Session, path: &str, waiter: &mut Rival) {
    let asked = async {
        loop {
            revoke(session, path).await.unwrap();
            if let Ok(told) = timeout(ASK_AGAIN, waiter.answer()).await {
                return told;
            }
        }
    };
    assert_eq!(soon("the waiter being asked", asked).await, REVOKED);
}
