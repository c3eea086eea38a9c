//! Hand-overs within a session: the next contender holds before the server has answered the release.

// L30

pub(crate) mod faults;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use zk_recipes::{AnyLock, Error, FencingToken, HandoffMutex, HoldState, LockGuard, Mutex, Session};

use crate::support::{Lab, SOON, soon, until};

const PATH: &str = "/locks/handover";

/// The requests until the first waiter of a session watches: the creation with a look, and the watch.
pub(crate) const FIRST: u64 = 3;
/// Those until another one does: the creation, and the watch.
pub(crate) const LATER: u64 = 2;

/// Makes a lock that is handed over within a session.
type QueueKind = fn(&Session) -> AnyLock;

const KINDS: [QueueKind; 2] =
    [|session| Mutex::new(session, PATH).unwrap().into(), |session| HandoffMutex::new(session, PATH).unwrap().into()];

fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets a contender wait until it follows the one ahead: until the last of its `requests` has been answered.
pub(crate) async fn until_it_follows<T>(
    session: &Session,
    requests: u64,
    mut waiting: Pin<&mut impl Future<Output = T>>,
) {
    let before = session.traffic();
    let mut received = None;
    until("it follows", async || {
        assert!(poll_once(waiting.as_mut()).is_pending(), "nobody has released");
        let now = session.traffic();
        if now.requests - before.requests == requests {
            return now.bytes_received > *received.get_or_insert(now.bytes_received);
        }
        false
    })
    .await;
}

/// Releases, and sees who has the lock before the release is confirmed.
async fn pass(held: LockGuard, waiting: Pin<&mut impl Future<Output = Result<LockGuard, Error>>>) -> LockGuard {
    let token = held.token();
    let mut releasing = pin!(held.release());
    assert!(poll_once(releasing.as_mut()).is_pending());
    let Poll::Ready(next) = poll_once(waiting) else { panic!("nothing was passed on") };
    releasing.await.unwrap();
    let next = next.unwrap();
    assert!(next.token() > token);
    assert_eq!(next.state(), HoldState::Held);
    next
}

#[tokio::test]
async fn the_next_of_a_session_holds_before_the_release_is_answered() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let first = kind(&session);
        let second = kind(&session);
        let third = kind(&session);
        let held = first.acquire().await.unwrap();
        let mut second = pin!(second.acquire());
        let mut third = pin!(third.acquire());
        until_it_follows(&session, FIRST, second.as_mut()).await;
        until_it_follows(&session, LATER, third.as_mut()).await;
        let before = session.traffic().requests;
        let held = pass(held, second).await;
        let held = pass(held, third).await;
        held.release().await.unwrap();
        assert_eq!(session.traffic().requests - before, 3, "a release each, and nothing else");
        assert_eq!(lab.children(PATH).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn the_last_one_to_whom_the_lock_is_passed_on_leaves_the_note() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let lock = HandoffMutex::new(&session, PATH).unwrap();
    let held = lock.acquire().await.unwrap();
    let mut next = pin!(lock.acquire());
    until_it_follows(&session, FIRST, next.as_mut()).await;
    let lock = HandoffMutex::new(&other, PATH).unwrap();
    let last = tokio::spawn(async move { lock.acquire().await });
    lab.until_children(PATH, 3).await;
    let held = pass(held, next).await;
    assert_eq!(lab.released(PATH).await, None);
    held.release().await.unwrap();
    assert_eq!(lab.released(PATH).await, Some(1));
    let last = soon("the one of the other session", last).await.unwrap().unwrap();
    last.release().await.unwrap();
    assert_eq!(lab.released(PATH).await, Some(2));
}

#[tokio::test]
async fn a_waiter_that_gives_up_at_its_grant_lets_the_next_in() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let first = kind(&session);
        let second = kind(&session);
        let third = kind(&other);
        let held = first.acquire().await.unwrap();
        let mut behind = {
            let mut next = Box::pin(second.acquire());
            until_it_follows(&session, FIRST, next.as_mut()).await;
            let behind = tokio::spawn(async move { third.acquire().await });
            lab.until_children(PATH, 3).await;
            let mut releasing = pin!(held.release());
            assert!(poll_once(releasing.as_mut()).is_pending());
            drop(next);
            releasing.await.unwrap();
            behind
        };
        let last = soon("the one of the other session", &mut behind).await.unwrap().unwrap();
        lab.until_children(PATH, 1).await;
        last.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn contenders_of_few_sessions_exclude_each_other_in_token_order() {
    const CONTENDERS: u64 = 50;
    const HOLDS: u64 = 500;
    for kind in KINDS {
        let lab = Lab::open().await;
        let sessions = [lab.patient_session().await, lab.patient_session().await, lab.patient_session().await];
        let is_held = Arc::new(AtomicBool::new(false));
        let count = Arc::new(AtomicU64::new(0));
        let tokens = Arc::new(std::sync::Mutex::new(Vec::<FencingToken>::new()));
        let mut contenders = tokio::task::JoinSet::new();
        for (i, session) in (0..3 * CONTENDERS).zip(sessions.iter().cycle()) {
            let lock = kind(session);
            let is_held = is_held.clone();
            let count = count.clone();
            let tokens = tokens.clone();
            contenders.spawn(async move {
                while count.load(Ordering::Relaxed) < HOLDS {
                    let held = if i % 5 == 0 {
                        lock.acquire_within(Duration::from_millis(i)).await.unwrap()
                    } else {
                        Some(lock.acquire().await.unwrap())
                    };
                    let Some(held) = held else { continue };
                    assert!(!is_held.swap(true, Ordering::SeqCst), "two hold");
                    tokens.lock().unwrap().push(held.token());
                    tokio::task::yield_now().await;
                    assert!(is_held.swap(false, Ordering::SeqCst), "two hold");
                    count.fetch_add(1, Ordering::Relaxed);
                    match i % 7 {
                        0 => drop(held),
                        _ => held.release().await.unwrap(),
                    }
                }
            });
        }
        while let Some(contender) = contenders.join_next().await {
            contender.unwrap();
        }
        assert!(tokens.lock().unwrap().is_sorted_by(|a, b| a < b));
        lab.until_children(PATH, 0).await;
    }
}

#[tokio::test]
async fn an_interrupted_release_takes_nothing_from_later_holders() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let first = kind(&session);
        let second = kind(&session);
        let third = kind(&session);
        let held = first.acquire().await.unwrap();
        let mut second = pin!(second.acquire());
        let mut third = pin!(third.acquire());
        until_it_follows(&session, FIRST, second.as_mut()).await;
        until_it_follows(&session, LATER, third.as_mut()).await;
        let mut releasing = Box::pin(held.release());
        assert!(poll_once(releasing.as_mut()).is_pending());
        drop(releasing);
        let Poll::Ready(Ok(held)) = poll_once(second.as_mut()) else { panic!("nothing was passed on") };
        let mut releasing = pin!(held.release());
        assert!(poll_once(releasing.as_mut()).is_pending());
        let Poll::Ready(Ok(held)) = poll_once(third.as_mut()) else { panic!("nothing was passed on") };
        releasing.await.unwrap();
        lab.until_children(PATH, 1).await;
        for _ in 0..20 {
            session.ping(SOON).await.unwrap();
        }
        assert_eq!(held.state(), HoldState::Held);
        held.release().await.unwrap();
    }
}
