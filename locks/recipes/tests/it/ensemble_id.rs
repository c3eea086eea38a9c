//! The identity of an ensemble.

use futures_util::future::join_all;
use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, Session, SessionConfig, SharedCount};

use crate::support::Lab;

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_ask_at_once_read_one_identity() {
    let lab = Lab::open().await;
    let sessions = join_all((0..8).map(|_| lab.session())).await;
    let ids = join_all(sessions.iter().map(|session| session.ensemble_id("/shop/ensemble"))).await;
    let ids: Vec<_> = ids.into_iter().map(Result::unwrap).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let other = Lab::open().await;
    assert_ne!(other.session().await.ensemble_id("/shop/ensemble").await.unwrap(), ids[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_server_has_its_identity() {
    let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let session = Session::connect(&zookeeper.connect_string(), SessionConfig::default()).await.unwrap();
    let id = session.ensemble_id("/ensemble").await.unwrap();
    let copy = zookeeper.copy().await.unwrap();
    let session = Session::connect(&copy.connect_string(), SessionConfig::default()).await.unwrap();
    assert_eq!(session.ensemble_id("/ensemble").await.unwrap(), id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_used_for_something_else_is_named() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    SharedCount::new(&session, "/count", 3).unwrap().get().await.unwrap();
    let error = session.ensemble_id("/count").await.unwrap_err();
    assert!(matches!(error, Error::NotAnEnsembleId { length: 4, .. }), "{error:?}");
    assert!(error.to_string().contains("/count"), "{error}");
}
