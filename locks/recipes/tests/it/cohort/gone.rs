//! Contenders that give up, at every moment: the others go on.

use std::time::Duration;

use futures_util::FutureExt;
use zk_recipes::{AnyLock, Error, HandoffMutex, LostReason, Mutex};
use zookeeper_client::{Acls, CreateMode};

use super::{LONG, PATH, WAYS, arrived, cohort, handed, handoff_cohort};
use crate::cancel::{DropOutcome, drop_after};
use crate::support::{Lab, soon};

// L70
#[tokio::test]
async fn a_local_waiter_dropped_at_any_moment_leaves_its_turn() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = cohort(&session).with_max_tenure(LONG);
    // Before its turn, when its turn has come and it has not looked, and when it has looked.
    for moment in 0..3 {
        let held = lock.acquire().await.unwrap();
        let mut goes = arrived(&lock);
        let stays = arrived(&lock);
        match moment {
            0 => {
                drop(goes);
                held.release().await.unwrap();
            }
            1 => {
                held.release().await.unwrap();
                drop(goes);
            }
            _ => {
                held.release().await.unwrap();
                drop((&mut goes).now_or_never().expect("its turn has come").unwrap());
            }
        }
        let held = handed(stays);
        assert_eq!(held.token().handover(), if moment == 2 { 2 } else { 1 });
        held.release().await.unwrap();
        assert_eq!(lab.children(PATH).await, Vec::<String>::new());
    }
}

// L70
#[tokio::test]
async fn a_cohort_s_acquire_may_be_dropped_at_any_poll() {
    for (way, is_taken) in [(WAYS[0], false), (WAYS[0], true), (WAYS[1], false), (WAYS[1], true)] {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let lock = way(&session);
        let mutex = Mutex::new(&other, PATH).unwrap();
        for polls in 1.. {
            let elsewhere = if is_taken { Some(mutex.acquire().await.unwrap()) } else { None };
            let mut leads = Box::pin(async { drop(lock.acquire().await.unwrap()) });
            assert!((&mut leads).now_or_never().is_none());
            let next = arrived(&lock);
            let outcome = drop_after(polls, leads).await;
            if let Some(elsewhere) = elsewhere {
                elsewhere.release().await.unwrap();
            }
            soon("the next of the cohort", next).await.unwrap().release().await.unwrap();
            lab.until_children(PATH, 0).await;
            if outcome != DropOutcome::Dropped {
                assert!(polls > 1, "it was never dropped in flight");
                break;
            }
        }
    }
}

