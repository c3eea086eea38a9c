//! Mistakes that the library has made. The checker has to find each.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};
use zk_recipes_protocol::names::Supply;

use super::contender::Program::{Handoff, Lock};
use super::properties::{CAUSED, EXCLUSION, OWNED, PRESENCE, STANDING};
use super::protocol::Ownership;
use super::rules::Rules;
use super::server::Faults;
use super::{NONE, begun_anew, copied_note, deleted, last_numbers, twins, two_kinds};

/// Expects the properties to fail by these rules, and all to hold by those of the library.
fn expect_failure(model: &Ownership, rules: Rules, properties: &[&'static str]) {
    for property in properties {
        let mistaken = Ownership { rules, ..model.clone() };
        let found = HasDiscoveries::AllOf(BTreeSet::from([*property]));
        mistaken.checker().finish_when(found).spawn_bfs().join().assert_any_discovery(property);
    }
    model.clone().checker().spawn_bfs().join().assert_properties();
}

#[test]
fn planted_a_search_that_takes_the_node_of_another_kind_of_lock_is_found() {
    let rules = Rules { takes_numbered_only: false, ..Rules::default() };
    expect_failure(&two_kinds(), rules, &[EXCLUSION]);
}

#[test]
fn planted_a_search_that_takes_the_node_of_another_contender_is_found() {
    let rules = Rules { respects_taken: false, ..Rules::default() };
    expect_failure(&twins(1), rules, &[EXCLUSION, PRESENCE]);
}

#[test]
fn planted_a_waiter_that_counts_children_instead_of_asking_for_its_own_node_is_found() {
    let rules = Rules { checks_own: false, ..Rules::default() };
    expect_failure(&deleted(), rules, &[PRESENCE]);
}

#[test]
fn planted_contenders_that_accept_the_last_number_are_found() {
    let rules = Rules { supply: |_| Supply::Ample, ..Rules::default() };
    expect_failure(&last_numbers(), rules, &[EXCLUSION]);
}

#[test]
fn planted_a_note_that_does_not_name_its_node_is_found() {
    let rules = Rules { binds_notes: false, ..Rules::default() };
    expect_failure(&copied_note(), rules, &[EXCLUSION]);
}

#[test]
fn planted_a_look_that_is_older_than_the_node_is_found() {
    let rules = Rules { forgets_first_look: false, ..Rules::default() };
    expect_failure(&begun_anew(), rules, &[EXCLUSION]);
}

#[test]
fn planted_a_search_that_takes_an_overwritten_node_before_it_has_read_all_is_found() {
    let rules = Rules { reads_all_first: false, searches_again: false, ..Rules::default() };
    expect_failure(&twins(1), rules, &[STANDING, OWNED]);
}

#[test]
fn planted_a_second_create_without_a_search_is_found() {
    let rules = Rules { searches_before_second: false, ..Rules::default() };
    expect_failure(&twins(2), rules, &[STANDING, OWNED]);
}

#[test]
fn planted_an_adopted_node_that_is_let_go_is_found() {
    let rules = Rules { keeps_adopted: false, ..Rules::default() };
    expect_failure(&twins(2), rules, &[PRESENCE, OWNED]);
}

#[test]
fn planted_a_search_that_does_not_ask_again_for_what_it_takes_is_found() {
    let rules = Rules { asks_after_taking: false, ..Rules::default() };
    expect_failure(&twins(1), rules, &[CAUSED]);
}

/// One search lists before the node of the other contender is there. Until it has read on, somebody overwrites both nodes,
/// and the search of the other contender adopts the only node that the first one has listed. The first one then creates a
/// second node. Its first node is left, and the queue stands behind it.
#[test]
fn planted_searches_of_a_session_that_overlap_are_found() {
    let rules = Rules { searches_again: false, ..Rules::default() };
    let cancelled = Faults { creates_lost: 1, overwrites: 2, cancels: 1, ..NONE };
    let lost = Faults { creates_lost: 2, overwrites: 2, ..NONE };
    for faults in [cancelled, lost] {
        expect_failure(&Ownership { faults, ..twins(2) }, rules, &[STANDING, OWNED]);
    }
}

/// Somebody deletes the node of a waiter, and then the lock's node, which is created again. Another contender has the
/// number of the waiter. The waiter gives up before it knows, and deletes the node of that name.
#[test]
fn planted_a_waiter_that_gives_up_and_does_not_ask_whose_node_it_deletes_is_found() {
    let rules = Rules { asks_before_withdrawal: false, ..Rules::default() };
    let faults = Faults { deletions: 1, cancels: 1, new_parents: 1, ..NONE };
    expect_failure(&Ownership::new(&[(Handoff, 0), (Handoff, 1)], faults), rules, &[PRESENCE]);
    expect_failure(&Ownership::new(&[(Handoff, 0), (Handoff, 1), (Lock, 1)], faults), rules, &[EXCLUSION]);
}
