//! What becomes of nodes that were abandoned, when some of them cannot be deleted.

use std::time::Duration;

use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, Mutex, Session, SessionConfig};
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};

use crate::support::{Lab, RECIPES, soon, until};

/// Creates a parent with which everybody has only this permission; a client of this host may change that.
async fn closed_parent(raw: &Client, path: &str, permission: Permission) {
    let acls = [Acl::new(permission, AuthId::anyone()), Acl::new(Permission::ADMIN, AuthId::new("ip", "127.0.0.1"))];
    raw.create(path, &[], &CreateMode::Persistent.with_acls(Acls::new(&acls))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_the_server_refuses_leaves_nothing() {
    for recipe in RECIPES {
        let lab = Lab::open().await;
        closed_parent(&lab.raw, "/closed", Permission::READ).await;
        let session = lab.session().await;
        for path in ["/closed/lock", "/closed/lock/below"] {
            let refused = recipe.lock(&session, path).acquire().await;
            assert!(
                matches!(refused, Err(Error::NotAuthorized { operation: "create", .. })),
                "{recipe:?}: {refused:?}"
            );
        }
        let before = session.traffic().requests;
        for _ in 0..5 {
            session.ping(Duration::from_secs(30)).await.unwrap();
        }
        assert_eq!(session.traffic().requests, before + 5, "{recipe:?}: the reaper looks for what is not there");
    }
}

// L49
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_be_deleted_yet_keeps_no_other_waiting() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    let config = SessionConfig::default().with_timeout(Duration::from_secs(20));
    let session = Session::connect(&proxy.connect_string(), config).await.unwrap();
    let other = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    closed_parent(&raw, "/hidden", Permission::CREATE | Permission::DELETE).await;
    let held = Mutex::new(&session, "/locks/mutex").unwrap().acquire().await.unwrap();

    // Its reply is lost, and the server does not let us look.
    let created = async || raw.check_stat("/hidden").await.unwrap().unwrap().num_children == 1;
    proxy.swallow_replies();
    let acquiring = tokio::spawn({
        let hidden = Mutex::new(&session, "/hidden").unwrap();
        async move { hidden.acquire().await }
    });
    until("the node is there", created).await;
    proxy.cut();
    let refused = soon("the refusal", acquiring).await.unwrap();
    assert!(matches!(refused, Err(Error::NotAuthorized { operation: "list", .. })), "{refused:?}");

    for _ in 0..20 {
        drop(Mutex::new(&session, "/locks/again").unwrap().acquire().await.unwrap());
    }
    drop(held);
    for path in ["/locks/mutex", "/locks/again"] {
        soon("the lock", Mutex::new(&other, path).unwrap().acquire()).await.unwrap().release().await.unwrap();
    }
    assert!(created().await, "it still cannot be found");
    raw.set_acl("/hidden", &Acls::anyone_all(), None).await.unwrap();
    until("the node is gone", async || !created().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_session_ends_although_one_node_cannot_be_deleted() {
    let lab = Lab::open().await;
    closed_parent(&lab.raw, "/kept", Permission::CREATE).await;
    let session = lab.session().await;
    let refused = Mutex::new(&session, "/kept").unwrap().acquire().await;
    assert!(matches!(refused, Err(Error::NotAuthorized { operation: "list", .. })), "{refused:?}");
    session.ping(Duration::from_secs(30)).await.unwrap();
    drop(session);
    let gone = async || lab.raw.check_stat("/kept").await.unwrap().unwrap().num_children == 0;
    until("the node went with the session", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_release_of_a_runtime_that_ends_is_finished() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let held = Mutex::new(&session, "/refused/mutex").unwrap().acquire().await.unwrap();
    let all_but_delete = Permission::CREATE | Permission::READ | Permission::WRITE | Permission::ADMIN;
    let acls = [Acl::new(all_but_delete, AuthId::anyone())];
    lab.raw.set_acl("/refused/mutex", &Acls::new(&acls), None).await.unwrap();
    let elsewhere = std::thread::spawn(move || {
        let ends = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        ends.block_on(held.release())
    });
    let refused = tokio::task::spawn_blocking(|| elsewhere.join().unwrap()).await.unwrap();
    assert!(matches!(refused, Err(Error::NotAuthorized { operation: "delete", .. })), "{refused:?}");
    drop(Mutex::new(&session, "/other").unwrap().acquire().await.unwrap());
    lab.until_children("/other", 0).await;
    lab.raw.set_acl("/refused/mutex", &Acls::anyone_all(), None).await.unwrap();
    lab.until_children("/refused/mutex", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_an_ended_session_goes_on_once_it_is_dropped() {
    let lab = Lab::open().await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let session = lab.session().await;
    let mutex = Mutex::new(&session, "/mutex").unwrap();
    let held = mutex.acquire().await.unwrap();
    session.close().await.unwrap();
    assert!(matches!(held.release().await, Err(Error::HoldLost { .. })));
    for _ in 0..3 {
        assert!(matches!(mutex.acquire().await, Err(Error::SessionEnded { .. })));
    }
    drop((mutex, session));
    until("all tasks have ended", async || tasks() <= before).await;
}
