//! Elections.

use zk_recipes::{LeaderLatch, Participant};

use super::exclusion::Pair;
use super::rival::Rival;
use crate::support::{Lab, soon};

const PATH: &str = "/leaders/a";

async fn latch(lab: &Lab, id: &str) -> LeaderLatch {
    LeaderLatch::new(&lab.session().await, PATH).unwrap().with_id(id).unwrap()
}

/// Returns the participants as Curator tells them.
fn told(participants: &[Participant]) -> String {
    let one = |participant: &Participant| {
        let id = String::from_utf8(participant.data.clone()).unwrap();
        format!("{id}={}", if participant.is_holder { "leader" } else { "waiting" })
    };
    participants.iter().map(one).collect::<Vec<_>>().join(" ")
}

// L79
#[tokio::test(flavor = "multi_thread")]
async fn one_of_our_leaders_and_curator_s_leads_at_a_time() {
    let lab = Lab::open().await;
    let mut curator = Rival::curator(&lab).await;
    let pair = Pair::new(latch(&lab, "ours").await, "leader:theirs", PATH);
    pair.assert_exclusion(&lab, &mut curator).await;
}

// L81
#[tokio::test(flavor = "multi_thread")]
async fn both_see_the_same_participants_and_the_same_leader() {
    let lab = Lab::open().await;
    let ours = latch(&lab, "ours").await;
    let mut first = Rival::curator(&lab).await;
    let mut second = Rival::curator(&lab).await;
    let mut lister = Rival::curator(&lab).await;
    assert_eq!(ours.leader().await.unwrap(), None);
    assert_eq!(lister.ask(&format!("participants leader:lister {PATH}"), "participants").await, "");

    first.acquire("leader:first", PATH).await;
    let waiter = ours.enqueue().await.unwrap();
    second.queue("leader:second", PATH).await;
    lab.until_children(PATH, 3).await;
    let expected = "first=leader ours=waiting second=waiting";
    assert_eq!(told(&ours.participants().await.unwrap()), expected);
    assert_eq!(lister.ask(&format!("participants leader:lister {PATH}"), "participants").await, expected);
    assert_eq!(ours.leader().await.unwrap().unwrap().data, b"first");
    assert_eq!(lister.ask(&format!("leader leader:lister {PATH}"), "leader").await, "first");

    first.release("leader:first", PATH).await;
    let term = soon("our term", waiter.granted()).await.unwrap();
    let expected = "ours=leader second=waiting";
    assert_eq!(told(&ours.participants().await.unwrap()), expected);
    assert_eq!(lister.ask(&format!("participants leader:lister {PATH}"), "participants").await, expected);
    assert_eq!(lister.ask(&format!("leader leader:lister {PATH}"), "leader").await, "ours");
    term.release().await.unwrap();
    second.says("acquired").await;
}

// L82
#[tokio::test(flavor = "multi_thread")]
async fn the_tokens_of_terms_grow_from_ours_to_curator_s_and_back() {
    let lab = Lab::open().await;
    let ours = latch(&lab, "ours").await;
    let mut curator = Rival::curator(&lab).await;
    let mut last = None;
    for _ in 0..3 {
        let term = ours.lead().await.unwrap();
        assert!(last < Some(term.token()));
        last = Some(term.token());
        curator.queue("leader:theirs", PATH).await;
        lab.until_children(PATH, 2).await;
        curator.assert_silent().await;
        term.release().await.unwrap();

        curator.says("acquired").await;
        let leader = ours.leader().await.unwrap().unwrap();
        assert_eq!((leader.data.as_slice(), last < Some(leader.token)), (&b"theirs"[..], true));
        last = Some(leader.token);
        curator.release("leader:theirs", PATH).await;
        // What the server does with an empty container. The numbers begin anew.
        lab.raw.delete(PATH, None).await.unwrap();
    }
}

// L79
#[tokio::test(flavor = "multi_thread")]
async fn our_latch_and_curator_s_follow_a_leader_whose_session_ends() {
    let lab = Lab::open().await;
    let mut leader = Rival::curator(&lab).await;
    let mut next = Rival::curator(&lab).await;
    leader.acquire("leader:first", PATH).await;
    let ours = latch(&lab, "ours").await;
    let waiter = ours.enqueue().await.unwrap();
    next.queue("leader:next", PATH).await;
    lab.until_children(PATH, 3).await;
    // The session of a rival ends with its connection to the test.
    drop(leader);
    let term = soon("our term", waiter.granted()).await.unwrap();
    next.assert_silent().await;
    ours.session().close().await.unwrap();
    next.says("acquired").await;
    assert!(matches!(term.state(), zk_recipes::HoldState::Lost(_)));
}
