//! Holds that linger: what they save, what ends them, and what a contender waits for beside them.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::try_join_all;
use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{CohortMutex, HoldState, MultiLock, Mutex, Session, SessionConfig, Traffic, revoke};

use super::{LONG, PATH, WAYS, arrived, cohort, handed};
use crate::cancel::{DropOutcome, drop_after};
use crate::support::{Lab, SOON, soon, until};

/// Returns a lock whose hold may linger for long, and its session.
pub(super) async fn lingering(lab: &Lab) -> (Session, CohortMutex) {
    let session = lab.session().await;
    let lock = cohort(&session).with_linger(LONG);
    (session, lock)
}

/// Lets the hold of a lock linger.
pub(super) async fn leave_lingering(lock: &CohortMutex) {
    lock.acquire().await.unwrap().release().await.unwrap();
}

/// Returns a server that nothing else uses, and a session so patient that no ping falls into a measurement.
pub(super) async fn own_server() -> (ZooKeeper, Session) {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let config = SessionConfig::default().with_timeout(Duration::from_secs(40));
    let session = Session::connect(&server.connect_string(), config).await.unwrap();
    (server, session)
}

pub(super) async fn watches(server: &ZooKeeper) -> u64 {
    server.metric("zk_watch_count").await.unwrap()
}

// L72
#[tokio::test(flavor = "multi_thread")]
async fn a_lone_process_sends_no_request_after_its_first_release() {
    for way in WAYS {
        let (server, session) = own_server().await;
        let lock = way(&session).with_linger(LONG);
        let first = lock.acquire().await.unwrap();
        let node = first.node_path().to_owned();
        let mut token = first.token();
        first.release().await.unwrap();
        let before = (session.traffic(), server.metric("zk_bytes_received_count").await.unwrap());
        for handover in 1..=100 {
            let held = match handover % 2 {
                0 => lock.acquire().await.unwrap(),
                _ => lock.try_acquire().await.unwrap().expect("nobody holds"),
            };
            assert_eq!((held.node_path(), held.state()), (node.as_str(), HoldState::Held));
            assert_eq!(held.token().handover(), handover);
            assert!(token < held.token());
            token = held.token();
            held.release().await.unwrap();
        }
        assert_eq!(session.traffic(), before.0);
        // The server also counts the command `mntr`, which asks for its counters.
        let received = server.metric("zk_bytes_received_count").await.unwrap() - before.1;
        assert_eq!(received, "mntr".len() as u64);
    }
}

/// A rival waits for at most three round trips more than at a free lock. Two of them are its own requests: it watches the node
/// ahead, and lists the queue again. Between them, our process hears of the rival and deletes its node.
// L73
#[tokio::test(flavor = "multi_thread")]
async fn a_rival_is_granted_after_one_notification_and_one_deletion() {
    for way in WAYS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let acquire = async |session: &Session| {
            let held = soon("the lock", Mutex::new(session, PATH).unwrap().acquire()).await.unwrap();
            (session.traffic().requests, held)
        };
        // The parents exist from now on.
        Mutex::new(&other, PATH).unwrap().acquire().await.unwrap().release().await.unwrap();
        let (free, held) = acquire(&lab.session().await).await;
        held.release().await.unwrap();
        let lock = way(&session).with_linger(LONG);
        leave_lingering(&lock).await;
        let before = session.traffic();
        let rival = lab.session().await;
        let (behind, held) = acquire(&rival).await;
        let spent = || session.traffic().since(before);
        // The rival's arrival fires the watch of the queue, and the deletion fires the watch of the node.
        until("the deletion is answered", async || spent().requests > 0 && spent().notifications == 2).await;
        let more = behind - free + spent().requests;
        assert!(more <= 3, "{more} round trips more than the {free} requests at a free lock");
        assert_eq!(lab.children(PATH).await.len(), 1);
        assert!(lock.try_acquire().await.unwrap().is_none());
        held.release().await.unwrap();
        let held = lock.acquire().await.unwrap();
        assert_eq!(held.token().handover(), 0, "it has queued anew");
        held.release().await.unwrap();
    }
}

