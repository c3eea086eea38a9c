//! Steps of the state machine that the models of few contenders do not reach.

use zk_recipes_protocol::names::{Mode, Names, Naming};
use zk_recipes_protocol::queue::Queue;
use zk_recipes_protocol::release_note::ParentState;
use zk_recipes_protocol::session_queue::{
    Ask, ContenderId, ContenderState, Event, Failure, FirstLook, Made, NewNode, NotCreated, Pause, Seen, SessionQueue,
    Viewpoint, Wish, WishKind,
};
use zk_recipes_protocol::stat::Stat;

const LOCK: Wish = Wish { mode: Mode::Exclusive, naming: Naming::Protected, names: Names::MUTEX, kind: WishKind::Wait };

fn asks_of(queue: &mut SessionQueue, event: Event) -> Vec<Ask> {
    let mut asks = Vec::new();
    queue.on(event, &mut asks);
    asks
}

fn entered(queue: &mut SessionQueue) -> ContenderId {
    let mut asks = Vec::new();
    let id = queue.enter(LOCK, &mut asks);
    assert!(matches!(asks[..], [Ask::Create(..)]), "{asks:?}");
    id
}

fn created(queue: &mut SessionQueue, id: ContenderId, number: i32, czxid: i64) -> Vec<Ask> {
    let made = Made { name: format!("_c_{czxid}-lock-{number:010}"), czxid, is_ours: true };
    asks_of(queue, Event::Created(id, Ok((made, Seen::Nothing))))
}

/// Delivers a listing to the contender with number 7, behind one with number 6.
fn listed(queue: &mut SessionQueue, id: ContenderId) -> Vec<Ask> {
    let stat = Stat { czxid: 1, pzxid: 70, num_children: 2, ..Stat::default() };
    let viewpoint: Viewpoint = queue.viewpoint(id);
    let children = ["_c_x-lock-0000000006", "_c_70-lock-0000000007"];
    let seen = viewpoint.see(&Queue::from_children(children, viewpoint.names), &stat);
    asks_of(queue, Event::Listed(id, Ok(Some(seen))))
}

#[test]
fn a_search_begins_with_the_pause_after_its_own_lost_reply() {
    let mut queue = SessionQueue::default();
    let id = entered(&mut queue);
    let lost = Event::Created(id, Err(NotCreated::Failed(Failure::ReplyLost)));
    assert_eq!(asks_of(&mut queue, lost), [Ask::Pause(id, Pause::ReplyLost)]);
    assert_eq!(asks_of(&mut queue, Event::Woke(id, Pause::Join)), []);
    assert_eq!(asks_of(&mut queue, Event::Woke(id, Pause::ReplyLost)), [Ask::Find(id)]);
}

#[test]
fn a_watch_that_fires_during_a_look_at_the_node_counts() {
    let mut queue = SessionQueue::default();
    let id = entered(&mut queue);
    assert_eq!(created(&mut queue, id, 7, 70), [Ask::List(id)]);
    assert_eq!(listed(&mut queue, id), [Ask::Watch(id, "_c_x-lock-0000000006".to_owned())]);
    // The node ahead is younger.
    assert_eq!(asks_of(&mut queue, Event::WatchSet(id, Ok(Some(71)))), [Ask::CheckOwn(id)]);
    assert_eq!(asks_of(&mut queue, Event::Fired { id, is_gone: true }), []);
    let next = asks_of(&mut queue, Event::OwnChecked(id, Ok(true)));
    assert_eq!(next, [Ask::List(id)], "it looks again");
}

#[test]
fn a_contender_that_is_discarded_leaves_the_others_as_they_are() {
    let mut queue = SessionQueue::default();
    let gone = entered(&mut queue);
    let stays = entered(&mut queue);
    created(&mut queue, gone, 6, 60);
    queue.discard(gone);
    assert!(!queue.has(gone));
    assert_eq!(created(&mut queue, stays, 7, 70), [Ask::List(stays)]);
    assert_eq!(asks_of(&mut queue, Event::Leaves { id: gone, hands_over: false, is_node_gone: false }), []);
    assert_eq!(queue.state(stays), ContenderState::Contending);
}

// L27
#[test]
fn the_missing_node_of_a_number_is_not_deleted_by_its_name() {
    for is_node_gone in [false, true] {
        let mut queue = SessionQueue::default();
        let mut asks = Vec::new();
        let id = queue.enter(Wish { naming: Naming::Numbered, ..LOCK }, &mut asks);
        let name = "lock-0000000006".to_owned();
        let made = Made { name: name.clone(), czxid: 60, is_ours: true };
        let state = ParentState::new(b"", &Stat { czxid: 1, pzxid: 60, num_children: 1, ..Stat::default() });
        asks_of(&mut queue, Event::Created(id, Ok((made, Seen::Note(state)))));
        asks_of(&mut queue, Event::Proved(id, Ok(())));
        let left = asks_of(&mut queue, Event::Leaves { id, hands_over: false, is_node_gone });
        match &left[..] {
            [Ask::Identify(_, identified)] => assert!(is_node_gone && *identified == name),
            asks => assert!(!is_node_gone && matches!(asks, [Ask::Delete(..)]), "{asks:?}"),
        }
    }
}

#[test]
fn a_try_looks_and_does_not_wait_for_a_known_predecessor() {
    let mut queue = SessionQueue::default();
    let mut asks = Vec::new();
    let tries = queue.enter(Wish { kind: WishKind::Try, ..LOCK }, &mut asks);
    assert_eq!(asks, [Ask::List(tries)]);
    let ahead = entered(&mut queue);
    let create = Ask::Create(tries, NewNode::Numbered, FirstLook::None);
    assert_eq!(asks_of(&mut queue, Event::Listed(tries, Ok(None))), [create]);
    created(&mut queue, ahead, 6, 60);
    assert_eq!(created(&mut queue, tries, 7, 70), [Ask::List(tries)]);
}

#[test]
fn contenders_that_join_at_once_send_one_look() {
    let mut queue = SessionQueue::default();
    let mut asks = Vec::new();
    let looks = queue.enter(LOCK, &mut asks);
    let waits = queue.enter(LOCK, &mut asks);
    let create = |id, look| Ask::Create(id, NewNode::Numbered, look);
    assert_eq!(asks[..2], [create(looks, FirstLook::List), create(waits, FirstLook::None)]);
    created(&mut queue, looks, 6, 60);
    let next = created(&mut queue, waits, 7, 70);
    assert_eq!(next, [Ask::Watch(waits, "_c_60-lock-0000000006".to_owned())]);
}
