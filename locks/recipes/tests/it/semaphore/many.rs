//! Several permits at once, and a number of permits that changes.

use std::sync::Arc;

use tokio::task::JoinSet;
use zk_recipes::{Error, HoldState, Semaphore, SharedCount};

use super::{COUNT, LEASES, LOCKS, LONG, PATH, SHORT, Usage, acquiring, semaphore};
use crate::cancel::{DropOutcome, drop_after};
use crate::support::{Lab, soon, until};

// L56
#[tokio::test(flavor = "multi_thread")]
async fn two_clients_that_want_both_permits_never_deadlock() {
    let lab = Lab::open().await;
    let usage = Arc::new(Usage::default());
    let mut clients = JoinSet::new();
    for _ in 0..2 {
        let semaphore = semaphore(&lab.session().await, 2);
        let usage = Arc::clone(&usage);
        clients.spawn(async move {
            for _ in 0..20 {
                let held = semaphore.acquire_many_within(2, LONG).await.unwrap().expect("it never takes that long");
                usage.enter(2);
                tokio::task::yield_now().await;
                usage.exit(2);
                held.release().await.unwrap();
            }
        });
    }
    soon("both clients", clients.join_all()).await;
    assert_eq!(usage.peak(), 2);
    lab.until_unused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_clients_with_varying_numbers_never_exceed_the_permits() {
    const PERMITS: u32 = 13;
    let lab = Lab::open().await;
    let usage = Arc::new(Usage::default());
    let mut clients = JoinSet::new();
    for client in 0..10 {
        let semaphore = semaphore(&lab.session().await, PERMITS);
        let usage = Arc::clone(&usage);
        clients.spawn(async move {
            for round in 0..20 {
                let wanted = 1 + (client * 7 + round * 5) % PERMITS;
                let held = semaphore.acquire_many(wanted).await.unwrap();
                usage.enter(held.guards().len());
                tokio::task::yield_now().await;
                usage.exit(held.guards().len());
                held.release().await.unwrap();
            }
        });
    }
    soon("every client", clients.join_all()).await;
    assert!((1..=13).contains(&usage.peak()), "{usage:?}");
    lab.until_unused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_permits_may_be_given_back_alone() {
    let lab = Lab::open().await;
    let semaphore = semaphore(&lab.session().await, 3);
    let held = semaphore.acquire_many(3).await.unwrap();
    assert_eq!(held.state(), HoldState::Held);
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    let mut guards = held.into_guards();
    assert!(guards.iter().all(|guard| guards.iter().filter(|other| other.token() == guard.token()).count() == 1));
    guards.pop().unwrap().release().await.unwrap();
    let again = semaphore.try_acquire().await.unwrap().expect("one came back");
    assert!(guards.iter().all(|guard| guard.token() < again.token()));
    drop(guards);
    lab.until_children(LEASES, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_that_can_never_be_had_are_refused_at_once() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let count = SharedCount::new(&session, COUNT, 2).unwrap();
    let fixed = semaphore(&session, 2);
    let counted = Semaphore::from_count(&session, PATH, &count).unwrap();
    let before = session.traffic();
    let refused = [
        fixed.acquire_many(0).await.map(Some),
        fixed.acquire_many(3).await.map(Some),
        fixed.try_acquire_many(3).await,
        fixed.acquire_many_within(0, LONG).await,
        counted.acquire_many(0).await.map(Some),
        counted.try_acquire_many(u32::MAX).await,
        semaphore(&session, 0).acquire_many(1).await.map(Some),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(Error::InvalidPermits { .. })), "{refused:?}");
    }
    assert!(matches!(semaphore(&session, 0).acquire().await, Err(Error::InvalidPermits { .. })));
    assert_eq!(session.traffic(), before, "nothing was asked of the server");
    let message = fixed.acquire_many(3).await.unwrap_err().to_string();
    let expected = "cannot take 3 permits of the semaphore /semaphores/database: ask for at least 1 and at most 2";
    assert_eq!(message, expected);
    let message = semaphore(&session, 0).acquire().await.unwrap_err().to_string();
    let expected = "cannot take 1 permits of the semaphore /semaphores/database: it was made without any, make it with 1 \
                    or more";
    assert_eq!(message, expected);
    for path in ["semaphores", "/", "/semaphores/"] {
        assert!(matches!(Semaphore::new(&session, path, 1), Err(Error::InvalidPath { .. })), "{path}");
    }
}

// L59
#[tokio::test(flavor = "multi_thread")]
async fn a_raised_count_wakes_who_waits_for_it() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let ours = Semaphore::from_count(&one, PATH, &SharedCount::new(&one, COUNT, 1).unwrap()).unwrap();
    let held = ours.acquire_within(LONG).await.unwrap().unwrap();
    let waiting = tokio::spawn({
        let ours = ours.clone();
        async move { ours.acquire_many(3).await }
    });
    lab.until_children(LOCKS, 1).await;
    let count = SharedCount::new(&other, COUNT, 1).unwrap();
    count.set(3).await.unwrap();
    assert!(Semaphore::from_count(&other, PATH, &count).unwrap().try_acquire().await.unwrap().is_none());
    lab.until_children(LEASES, 4).await;
    assert!(!waiting.is_finished(), "four are needed");
    count.set(4).await.unwrap();
    let many = soon("the permits", waiting).await.unwrap().unwrap();
    assert_eq!(held.state(), HoldState::Held);
    many.release().await.unwrap();
}

