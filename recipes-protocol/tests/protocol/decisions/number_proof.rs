use zk_recipes_protocol::names::Sequence;
use zk_recipes_protocol::number_proof::{Expected, FirstRequests, Grant, NumberProof};

fn grant(incarnation: i64, number: i32) -> Grant {
    Grant { incarnation, sequence: Sequence::new(number) }
}

/// What is known after these grants in one node, each of which has gone.
fn after(numbers: &[i32]) -> NumberProof {
    let mut known = NumberProof::default();
    for number in numbers {
        known.granted(grant(1, *number));
        known.leaves(grant(1, *number));
        known.gone(grant(1, *number), true);
    }
    known
}

/// Whether a contender of this number would hold by what is known now.
fn trusts(known: &NumberProof, watched: Option<i64>, own: i32) -> bool {
    match known.first_requests(watched) {
        FirstRequests::Nothing(expected) => known.proves(expected, Sequence::new(own), watched),
        FirstRequests::Look | FirstRequests::LookAndWatch => false,
    }
}

#[test]
fn the_second_in_a_row_sets_the_watch_and_the_third_asks_nothing() {
    assert_eq!(after(&[]).first_requests(None), FirstRequests::Look);
    assert_eq!(after(&[4]).first_requests(None), FirstRequests::LookAndWatch);
    assert_eq!(after(&[4]).first_requests(Some(1)), FirstRequests::Look, "it is set, and one grant is no row");
    assert!(trusts(&after(&[4, 5]), Some(1), 6));
    assert_eq!(after(&[4, 5]).first_requests(None), FirstRequests::LookAndWatch, "the request for it failed before");
}

#[test]
fn only_the_very_next_number_is_a_grant() {
    let known = after(&[4, 5]);
    for own in [4, 5, 7, 8, 0] {
        assert!(!trusts(&known, Some(1), own), "{own}");
    }
}

#[test]
fn a_number_in_between_begins_a_new_row() {
    let known = after(&[4, 5, 7]);
    assert_eq!(known.first_requests(Some(1)), FirstRequests::Look);
    assert!(trusts(&after(&[4, 5, 7, 8]), Some(1), 9));
}

#[test]
fn nothing_follows_a_grant_whose_node_is_not_known_to_have_gone() {
    let mut known = after(&[4, 5]);
    known.granted(grant(1, 6));
    assert_eq!(known.expected(), None);
    assert_eq!(known.first_requests(Some(1)), FirstRequests::Look);
    known.gone(grant(1, 5), true);
    assert_eq!(known.expected(), None, "an earlier one has gone");
    known.gone(grant(2, 6), true);
    assert_eq!(known.expected(), None, "one of that number in another node has gone");
    known.gone(grant(1, 6), false);
    assert!(trusts(&known, Some(1), 7));
}

#[test]
fn what_goes_later_says_nothing_of_the_next_grant() {
    let mut known = after(&[4, 5]);
    known.granted(grant(1, 6));
    known.granted(grant(1, 7));
    known.leaves(grant(1, 6));
    known.gone(grant(1, 6), true);
    assert_eq!(known.expected(), None);
}

/// What is known after grants of 4, 5 and 6, and what a contender expects whose `create` is sent after the deletion of 6.
fn leaving() -> (NumberProof, Expected) {
    let mut known = after(&[4, 5]);
    known.granted(grant(1, 6));
    known.leaves(grant(1, 6));
    let FirstRequests::Nothing(expected) = known.first_requests(Some(1)) else { panic!("the deletion was sent") };
    (known, expected)
}

#[test]
fn a_deletion_that_was_sent_before_is_proof_once_it_is_confirmed_over_that_connection() {
    let (mut known, expected) = leaving();
    assert!(!known.proves(expected, Sequence::new(7), Some(1)), "it is not confirmed");
    known.gone(grant(1, 6), true);
    assert!(known.proves(expected, Sequence::new(7), Some(1)));
    assert!(!known.proves(expected, Sequence::new(8), Some(1)), "another number is in between");
    assert!(!known.proves(expected, Sequence::new(7), None), "the watch has fired");
}

#[test]
fn a_deletion_that_may_have_been_sent_again_is_proof_only_for_who_creates_later() {
    let (mut known, expected) = leaving();
    known.gone(grant(1, 6), false);
    assert!(!known.proves(expected, Sequence::new(7), Some(1)));
    assert!(trusts(&known, Some(1), 7));
}

#[test]
fn a_watch_of_another_node_or_none_proves_nothing() {
    let known = after(&[4, 5]);
    let expected = known.expected().unwrap();
    assert!(known.proves(expected, Sequence::new(6), Some(1)));
    assert!(!known.proves(expected, Sequence::new(6), Some(2)));
    assert!(!known.proves(expected, Sequence::new(6), None), "it has fired");
    assert_eq!(known.first_requests(Some(2)), FirstRequests::Look);
}

#[test]
fn numbers_that_begin_anew_are_another_row() {
    let mut known = after(&[4, 5]);
    known.granted(grant(2, 6));
    known.gone(grant(2, 6), true);
    assert_eq!(known.first_requests(Some(2)), FirstRequests::Look);
}

#[test]
fn after_the_watch_has_fired_it_is_set_again_only_when_there_is_another_row() {
    let mut known = after(&[4, 5]);
    known.disturbed();
    assert_eq!(known.first_requests(None), FirstRequests::Look);
    known.granted(grant(1, 6));
    known.gone(grant(1, 6), true);
    assert_eq!(known.first_requests(None), FirstRequests::LookAndWatch);
}

#[test]
fn the_number_after_the_highest_is_the_lowest() {
    let known = after(&[i32::MAX - 1, i32::MAX]);
    assert!(trusts(&known, Some(1), i32::MIN));
    assert!(!trusts(&known, Some(1), 0));
}