// L70
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_gives_up_leaves_its_place_to_the_next() {
    for way in WAYS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let lock = way(&session);
        let mutex = Mutex::new(&other, PATH).unwrap();
        let elsewhere = mutex.acquire().await.unwrap();
        let leads = tokio::spawn(arrived(&lock));
        lab.until_children(PATH, 2).await;
        let place = lock.participants().await.unwrap().remove(1).path;
        let late = mutex.enqueue().await.unwrap();
        // The next contender holds for a while, and the one behind it follows.
        let mut hurried = Box::pin(lock.acquire_within(Duration::from_millis(200)));
        assert!((&mut hurried).now_or_never().is_none());
        let last = arrived(&lock);
        leads.abort();
        assert!(leads.await.unwrap_err().is_cancelled());
        assert!(soon("the deadline", hurried).await.unwrap().is_none());
        assert_eq!(lock.participants().await.unwrap()[1].path, place, "nobody has lost it");
        elsewhere.release().await.unwrap();
        let held = soon("the cohort", last).await.unwrap();
        assert_eq!((held.node_path(), held.token().handover()), (place.as_str(), 0));
        held.release().await.unwrap();
        soon("who came later", late.granted()).await.unwrap().release().await.unwrap();
        assert_eq!(lab.children(PATH).await, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_waiter_whose_time_is_up_has_sent_nothing() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = cohort(&session);
    let held = lock.acquire().await.unwrap();
    let before = session.traffic();
    for _ in 0..3 {
        assert!(lock.acquire_within(Duration::from_millis(20)).await.unwrap().is_none());
    }
    assert!(lock.acquire_within(Duration::ZERO).await.unwrap().is_none());
    assert_eq!(session.traffic(), before);
    held.release().await.unwrap();
    assert_eq!(lab.children(PATH).await, Vec::<String>::new());
    lock.acquire_within(LONG).await.unwrap().expect("the lock is free").release().await.unwrap();
}

// L70
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_finds_its_way_past_thousands_who_have_gone() {
    const WAITERS: usize = 20_000;
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = cohort(&session).with_max_tenure(LONG);
    // One after the other takes the turn along and passes it on as it is dropped.
    let held = lock.acquire().await.unwrap();
    let waiting: Vec<_> = (0..WAITERS).map(|_| arrived(&lock)).collect();
    let last = arrived(&lock);
    drop(held);
    drop(waiting);
    let held = handed(last);
    assert_eq!(held.token().handover(), 1);
    // The turn skips the contenders that have left. They are too few to be removed from the queue.
    let mut waiting: Vec<_> = (0..WAITERS).map(|_| arrived(&lock)).collect();
    let stay = waiting.split_off(WAITERS / 2 - 100);
    drop(waiting);
    drop(held);
    let mut stay = stay.into_iter();
    let held = handed(stay.next().unwrap());
    assert_eq!(held.token().handover(), 2);
    // And when all have gone the lock is free.
    drop(stay);
    held.release().await.unwrap();
    assert_eq!(lab.children(PATH).await, Vec::<String>::new());
}

/// Somebody deletes the lock with all nodes in its queue, and new contenders come.
async fn replace_all(lab: &Lab) {
    let nodes: Vec<String> = lab.children(PATH).await.iter().map(|name| format!("{PATH}/{name}")).collect();
    let [persistent, ephemeral] =
        [CreateMode::Persistent, CreateMode::Ephemeral].map(|mode| mode.with_acls(Acls::anyone_all()));
    let mut transaction = lab.raw.new_multi_writer();
    nodes.iter().for_each(|node| transaction.add_delete(node, None).unwrap());
    transaction.add_delete(PATH, None).unwrap();
    transaction.add_create(PATH, b"", &persistent).unwrap();
    nodes.iter().for_each(|node| transaction.add_create(node, b"", &ephemeral).unwrap());
    transaction.commit().await.unwrap();
}

// L27
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_node_is_gone_spares_another_of_that_name() {
    for is_cohort in [true, false] {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let elsewhere = HandoffMutex::new(&other, PATH).unwrap().acquire().await.unwrap();
        let lock: AnyLock = match is_cohort {
            true => handoff_cohort(&session).into(),
            false => HandoffMutex::new(&session, PATH).unwrap().into(),
        };
        let waiting = tokio::spawn(async move { lock.acquire().await });
        lab.until_children(PATH, 2).await;
        replace_all(&lab).await;
        let told = soon("the waiter", waiting).await.unwrap();
        assert!(matches!(told, Err(Error::NodeDeleted { .. })), "{told:?}");
        // What is reaped later goes later.
        drop(Mutex::new(&session, "/locks/later").unwrap().acquire().await.unwrap());
        lab.until_children("/locks/later", 0).await;
        assert_eq!(lab.children(PATH).await.len(), 2, "they are the others'");
        drop(elsewhere);
    }
}

// L27
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_node_is_gone_spares_another_of_that_name() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = handoff_cohort(&session).with_max_handovers(0);
    let held = lock.acquire().await.unwrap();
    let next = arrived(&lock);
    replace_all(&lab).await;
    let released = held.release().await;
    assert!(matches!(released, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. })), "{released:?}");
    assert_eq!(lab.children(PATH).await.len(), 1, "it is another's");
    drop(next);
}

// L70
#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_that_ends_leaves_the_turn_to_other_runtimes() {
    for way in WAYS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let lock = way(&session).with_max_tenure(LONG);
        let elsewhere = Mutex::new(&other, PATH).unwrap().acquire().await.unwrap();
        let ends = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        // One queues on the server, and the next behind it; both go with their runtime.
        ends.spawn(arrived(&lock));
        lab.until_children(PATH, 2).await;
        ends.spawn(arrived(&lock));
        let panics = arrived(&lock);
        let last = arrived(&lock);
        ends.shutdown_background();
        let panicked = tokio::spawn(async move {
            let _held = panics.await.unwrap();
            panic!("planted");
        });
        elsewhere.release().await.unwrap();
        assert!(soon("the panic", panicked).await.unwrap_err().is_panic());
        let held = soon("the last", last).await.unwrap();
        assert_eq!(held.token().handover(), 1);
        // Neither a runtime nor a server is needed to let go.
        let next = arrived(&lock);
        std::thread::spawn(move || drop(held)).join().unwrap();
        handed(next).release().await.unwrap();
        lab.until_children(PATH, 0).await;
    }
}
