//! Watches of holds: what they report, when they end, and that they hold nothing.

// L17

use std::time::Duration;

use futures_util::FutureExt;
use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{
    CohortMutex, ConnectionState, HoldState, HoldWatch, LostReason, MultiGuard, MultiLock, Mutex, Owner, Session,
    SessionConfig,
};

use crate::support::{Lab, RECIPES, soon};

/// Returns the outcome of a watch, as a task of its own learns it.
fn watching(watch: &HoldWatch) -> tokio::task::JoinHandle<Option<LostReason>> {
    let watch = watch.clone();
    tokio::spawn(async move { watch.lost().await })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_without_a_loss_when_the_guard_goes() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    for recipe in RECIPES {
        let lock = recipe.lock(&session, recipe.path());
        for is_released in [true, false] {
            let held = lock.acquire().await.unwrap();
            assert_eq!(held.path(), lock.path());
            let watch = held.watch();
            let told = watching(&watch);
            assert_eq!(watch.state(), Some(HoldState::Held), "{recipe:?}");
            match is_released {
                true => held.release().await.unwrap(),
                false => drop(held),
            }
            assert_eq!(watch.state(), None, "{recipe:?}");
            assert_eq!(soon("the end", told).await.unwrap(), None, "{recipe:?}");
        }
    }
    session.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_reports_a_loss_after_the_guard_is_gone_too() {
    let lab = Lab::open().await;
    for recipe in RECIPES {
        let session = lab.session().await;
        let lock = recipe.lock(&session, recipe.path());
        let released = lock.acquire().await.unwrap();
        let watch_of_released = released.watch();
        released.release().await.unwrap();
        let held = lock.acquire().await.unwrap();
        let watch = held.watch();
        let told = watching(&watch);
        session.close().await.unwrap();
        assert_eq!(soon("the loss", told).await.unwrap(), Some(LostReason::Closed), "{recipe:?}");
        drop(held);
        assert_eq!(watch.state(), Some(HoldState::Lost(LostReason::Closed)), "{recipe:?}");
        assert_eq!(watch.lost().await, Some(LostReason::Closed), "{recipe:?}");
        assert_eq!(watch_of_released.lost().await, None, "{recipe:?}: the hold ended before");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_reports_a_silence_as_its_guard_does() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let session = Session::connect(&proxy.connect_string(), SessionConfig::default()).await.unwrap();
    let held = Mutex::new(&session, "/locks/a").unwrap().acquire().await.unwrap();
    let watch = held.watch();
    proxy.blackhole();
    assert_eq!(soon("the loss", watch.lost()).await, Some(LostReason::Silence));
    assert_eq!(held.state(), HoldState::Lost(LostReason::Silence));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_does_not_keep_the_session_open() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mut states = session.states();
    let held = Mutex::new(&session, "/locks/a").unwrap().acquire().await.unwrap();
    let watch = held.watch();
    drop(session);
    drop(held);
    assert_eq!(soon("the end", states.changed()).await, Some(ConnectionState::Lost(LostReason::Closed)));
    assert_eq!(watch.lost().await, None);
    lab.until_children("/locks/a", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watch_of_a_cohort_s_holder_ends_at_the_hand_over() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = CohortMutex::new(&session, "/locks/cohort").unwrap().with_max_tenure(Duration::from_secs(3_600));
    let mut held = lock.acquire().await.unwrap();
    for is_released in [true, false] {
        let watch = held.watch();
        let told = watching(&watch);
        let node = held.node_path().to_owned();
        let mut next = Box::pin(lock.acquire());
        assert!((&mut next).now_or_never().is_none(), "it need not wait");
        match is_released {
            true => held.release().await.unwrap(),
            false => drop(held),
        }
        assert_eq!(watch.state(), None);
        assert_eq!(soon("the end", told).await.unwrap(), None);
        held = soon("the next holder", next).await.unwrap();
        assert_eq!((held.node_path(), held.state()), (node.as_str(), HoldState::Held), "handed over");
        assert_eq!(watch.state(), None, "it does not go on to the next holder");
        assert_eq!(held.watch().state(), Some(HoldState::Held));
    }
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watch_of_an_owner_s_hold_ends_with_the_last_guard() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let mutex = Mutex::new(&session, "/locks/mutex").unwrap();
    let owner = Owner::new();
    let outer = mutex.acquire_as(&owner).await.unwrap();
    let inner = mutex.acquire_as(&owner).await.unwrap();
    let watch = inner.watch();
    let told = watching(&outer.watch());
    outer.release().await.unwrap();
    assert_eq!(watch.state(), Some(HoldState::Held));
    assert!(!told.is_finished());
    drop(inner);
    assert_eq!(watch.state(), None);
    assert_eq!(soon("the end", told).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_several_holds_reports_the_first_loss() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let locks = |session: &Session| MultiLock::from_paths(session, ["/locks/a", "/locks/b"]).unwrap();
    let held = locks(&session).acquire().await.unwrap();
    let watch = held.watch();
    let told = watching(&held.watch());
    assert_eq!(watch.state(), Some(HoldState::Held));
    held.release().await.unwrap();
    assert_eq!((watch.state(), soon("the end", told).await.unwrap()), (None, None));
    // Guards of two sessions as one.
    let one = Mutex::new(&session, "/locks/a").unwrap().acquire().await.unwrap();
    let two = Mutex::new(&other, "/locks/b").unwrap().acquire().await.unwrap();
    let held: MultiGuard = [one, two].into_iter().collect();
    let paths: Vec<_> = (&held).into_iter().map(|guard| guard.path()).collect();
    assert_eq!(paths, ["/locks/a", "/locks/b"]);
    let watch = held.watch();
    let told = watching(&held.watch());
    other.close().await.unwrap();
    assert_eq!(soon("the loss", told).await.unwrap(), Some(LostReason::Closed));
    let mut guards = held.into_iter();
    drop(guards.next());
    assert_eq!(watch.lost().await, Some(LostReason::Closed), "the loss came first");
    // The end of one of them ends the watch of all.
    let held = locks(&session).acquire().await.unwrap();
    let watch = held.watch();
    let mut guards = held.into_guards();
    guards.pop().unwrap().release().await.unwrap();
    assert_eq!((watch.state(), watch.lost().await), (None, None));
    assert_eq!(guards[0].state(), HoldState::Held);
    let none = MultiGuard::from_iter([]);
    assert_eq!((none.watch().state(), none.watch().lost().await), (None, None));
}
