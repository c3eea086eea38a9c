//! The lock that is handed over by notes: what it costs, and that it stays a queue beside other clients.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{
    AnyLock, Error, HandoffMutex, HoldState, LockGuard, LostReason, Mutex, Session, SessionConfig, participants, revoke,
};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::support::{Lab, Waiting, soon, until};

const PATH: &str = "/locks/handoff";

fn handoff(session: &Session) -> HandoffMutex {
    HandoffMutex::new(session, PATH).unwrap()
}

async fn note(lab: &Lab) -> String {
    String::from_utf8(lab.raw.get_data(PATH).await.unwrap().0).unwrap()
}

/// Returns contenders that queue in this order.
async fn queue(lab: &Lab, locks: impl IntoIterator<Item = AnyLock>) -> Vec<Waiting> {
    let mut waiting = Vec::new();
    for lock in locks {
        let ahead = lab.children(PATH).await.len();
        waiting.push(tokio::spawn(async move { lock.acquire().await }));
        lab.until_children(PATH, ahead + 1).await;
    }
    waiting
}

// L62
#[tokio::test(flavor = "multi_thread")]
async fn alone_it_is_had_in_one_flight_of_requests() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = handoff(&session);
    lock.acquire().await.unwrap().release().await.unwrap();
    let before = session.traffic().requests;
    let held = {
        let mut acquiring = pin!(lock.acquire());
        assert!(acquiring.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(session.traffic().requests - before, 2, "both are sent before any is answered");
        acquiring.await.unwrap()
    };
    assert_eq!(session.traffic().requests - before, 2, "and they decide");
    held.release().await.unwrap();
    assert_eq!(session.traffic().requests - before, 3);
    assert_eq!(lab.children(PATH).await, Vec::<String>::new());
    assert_eq!(lab.released(PATH).await, Some(1));
}

// L63
#[tokio::test(flavor = "multi_thread")]
async fn it_is_one_queue_with_the_mutex_that_leaves_no_notes() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let held = handoff(&one).acquire().await.unwrap();
    let numbered = |session| AnyLock::from(handoff(session));
    let protected = |session| AnyLock::from(Mutex::new(session, PATH).unwrap());
    let locks = [
        numbered(&one),
        protected(&other),
        protected(&one),
        numbered(&other),
        numbered(&other),
        protected(&other),
        numbered(&one),
    ];
    let mut token = held.token();
    let waiting = queue(&lab, locks).await;
    let mut held = held;
    for (i, next) in waiting.into_iter().enumerate() {
        let holders = participants(&one, PATH).await.unwrap().into_iter().filter(|contender| contender.is_holder);
        assert_eq!(holders.map(|holder| holder.path).collect::<Vec<_>>(), [held.node_path()]);
        held.release().await.unwrap();
        held = soon("the next in the queue", next).await.unwrap().unwrap();
        assert!(held.token() > token, "contender {i}");
        token = held.token();
    }
    held.release().await.unwrap();
}

// L63
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_behind_one_that_leaves_waits_for_the_one_before() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let held = handoff(&session).acquire().await.unwrap();
    let sessions = [&session, &other, &session, &session, &session];
    let mut waiting = queue(&lab, sessions.map(|session| handoff(session).into())).await;
    // The second is closed with its session, the fourth is cancelled, the third is deleted by hand.
    other.close().await.unwrap();
    lab.until_children(PATH, 5).await;
    waiting[3].abort();
    lab.until_children(PATH, 4).await;
    let mut names = lab.children(PATH).await;
    names.sort();
    assert_eq!(names, ["lock-0000000000", "lock-0000000001", "lock-0000000003", "lock-0000000005"]);
    lab.raw.delete(&format!("{PATH}/{}", names[2]), None).await.unwrap();
    assert!(waiting.iter().enumerate().all(|(i, waiting)| waiting.is_finished() == matches!(i, 1 | 3)));
    held.release().await.unwrap();
    let first = soon("the first", waiting.remove(0)).await.unwrap().unwrap();
    assert!(!waiting[3].is_finished(), "the last waits for the first");
    first.release().await.unwrap();
    let last = soon("the last", waiting.remove(3)).await.unwrap().unwrap();
    assert_eq!(lab.children(PATH).await, ["lock-0000000005"]);
    last.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_node_was_deleted_is_told_and_lets_the_next_in() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let other = lab.session().await;
    let held = handoff(&session).acquire().await.unwrap();
    let mut waiting = queue(&lab, [handoff(&other), handoff(&session)].map(AnyLock::from)).await;
    lab.raw.delete(&format!("{PATH}/lock-0000000001"), None).await.unwrap();
    held.release().await.unwrap();
    let last = soon("the one behind it", waiting.remove(1)).await.unwrap().unwrap();
    let deleted = soon("the answer", waiting.remove(0)).await.unwrap();
    assert!(
        matches!(&deleted, Err(Error::NodeDeleted { path, .. }) if path.ends_with("lock-0000000001")),
        "{deleted:?}"
    );
    last.release().await.unwrap();
}

