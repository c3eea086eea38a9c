// L28

use zk_recipes_protocol::names::Sequence;
use zk_recipes_protocol::number_proof::{Expected, FirstRequests, GrantedNumber, NumberProof};
use zk_recipes_protocol::stat::ParentCzxid;

const PARENT: ParentCzxid = ParentCzxid(1);
const OTHER: ParentCzxid = ParentCzxid(2);

fn grant(number: i32) -> GrantedNumber {
    GrantedNumber { parent: PARENT, sequence: Sequence::new(number) }
}

/// Returns what is known after these grants in one node. Each of them was released.
fn after(numbers: &[i32]) -> NumberProof {
    let mut known = NumberProof::default();
    for number in numbers {
        known.granted(grant(*number));
        known.released(grant(*number));
    }
    known
}

fn proves(expected: Option<Expected>, own: i32, watched: Option<ParentCzxid>) -> bool {
    expected.is_some_and(|expected| expected.proves(Sequence::new(own), watched))
}

/// Tells whether a contender with the number `own` would hold, by what is known.
fn trusts(known: &NumberProof, watched: Option<ParentCzxid>, own: i32) -> bool {
    match known.first_requests(watched) {
        FirstRequests::Nothing(expected) => proves(Some(expected), own, watched),
        FirstRequests::Look | FirstRequests::LookAndWatch => false,
    }
}

#[test]
fn two_grants_in_a_row_set_the_watch_and_then_no_look_is_needed() {
    assert_eq!(after(&[]).first_requests(None), FirstRequests::Look);
    for watched in [None, Some(PARENT)] {
        assert_eq!(after(&[4]).first_requests(watched), FirstRequests::Look, "one grant is no row");
        assert_eq!(after(&[4, 6]).first_requests(watched), FirstRequests::Look, "another contender had it in between");
    }
    assert_eq!(after(&[4, 5]).first_requests(None), FirstRequests::LookAndWatch);
    assert!(trusts(&after(&[4, 5]), Some(PARENT), 6));
}

#[test]
fn only_the_very_next_number_is_a_grant() {
    let known = after(&[4, 5]);
    for own in [4, 5, 7, 8, 0] {
        assert!(!trusts(&known, Some(PARENT), own), "{own}");
    }
}

#[test]
fn a_number_in_between_begins_a_new_row() {
    let known = after(&[4, 5, 7]);
    assert_eq!(known.first_requests(Some(PARENT)), FirstRequests::Look);
    assert!(trusts(&after(&[4, 5, 7, 8]), Some(PARENT), 9));
}

#[test]
fn no_number_follows_a_grant_whose_holder_has_not_released() {
    let mut known = after(&[4, 5]);
    known.granted(grant(6));
    assert_eq!(known.expected(), None);
    assert_eq!(known.first_requests(Some(PARENT)), FirstRequests::Look);
    known.released(grant(5));
    assert_eq!(known.expected(), None, "that was an earlier one");
    known.released(GrantedNumber { parent: OTHER, ..grant(6) });
    assert_eq!(known.expected(), None, "that was one of this number in another node");
    known.released(grant(6));
    assert!(trusts(&known, Some(PARENT), 7));
}

#[test]
fn an_expected_number_stays_true_after_later_grants() {
    let mut known = after(&[4, 5]);
    let expected = known.expected();
    known.granted(grant(6));
    assert!(proves(expected, 6, Some(PARENT)) && !proves(expected, 7, Some(PARENT)));
}

#[test]
fn a_watch_of_another_node_or_none_proves_nothing() {
    let known = after(&[4, 5]);
    assert!(proves(known.expected(), 6, Some(PARENT)));
    assert!(!proves(known.expected(), 6, Some(OTHER)));
    assert!(!proves(known.expected(), 6, None), "it has fired");
    assert_eq!(known.first_requests(Some(OTHER)), FirstRequests::Look);
}

#[test]
fn numbers_that_begin_anew_are_another_row() {
    let mut known = after(&[4, 5]);
    let anew = GrantedNumber { parent: OTHER, ..grant(6) };
    known.granted(anew);
    known.released(anew);
    assert_eq!(known.first_requests(Some(OTHER)), FirstRequests::Look);
}

#[test]
fn a_watch_that_has_fired_is_set_again_only_for_another_row() {
    let mut known = after(&[4, 5]);
    known.disturbed();
    assert_eq!(known.first_requests(None), FirstRequests::Look);
    for (number, first) in [(6, FirstRequests::Look), (7, FirstRequests::LookAndWatch)] {
        known.granted(grant(number));
        known.released(grant(number));
        assert_eq!(known.first_requests(None), first, "after {number}");
    }
}

#[test]
fn the_number_after_the_highest_is_the_lowest() {
    let known = after(&[i32::MAX - 1, i32::MAX]);
    assert!(trusts(&known, Some(PARENT), i32::MIN));
    assert!(!trusts(&known, Some(PARENT), 0));
}
