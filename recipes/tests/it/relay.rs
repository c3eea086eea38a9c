//! The hand-over to the one directly behind of the same session, which does not wait for the server.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use testbed::Proxy;
use zk_recipes::{
    AnyLock, Error, FencingToken, HandoffMutex, HoldState, LockGuard, LostReason, Mutex, Session, SessionConfig,
};
use zookeeper_client::{Acl, Acls, AuthId, Permission};

use crate::support::{Lab, SOON, soon, until};

const PATH: &str = "/locks/relay";

/// The requests until the first waiter of a session watches: the creation with a look, and the watch.
pub(crate) const FIRST: u64 = 3;
/// Those until another one does: the creation, and the watch.
pub(crate) const LATER: u64 = 2;

/// Makes a lock that is handed over within a session.
type Kind = fn(&Session) -> AnyLock;

const KINDS: [Kind; 2] =
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

/// Lets nobody delete contenders' nodes any more.
async fn refuse_deletions(lab: &Lab) {
    let all_but_delete = Permission::CREATE | Permission::READ | Permission::WRITE | Permission::ADMIN;
    let acls = [Acl::new(all_but_delete, AuthId::anyone())];
    lab.raw.set_acl(PATH, &Acls::new(&acls), None).await.unwrap();
}

/// Deletes the nodes of all contenders in one transaction.
pub(crate) async fn delete_all(lab: &Lab, path: &str) {
    let mut delete = lab.raw.new_multi_writer();
    for name in lab.children(path).await {
        delete.add_delete(&format!("{path}/{name}"), None).unwrap();
    }
    delete.commit().await.unwrap();
}