// L73
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_does_not_linger_beside_a_rival_that_already_queues() {
    for cycles in [0, 1, 2] {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let lock = cohort(&session).with_linger(LONG);
        for _ in 0..cycles {
            leave_lingering(&lock).await;
        }
        let held = lock.acquire().await.unwrap();
        let rival = Mutex::new(&other, PATH).unwrap().enqueue().await.unwrap();
        held.release().await.unwrap();
        soon("the rival", rival.granted()).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rival_s_try_fails_without_a_write_and_the_hold_lingers_on() {
    let lab = Lab::open().await;
    let (session, lock) = lingering(&lab).await;
    let other = lab.session().await;
    leave_lingering(&lock).await;
    let before = session.traffic();
    assert!(Mutex::new(&other, PATH).unwrap().try_acquire().await.unwrap().is_none());
    let held = lock.acquire().await.unwrap();
    assert_eq!((held.token().handover(), session.traffic()), (1, before));
    held.release().await.unwrap();
}

// L77
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_lingers_for_its_time_and_no_longer() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let linger = Duration::from_millis(50);
    let lock = cohort(&session).with_linger(linger);
    for _ in 0..3 {
        leave_lingering(&lock).await;
        lab.until_children(PATH, 0).await;
    }
    let held = lock.acquire().await.unwrap();
    assert_eq!(held.token().handover(), 0);
    held.release().await.unwrap();
    // The time counts from the last release, also if a member holds when the time of an earlier one is over.
    let held = lock.acquire().await.unwrap();
    let taken = Instant::now();
    until("the earlier time is over", async || taken.elapsed() > 2 * linger).await;
    assert_eq!((lab.children(PATH).await.len(), held.state()), (1, HoldState::Held));
    held.release().await.unwrap();
    lab.until_children(PATH, 0).await;
}

// L77
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_lingers_for_the_time_of_its_last_holder() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let patient = cohort(&session).with_linger(LONG);
    leave_lingering(&patient).await;
    leave_lingering(&cohort(&session).with_linger(Duration::from_millis(50))).await;
    lab.until_children(PATH, 0).await;
}

