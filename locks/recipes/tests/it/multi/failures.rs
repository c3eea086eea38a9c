//! What is reported when some of the locks fail or are lost, and what becomes of the others.

use std::error::Error as _;
use std::time::{Duration, Instant};

use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{
    AnyLock, Error, HoldState, LeaderLatch, LostReason, MultiLock, Mutex, NaiveLock, RwLock, Semaphore, SemaphoreMutex,
    Session, SessionConfig,
};

use super::{
    A, B, C, FORMS, PATHS, acquiring, acquiring_within, assert_no_nodes_but, attempt, make_lasting, mutex, mutexes,
};
use crate::support::{Lab, soon, until};

// L58
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_release_releases_the_others_and_tells_every_failure() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = mutexes(&session, PATHS);

    let held = lock.acquire().await.unwrap();
    let gone = held.guards()[1].node_path().to_owned();
    lab.raw.delete(&gone, None).await.unwrap();
    let released = held.release().await;
    assert!(
        matches!(&released, Err(Error::HoldLost { node_path, reason: LostReason::NodeDeleted, .. }) if *node_path == gone),
        "{released:?}"
    );
    assert_no_nodes_but(&lab, None).await;

    let held = lock.acquire().await.unwrap();
    let gone: Vec<_> = held.guards().iter().map(|guard| guard.node_path().to_owned()).collect();
    for path in [&gone[0], &gone[2]] {
        lab.raw.delete(path, None).await.unwrap();
    }
    let error = held.release().await.unwrap_err();
    let Error::Several { first, others, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(&**first, Error::HoldLost { node_path, .. } if *node_path == gone[2]), "{first:?}");
    assert!(matches!(&others[..], [Error::HoldLost { node_path, .. }] if *node_path == gone[0]), "{others:?}");
    assert_eq!(error.to_string(), format!("{first}; also: {}", others[0]));
    assert!(error.source().is_none(), "its text tells all");
    assert_no_nodes_but(&lab, None).await;
}

// L58
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_fails_ends_the_acquire_and_frees_the_others() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let closed = lab.session().await;
    closed.close().await.unwrap();
    let lock = MultiLock::new([mutex(&session, A), mutex(&closed, B), mutex(&session, C)]).unwrap();
    make_lasting(&lab, A).await;
    for form in FORMS {
        let changes_before = lab.raw.check_stat(A).await.unwrap().unwrap().cversion;
        let refused = attempt(&lock, form).await;
        assert!(matches!(refused, Err(Error::SessionEnded { reason: LostReason::Closed, .. })), "{refused:?}");
        assert_eq!(lab.children(A).await, Vec::<String>::new());
        let changes = lab.raw.check_stat(A).await.unwrap().unwrap().cversion;
        assert!(changes > changes_before, "the lock before it was held");
        assert!(lab.raw.check_stat(C).await.unwrap().is_none(), "the lock after it was never tried");
    }
}

// L58
#[tokio::test(flavor = "multi_thread")]
async fn the_cause_is_told_before_the_failures_of_the_other_locks() {
    let lab = Lab::open().await;
    let holder = lab.session().await;
    let session = lab.session().await;
    let closed = lab.session().await;
    let blocked = mutex(&holder, C).acquire().await.unwrap();
    let acquired = acquiring(&MultiLock::new([mutex(&session, A), mutex(&session, B), mutex(&closed, C)]).unwrap());
    lab.until_children(C, 2).await;
    let node = format!("{A}/{}", lab.children(A).await[0]);
    lab.raw.delete(&node, None).await.unwrap();
    closed.close().await.unwrap();
    let error = soon("the end of the wait", acquired).await.unwrap().unwrap_err();
    let Error::Several { first, others, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(**first, Error::SessionEnded { reason: LostReason::Closed, .. }), "{first:?}");
    assert!(
        matches!(&others[..], [Error::HoldLost { node_path, reason: LostReason::NodeDeleted, .. }] if *node_path == node),
        "{others:?}"
    );
    blocked.release().await.unwrap();
    assert_no_nodes_but(&lab, None).await;
}