// L64
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_node_is_gone_leaves_no_note() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let held = handoff(&session).acquire().await.unwrap();
    lab.raw.delete(held.node_path(), None).await.unwrap();
    let lost = held.release().await;
    assert!(matches!(lost, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. })), "{lost:?}");
    assert_eq!(note(&lab).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_is_dropped_leaves_its_note_too() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    drop(handoff(&session).acquire().await.unwrap());
    until("the reaper has released", async || lab.released(PATH).await == Some(0)).await;
    assert_eq!(lab.children(PATH).await, Vec::<String>::new());
}

// L65
#[tokio::test(flavor = "multi_thread")]
async fn foreign_data_of_the_lock_s_node_are_left_alone() {
    let lab = Lab::open().await;
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    lab.raw.mkdir("/locks", &options).await.unwrap();
    lab.raw.create(PATH, b"{\"price\": 7}", &options).await.unwrap();
    let one = lab.session().await;
    let other = lab.session().await;
    let mut held = handoff(&one).acquire().await.unwrap();
    for next in queue(&lab, [&other, &one, &other].map(|session| handoff(session).into())).await {
        held.release().await.unwrap();
        held = soon("the next in the queue", next).await.unwrap().unwrap();
    }
    // Written while one holds that would have left a note.
    lab.raw.set_data(PATH, b"", None).await.unwrap();
    held.release().await.unwrap();
    let held = handoff(&one).acquire().await.unwrap();
    lab.raw.set_data(PATH, b"{\"price\": 8}", None).await.unwrap();
    held.release().await.unwrap();
    assert_eq!(note(&lab).await, "{\"price\": 8}");
    assert_eq!(lab.children(PATH).await, Vec::<String>::new());
}

