//! Asking a contender to give way, across clients.

use zk_recipes::{Mutex, revoke};

use super::rival::Rival;
use crate::support::{Lab, soon};

const PATH: &str = "/locks/mutex";

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

    revoke(&session, &queue[1].path).await.unwrap();
    waiter.says("revoked").await;
    holder.assert_silent().await;
    revoke(&session, &queue[0].path).await.unwrap();
    holder.says("revoked").await;

    holder.release("mutex", PATH).await;
    waiter.says("acquired").await;
    revoke(&session, &queue[0].path).await.expect("a node that is gone needs no asking");
}
