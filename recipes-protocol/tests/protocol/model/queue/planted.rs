//! Mistakes that others have made, each of which the checker has to find.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};
use zk_recipes_protocol::names::Names;
use zk_recipes_protocol::queue::{Queue, Verdict};
use zk_recipes_protocol::release_note::ParentState;

use super::RENEWED;
use super::properties::{AWAKE, CLEAN, EXCLUSION, ORDER, SERVED};
use super::protocol::{Faults, Protocol};
use super::rules::Rules;
use super::server::Program::{self, FlatPermit, Handoff, Lock, Read, Write};

/// Expects a run in which the property fails by these rules.
fn expect_failure(programs: &[Program], faults: Faults, rules: Rules, property: &'static str) {
    let model = Protocol::new(programs, faults).with_rules(rules);
    let found = HasDiscoveries::AllOf(BTreeSet::from([property]));
    model.checker().finish_when(found).spawn_bfs().join().assert_any_discovery(property);
}

/// Expects the property to fail by these rules, and to hold by those of the library.
fn expect_failure_of_these_rules_only(programs: &[Program], faults: Faults, rules: Rules, property: &'static str) {
    expect_failure(programs, faults, rules, property);
    Protocol::new(programs, faults).checker().spawn_bfs().join().assert_no_discovery(property);
}

/// As above, of contenders that may rely on their numbers.
fn expect_failure_of_expecting(programs: &[Program], faults: Faults, rules: Rules, property: &'static str) {
    let model = Protocol::new(programs, faults).expecting();
    let found = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let mistaken = model.clone().with_rules(rules).checker().finish_when(found);
    mistaken.spawn_bfs().join().assert_any_discovery(property);
    model.checker().spawn_bfs().join().assert_no_discovery(property);
}

/// The names of all contenders, in the order of the queue.
fn order(children: &[String], names: Names) -> Vec<&str> {
    Queue::from_children(children, names).into_order().into_iter().map(|(contender, _)| contender.name).collect()
}

fn by_the_library<'a>(children: &'a [String], names: Names, own: &str) -> Verdict<'a> {
    Queue::from_children(children, names).verdict(own)
}

#[test]
fn planted_a_waiter_that_watches_the_last_in_the_queue_is_found_asleep() {
    fn verdict<'a>(children: &'a [String], names: Names, own: &str) -> Verdict<'a> {
        let verdict = by_the_library(children, names, own);
        let last = order(children, names).into_iter().rfind(|other| *other != own);
        match (verdict, last) {
            (Verdict::Behind { .. }, Some(predecessor)) => Verdict::Behind { predecessor },
            _ => verdict,
        }
    }
    expect_failure_of_these_rules_only(&[Lock, Lock, Lock], Faults::NONE, Rules { verdict, ..Rules::default() }, AWAKE);
}

#[test]
fn planted_a_reader_that_watches_the_reader_directly_ahead_is_found_asleep() {
    fn verdict<'a>(children: &'a [String], names: Names, own: &str) -> Verdict<'a> {
        let ahead = order(children, names).into_iter().take_while(|other| *other != own).last();
        match (by_the_library(children, names, own), ahead) {
            (Verdict::Behind { .. }, Some(predecessor)) => Verdict::Behind { predecessor },
            (verdict, _) => verdict,
        }
    }
    expect_failure_of_these_rules_only(
        &[Write, Read, Read],
        Faults::NONE,
        Rules { verdict, ..Rules::default() },
        AWAKE,
    );
}

#[test]
fn planted_a_grant_to_who_finds_its_node_missing_is_found() {
    fn verdict<'a>(children: &'a [String], names: Names, own: &str) -> Verdict<'a> {
        match by_the_library(children, names, own) {
            Verdict::Missing => Verdict::Granted,
            verdict => verdict,
        }
    }
    let (faults, rules) = (Faults { deletions: true, ..Faults::NONE }, Rules { verdict, ..Rules::default() });
    expect_failure_of_these_rules_only(&[Lock, Lock], faults, rules, EXCLUSION);
    expect_failure_of_these_rules_only(&[Lock, Lock], faults, rules, ORDER);
}

#[test]
fn planted_a_queue_of_two_permits_with_the_watch_on_whoever_is_directly_ahead_is_found() {
    fn verdict<'a>(children: &'a [String], names: Names, own: &str) -> Verdict<'a> {
        let order = order(children, names);
        match order.iter().position(|other| *other == own) {
            Some(0 | 1) => Verdict::Granted,
            Some(i) => Verdict::Behind { predecessor: order[i - 1] },
            None => Verdict::Missing,
        }
    }
    let rules = Rules { verdict, ..Rules::default() };
    // Of three contenders the first gives its permit back, the second keeps it, and the third watches the second.
    expect_failure(&[FlatPermit, FlatPermit, FlatPermit], Faults::NONE, rules, AWAKE);
}