// L74
#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_the_lock_ends_and_prevents_lingering() {
    for way in WAYS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let lock = way(&session).with_linger(LONG);
        leave_lingering(&lock).await;
        let participants = lock.participants().await.unwrap();
        revoke(&other, &participants[0].path).await.unwrap();
        lab.until_children(PATH, 0).await;
        // Each number of earlier releases: none has set a watch, and one has.
        for cycles in [0, 1] {
            for _ in 0..cycles {
                leave_lingering(&lock).await;
            }
            let held = lock.acquire().await.unwrap();
            assert_eq!(held.token().handover(), cycles);
            let revocation = held.revocation();
            revoke(&other, held.node_path()).await.unwrap();
            soon("the request", revocation.requested()).await.unwrap();
            held.release().await.unwrap();
            lab.until_children(PATH, 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_lingers_only_behind_a_release_and_if_it_is_told_to() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    leave_lingering(&cohort(&session)).await;
    assert_eq!(lab.children(PATH).await, Vec::<String>::new(), "it lingers by default");
    let lock = cohort(&session).with_linger(LONG);
    drop(lock.acquire().await.unwrap());
    lab.until_children(PATH, 0).await;
    leave_lingering(&lock).await;
    drop(lock.acquire().await.unwrap());
    lab.until_children(PATH, 0).await;
    // The last holder decides.
    leave_lingering(&lock).await;
    leave_lingering(&cohort(&session)).await;
    assert_eq!(lab.children(PATH).await, Vec::<String>::new());
}

/// Otherwise each of two processes could keep one lock, and every try of both would fail.
// L75
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_is_given_back_unused_does_not_linger() {
    let lab = Lab::open().await;
    let sessions = [lab.session().await, lab.session().await];
    let locks = sessions
        .each_ref()
        .map(|session| ["/locks/a", "/locks/b"].map(|path| CohortMutex::new(session, path).unwrap().with_linger(LONG)));
    let [one, other] = locks.each_ref().map(|locks| MultiLock::new(locks.clone()).unwrap());
    leave_lingering(&locks[0][0]).await;
    leave_lingering(&locks[1][1]).await;
    assert!(one.try_acquire().await.unwrap().is_none());
    other.try_acquire().await.unwrap().expect("both locks are free").release().await.unwrap();
}

// L72
#[tokio::test(flavor = "multi_thread")]
async fn a_lone_cohort_whose_hold_lingers_looks_for_others() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = cohort(&session).with_linger(LONG).with_max_handovers(3).with_max_tenure(Duration::ZERO);
    leave_lingering(&lock).await;
    let mut asked = vec![];
    for handover in 1..=9 {
        let before = session.traffic();
        let held = lock.acquire().await.unwrap();
        assert_eq!(held.token().handover(), handover);
        held.release().await.unwrap();
        let spent = session.traffic().since(before);
        if spent != Traffic::default() {
            assert_eq!(spent.requests, 2, "whether the node is there, and how many others are");
            asked.push(handover);
        }
    }
    assert_eq!(asked, [3, 6, 9]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_comes_during_the_first_look_is_handed_the_hold() {
    let lab = Lab::open().await;
    let (session, lock) = lingering(&lab).await;
    let held = lock.acquire().await.unwrap();
    let mut releasing = Box::pin(held.release());
    assert!((&mut releasing).now_or_never().is_none(), "it looks");
    let next = arrived(&lock);
    releasing.await.unwrap();
    let held = handed(next);
    assert_eq!(held.token().handover(), 1);
    let before = session.traffic();
    held.release().now_or_never().expect("the watch is set").unwrap();
    assert_eq!((lab.children(PATH).await.len(), session.traffic()), (1, before));
}

#[tokio::test]
async fn a_release_that_lets_a_hold_linger_may_be_dropped_at_any_poll() {
    for way in WAYS {
        let lab = Lab::open().await;
        let session = lab.session().await;
        let other = lab.session().await;
        let lock = way(&session).with_linger(LONG);
        for polls in 1.. {
            let held = lock.acquire().await.unwrap();
            let outcome = drop_after(polls, held.release()).await;
            let rival = Mutex::new(&other, PATH).unwrap();
            soon("the rival", rival.acquire()).await.unwrap().release().await.unwrap();
            if outcome == DropOutcome::Finished {
                break;
            }
        }
    }
}

// L78
#[tokio::test(flavor = "multi_thread")]
async fn no_more_holds_of_a_session_linger_than_may() {
    let lab = Lab::open().await;
    let session = lab.patient_session().await;
    let lock = |i: usize| CohortMutex::new(&session, &format!("/locks/{i}")).unwrap().with_linger(LONG);
    let locks: Vec<CohortMutex> = (0..CohortMutex::MAX_LINGERING).map(lock).collect();
    let lingering = try_join_all(locks.iter().map(async |lock| lock.acquire().await?.release().await));
    soon("all locks", lingering).await.unwrap();
    let one_more = lock(CohortMutex::MAX_LINGERING);
    leave_lingering(&one_more).await;
    assert_eq!(lab.children(one_more.path()).await, Vec::<String>::new());
    drop(locks);
    until("a place is free", async || {
        leave_lingering(&one_more).await;
        !lab.children(one_more.path()).await.is_empty()
    })
    .await;
}

/// Neither an acquire nor a release of the busy task waits. It shares its thread with its own connection.
// L73
#[tokio::test]
async fn a_task_that_takes_a_lingering_hold_again_lets_a_rival_in() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let lock = cohort(&session).with_linger(LONG).with_max_handovers(u32::MAX);
    leave_lingering(&lock).await;
    let mut busy = Box::pin(async {
        for _ in 0..1_000 {
            leave_lingering(&lock).await;
        }
    });
    assert!((&mut busy).now_or_never().is_none(), "it keeps the thread to itself");
    busy.await;
    let rival = Mutex::new(&other, PATH).unwrap();
    let rival = tokio::spawn(async move { rival.acquire().await });
    let begun = Instant::now();
    while !rival.is_finished() {
        assert!(begun.elapsed() < SOON, "the rival waits in vain");
        if let Some(held) = lock.try_acquire().await.unwrap() {
            held.release().await.unwrap();
        }
    }
    rival.await.unwrap().unwrap().release().await.unwrap();
}
