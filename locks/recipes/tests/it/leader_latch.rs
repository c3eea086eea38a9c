//! What a latch promises beyond what every recipe does: ids, terms that notice their deleted nodes, and hand-overs of terms.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, HoldState, LeaderLatch, LockGuard, LostReason, Session, SessionConfig, revoke};
use zookeeper_client::Client;

use crate::handover::{FIRST, LATER, until_it_follows};
use crate::support::{Lab, soon, until};

const PATH: &str = "/leaders/a";
const DELETED: HoldState = HoldState::Lost(LostReason::NodeDeleted);

fn latch(session: &Session) -> LeaderLatch {
    LeaderLatch::new(session, PATH).unwrap()
}

/// Waits until a term is lost, and asserts that it is because of its node.
async fn until_deleted(term: &LockGuard) {
    assert_eq!(soon("the loss", term.lost()).await, LostReason::NodeDeleted);
    assert_eq!(term.state(), DELETED);
}

#[tokio::test]
async fn the_node_of_a_participant_has_curator_s_name_and_its_id() {
    let lab = Lab::open().await;
    let term = latch(&lab.session().await).with_id("instance-1").unwrap().lead().await.unwrap();
    let name = term.node_path().strip_prefix("/leaders/a/_c_").expect("a protected name");
    assert_eq!(&name[36..], "-latch-0000000000");
    assert_eq!(lab.raw.get_data(term.node_path()).await.unwrap().0, b"instance-1");
}

#[tokio::test]
async fn an_id_that_cannot_be_the_data_of_a_node_is_refused() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    assert!(matches!(latch(&session).with_id("__REVOKE__"), Err(Error::NodeDataReserved)));
    assert!(matches!(latch(&session).with_id("a".repeat(1_000_001)), Err(Error::NodeDataTooLong { .. })));
    assert!(matches!(LeaderLatch::new(&session, "leaders"), Err(Error::InvalidPath { .. })));
}

// L81
#[tokio::test]
async fn participants_are_told_with_their_ids_and_the_leader_first() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let one = latch(&one).with_id("one").unwrap();
    let other = latch(&other).with_id("other").unwrap();
    assert_eq!((one.leader().await.unwrap(), one.participants().await.unwrap()), (None, Vec::new()));
    let term = one.lead().await.unwrap();
    let waiter = other.enqueue().await.unwrap();
    let listed = other.participants().await.unwrap();
    let told: Vec<_> = listed.iter().map(|one| (one.data.as_slice(), one.is_holder, one.token)).collect();
    assert_eq!(told, [(&b"one"[..], true, term.token()), (b"other", false, waiter.token())]);
    assert_eq!(other.leader().await.unwrap().as_ref(), listed.first());
    assert_eq!(zk_recipes::participants(one.session(), PATH).await.unwrap(), listed);
    term.release().await.unwrap();
    let term = soon("the next term", waiter.granted()).await.unwrap();
    assert_eq!(one.leader().await.unwrap().unwrap().token, term.token());
}

// L85
#[tokio::test]
async fn a_participant_that_gives_up_leaves_no_node() {
    let lab = Lab::open().await;
    let sessions = [lab.session().await, lab.session().await, lab.session().await];
    let term = latch(&sessions[0]).lead().await.unwrap();
    assert!(latch(&sessions[1]).try_lead().await.unwrap().is_none());
    assert!(latch(&sessions[1]).lead_within(Duration::from_millis(50)).await.unwrap().is_none());
    assert_eq!(lab.children(PATH).await.len(), 1);
    let gives_up = latch(&sessions[1]);
    let dropped = latch(&sessions[1]);
    let gives_up = gives_up.enqueue().await.unwrap();
    let dropped = dropped.enqueue().await.unwrap();
    let next = latch(&sessions[2]).enqueue().await.unwrap();
    gives_up.withdraw().await.unwrap();
    assert_eq!(lab.children(PATH).await.len(), 3);
    drop(dropped);
    lab.until_children(PATH, 2).await;
    drop(term);
    soon("the next term", next.granted()).await.unwrap().release().await.unwrap();
    assert_eq!(lab.children(PATH).await, Vec::<String>::new());
}

// L83
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_node_ends_the_term_and_what_runs_in_it() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let term = latch(&one).lead().await.unwrap();
    let next = latch(&other).enqueue().await.unwrap();
    let watch = term.watch();
    let node = term.node_path().to_owned();
    let working = tokio::spawn(async move { (term.run(pending::<()>()).await, term) });
    lab.raw.delete(&node, None).await.unwrap();
    let (stopped, term) = soon("the end of the work", working).await.unwrap();
    assert!(matches!(stopped, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. })), "{stopped:?}");
    assert_eq!(watch.state(), Some(DELETED));
    let next = soon("the next term", next.granted()).await.unwrap();
    assert!(matches!(term.release().await, Err(Error::HoldLost { reason: LostReason::NodeDeleted, .. })));
    assert_eq!(next.state(), HoldState::Held);
    next.release().await.unwrap();
}

// L82
#[tokio::test(flavor = "multi_thread")]
async fn a_term_ends_when_the_latch_is_made_anew_and_tokens_grow() {
    let lab = Lab::open().await;
    let one = lab.session().await;
    let other = lab.session().await;
    let term = latch(&one).lead().await.unwrap();
    lab.raw.delete(term.node_path(), None).await.unwrap();
    lab.raw.delete(PATH, None).await.unwrap();
    let next = latch(&other).lead().await.unwrap();
    assert!(next.node_path().ends_with("-latch-0000000000"), "the numbers began anew");
    assert!(next.token() > term.token());
    until_deleted(&term).await;
    assert_eq!(next.state(), HoldState::Held);
}