// L57
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_twice_and_no_lock_at_all_are_refused() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let twice = MultiLock::from_paths(&session, [A, B, A]).unwrap_err();
    assert!(matches!(&twice, Error::DuplicateLock { path, .. } if path == A), "{twice:?}");
    assert!(
        twice.to_string().ends_with("/a was given twice: the second would wait for the first; give it once"),
        "{twice}"
    );
    // A writer that came between the two reads would make the second wait for it, and it waits for the first.
    let shared = RwLock::new(&session, B).unwrap().read_lock();
    let clone = shared.clone();
    let twice = MultiLock::new([shared, clone]).unwrap_err();
    assert!(matches!(&twice, Error::DuplicateLock { path, .. } if path == B), "{twice:?}");
    assert!(twice.to_string().contains("a writer that came between"), "{twice}");
    let permit = Semaphore::new(&session, C, 2).unwrap();
    let twice = MultiLock::new([permit.clone(), permit]).unwrap_err();
    assert!(twice.to_string().contains("acquire_many"), "{twice}");
    assert!(matches!(MultiLock::new(Vec::<AnyLock>::new()), Err(Error::NoLocks)));
    assert!(matches!(MultiLock::from_paths(&session, [""; 0]), Err(Error::NoLocks)));
    assert!(matches!(MultiLock::from_paths(&session, ["locks"]), Err(Error::InvalidPath { .. })));
    // They may be sessions of different servers.
    assert!(MultiLock::new([mutex(&session, A), mutex(&other, A)]).is_ok());
}