// L65
#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_begin_anew_are_not_taken_for_earlier_ones() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    for _ in 0..3 {
        handoff(&one).acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(lab.released(PATH).await, Some(2));
    lab.raw.delete(PATH, None).await.unwrap();
    let mut held = handoff(&other).acquire().await.unwrap();
    assert!(held.node_path().ends_with("lock-0000000000"));
    // Up to and beyond the number that was granted last below the earlier node.
    let locks = [&one, &one, &other, &one, &one].map(|session| handoff(session).into());
    for next in queue(&lab, locks).await {
        assert!(!next.is_finished());
        held.release().await.unwrap();
        held = soon("the next in the queue", next).await.unwrap().unwrap();
    }
    held.release().await.unwrap();
    assert_eq!(lab.released(PATH).await, Some(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_says_of_its_contender_is_what_the_user_gave() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let lock = HandoffMutex::new(&session, PATH).unwrap().with_node_data("_c_host-1").unwrap();
    let held = lock.acquire().await.unwrap();
    let seen = lock.participants().await.unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].data.as_slice(), seen[0].is_holder, seen[0].token), (&b"_c_host-1"[..], true, held.token()));
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unanswered_creation_is_found_although_it_was_asked_for() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    let session = Session::connect(&proxy.connect_string(), SessionConfig::default()).await.unwrap();
    let direct = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    let children = async || raw.list_children(PATH).await.unwrap_or_default();
    let held = handoff(&session).acquire().await.unwrap();
    proxy.swallow_replies();
    // Which of the two takes which node is open.
    let cycle = async |lock: HandoffMutex| lock.acquire().await?.release().await;
    let waiting: Vec<_> = (0..2).map(|_| tokio::spawn(cycle(handoff(&session)))).collect();
    until("both are made", async || children().await.len() == 3).await;
    for name in children().await.iter().filter(|name| !held.node_path().ends_with(*name)) {
        revoke(&direct, &format!("{PATH}/{name}")).await.unwrap();
    }
    proxy.cut();
    until("the session is back", async || held.state() == HoldState::Held).await;
    let tail = tokio::spawn(cycle(handoff(&direct)));
    until("and one more queues", async || children().await.len() == 4).await;
    held.release().await.unwrap();
    for waiting in waiting.into_iter().chain([tail]) {
        soon("each is granted once", waiting).await.unwrap().unwrap();
    }
    assert_eq!(children().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_that_came_second_takes_nothing_and_leaves_nothing() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let mut held = 0;
    let mut refused = 0;
    for _ in 0..50 {
        let one = handoff(&one);
        let other = handoff(&other);
        let (one, other) = tokio::join!(one.try_acquire(), other.try_acquire());
        let guards: Vec<LockGuard> = [one.unwrap(), other.unwrap()].into_iter().flatten().collect();
        assert!(guards.len() <= 1, "two hold");
        held += guards.len();
        refused += 2 - guards.len();
        for guard in guards {
            guard.release().await.unwrap();
        }
        assert_eq!(lab.children(PATH).await, Vec::<String>::new());
    }
    assert!(held > 0 && refused > 0, "{held} held, {refused} were refused");
}

// L27
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_release_spares_the_next_node_of_that_number() {
    let lab = Lab::open().await;
    let (server, chroot) = lab.connect_string().split_once('/').unwrap();
    let proxy = Proxy::start(server).await.unwrap();
    let cluster = format!("{}/{chroot}", proxy.connect_string());
    let session = Session::connect(&cluster, SessionConfig::default()).await.unwrap();
    let held = handoff(&session).acquire().await.unwrap();
    let path = held.node_path().to_owned();
    proxy.swallow_replies();
    let releasing = tokio::spawn(held.release());
    lab.until_children(PATH, 0).await;
    // As the server does with a container that has become empty.
    lab.raw.delete(PATH, None).await.unwrap();
    let other = lab.session().await;
    let holds = handoff(&other).acquire().await.unwrap();
    assert_eq!(holds.node_path(), path, "the numbers have begun anew");
    proxy.cut();
    proxy.deliver();
    soon("the release", releasing).await.unwrap().unwrap();
    assert_eq!(lab.children(PATH).await.len(), 1);
    holds.release().await.unwrap();
}

// L27
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_does_not_take_another_node_of_its_number() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let third = lab.session().await;
    let held = handoff(&one).acquire().await.unwrap();
    let mut waiting = queue(&lab, [AnyLock::from(handoff(&other)), handoff(&third).into()]).await;
    // All at once, so that nobody can look in between.
    let mut transaction = lab.raw.new_multi_writer();
    let mode = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for i in [2, 1, 0] {
        transaction.add_delete(&format!("{PATH}/lock-{i:010}"), None).unwrap();
    }
    transaction.add_delete(PATH, None).unwrap();
    transaction.add_create(PATH, b"released-0000000001", &mode).unwrap();
    for i in [1, 2] {
        transaction.add_create(&format!("{PATH}/lock-{i:010}"), b"", &mode).unwrap();
    }
    transaction.commit().await.unwrap();
    for waiting in waiting.drain(..) {
        let deleted = soon("the answer", waiting).await.unwrap();
        assert!(matches!(deleted, Err(Error::NodeDeleted { .. })), "{deleted:?}");
    }
    drop(held);
}