// L59
#[tokio::test(flavor = "multi_thread")]
async fn a_lowered_count_evicts_nobody_and_lets_nobody_in_too_early() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let count = SharedCount::new(&session, COUNT, 3).unwrap();
    let semaphore = Semaphore::from_count(&session, PATH, &count).unwrap();
    let mut held = semaphore.acquire_many(3).await.unwrap().into_guards();
    count.set(1).await.unwrap();
    let waiting = acquiring(&semaphore);
    lab.until_children(LEASES, 4).await;
    assert!(held.iter().all(|guard| guard.state() == HoldState::Held));
    for left in [3, 2] {
        held.pop().unwrap().release().await.unwrap();
        assert_eq!(lab.children(LEASES).await.len(), left);
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        assert!(!waiting.is_finished());
    }
    held.pop().unwrap().release().await.unwrap();
    soon("the permit", waiting).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_of_zero_or_less_gives_no_permit_until_it_is_raised() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let count = SharedCount::new(&session, COUNT, -5).unwrap();
    let semaphore = Semaphore::from_count(&session, PATH, &count).unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    assert!(semaphore.acquire_within(SHORT).await.unwrap().is_none());
    let waiting = acquiring(&semaphore);
    lab.until_children(LEASES, 1).await;
    count.set(0).await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    count.set(1).await.unwrap();
    soon("the permit", waiting).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_permits_leaves_no_watch() {
    let server = testbed::ZooKeeper::start(testbed::ZooKeeperConfig::default()).await.unwrap();
    let connect = async || zk_recipes::Session::connect(&server.connect_string(), Default::default()).await.unwrap();
    let session = connect().await;
    let count = SharedCount::new(&session, COUNT, 1).unwrap();
    let semaphore = Semaphore::from_count(&session, PATH, &count).unwrap();
    let watches = async || server.metric("zk_watch_count").await.unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    let held = semaphore.acquire().await.unwrap();
    assert_eq!(watches().await, 0, "nobody is waited for");
    // From the third lease lock on, the node `locks` is watched, too, for as long as the semaphore is used.
    let waiting = acquiring(&semaphore);
    until("both are watched", async || watches().await == 2 + 1).await;
    waiting.abort();
    until("the watches are gone", async || watches().await == 1).await;
    let waiting = acquiring(&semaphore);
    until("both are watched", async || watches().await == 2 + 1).await;
    held.release().await.unwrap();
    soon("the permit", waiting).await.unwrap().unwrap().release().await.unwrap();
    until("the watches are gone", async || watches().await == 1).await;
    drop(semaphore);
    until("the last is gone", async || watches().await == 0).await;
}

/// Drops an acquire of two permits after 1, 2, … polls until it is done or idle by then; each time, nothing of it is
/// left. Returns how often it was dropped in flight.
async fn drop_at_every_poll(lab: &Lab, semaphore: &Semaphore, is_try: bool, leases_before: usize) -> usize {
    for polls in 1.. {
        let attempt = async {
            if is_try {
                drop(semaphore.try_acquire_many(2).await.unwrap());
            } else {
                drop(semaphore.acquire_many(2).await.unwrap());
            }
        };
        let outcome = drop_after(polls, attempt).await;
        lab.until_children(LEASES, leases_before).await;
        lab.until_children(LOCKS, 0).await;
        if outcome != DropOutcome::Dropped {
            return polls - 1;
        }
    }
    unreachable!("the range has no end")
}

#[tokio::test]
async fn an_acquire_of_several_permits_may_be_dropped_at_any_poll() {
    for is_try in [false, true] {
        for is_taken in [false, true] {
            let lab = Lab::open().await;
            let session = lab.session().await;
            let next = lab.session().await;
            let held = if is_taken { Some(semaphore(&next, 2).acquire().await.unwrap()) } else { None };
            let dropped = drop_at_every_poll(&lab, &semaphore(&session, 2), is_try, usize::from(is_taken)).await;
            let least = if is_try && is_taken { 1 } else { 4 };
            assert!(dropped >= least, "try: {is_try}, taken: {is_taken}: dropped in flight only {dropped} times");
            drop(held);
            let all = soon("the next contender", semaphore(&next, 2).acquire_many(2)).await.unwrap();
            all.release().await.unwrap();
        }
    }
}
