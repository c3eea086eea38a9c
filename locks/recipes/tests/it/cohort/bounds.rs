//! How long a cohort keeps the lock from others.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use zk_recipes::{Error, LostReason, Mutex};

use super::{Acquiring, LONG, PATH, WAYS, arrived, cohort, handed};
use crate::cancel::{DropOutcome, drop_after};
use crate::support::{Lab, soon, until};

// L68
#[tokio::test(flavor = "multi_thread")]
async fn after_its_hand_overs_a_cohort_lets_a_waiting_process_in() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let lock = cohort(&session).with_max_handovers(3).with_max_tenure(LONG);
    let mut held = lock.acquire().await.unwrap();
    let mut waiting: VecDeque<Acquiring> = (0..5).map(|_| arrived(&lock)).collect();
    let next = Mutex::new(&other, PATH).unwrap().enqueue().await.unwrap();
    for handover in 1..=3 {
        held.release().now_or_never().expect("a hand-over does not wait").unwrap();
        held = handed(waiting.pop_front().unwrap());
        assert_eq!(held.token().handover(), handover);
    }
    let passed = held.token();
    held.release().await.unwrap();
    let elsewhere = soon("the other process", next.granted()).await.unwrap();
    let mut again = waiting.pop_front().unwrap();
    assert!((&mut again).now_or_never().is_none(), "it queues again");
    lab.until_children(PATH, 2).await;
    assert!(passed < elsewhere.token());
    elsewhere.release().await.unwrap();
    let held = soon("the cohort", again).await.unwrap();
    assert_eq!(held.token().handover(), 0);
    held.release().await.unwrap();
    handed(waiting.pop_front().unwrap()).release().await.unwrap();
    assert_eq!(lab.children(PATH).await, Vec::<String>::new());
}

// L68
#[tokio::test(flavor = "multi_thread")]
async fn a_lone_cohort_goes_on_after_a_round_trip_at_its_bound() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = cohort(&session).with_max_handovers(3).with_max_tenure(LONG);
    let mut held = lock.acquire().await.unwrap();
    let waiting: Vec<_> = (0..13).map(|_| arrived(&lock)).collect();
    let mut asked = vec![];
    for (handover, waiter) in (1..).zip(waiting) {
        let before = session.traffic().requests;
        held.release().await.unwrap();
        if session.traffic().requests > before {
            assert_eq!(session.traffic().requests - before, 2, "whether the node is there, and how many others are");
            asked.push(handover);
        }
        held = handed(waiter);
        assert_eq!(held.token().handover(), handover);
    }
    assert_eq!(asked, [4, 7, 10, 13]);
    held.release().await.unwrap();
}

// L68
#[tokio::test(flavor = "multi_thread")]
async fn after_its_tenure_a_cohort_lets_a_waiting_process_in() {
    for is_waited_for in [false, true] {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let max_hold = Duration::from_millis(50);
        let lock = cohort(&session).with_max_handovers(u32::MAX).with_max_tenure(max_hold);
        let held = lock.acquire().await.unwrap();
        let granted = Instant::now();
        let local = arrived(&lock);
        let next = if is_waited_for { Some(Mutex::new(&other, PATH).unwrap().enqueue().await.unwrap()) } else { None };
        until("the time is over", async || granted.elapsed() > max_hold).await;
        let before = session.traffic().requests;
        held.release().await.unwrap();
        let held = match next {
            None => {
                assert_eq!(session.traffic().requests - before, 2, "it has asked");
                handed(local)
            }
            Some(next) => {
                soon("the other process", next.granted()).await.unwrap().release().await.unwrap();
                soon("the cohort", local).await.unwrap()
            }
        };
        assert_eq!(held.token().handover(), i64::from(!is_waited_for));
        held.release().await.unwrap();
    }
}

// L68
#[tokio::test(flavor = "multi_thread")]
async fn each_hand_over_goes_by_the_bounds_of_who_lets_go() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let eager = cohort(&session).with_max_handovers(0);
    let generous = cohort(&session).with_max_tenure(LONG);
    let mut held = generous.acquire().await.unwrap();
    for (lock, requests) in [(&eager, 0), (&generous, 2), (&generous, 0)] {
        let next = arrived(lock);
        let before = session.traffic().requests;
        held.release().await.unwrap();
        assert_eq!(session.traffic().requests - before, requests);
        held = handed(next);
    }
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_dropped_at_a_bound_frees_the_node() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let lock = cohort(&session).with_max_handovers(0);
    let held = lock.acquire().await.unwrap();
    let local = arrived(&lock);
    let next = Mutex::new(&other, PATH).unwrap().enqueue().await.unwrap();
    drop(held);
    let local = tokio::spawn(local);
    soon("the other process", next.granted()).await.unwrap().release().await.unwrap();
    let held = soon("the cohort", local).await.unwrap().unwrap();
    assert_eq!(held.token().handover(), 0);
    held.release().await.unwrap();
    lab.until_children(PATH, 0).await;
}

#[tokio::test]
async fn a_release_at_a_bound_may_be_dropped_at_any_poll() {
    for (way, is_waited_for) in [(WAYS[0], true), (WAYS[0], false), (WAYS[1], true), (WAYS[1], false)] {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let lock = way(&session).with_max_handovers(0);
        for polls in 1.. {
            let held = lock.acquire().await.unwrap();
            let local = arrived(&lock);
            let next =
                if is_waited_for { Some(Mutex::new(&other, PATH).unwrap().enqueue().await.unwrap()) } else { None };
            let outcome = drop_after(polls, held.release()).await;
            let local = tokio::spawn(local);
            if let Some(next) = next {
                soon("the other process", next.granted()).await.unwrap().release().await.unwrap();
            }
            soon("the cohort", local).await.unwrap().unwrap().release().await.unwrap();
            lab.until_children(PATH, 0).await;
            if outcome != DropOutcome::Dropped {
                let awaits = if is_waited_for { 2 } else { 1 };
                assert!(polls > awaits, "the release was dropped in flight only {} times", polls - 1);
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_deleted_by_hand_is_noticed_at_a_bound() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let lock = cohort(&session).with_max_handovers(2).with_max_tenure(LONG);
    let mut held = lock.acquire().await.unwrap();
    let lost = held.node_path().to_owned();
    lab.raw.delete(&lost, None).await.unwrap();
    // The only node now belongs to another holder.
    let elsewhere = Mutex::new(&other, PATH).unwrap().acquire().await.unwrap();
    for _ in 0..2 {
        let next = arrived(&lock);
        held.release().await.unwrap();
        held = handed(next);
    }
    let next = tokio::spawn(arrived(&lock));
    let released = held.release().await;
    assert!(
        matches!(&released, Err(Error::HoldLost { node_path, reason: LostReason::NodeDeleted, .. }) if *node_path == lost),
        "{released:?}"
    );
    lab.until_children(PATH, 2).await;
    elsewhere.release().await.unwrap();
    soon("the cohort", next).await.unwrap().unwrap().release().await.unwrap();
}