// L57
#[tokio::test(flavor = "multi_thread")]
async fn locks_whose_nodes_meet_are_refused() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let semaphore = |path| AnyLock::from(Semaphore::new(&session, path, 1).unwrap());
    let single = |path| AnyLock::from(SemaphoreMutex::new(&session, path).unwrap());
    let latch = |path| AnyLock::from(LeaderLatch::new(&session, path).unwrap());
    let naive = |path| AnyLock::from(NaiveLock::new(&session, path).unwrap());
    let mutex = |path| AnyLock::from(mutex(&session, path));
    let reader = |path| AnyLock::from(RwLock::new(&session, path).unwrap().read_lock());
    for [one, two] in [
        [mutex("/x/locks"), semaphore("/x")],
        [mutex("/x/leases"), single("/x")],
        [latch("/x/locks"), semaphore("/x")],
        [reader("/x/locks"), single("/x")],
        [naive("/x/locks"), semaphore("/x")],
        [naive("/x"), mutex("/x/y/z")],
        [naive("/x"), single("/x/y")],
        [mutex("/x"), naive("/x/_c_1-lock-0000000001")],
        [reader("/x"), latch("/x/__READ__0000000001/y")],
        [semaphore("/x"), mutex("/x/leases/lease-0000000001")],
    ] {
        let first = one.path().to_owned();
        let second = two.path().to_owned();
        for pair in [[one.clone(), two.clone()], [two, one]] {
            let told = MultiLock::new(pair).unwrap_err().to_string();
            let expected = told.contains(&first) && told.contains(&second) && told.contains("give them other paths");
            assert!(expected, "{first} {second}: {told}");
        }
    }
    for [one, two] in [
        [mutex("/x/locks/a"), semaphore("/x")],
        [mutex("/x"), mutex("/x/y")],
        [semaphore("/x"), single("/x/y")],
        [mutex("/x"), naive("/x/y")],
        [mutex("/xy"), naive("/x")],
        [AnyLock::from(Mutex::new(&other, "/x/locks").unwrap()), semaphore("/x")],
    ] {
        let paths = format!("{} {}", one.path(), two.path());
        assert!(MultiLock::new([one, two]).is_ok(), "{paths}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_over_two_sessions_is_lost_with_the_first_of_them() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let held = MultiLock::new([mutex(&one, A), mutex(&other, B)]).unwrap().acquire().await.unwrap();
    let node = held.guards()[1].node_path().to_owned();
    let (started, running) = tokio::sync::oneshot::channel();
    let section = held.run(async {
        started.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    let closing = async {
        running.await.unwrap();
        other.close().await.unwrap();
    };
    let (stopped, ()) = soon("the loss", async { tokio::join!(section, closing) }).await;
    assert!(
        matches!(&stopped, Err(Error::HoldLost { node_path, reason: LostReason::Closed, .. }) if *node_path == node),
        "{stopped:?}"
    );
    assert_eq!(held.state(), HoldState::Lost(LostReason::Closed));
    assert_eq!(soon("the loss", held.lost()).await, LostReason::Closed);
    assert_eq!(held.guards()[0].state(), HoldState::Held);
    assert!(mutex(&one, A).try_acquire().await.unwrap().is_none());
    let released = held.release().await;
    assert!(matches!(&released, Err(Error::HoldLost { node_path, .. }) if *node_path == node), "{released:?}");
    assert!(mutex(&one, A).try_acquire().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_lost_while_another_lock_is_waited_for_ends_the_wait() {
    let lab = Lab::open().await;
    let holder = lab.session().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let blocked = mutex(&holder, B).acquire().await.unwrap();
    let acquired = acquiring(&MultiLock::new([mutex(&one, A), mutex(&other, B)]).unwrap());
    lab.until_children(B, 2).await;
    one.close().await.unwrap();
    let refused = soon("the end of the wait", acquired).await.unwrap();
    assert!(
        matches!(&refused, Err(Error::HoldLost { path, reason: LostReason::Closed, .. }) if path == A),
        "{refused:?}"
    );
    lab.until_children(B, 1).await;
    blocked.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn giving_up_at_a_frozen_server_takes_half_a_session_timeout() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    // The holder's session outlasts the freeze.
    let for_long = SessionConfig::default().with_timeout(Duration::from_secs(60));
    let holder = Session::connect(&server.connect_string(), for_long).await.unwrap();
    let session = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    let held = mutex(&holder, C).acquire().await.unwrap();
    let lock = mutexes(&session, PATHS);
    let begun = Instant::now();
    let wait = Duration::from_secs(2);
    let acquired = acquiring_within(&lock, wait);
    let waits = async || mutex(&holder, C).participants().await.unwrap().len() == 2;
    until("the last lock is waited for", waits).await;
    server.pause().unwrap();
    let answer = acquired.await.unwrap();
    let took = begun.elapsed();
    server.resume().unwrap();
    // The rest is for a busy machine.
    assert!(took >= wait && took < wait + session.timeout() / 2 + Duration::from_secs(2), "{took:?}");
    let Err(Error::Several { first, others, .. }) = &answer else { panic!("{answer:?}") };
    assert!(matches!(&**first, Error::Unconfirmed { path, .. } if path.starts_with(C)), "{first:?}");
    let unconfirmed = |error: &Error, lock| matches!(error, Error::Unconfirmed { path, .. } if path.starts_with(lock));
    assert!(others.len() == 2 && unconfirmed(&others[0], B) && unconfirmed(&others[1], A), "{others:?}");
    held.release().await.unwrap();
    soon("the locks after the freeze", lock.acquire()).await.unwrap().release().await.unwrap();
}

// L58
#[tokio::test(flavor = "multi_thread")]
async fn the_loss_of_another_hold_with_the_same_path_is_told_too() {
    let here = Lab::open().await;
    let there = Lab::open().await;
    let one = here.session().await;
    let other = there.session().await;
    let waiting = here.session().await;
    let blocked = mutex(&here.session().await, C).acquire().await.unwrap();
    let naive = |session| NaiveLock::new(session, A).unwrap().into();
    let locks: [AnyLock; 3] = [naive(&one), naive(&other), mutex(&waiting, C).into()];
    let acquired = acquiring(&MultiLock::new(locks).unwrap());
    here.until_children(C, 2).await;
    there.raw.delete(A, None).await.unwrap();
    one.close().await.unwrap();
    let error = soon("the end of the wait", acquired).await.unwrap().unwrap_err();
    let Error::Several { first, others, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(&**first, Error::HoldLost { path, reason: LostReason::Closed, .. } if path == A), "{first:?}");
    let [Error::HoldLost { node_path, reason: LostReason::NodeDeleted, .. }] = &others[..] else {
        panic!("{others:?}")
    };
    assert_eq!(node_path, A);
    blocked.release().await.unwrap();
}
