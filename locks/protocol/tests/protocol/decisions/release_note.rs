use proptest::prelude::*;
use zk_recipes_protocol::names::Sequence;
use zk_recipes_protocol::release_note::{ParentState, note};
use zk_recipes_protocol::stat::{ParentCzxid, Stat};

/// The transaction that created the lock's node.
const PARENT: i64 = 5;
/// The transaction that created the contender's node.
const OWN: i64 = 9;

/// Returns the lock's node with this data, the last change of its children, and their number.
fn noted(data: &[u8], changed: i64, children: i32) -> ParentState {
    let stat = Stat { czxid: PARENT, pzxid: changed, version: 3, num_children: children };
    ParentState::new(data, &stat)
}

/// Tells whether a note of the number `released` lets in the contender `own`, whose predecessor is gone.
fn lets_in(released: i32, predecessor: i32, own: i32) -> bool {
    let noted = noted(&note(Sequence::new(released), ParentCzxid(PARENT)), 12, 2);
    noted.proves_nobody_ahead(Sequence::new(predecessor), Sequence::new(own), OWN)
}

#[test]
fn a_note_names_the_holder_s_number_and_the_lock_s_node() {
    assert_eq!(note(Sequence::new(42), ParentCzxid(0x1a)), b"released-0000000042-of-0x000000000000001a");
    let proves = |data: &[u8], released| {
        let [number, next] = [released, released + 1].map(Sequence::new);
        noted(data, 12, 2).proves_nobody_ahead(number, next, OWN)
    };
    assert!(proves(b"released-0000000041-of-0x0000000000000005", 41));
    assert!(proves(b"released--000000001-of-0x0000000000000005", -1));
}

#[test]
fn empty_data_are_replaced() {
    assert_eq!(noted(b"", 12, 2).version_to_replace(), Some(3));
}

#[test]
fn data_that_are_no_notes_are_not_replaced() {
    for foreign in [
        &b"192.168.1.7"[..],
        b"{}",
        b"released-",
        b"released-42",
        b"released-0000000042",
        b"releasing-0000000042",
        b"not released-0000000042",
        b"released-0000000042-of-0x",
        b"released-42-of-0x1a",
        b"released-0000000042-of-0x1a",
        b"released-0000000042-of-0x000000000000001a ",
        b"released-0000000042-of-0x000000000000001A",
        b"released-0000000042-of-0x+00000000000001a",
        b"released-x-released-0000000042-of-0x000000000000001a",
        b"released--000000000-of-0x000000000000001a",
        b"\xff",
    ] {
        assert_eq!(noted(foreign, 12, 2).version_to_replace(), None, "{foreign:?}");
    }
}

#[test]
fn a_release_note_lets_in_the_waiter_behind_its_number() {
    assert!(lets_in(41, 41, 42));
    assert!(lets_in(41, 39, 42), "the contenders between have given up");
    assert!(!lets_in(40, 41, 42), "the predecessor gave up and never held");
    assert!(!lets_in(42, 41, 42), "no other contender can have this number");
    assert!(lets_in(i32::MAX, i32::MAX, i32::MIN), "the number after the wrap");
    for data in [&b""[..], b"released-0000000041", b"{}"] {
        assert!(!noted(data, 12, 2).proves_nobody_ahead(Sequence::new(41), Sequence::new(42), OWN), "{data:?}");
    }
}

#[test]
fn a_note_of_another_lock_s_node_proves_nothing() {
    let of_node = |czxid| noted(&note(Sequence::new(41), ParentCzxid(czxid)), 12, 2);
    assert!(of_node(PARENT).proves_nobody_ahead(Sequence::new(41), Sequence::new(42), OWN));
    assert!(!of_node(PARENT - 1).proves_nobody_ahead(Sequence::new(41), Sequence::new(42), OWN), "it was copied");
    assert!(
        !of_node(PARENT).proves_nobody_ahead(Sequence::new(41), Sequence::new(42), PARENT - 1),
        "the contender is of an earlier one"
    );
}

#[test]
fn a_contender_that_was_always_alone_has_the_only_child() {
    assert!(noted(b"", OWN, 1).has_only_child(OWN));
    assert!(!noted(b"", OWN, 2).has_only_child(OWN), "a second child is there");
    assert!(!noted(b"", OWN + 1, 1).has_only_child(OWN), "the child may be another one");
}

proptest! {
    #[test]
    fn a_note_lets_in_only_the_direct_successor(number in any::<i32>(), further in 1..i32::MAX / 2) {
        let own = Sequence::new(number).before();
        let noted = noted(&note(own, ParentCzxid(PARENT)), 12, 2);
        let next = Sequence::new(number);
        prop_assert!(noted.proves_nobody_ahead(next.before(), next, OWN));
        let other = Sequence::new(number.wrapping_add(further));
        prop_assert!(!noted.proves_nobody_ahead(other.before(), other, OWN));
    }
}
