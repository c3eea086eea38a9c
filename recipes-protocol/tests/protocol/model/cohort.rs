//! The cohort, model-checked: whatever the order in which its contenders come, go, hold, hand over and give up, for a few
//! of them every order there is.
//!
//! The contenders are the state machines of `cohort.rs` and `turn.rs`, one step for what happens at once there: a look into
//! the [`Turns`](super::turns::Turns), which decide here as they do there, the sending of a turn to one who may just be
//! going, one request. The lock behind the cohort is simple here, a queue of nodes; the model of the protocol shows that
//! it may be. Another process contends for it.
//!
//! At any moment: a future or guard is dropped, a deadline passes, time does, the connection goes or comes back, the
//! session is silent for too long, expires or ends, the node of a waiter is deleted by hand.
//!
//! The second half of the tests plants a mistake, and expects the same checker to find it.

mod contenders;
mod process;
mod properties;
mod steps;

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};

use self::process::{Faults, Process, Program, Rules};
use self::properties::{ALONE, BOUND, CLEAN, ENDED, ONE_TURN, ORDER, SERVED, SURE, TOKENS, UNSPOILT};
use Program::{Lock, Try};

const DROPS: Faults = Faults { drops: true, ..Faults::NONE };
const LOSSES: Faults = Faults { losses: true, ..Faults::NONE };

/// Follows every run, and wants at least so many states, lest the model become empty without anybody noticing.
fn check(model: Process, states_min: usize) {
    let checker = model.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    let states = checker.unique_state_count();
    assert!(states >= states_min, "only {states} states");
}

#[test]
fn two_contenders_and_another_process_stand_every_fault() {
    check(Process::new(&[Lock, Lock], Faults::ALL), 25_000);
}

#[test]
fn three_contenders_and_another_process_stand_every_fault() {
    check(Process::new(&[Lock, Lock, Lock], Faults::ALL), 400_000);
}

#[test]
fn four_contenders_stand_being_dropped_at_any_moment() {
    check(Process::new(&[Lock, Lock, Lock, Lock], DROPS), 150_000);
}

#[test]
fn who_only_tries_disturbs_nobody_who_waits() {
    check(Process::new(&[Lock, Lock, Try], Faults::ALL), 250_000);
}

#[test]
fn a_cohort_that_always_asks_first_passes_over_nobody_who_waits() {
    check(Process::new(&[Lock, Lock, Lock], DROPS).with_max_handovers(0), 7_000);
}

/// Expects the property to fail by these rules, and to hold by those of the library.
fn expect_failure(programs: &[Program], faults: Faults, rules: Rules, property: &'static str) {
    let found = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let planted = Process::new(programs, faults).with_rules(rules);
    planted.checker().finish_when(found).spawn_bfs().join().assert_any_discovery(property);
    Process::new(programs, faults).checker().spawn_bfs().join().assert_no_discovery(property);
}

#[test]
fn planted_a_turn_that_is_forgotten_when_the_next_has_just_gone_is_found() {
    let rules = Rules { sends_again: false, ..Rules::default() };
    expect_failure(&[Lock, Lock, Lock], DROPS, rules, SERVED);
    expect_failure(&[Lock, Lock], DROPS, rules, CLEAN);
}

#[test]
fn planted_a_waiter_that_takes_a_turn_along_when_it_goes_is_found() {
    let rules = Rules { passes_what_was_sent: false, ..Rules::default() };
    expect_failure(&[Lock, Lock, Lock], DROPS, rules, SERVED);
    expect_failure(&[Lock, Lock], DROPS, rules, CLEAN);
}

#[test]
fn planted_a_guard_whose_drop_frees_the_node_and_not_the_turn_is_found() {
    let rules = Rules { drop_passes_on: false, ..Rules::default() };
    expect_failure(&[Lock, Lock], DROPS, rules, SERVED);
}

#[test]
fn planted_a_cohort_that_never_asks_is_found_passing_over_others_for_ever() {
    let rules = Rules { knows_bounds: false, ..Rules::default() };
    expect_failure(&[Lock, Lock, Lock], Faults::NONE, rules, BOUND);
}

#[test]
fn planted_a_cohort_that_does_not_count_itself_among_those_who_hold_is_found_passing_over_others() {
    let rules = Rules { is_alone: |nodes| nodes <= 2, ..Rules::default() };
    expect_failure(&[Lock, Lock, Lock], Faults::NONE, rules, BOUND);
}

#[test]
fn planted_a_hand_over_of_a_hold_that_nobody_looks_at_again_is_found() {
    let rules = Rules { looks_when_it_takes: false, ..Rules::default() };
    expect_failure(&[Lock, Lock], LOSSES, rules, SURE);
    let rules = Rules { keeps_age: false, ..rules };
    expect_failure(&[Lock, Lock], LOSSES, rules, ALONE);
}

#[test]
fn planted_a_release_that_hands_over_what_is_lost_is_found_keeping_its_loss_to_itself() {
    let rules = Rules { looks_when_it_lets_go: false, ..Rules::default() };
    expect_failure(&[Lock, Lock], LOSSES, rules, SURE);
}

#[test]
fn planted_a_place_that_is_left_to_the_next_although_it_is_gone_is_found() {
    let rules = Rules { clears_what_failed: false, ..Rules::default() };
    expect_failure(&[Lock, Lock, Lock], Faults { deletions: true, ..Faults::NONE }, rules, UNSPOILT);
}

#[test]
fn planted_a_session_that_ends_without_telling_those_who_wait_is_found() {
    let rules = Rules { tells_of_the_end: false, ..Rules::default() };
    expect_failure(&[Lock, Lock], LOSSES, rules, ENDED);
}

#[test]
fn planted_tokens_that_begin_again_with_the_next_holder_are_found() {
    let rules = Rules { counts_handovers: false, ..Rules::default() };
    expect_failure(&[Lock, Lock], Faults::NONE, rules, TOKENS);
}

#[test]
fn planted_a_try_that_goes_past_those_who_wait_is_found() {
    let rules = Rules { tries_in_turn: false, ..Rules::default() };
    expect_failure(&[Lock, Lock, Try], DROPS, rules, ORDER);
    expect_failure(&[Lock, Lock, Try], DROPS, rules, ONE_TURN);
}