#[tokio::test]
async fn whoever_is_directly_behind_holds_before_the_server_has_answered_the_release() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let (first, second, third) = (kind(&session), kind(&session), kind(&session));
        let held = first.acquire().await.unwrap();
        let (mut second, mut third) = (pin!(second.acquire()), pin!(third.acquire()));
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
    let (session, other) = (lab.session().await, lab.session().await);
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
async fn a_lost_reply_to_the_release_does_not_concern_whoever_holds_by_then() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let (server, chroot) = lab.connect_string().split_once('/').unwrap();
        let proxy = Proxy::start(server).await.unwrap();
        let cluster = format!("{}/{chroot}", proxy.connect_string());
        let session = Session::connect(&cluster, SessionConfig::default()).await.unwrap();
        let (first, second) = (kind(&session), kind(&session));
        let held = first.acquire().await.unwrap();
        let mut next = pin!(second.acquire());
        until_it_follows(&session, FIRST, next.as_mut()).await;
        proxy.swallow_replies();
        let swallowed = proxy.bytes_from_server();
        let mut releasing = pin!(held.release());
        assert!(poll_once(releasing.as_mut()).is_pending());
        let Poll::Ready(next) = poll_once(next) else { panic!("nothing was passed on") };
        proxy.until(|traffic| traffic.bytes_from_server > swallowed).await;
        proxy.cut();
        proxy.deliver();
        soon("the release", releasing).await.unwrap();
        let next = next.unwrap();
        assert_eq!(lab.children(PATH).await.len(), 1);
        soon("the next release", next.release()).await.unwrap();
        assert_eq!(lab.children(PATH).await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn the_last_one_leaves_the_note_although_the_release_before_was_repeated() {
    let lab = Lab::open().await;
    let (server, chroot) = lab.connect_string().split_once('/').unwrap();
    let proxy = Proxy::start(server).await.unwrap();
    let cluster = format!("{}/{chroot}", proxy.connect_string());
    let session = Session::connect(&cluster, SessionConfig::default()).await.unwrap();
    let lock = HandoffMutex::new(&session, PATH).unwrap();
    let held = lock.acquire().await.unwrap();
    let mut next = pin!(lock.acquire());
    until_it_follows(&session, FIRST, next.as_mut()).await;
    proxy.swallow_replies();
    let swallowed = proxy.bytes_from_server();
    let mut releasing = pin!(held.release());
    assert!(poll_once(releasing.as_mut()).is_pending());
    let Poll::Ready(next) = poll_once(next) else { panic!("nothing was passed on") };
    proxy.until(|traffic| traffic.bytes_from_server > swallowed).await;
    proxy.cut();
    proxy.deliver();
    soon("the release", releasing).await.unwrap();
    soon("the next release", next.unwrap().release()).await.unwrap();
    assert_eq!(lab.released(PATH).await, Some(1));
}

/// The first of a run is still to go when one of another session is let in, and then the one behind that.
#[tokio::test]
async fn nobody_takes_a_node_that_was_to_go_before_for_its_own() {
    let lab = Lab::open().await;
    let sessions = [lab.session().await, lab.session().await, lab.session().await];
    let locks = sessions.each_ref().map(|session| HandoffMutex::new(session, PATH).unwrap());
    let held = locks[0].acquire().await.unwrap();
    let mut second = pin!(locks[0].acquire());
    until_it_follows(&sessions[0], FIRST, second.as_mut()).await;
    let mut third = pin!(locks[1].acquire());
    until_it_follows(&sessions[1], FIRST, third.as_mut()).await;
    let mut fourth = pin!(locks[2].acquire());
    until_it_follows(&sessions[2], FIRST, fourth.as_mut()).await;

    // The deletion is refused, and repeated only when whoever waits for it is polled again.
    refuse_deletions(&lab).await;
    let mut releasing = Box::pin(held.release());
    assert!(poll_once(releasing.as_mut()).is_pending());
    let Poll::Ready(second) = poll_once(second) else { panic!("nothing was passed on") };
    sessions[0].ping(SOON).await.unwrap();
    lab.raw.set_acl(PATH, &Acls::anyone_all(), None).await.unwrap();
    soon("the release of the second", second.unwrap().release()).await.unwrap();
    let third = soon("the third", third).await.unwrap();
    assert_eq!(lab.children(PATH).await.len(), 3, "that of the first is there");
    lab.raw.delete(&format!("{PATH}/lock-0000000003"), None).await.unwrap();
    third.release().await.unwrap();
    let deleted = soon("the fourth", fourth).await;
    assert!(matches!(deleted, Err(Error::NodeDeleted { .. })), "{deleted:?}");
    drop(releasing);
    lab.until_children(PATH, 0).await;
}

#[tokio::test]
async fn while_one_holds_whose_own_node_somebody_has_deleted_that_of_the_one_before_stays() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let (session, other) = (lab.session().await, lab.session().await);
        let (first, second, third) = (kind(&session), kind(&session), kind(&other));
        let held = first.acquire().await.unwrap();
        let first_path = held.node_path().to_owned();
        let mut next = pin!(second.acquire());
        until_it_follows(&session, FIRST, next.as_mut()).await;
        let mut names = lab.children(PATH).await;
        names.retain(|name| !first_path.ends_with(name.as_str()));
        let behind = third.clone();
        let mut behind = tokio::spawn(async move { behind.acquire().await });
        lab.until_children(PATH, 3).await;
        lab.raw.delete(&format!("{PATH}/{}", names[0]), None).await.unwrap();
        let next = pass(held, next).await;
        assert_eq!(lab.children(PATH).await.len(), 2);
        assert!(lab.children(PATH).await.iter().any(|name| first_path.ends_with(name.as_str())));
        assert!(third.try_acquire().await.unwrap().is_none(), "nobody else is let in");
        assert!(!behind.is_finished());
        let released = next.release().await;
        let is_told = matches!(released, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. }));
        assert!(is_told, "{released:?}");
        let last = soon("the one of the other session", &mut behind).await.unwrap().unwrap();
        assert_eq!(lab.children(PATH).await.len(), 1);
        last.release().await.unwrap();
    }
}

#[tokio::test]
async fn who_gives_up_at_the_moment_of_the_grant_lets_the_next_in() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let (session, other) = (lab.session().await, lab.session().await);
        let (first, second, third) = (kind(&session), kind(&session), kind(&other));
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

