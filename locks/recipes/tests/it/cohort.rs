//! The contenders of one process behind one node: hand-overs, bounds, tokens, losses, holds that linger, and contenders that give up.

mod bounds;
mod gone;
mod linger;
mod linger_ends;
mod load;
mod losses;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt;
use zk_recipes::{CohortMutex, Error, FencingToken, HandoffMutex, HoldState, LockGuard, MultiLock, Mutex, Session};

use crate::support::{Lab, soon};

const PATH: &str = "/locks/cohort";

/// Long enough to be never over.
const LONG: Duration = Duration::from_secs(3_600);

/// An acquire that has begun.
type Acquiring = Pin<Box<dyn Future<Output = Result<LockGuard, Error>> + Send>>;

fn cohort(session: &Session) -> CohortMutex {
    CohortMutex::new(session, PATH).unwrap()
}

/// Returns a cohort that queues as a `HandoffMutex`.
fn handoff_cohort(session: &Session) -> CohortMutex {
    HandoffMutex::new(session, PATH).unwrap().into()
}

/// The ways in which a cohort queues.
const WAYS: [fn(&Session) -> CohortMutex; 2] = [cohort, handoff_cohort];

/// Returns a contender that has arrived, and has not got the lock by that.
fn arrived(lock: &CohortMutex) -> Acquiring {
    let lock = lock.clone();
    let mut acquiring: Acquiring = Box::pin(async move { lock.acquire().await });
    assert!((&mut acquiring).now_or_never().is_none(), "it need not wait");
    acquiring
}

/// Returns the guard of the contender that has been handed the lock just now.
fn handed(acquiring: Acquiring) -> LockGuard {
    // However much this task has done before.
    tokio::task::unconstrained(acquiring).now_or_never().expect("it was not handed the lock").unwrap()
}

// L67
#[tokio::test(flavor = "multi_thread")]
async fn one_node_stands_for_a_process_and_a_hand_over_sends_nothing() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = cohort(&session).with_max_tenure(LONG);
    let mut held = lock.acquire().await.unwrap();
    let node = held.node_path().to_owned();
    let waiting: Vec<_> = (0..300).map(|_| arrived(&lock)).collect();
    let before = session.traffic();
    for waiter in waiting {
        // No request, and no `await` that would have to wait.
        held.release().now_or_never().expect("a hand-over does not wait").unwrap();
        held = handed(waiter);
        assert_eq!((held.node_path(), held.state()), (node.as_str(), HoldState::Held));
    }
    assert_eq!(session.traffic(), before);
    assert_eq!(lab.children(PATH).await.len(), 1);
    held.release().await.unwrap();
    assert_eq!(lab.children(PATH).await, Vec::<String>::new(), "the last release is confirmed");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_locks_of_a_session_at_a_path_are_one_cohort() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let held = cohort(&session).with_max_tenure(LONG).acquire().await.unwrap();
    let mut same = arrived(&cohort(&session.clone()).with_max_tenure(LONG));
    let mut another = arrived(&cohort(&other));
    lab.until_children(PATH, 2).await;
    held.release().await.unwrap();
    let held = handed(same);
    assert_eq!(held.token().handover(), 1);
    assert!((&mut another).now_or_never().is_none());
    // Nobody of the cohort is left who knows of it but a guard.
    same = arrived(&cohort(&session).with_max_tenure(LONG));
    held.release().await.unwrap();
    let held = handed(same);
    assert_eq!(held.token().handover(), 2);
    held.release().await.unwrap();
    soon("the other session", another).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn contenders_that_queue_in_another_way_exclude_this_cohort() {
    for is_kazoo in [false, true] {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = match is_kazoo {
            true => CohortMutex::from(Mutex::new(&session, PATH).unwrap().with_kazoo()),
            false => handoff_cohort(&session),
        };
        let held = cohort(&session).acquire().await.unwrap();
        let waiting = tokio::spawn(arrived(&other));
        lab.until_children(PATH, 2).await;
        held.release().await.unwrap();
        let held = soon("the other cohort", waiting).await.unwrap().unwrap();
        assert_eq!(held.token().handover(), 0);
        assert!(cohort(&session).try_acquire().await.unwrap().is_none());
        held.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_and_a_plain_mutex_are_granted_in_order_of_arrival() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let lock = cohort(&session);
    let mutex = Mutex::new(&other, PATH).unwrap();
    let held = mutex.acquire().await.unwrap();
    let waiting = tokio::spawn(arrived(&lock));
    lab.until_children(PATH, 2).await;
    let next = mutex.enqueue().await.unwrap();
    held.release().await.unwrap();
    let held = soon("the cohort", waiting).await.unwrap().unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
    soon("the mutex", next.granted()).await.unwrap().release().await.unwrap();
}

// L69
#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_a_cohort_grow_within_and_between_processes() {
    let lab = Lab::open().await;
    let locks = [lab.session().await, lab.session().await].map(|session| cohort(&session).with_max_tenure(LONG));
    let mut tokens: Vec<FencingToken> = vec![];
    for round in 0..6 {
        let lock = &locks[round % locks.len()];
        let mut held = soon("the lock", lock.acquire()).await.unwrap();
        for handover in 0..=3 {
            let participants = lock.participants().await.unwrap();
            assert_eq!((participants.len(), participants[0].token.czxid()), (1, held.token().czxid()));
            assert_eq!(held.token().handover(), handover);
            tokens.push(held.token());
            let next = arrived(lock);
            // A contender that leaves without a hold is not counted.
            let gone = arrived(lock);
            if handover % 2 == 0 {
                drop(held);
            } else {
                held.release().await.unwrap();
            }
            drop(gone);
            held = handed(next);
        }
        held.release().await.unwrap();
    }
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_is_refused_without_a_request_while_its_cohort_holds() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let lock = cohort(&session);
    let elsewhere = cohort(&other).acquire().await.unwrap();
    let waiting = tokio::spawn(arrived(&lock));
    lab.until_children(PATH, 2).await;
    let before = session.traffic();
    assert!(lock.try_acquire().now_or_never().expect("nothing is asked").unwrap().is_none());
    elsewhere.release().await.unwrap();
    let held = soon("the waiter", waiting).await.unwrap().unwrap();
    let granted = session.traffic().requests - before.requests;
    assert!(lock.try_acquire().now_or_never().expect("nothing is asked").unwrap().is_none());
    assert_eq!(session.traffic().requests - before.requests, granted);
    held.release().await.unwrap();
    lock.try_acquire().await.unwrap().expect("the lock is free").release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn cohorts_may_be_locks_among_several() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let locks = || ["/locks/a", "/locks/b"].map(|path| CohortMutex::new(&session, path).unwrap());
    let cart = MultiLock::new(locks()).unwrap();
    let twice = MultiLock::new([&locks()[0], &locks()[0]].map(Clone::clone));
    assert!(matches!(twice, Err(Error::DuplicateLock { .. })), "it would wait for itself");
    let held = cart.acquire().await.unwrap();
    let mut next = Box::pin(cart.acquire());
    assert!((&mut next).now_or_never().is_none());
    let before = session.traffic();
    held.release().await.unwrap();
    let held = soon("the next cart", next).await.unwrap();
    // Of the first lock, which was waited for, it was a hand-over; the second was free by then.
    assert_eq!(held.guards()[0].token().handover(), 1);
    assert_eq!(held.guards()[1].token().handover(), 0);
    assert!(session.traffic().requests > before.requests);
    held.release().await.unwrap();
}
