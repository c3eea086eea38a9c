//! The model with more contenders and faults than every test run has time for: `make check-model`.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../../src/check.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod check;

use check::Search;
use lock_weather::model;
use lock_weather::queue::Program::{Handoff, Lock, TryHandoff};
use lock_weather::queue::{Faults, Program, QueueModel};
use zk_recipes_protocol::session_queue::Batching;

/// Returns users of a session that has held the lock three times before. They rely on their numbers.
fn again(users: &[(Program, usize)], faults: Faults) -> QueueModel {
    QueueModel { holds_before: 3, ..QueueModel::new(users, faults) }
}

#[test]
fn two_contenders_withstand_a_fault_of_every_kind_together() {
    QueueModel::new(&[(Lock, 0), (Lock, 0)], Faults::ALL).check(741_550);
    QueueModel::new(&[(Lock, 0), (Handoff, 0)], Faults::ALL).check(1_566_291);
    QueueModel::new(&[(Handoff, 0), (Handoff, 0)], Faults::ALL).check(1_999_686);
    QueueModel::new(&[(Handoff, 0), (Handoff, 1)], Faults::ALL).check(1_020_863);
    again(&[(Lock, 0), (Lock, 1)], Faults::ALL).check(418_429);
    again(&[(Lock, 0), (Lock, 0)], Faults::ALL).check(931_800);
    again(&[(Lock, 0), (Handoff, 0)], Faults::ALL).check(1_741_373);
}

#[test]
fn three_contenders_withstand_the_end_of_a_connection() {
    QueueModel::new(&[(Lock, 0), (Lock, 0), (Lock, 0)], Faults::CUT).check(765_467);
    QueueModel::new(&[(Lock, 0), (Lock, 0), (Lock, 1)], Faults::CUT).check(146_901);
    QueueModel::new(&[(Handoff, 0), (Lock, 0), (Handoff, 1)], Faults::CUT).check(325_277);
    QueueModel::new(&[(Lock, 0), (Handoff, 0), (TryHandoff, 1)], Faults::CUT).check(380_040);
    again(&[(Lock, 0), (Lock, 0), (Lock, 1)], Faults::CUT).check(185_796);
}

#[test]
fn three_contenders_withstand_nodes_that_are_deleted_by_hand() {
    QueueModel::new(&[(Handoff, 0), (Lock, 0), (Handoff, 1)], Faults::DELETED).check(371_991);
    QueueModel::new(&[(Lock, 0), (Handoff, 0), (TryHandoff, 1)], Faults::DELETED).check(316_820);
}

#[test]
fn four_contenders_of_one_session_exclude_each_other() {
    QueueModel::new(&[(Lock, 0), (Lock, 0), (Lock, 0), (Lock, 0)], Faults::NONE).check(1_393_480);
    QueueModel::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 0), (Handoff, 0)], Faults::NONE).check(660_646);
}

#[test]
fn a_contender_of_curator_excludes_ours_and_is_served() {
    let beside =
        |users: &[(Program, usize)], faults| QueueModel { has_curator: true, ..QueueModel::new(users, faults) };
    let faults = Faults { cuts: 1, drops: 1, ..Faults::NONE };
    beside(&[(Lock, 0), (Handoff, 1)], faults).check(326_885);
    beside(&[(Handoff, 0), (Handoff, 0)], faults).check(921_454);
    beside(&[(Handoff, 0), (TryHandoff, 1)], Faults::MOST).check(4_538_567);
}

#[test]
fn contenders_that_join_in_batches_are_all_served() {
    let batching = Batching { waiters_per_contender: 1 };
    let batched = |users: &[(Program, usize)], faults| QueueModel { batching, ..QueueModel::new(users, faults) };
    batched(&[(Lock, 0), (Lock, 0), (Lock, 0)], Faults::CUT).check(919_936);
    batched(&[(Lock, 0), (Lock, 0), (Lock, 0), (Lock, 0)], Faults::NONE).check(2_208_424);
    batched(&[(Handoff, 0), (Handoff, 0), (Handoff, 0)], Faults::CUT).check(1_460_716);
}