#[tokio::test]
async fn what_was_passed_on_is_lost_with_the_session() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let (first, second) = (kind(&session), kind(&session));
        let held = first.acquire().await.unwrap();
        let mut next = pin!(second.acquire());
        until_it_follows(&session, FIRST, next.as_mut()).await;
        let next = pass(held, next).await;
        session.close().await.unwrap();
        assert!(matches!(next.state(), HoldState::Lost(_)), "{:?}", next.state());
        assert_eq!(lab.children(PATH).await, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_contenders_of_few_sessions_exclude_each_other_in_the_order_of_their_tokens_while_others_give_up() {
    const CONTENDERS: u64 = 50;
    const HOLDS: u64 = 1_500;
    for kind in KINDS {
        let lab = Lab::open().await;
        let sessions = [lab.patient_session().await, lab.patient_session().await, lab.patient_session().await];
        let (is_held, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let tokens = Arc::new(std::sync::Mutex::new(Vec::<FencingToken>::new()));
        let mut contenders = tokio::task::JoinSet::new();
        for (i, session) in (0..3 * CONTENDERS).zip(sessions.iter().cycle()) {
            let (lock, is_held, count, tokens) = (kind(session), is_held.clone(), count.clone(), tokens.clone());
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
async fn a_session_that_is_dropped_ends_although_a_node_that_has_passed_the_hold_on_cannot_be_deleted() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let (first, second) = (kind(&session), kind(&session));
        let held = first.acquire().await.unwrap();
        let mut next = Box::pin(second.acquire());
        until_it_follows(&session, FIRST, next.as_mut()).await;
        refuse_deletions(&lab).await;
        let mut releasing = Box::pin(held.release());
        assert!(poll_once(releasing.as_mut()).is_pending());
        let Poll::Ready(passed) = poll_once(next.as_mut()) else { panic!("nothing was passed on") };
        drop(next);
        let refusals = [soon("the refusal", releasing).await, soon("the other", passed.unwrap().release()).await];
        assert!(refusals.iter().all(|refused| matches!(refused, Err(Error::NotAuthorized { .. }))), "{refusals:?}");
        assert_eq!(lab.children(PATH).await.len(), 2);
        drop((first, second, session));
        lab.until_children(PATH, 0).await;
    }
}

#[tokio::test]
async fn a_hold_that_was_passed_on_after_both_nodes_were_deleted_is_lost() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let (session, other) = (lab.session().await, lab.session().await);
        let (first, second) = (kind(&session), kind(&session));
        let held = first.acquire().await.unwrap();
        let mut next = pin!(second.acquire());
        until_it_follows(&session, FIRST, next.as_mut()).await;
        delete_all(&lab, PATH).await;
        let theirs = soon("the other session", kind(&other).acquire()).await.unwrap();
        let mut releasing = pin!(held.release());
        assert!(poll_once(releasing.as_mut()).is_pending());
        let passed = poll_once(next.as_mut());
        let released = releasing.await;
        assert!(matches!(released, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. })), "{released:?}");
        if let Poll::Ready(Ok(passed)) = passed {
            assert_eq!(passed.state(), HoldState::Lost(LostReason::NodeDeleted));
            assert_eq!(soon("the loss", passed.lost()).await, LostReason::NodeDeleted);
        }
        assert_eq!(theirs.state(), HoldState::Held);
        theirs.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_hold_that_was_passed_on_into_a_broken_connection_after_both_nodes_were_deleted_is_lost() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let (server, chroot) = lab.connect_string().split_once('/').unwrap();
        let proxy = Proxy::start(server).await.unwrap();
        let config = SessionConfig::default().with_timeout(Duration::from_secs(20));
        let session = Session::connect(&format!("{}/{chroot}", proxy.connect_string()), config).await.unwrap();
        let other = lab.session().await;
        let (first, second) = (kind(&session), kind(&session));
        let held = first.acquire().await.unwrap();
        let mut next = pin!(second.acquire());
        until_it_follows(&session, FIRST, next.as_mut()).await;
        proxy.blackhole();
        delete_all(&lab, PATH).await;
        let theirs = soon("the other session", kind(&other).acquire()).await.unwrap();
        let mut releasing = pin!(held.release());
        assert!(poll_once(releasing.as_mut()).is_pending());
        let Poll::Ready(Ok(passed)) = poll_once(next.as_mut()) else { panic!("nothing was passed on") };
        proxy.cut();
        proxy.deliver();
        // Whether the first request has deleted it is not known.
        soon("the release", releasing).await.unwrap();
        assert_eq!(soon("the loss", passed.lost()).await, LostReason::NodeDeleted);
        assert_eq!(theirs.state(), HoldState::Held);
        theirs.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_release_that_is_interrupted_takes_nothing_from_those_to_whom_the_hold_was_passed_on() {
    for kind in KINDS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let (first, second, third) = (kind(&session), kind(&session), kind(&session));
        let held = first.acquire().await.unwrap();
        let (mut second, mut third) = (pin!(second.acquire()), pin!(third.acquire()));
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
