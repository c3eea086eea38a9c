//! Mistakes that the library has made. The checker has to find each.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};

use super::properties::{CAUSED, EXCLUSION, OWNED, PRESENCE, STANDING};
use super::protocol::Ownership;
use super::rules::Rules;
use super::{begun_anew, copied_note, deleted, last_numbers, twins, two_kinds};
use crate::node::Supply;

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
    let rules = Rules { reads_all_first: false, ..Rules::default() };
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
