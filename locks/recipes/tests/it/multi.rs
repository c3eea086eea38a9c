//! Several locks as one.

mod cancelled;
mod failures;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use zk_recipes::{AnyLock, Error, HoldState, MultiGuard, MultiLock, Mutex, RwLock, Session};
use zookeeper_client::{Acls, AddWatchMode, CreateMode, EventType, PersistentWatcher};

use crate::support::{Lab, RECIPES, soon, until};

const A: &str = "/locks/a";
const B: &str = "/locks/b";
const C: &str = "/locks/c";
const PATHS: [&str; 3] = [A, B, C];

fn mutex(session: &Session, path: &str) -> Mutex {
    Mutex::new(session, path).unwrap()
}

/// Mutexes at these paths, in this order.
fn mutexes<'a>(session: &Session, paths: impl IntoIterator<Item = &'a str>) -> MultiLock {
    MultiLock::new(paths.into_iter().map(|path| mutex(session, path))).unwrap()
}

fn acquiring(lock: &MultiLock) -> JoinHandle<Result<MultiGuard, Error>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.acquire().await })
}

fn acquiring_within(lock: &MultiLock, wait: Duration) -> JoinHandle<Result<Option<MultiGuard>, Error>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.acquire_within(wait).await })
}

/// Makes a node that stays, where the parents of locks go once they are empty.
async fn make_lasting(lab: &Lab, path: &str) {
    lab.raw.mkdir(path, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
}

/// Returns what is created and deleted below `/locks` from now on.
async fn watch_nodes(lab: &Lab) -> PersistentWatcher {
    make_lasting(lab, "/locks").await;
    lab.raw.watch("/locks", AddWatchMode::PersistentRecursive).await.unwrap()
}

/// Returns the locks whose nodes were deleted, in that order, up to the given number.
async fn deleted_from(watcher: &mut PersistentWatcher, count: usize) -> Vec<String> {
    let mut locks = Vec::new();
    while locks.len() < count {
        let event = soon("an event", watcher.changed()).await;
        let lock = event.path.rsplit_once('/').map_or("", |(lock, _)| lock);
        if event.event_type == EventType::NodeDeleted && PATHS.contains(&lock) {
            locks.push(lock.to_owned());
        }
    }
    locks
}

/// Checks that no contender is at any of the paths, but for one holder where somebody else holds.
async fn assert_no_nodes_but(lab: &Lab, held: Option<&str>) {
    for path in PATHS {
        assert_eq!(lab.children(path).await.len(), usize::from(held == Some(path)), "{path}");
    }
}

/// Waits for the same.
async fn until_no_nodes_but(lab: &Lab, held: Option<&str>) {
    for path in PATHS {
        lab.until_children(path, usize::from(held == Some(path))).await;
    }
}

/// A way to get a lock.
#[derive(Clone, Copy, Debug)]
enum Way {
    Acquire,
    TryAcquire,
    AcquireWithin,
}

const FORMS: [Way; 3] = [Way::Acquire, Way::TryAcquire, Way::AcquireWithin];

async fn attempt(lock: &MultiLock, form: Way) -> Result<Option<MultiGuard>, Error> {
    match form {
        Way::Acquire => lock.acquire().await.map(Some),
        Way::TryAcquire => lock.try_acquire().await,
        Way::AcquireWithin => lock.acquire_within(Duration::from_secs(60)).await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_are_acquired_in_order_and_released_in_reverse() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let mut watcher = watch_nodes(&lab).await;
    let lock = mutexes(&session, [B, C, A]);
    let held = lock.acquire().await.unwrap();
    assert_eq!(held.state(), HoldState::Held);
    let parents: Vec<_> = held.guards().iter().map(|guard| guard.node_path().rsplit_once('/').unwrap().0).collect();
    assert_eq!(parents, [B, C, A]);
    assert!(held.guards().is_sorted_by_key(|guard| guard.token()));
    for path in PATHS {
        assert!(mutex(&other, path).try_acquire().await.unwrap().is_none(), "{path}");
    }
    assert!(mutexes(&other, [A]).try_acquire().await.unwrap().is_none());
    assert_eq!(held.run(async { 7 }).await.unwrap(), 7);
    held.release().await.unwrap();
    assert_eq!(deleted_from(&mut watcher, 3).await, [A, C, B]);
    assert_no_nodes_but(&lab, None).await;
    drop(lock.acquire().await.unwrap());
    assert_eq!(deleted_from(&mut watcher, 3).await, [A, C, B], "a dropped guard");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_can_be_taken_apart() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let mut guards = MultiLock::from_paths(&session, PATHS).unwrap().acquire().await.unwrap().into_guards();
    guards.remove(1).release().await.unwrap();
    mutex(&other, B).try_acquire().await.unwrap().expect("it was released").release().await.unwrap();
    assert!(mutexes(&other, [A]).try_acquire().await.unwrap().is_none());
    drop(guards);
    soon("the rest", mutexes(&other, PATHS).acquire()).await.unwrap().release().await.unwrap();
}

// L56
#[tokio::test(flavor = "multi_thread")]
async fn at_a_deadline_all_locks_are_given_back_in_reverse() {
    let lab = Lab::open().await;
    let holder = lab.session().await;
    let session = lab.session().await;
    let held = mutex(&holder, C).acquire().await.unwrap();
    let lock = mutexes(&session, PATHS);
    assert!(lock.acquire_within(Duration::ZERO).await.unwrap().is_none());
    assert_no_nodes_but(&lab, Some(C)).await;
    let mut watcher = watch_nodes(&lab).await;
    assert!(lock.acquire_within(Duration::from_millis(300)).await.unwrap().is_none());
    assert_no_nodes_but(&lab, Some(C)).await;
    assert_eq!(deleted_from(&mut watcher, 3).await, [C, B, A]);
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_no_nodes_but(&lab, Some(C)).await;
    assert_eq!(deleted_from(&mut watcher, 2).await, [B, A], "of the taken lock it has only read");
    held.release().await.unwrap();
    soon("the locks", lock.acquire()).await.unwrap().release().await.unwrap();
}

// L56
#[tokio::test(flavor = "multi_thread")]
async fn one_deadline_counts_over_all_locks() {
    let lab = Lab::open().await;
    let holder = lab.session().await;
    let session = lab.session().await;
    let mut blocked = Vec::new();
    for path in PATHS {
        blocked.push(mutex(&holder, path).acquire().await.unwrap());
    }
    let begun = Instant::now();
    let wait = Duration::from_millis(600);
    let acquired = acquiring_within(&mutexes(&session, PATHS), wait);
    lab.until_children(A, 2).await;
    // Each is released well within the wait for that lock alone, but the second after the deadline of all.
    for (i, held) in (1..).zip(blocked) {
        until("it is time", async || begun.elapsed() >= wait * i * 3 / 5).await;
        held.release().await.unwrap();
    }
    assert!(soon("the end of the wait", acquired).await.unwrap().unwrap().is_none());
    assert_no_nodes_but(&lab, None).await;
}

// L56
#[tokio::test(flavor = "multi_thread")]
async fn locks_in_opposite_orders_wait_until_a_deadline() {
    let lab = Lab::open().await;
    let holder = lab.session().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let blocked = mutexes(&holder, [A, B]).acquire().await.unwrap();
    let giving_up = acquiring_within(&mutexes(&one, [A, B]), Duration::from_secs(3));
    let staying = acquiring(&mutexes(&other, [B, A]));
    for path in [A, B] {
        lab.until_children(path, 2).await;
    }
    blocked.release().await.unwrap();
    // Each has its first lock and waits for its second.
    for path in [A, B] {
        lab.until_children(path, 2).await;
    }
    assert!(soon("the end of the wait", giving_up).await.unwrap().unwrap().is_none());
    let held = soon("the locks", staying).await.unwrap().unwrap();
    held.release().await.unwrap();
    assert_no_nodes_but(&lab, None).await;
}

// L56
#[tokio::test(flavor = "multi_thread")]
async fn locks_in_canonical_order_never_wait_for_each_other() {
    let lab = Lab::open().await;
    let sessions = [lab.session().await, lab.session().await];
    let carts = [[A, B, C], [C, B, A], [B, C, A], [C, A, B]];
    let inside = Arc::new(AtomicUsize::new(0));
    let contenders: Vec<_> = (0..8)
        .map(|i| {
            let session = &sessions[i % 2];
            let cart = carts[i / 2];
            let inside = Arc::clone(&inside);
            let lock = MultiLock::from_paths(session, cart).unwrap();
            assert_eq!(lock.locks().iter().map(AnyLock::path).collect::<Vec<_>>(), PATHS);
            let sorted = mutexes(session, cart).in_canonical_order();
            assert_eq!(sorted.locks().iter().map(AnyLock::path).collect::<Vec<_>>(), PATHS);
            tokio::spawn(async move {
                for _ in 0..25 {
                    let held = lock.acquire().await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    held.release().await.unwrap();
                }
            })
        })
        .collect();
    for contender in contenders {
        soon("a contender's turns", contender).await.unwrap();
    }
    assert_no_nodes_but(&lab, None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_different_recipes_go_together() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let shelf = |session: &Session, goods: &str, prices: AnyLock| {
        MultiLock::new([AnyLock::from(mutex(session, goods)), prices]).unwrap()
    };
    let prices = |session: &Session| RwLock::new(session, C).unwrap();
    let reading = shelf(&one, A, prices(&one).read_lock().into()).acquire().await.unwrap();
    let reading_too = shelf(&other, B, prices(&other).read_lock().into()).try_acquire().await.unwrap();
    let reading_too = reading_too.expect("readers share the prices");
    let writing = MultiLock::new([prices(&other).write_lock()]).unwrap();
    assert!(writing.try_acquire().await.unwrap().is_none());
    let writing = acquiring(&writing);
    lab.until_children(C, 3).await;
    reading.release().await.unwrap();
    reading_too.release().await.unwrap();
    soon("the writer's turn", writing).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recipe_can_be_one_of_the_locks() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let lock = MultiLock::new(RECIPES.map(|recipe| recipe.lock(&session, recipe.path()))).unwrap();
    for in_the_way in RECIPES {
        let blocked = in_the_way.barrier(&other, in_the_way.path()).acquire().await.unwrap();
        assert!(lock.acquire_within(Duration::from_millis(300)).await.unwrap().is_none(), "{in_the_way:?}");
        assert!(lock.try_acquire().await.unwrap().is_none(), "{in_the_way:?}");
        for recipe in RECIPES {
            let left = usize::from(recipe == in_the_way);
            assert_eq!(lab.children(recipe.parent()).await.len(), left, "{recipe:?} behind {in_the_way:?}");
        }
        blocked.release().await.unwrap();
    }
    let held = soon("the locks", lock.acquire()).await.unwrap();
    for recipe in RECIPES {
        assert!(recipe.barrier(&other, recipe.path()).try_acquire().await.unwrap().is_none(), "{recipe:?}");
    }
    held.release().await.unwrap();
    for recipe in RECIPES {
        assert!(recipe.barrier(&other, recipe.path()).try_acquire().await.unwrap().is_some(), "{recipe:?}");
    }
}
