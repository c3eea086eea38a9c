//! The model with more contenders and faults than every test run has time for: `make check-model`.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../protocol/model"]
mod model {
    pub(crate) mod check;
    #[allow(dead_code, reason = "other tests use more of it")]
    pub(crate) mod world;
}

use model::check::Check;
use model::world::lab::Program::{Handoff, Lock, TryHandoff};
use model::world::lab::{Faults, Lab, Program};
use zk_recipes_protocol::session_queue::Batching;

/// Returns users of a session that has held the lock twice before. They rely on their numbers.
fn again(users: &[(Program, usize)], faults: Faults) -> Lab {
    Lab { holds_before: 2, ..Lab::new(users, faults) }
}

#[test]
fn two_contenders_withstand_a_fault_of_every_kind_together() {
    Lab::new(&[(Lock, 0), (Lock, 0)], Faults::ALL).check(736_334);
    Lab::new(&[(Lock, 0), (Handoff, 0)], Faults::ALL).check(1_559_162);
    Lab::new(&[(Handoff, 0), (Handoff, 0)], Faults::ALL).check(1_549_493);
    Lab::new(&[(Handoff, 0), (Handoff, 1)], Faults::ALL).check(1_298_123);
    again(&[(Lock, 0), (Lock, 1)], Faults::ALL).check(563_805);
    again(&[(Lock, 0), (Lock, 0)], Faults::ALL).check(973_936);
    again(&[(Lock, 0), (Handoff, 0)], Faults::ALL).check(1_814_703);
}

#[test]
fn three_contenders_withstand_the_end_of_a_connection() {
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 0)], Faults::CUT).check(4_445_884);
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 1)], Faults::CUT).check(547_484);
    Lab::new(&[(Handoff, 0), (Lock, 0), (Handoff, 1)], Faults::CUT).check(786_058);
    Lab::new(&[(Lock, 0), (Handoff, 0), (TryHandoff, 1)], Faults::CUT).check(834_027);
    again(&[(Lock, 0), (Lock, 0), (Lock, 1)], Faults::CUT).check(441_428);
}

#[test]
fn three_contenders_withstand_nodes_that_are_deleted_by_hand() {
    Lab::new(&[(Handoff, 0), (Lock, 0), (Handoff, 1)], Faults::DELETED).check(590_391);
    Lab::new(&[(Lock, 0), (Handoff, 0), (TryHandoff, 1)], Faults::DELETED).check(466_806);
}

#[test]
fn four_contenders_of_one_session_hand_the_lock_over_or_rely_on_their_numbers() {
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 0), (Lock, 0)], Faults::NONE).check(1_134_803);
    Lab::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 0), (Handoff, 0)], Faults::NONE).check(507_066);
}

#[test]
fn a_contender_of_apache_curator_excludes_ours_and_is_served_among_them() {
    let beside = |users: &[(Program, usize)], faults| Lab { has_curator: true, ..Lab::new(users, faults) };
    let faults = Faults { cuts: 1, drops: 1, ..Faults::NONE };
    beside(&[(Lock, 0), (Handoff, 1)], faults).check(699_592);
    beside(&[(Handoff, 0), (Handoff, 0)], faults).check(1_063_382);
    beside(&[(Handoff, 0), (TryHandoff, 1)], Faults::MOST).check(6_524_926);
}

#[test]
fn contenders_that_join_in_batches_are_all_served() {
    let batching = Batching { waiters_per_contender: 1 };
    let batched = |users: &[(Program, usize)], faults| Lab { batching, ..Lab::new(users, faults) };
    batched(&[(Lock, 0), (Lock, 0), (Lock, 0)], Faults::CUT).check(4_451_584);
    batched(&[(Lock, 0), (Lock, 0), (Lock, 0), (Lock, 0)], Faults::NONE).check(1_370_442);
    batched(&[(Handoff, 0), (Handoff, 0), (Handoff, 0), (Handoff, 0)], Faults::DROP).check(8_667_313);
}
