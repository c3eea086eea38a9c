//! The access control lists of a lock's nodes, and the modes of the nodes.

use std::time::Duration;

use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Acl, Auth, Error, Mutex, Parents, Permissions, RwLock, Semaphore, Session, SessionConfig};
use zookeeper_client::{Acl as RawAcl, AuthId, Client, Permission};

use crate::support::{Lab, RECIPES, Recipe, soon, until};

async fn connect(lab: &Lab, config: SessionConfig) -> Session {
    Session::connect(lab.connect_string(), config).await.unwrap()
}

fn shop() -> SessionConfig {
    SessionConfig::default().with_auth(Auth::digest("shop", "secret")).with_acl(Acl::creator())
}

async fn acl_of(lab: &Lab, path: &str) -> Vec<(Permission, String, String)> {
    let entries = lab.raw.get_acl(path).await.unwrap().0;
    entries.iter().map(|entry| (entry.permission(), entry.scheme().to_owned(), entry.id().to_owned())).collect()
}

// L22
#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_and_parents_of_every_recipe_have_the_session_s_acl() {
    for recipe in RECIPES {
        let lab = Lab::open().await;
        let acl = Acl::of("ip", "127.0.0.1", Permissions::ALL);
        let session = connect(&lab, SessionConfig::default().with_acl(acl)).await;
        let held = recipe.lock(&session, recipe.path()).acquire().await.unwrap();
        let expected = vec![(Permission::ALL, "ip".to_owned(), "127.0.0.1".to_owned())];
        for path in ["/locks", recipe.parent(), held.node_path()] {
            assert_eq!(acl_of(&lab, path).await, expected, "{path}");
        }
    }
}