// L83
#[tokio::test(flavor = "multi_thread")]
async fn a_node_deleted_during_a_cut_connection_ends_the_term() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    let config = SessionConfig::default().with_timeout(Duration::from_secs(40));
    let session = Session::connect(&proxy.connect_string(), config).await.unwrap();
    let term = latch(&session).lead().await.unwrap();
    until("the node is watched", async || server.metric("zk_watch_count").await.unwrap() == 1).await;
    proxy.refuse();
    proxy.cut();
    until("the connection is away", async || proxy.connections() == 0).await;
    raw.delete(term.node_path(), None).await.unwrap();
    proxy.accept();
    until_deleted(&term).await;
    assert!(!session.is_ended());
}

// L83
#[tokio::test(flavor = "multi_thread")]
async fn other_data_and_a_new_connection_do_not_end_a_term() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    let session = Session::connect(&proxy.connect_string(), SessionConfig::default()).await.unwrap();
    let term = latch(&session).lead().await.unwrap();
    let watches = async || server.metric("zk_watch_count").await.unwrap();
    let changes = async || server.metric("zk_sum_node_changed_watch_count").await.unwrap();
    until("the node is watched", async || watches().await == 1).await;
    revoke(&session, term.node_path()).await.unwrap();
    until("the watch has fired", async || changes().await == 1).await;
    until("the node is watched again", async || watches().await == 1).await;
    proxy.refuse();
    proxy.cut();
    until("the connection ended, and its watch with it", async || watches().await == 0).await;
    proxy.accept();
    until("the node is watched by the next connection", async || watches().await == 1).await;
    until("the term is certain again", async || term.state() == HoldState::Held).await;
    raw.delete(term.node_path(), None).await.unwrap();
    until_deleted(&term).await;
}

// L80
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_is_waited_for_by_one_watch_until_it_is_gone() {
    let server = ZooKeeper::start(ZooKeeperConfig::default()).await.unwrap();
    let proxy = Proxy::start(&server.connect_string()).await.unwrap();
    let session = Session::connect(&server.connect_string(), SessionConfig::default()).await.unwrap();
    let follower = Session::connect(&proxy.connect_string(), SessionConfig::default()).await.unwrap();
    let watches = async || server.metric("zk_watch_count").await.unwrap();
    let term = latch(&session).lead().await.unwrap();
    until("the leader watches its node", async || watches().await == 1).await;
    let follow = async || {
        let leader = latch(&follower).leader().await.unwrap().unwrap();
        let election = latch(&follower);
        (leader.clone(), tokio::spawn(async move { election.until_gone(&leader).await }))
    };
    let (_, dropped) = follow().await;
    until("the follower watches", async || watches().await == 2).await;
    dropped.abort();
    until("the watch is removed", async || watches().await == 1).await;
    let (leader, waiting) = follow().await;
    until("the follower watches again", async || watches().await == 2).await;
    // Other data and another connection are no end.
    revoke(&session, term.node_path()).await.unwrap();
    proxy.refuse();
    proxy.cut();
    until("the connection ended, and its watch with it", async || watches().await == 1).await;
    proxy.accept();
    until("the next connection watches", async || watches().await == 2).await;
    assert!(!waiting.is_finished());
    term.release().await.unwrap();
    soon("the end of the term", waiting).await.unwrap().unwrap();
    soon("what is over", latch(&follower).until_gone(&leader)).await.unwrap();
}

// L84
#[tokio::test]
async fn a_release_does_not_end_the_term_that_it_hands_over() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let first = latch(&session);
    let second = latch(&session);
    let third = latch(&session);
    let mut term = first.lead().await.unwrap();
    let mut second = pin!(second.lead());
    let mut third = pin!(third.lead());
    until_it_follows(&session, FIRST, second.as_mut()).await;
    until_it_follows(&session, LATER, third.as_mut()).await;
    for next in [second, third] {
        let watch = term.watch();
        let before = session.traffic().notifications;
        let (released, granted) = tokio::join!(term.release(), next);
        released.unwrap();
        term = granted.unwrap();
        assert_eq!(watch.state(), None, "it ended without a loss");
        // The leader and its successor have watched the deleted node.
        until("the deletion is notified", async || session.traffic().notifications == before + 2).await;
        assert_eq!(term.state(), HoldState::Held);
    }
    term.release().await.unwrap();
}

// L83
#[tokio::test]
async fn a_handed_over_term_whose_node_was_deleted_is_lost() {
    let lab = Lab::open().await;
    let session = lab.session().await;
    let first = latch(&session);
    let second = latch(&session);
    let term = first.lead().await.unwrap();
    let mut next = pin!(second.lead());
    until_it_follows(&session, FIRST, next.as_mut()).await;
    let children = lab.children(PATH).await;
    let own = children.iter().map(|name| format!("{PATH}/{name}")).find(|path| path != term.node_path());
    lab.raw.delete(&own.unwrap(), None).await.unwrap();
    let (_, next) = tokio::join!(term.release(), next);
    let next = next.unwrap();
    until_deleted(&next).await;
    drop(next);
    lab.until_children(PATH, 0).await;
}