#[test]
fn planted_a_create_that_is_repeated_without_a_search_is_found_waiting_for_itself() {
    let rules = Rules { finds_before_repeating: false, ..Rules::default() };
    let faults = Faults { replies_lost_max: Some(1), cancels: true, ..Faults::NONE };
    expect_failure_of_these_rules_only(&[Lock], faults, rules, SERVED);
    expect_failure_of_these_rules_only(&[Lock], faults, rules, CLEAN);
}

#[test]
fn planted_the_adoption_of_a_node_of_an_earlier_session_is_found() {
    let rules = Rules { is_ours: |_, _| true, ..Rules::default() };
    expect_failure_of_these_rules_only(&[Lock, Lock], RENEWED, rules, EXCLUSION);
}

#[test]
fn planted_a_hold_that_outlives_its_session_is_found() {
    let rules = Rules { loses_before_expiry: false, ..Rules::default() };
    expect_failure_of_these_rules_only(&[Lock, Lock], Faults { expiries: true, ..Faults::NONE }, rules, EXCLUSION);
}

#[test]
fn planted_a_hand_over_to_who_does_not_know_that_its_node_is_there_is_found() {
    let (faults, rules) = (Faults { deletions: true, ..Faults::NONE }, Rules { checks_own: false, ..Rules::default() });
    expect_failure_of_these_rules_only(&[Handoff, Handoff, Handoff], faults, rules, EXCLUSION);
}

#[test]
fn planted_a_contender_that_takes_any_only_child_for_itself_is_found() {
    let is_any_there = |noted: &ParentState, own| (own..=own + 1).any(|czxid| noted.has_only_child(czxid));
    let rules = Rules { has_only_child: is_any_there, ..Rules::default() };
    let faults = Faults { deletions: true, ..Faults::NONE };
    expect_failure_of_these_rules_only(&[Handoff, Handoff], faults, rules, EXCLUSION);
}

#[test]
fn planted_a_predecessor_that_gave_up_and_is_taken_for_one_that_released_is_found() {
    let rules = Rules { passes: |_, _, _, _| true, ..Rules::default() };
    let faults = Faults { cancels: true, ..Faults::NONE };
    expect_failure_of_these_rules_only(&[Handoff, Handoff, Handoff], faults, rules, EXCLUSION);
}

#[test]
fn planted_a_note_of_who_never_held_is_found() {
    let rules = Rules { notes_from_the_grant_on: false, ..Rules::default() };
    let faults = Faults { cancels: true, ..Faults::NONE };
    expect_failure_of_these_rules_only(&[Handoff, Handoff, Handoff], faults, rules, EXCLUSION);
}

#[test]
fn planted_a_waiter_that_asks_for_those_ahead_and_not_for_its_own_node_is_found() {
    let (faults, rules) = (Faults { deletions: true, ..Faults::NONE }, Rules { checks_own: false, ..Rules::default() });
    expect_failure_of_these_rules_only(&[Lock, Lock, Lock], faults, rules, EXCLUSION);
}

#[test]
fn planted_a_number_that_is_relied_on_although_the_numbers_have_begun_anew_is_found() {
    let rules = Rules { watched: |expected, _| Some(expected.parent()), ..Rules::default() };
    let faults = Faults { new_parents_max: 1, ..Faults::NONE };
    expect_failure_of_expecting(&[Lock, Lock, Lock], faults, rules, EXCLUSION);
}

#[test]
fn planted_a_contender_that_takes_the_one_before_it_for_gone_while_that_holds_is_found() {
    let rules = Rules { waits_for_release: false, ..Rules::default() };
    expect_failure_of_expecting(&[Lock, Lock], Faults::NONE, rules, EXCLUSION);
}

#[test]
fn planted_a_contender_that_asks_after_its_creation_whether_the_one_before_it_has_gone_is_found() {
    let (rules, faults) =
        (Rules { expects_before_creation: false, ..Rules::default() }, Faults { deletions: true, ..Faults::NONE });
    expect_failure_of_expecting(&[Lock, Lock, Lock], faults, rules, EXCLUSION);
}

#[test]
fn planted_a_hold_that_is_passed_on_to_who_may_have_no_node_is_found() {
    let rules = Rules { keeps_node: false, ..Rules::default() };
    expect_failure_by_kin(&[Lock, Lock, Lock], 2, rules);
}

/// Expects two to hold together by these rules, where somebody deletes nodes, and not by those of the library.
fn expect_failure_by_kin(programs: &[Program], kin: usize, rules: Rules) {
    let faults = Faults { deletions: true, ..Faults::NONE };
    let model = |rules| Protocol::new(programs, faults).with_kin(kin).with_rules(rules).checker();
    let found = HasDiscoveries::AllOf(BTreeSet::from([EXCLUSION]));
    model(rules).finish_when(found).spawn_bfs().join().assert_any_discovery(EXCLUSION);
    model(Rules::default()).spawn_bfs().join().assert_no_discovery(EXCLUSION);
}