// L22
#[tokio::test(flavor = "multi_thread")]
async fn a_parent_and_a_leaf_get_each_their_own_acl() {
    let lab = Lab::open().await;
    let narrow = Acl::of("world", "anyone", Permissions::CREATE | Permissions::READ);
    let session = connect(&lab, SessionConfig::default().with_acl_of("/parent", narrow)).await;
    let held = RwLock::new(&session, "/parent/lock").unwrap().write_lock().acquire().await.unwrap();
    let anyone = |permission| vec![(permission, "world".to_owned(), "anyone".to_owned())];
    assert_eq!(acl_of(&lab, "/parent").await, anyone(Permission::CREATE | Permission::READ));
    assert_eq!(acl_of(&lab, "/parent/lock").await, anyone(Permission::ALL));
    assert_eq!(acl_of(&lab, held.node_path()).await, anyone(Permission::ALL));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acl_for_an_impossible_path_is_refused_before_any_request() {
    let lab = Lab::open().await;
    for path in ["/shop/", "shop", "/", ""] {
        let config = shop().with_acl_of("/good", Acl::open()).with_acl_of(path, Acl::creator());
        let refused = Session::connect(lab.connect_string(), config).await;
        assert!(matches!(&refused, Err(Error::InvalidPath { path: refused, .. }) if refused == path), "{refused:?}");
    }
}

// L22
#[tokio::test(flavor = "multi_thread")]
async fn a_naive_lock_has_the_acl_of_its_path_and_not_the_session_s() {
    let lab = Lab::open().await;
    let local = || Acl::of("ip", "127.0.0.1", Permissions::ALL);
    let config = SessionConfig::default().with_acl_of("/locks/naive", local()).with_acl_of("/locks/mutex", local());
    let session = connect(&lab, config).await;
    let naive = Recipe::Naive.lock(&session, "/locks/naive").acquire().await.unwrap();
    let mutex = Recipe::Mutex.lock(&session, "/locks/mutex").acquire().await.unwrap();
    for (path, scheme) in [(naive.node_path(), "ip"), ("/locks/mutex", "ip"), (mutex.node_path(), "world")] {
        assert_eq!(acl_of(&lab, path).await[0].1, scheme, "{path}");
    }
}

// L22
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_one_user_is_closed_to_others() {
    let lab = Lab::open().await;
    let mine = connect(&lab, shop()).await;
    let same = connect(&lab, shop()).await;
    let stranger = lab.session().await;
    let held = Mutex::new(&mine, "/locks/mutex").unwrap().acquire().await.unwrap();
    let refused = Mutex::new(&stranger, "/locks/mutex").unwrap().try_acquire().await;
    let Err(Error::NotAuthorized { path, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(path, "/locks/mutex");
    assert!(matches!(zk_recipes::revoke(&stranger, held.node_path()).await, Err(Error::NotAuthorized { .. })));
    assert!(Mutex::new(&same, "/locks/mutex").unwrap().try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
    let held = soon("the same user", Mutex::new(&same, "/locks/mutex").unwrap().acquire()).await.unwrap();
    let owners = lab_as_shop(&lab).await.get_acl(held.node_path()).await.unwrap().0;
    assert!(matches!(&owners[..], [acl] if acl.scheme() == "digest" && acl.id().starts_with("shop:")));
}

async fn lab_as_shop(lab: &Lab) -> Client {
    Client::connector().with_auth("digest", b"shop:secret").connect(lab.connect_string()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_credentials_are_refused_at_once() {
    let lab = Lab::open().await;
    let config = SessionConfig::default().with_auth(Auth::new("no-such-scheme", "x"));
    let refused = soon("the refusal", Session::connect(lab.connect_string(), config)).await;
    assert!(matches!(refused, Err(Error::CredentialsRefused { .. })), "{refused:?}");
    let session = connect(&lab, SessionConfig::default().with_acl(Acl::creator())).await;
    let refused = Mutex::new(&session, "/locks/mutex").unwrap().acquire().await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_cannot_be_listed_is_told_and_no_node_stays() {
    let lab = Lab::open().await;
    hidden_parent(&lab, Permission::CREATE | Permission::DELETE).await;
    let session = lab.session().await;
    let refused = Mutex::new(&session, "/hidden").unwrap().acquire().await;
    assert!(matches!(refused, Err(Error::NotAuthorized { operation: "list", .. })), "{refused:?}");
    open(&lab).await;
    lab.until_children("/hidden", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_clean_up_tells_the_first_cause() {
    let lab = Lab::open().await;
    hidden_parent(&lab, Permission::CREATE).await;
    let session = lab.session().await;
    let refused = Mutex::new(&session, "/hidden").unwrap().acquire().await;
    assert!(matches!(refused, Err(Error::NotAuthorized { operation: "list", .. })), "{refused:?}");
    session.close().await.unwrap();
    open(&lab).await;
    lab.until_children("/hidden", 0).await;
}

/// Goal: a user that may not create leases keeps no other contender waiting. Method: it may not list them either, so it could not
/// look for leases before it gives the lease lock back.
#[tokio::test(flavor = "multi_thread")]
async fn a_semaphore_that_may_create_no_lease_keeps_no_lock() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let semaphore = Semaphore::new(&session, "/semaphore", 1).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    lab.raw.delete("/semaphore/leases", None).await.unwrap();
    hide(&lab, "/semaphore/leases", Permission::DELETE).await;
    for _ in 0..2 {
        let refused = soon("the refusal", semaphore.acquire()).await;
        assert!(matches!(refused, Err(Error::NotAuthorized { operation: "create", .. })), "{refused:?}");
    }
    lab.until_children("/semaphore/locks", 0).await;
}

/// Creates a parent with which everybody has only this permission; a client of this host may change that.
pub(crate) async fn hidden_parent(lab: &Lab, permission: Permission) {
    hide(lab, "/hidden", permission).await;
}

async fn hide(lab: &Lab, path: &str, permission: Permission) {
    let acls =
        [RawAcl::new(permission, AuthId::anyone()), RawAcl::new(Permission::ADMIN, AuthId::new("ip", "127.0.0.1"))];
    let options = zookeeper_client::CreateMode::Persistent.with_acls(zookeeper_client::Acls::new(&acls));
    lab.raw.create(path, &[], &options).await.unwrap();
}

async fn open(lab: &Lab) {
    lab.raw.set_acl("/hidden", &zookeeper_client::Acls::anyone_all(), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn parents_are_persistent_when_asked_for() {
    let quick = ZooKeeperConfig { container_check_interval: Duration::from_millis(50), ..ZooKeeperConfig::default() };
    let server = ZooKeeper::start(quick).await.unwrap();
    let connect = async |parents| {
        let config = SessionConfig::default().with_parents(parents);
        Session::connect(&server.connect_string(), config).await.unwrap()
    };
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    for (parents, path) in [(Parents::Persistent, "/persistent/mutex"), (Parents::Container, "/container/mutex")] {
        let session = connect(parents).await;
        Recipe::Mutex.lock(&session, path).acquire().await.unwrap().release().await.unwrap();
    }
    until("the containers are gone", async || raw.check_stat("/container").await.unwrap().is_none()).await;
    assert!(raw.check_stat("/persistent/mutex").await.unwrap().is_some(), "the persistent parents stay");
}
