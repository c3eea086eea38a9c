//! What every test run checks: a few contenders and faults.

use super::world::Program::{Downgrade, Handoff, Lock, Place, Read, TryHandoff, TryLock, Write};
use super::world::{Faults, Lab};

#[test]
fn two_contenders_stand_a_fault_of_every_kind_together() {
    Lab::new(&[(Lock, 0), (Lock, 1)], Faults::ALL).check(153_936);
    Lab::new(&[(Lock, 0), (Handoff, 0)], Faults::ALL).check(446_695);
    Lab::new(&[(Handoff, 0), (Handoff, 0)], Faults::ALL).check(352_825);
    Lab::new(&[(Handoff, 0), (Handoff, 1)], Faults::ALL).check(572_584);
    Lab::new(&[(Lock, 0), (TryLock, 1)], Faults::ALL).check(110_008);
    Lab::new(&[(Write, 0), (Read, 1)], Faults::ALL).check(142_024);
}

#[test]
fn three_contenders_stand_the_end_of_a_connection() {
    Lab::new(&[(Lock, 0), (Lock, 1), (Lock, 2)], Faults::CUT).check(235_208);
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 1)], Faults::CUT).check(307_099);
    Lab::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], Faults::CUT).check(175_177);
    Lab::new(&[(Handoff, 0), (Lock, 0), (Handoff, 1)], Faults::CUT).check(367_550);
    Lab::new(&[(Lock, 0), (Handoff, 0), (TryHandoff, 1)], Faults::CUT).check(398_117);
    Lab::new(&[(Write, 0), (Read, 1), (Read, 1)], Faults::CUT).check(119_039);
}

#[test]
fn three_contenders_stand_one_that_gives_up() {
    Lab::new(&[(Lock, 0), (Lock, 1), (Lock, 2)], Faults::DROP).check(151_052);
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 1)], Faults::DROP).check(59_576);
    Lab::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], Faults::DROP).check(83_116);
    Lab::new(&[(Handoff, 0), (Lock, 0), (Handoff, 1)], Faults::DROP).check(131_948);
    Lab::new(&[(Lock, 0), (Lock, 0), (TryLock, 1)], Faults::DROP).check(45_395);
    Lab::new(&[(Write, 0), (Write, 1), (Read, 1)], Faults::DROP).check(48_401);
}

#[test]
fn three_contenders_stand_nodes_that_are_deleted_by_hand() {
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 1)], Faults::DELETED).check(63_591);
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 0)], Faults::DELETED).check(22_746);
    Lab::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], Faults::DELETED).check(121_458);
    Lab::new(&[(Handoff, 0), (Lock, 0), (Handoff, 1)], Faults::DELETED).check(178_195);
    Lab::new(&[(Lock, 0), (Handoff, 0), (TryHandoff, 1)], Faults::DELETED).check(127_263);
    Lab::new(&[(Write, 0), (Read, 1), (Read, 1)], Faults::DELETED).check(36_663);
}

#[test]
fn four_contenders_of_one_session_pass_the_lock_on_or_rely_on_their_numbers() {
    Lab::new(&[(Lock, 0), (Lock, 0), (Lock, 0), (Lock, 0)], Faults::NONE).check(77_175);
    Lab::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 0), (Handoff, 0)], Faults::NONE).check(65_556);
}

#[test]
fn whoever_has_taken_a_place_may_wait_for_the_grant_later() {
    let faults = Faults { cuts: 1, drops: 1, deletions: 1, ..Faults::NONE };
    Lab::new(&[(Place, 0), (Lock, 1)], faults).check(32_882);
    Lab::new(&[(Place, 0), (Lock, 0)], faults).check(60_636);
}

#[test]
fn a_writer_that_goes_on_to_read_lets_no_other_writer_in_between() {
    Lab::new(&[(Write, 0), (Downgrade, 0), (Write, 1)], Faults::CUT).check(54_712);
    Lab::new(&[(Write, 0), (Downgrade, 0), (Write, 1)], Faults::DROP).check(19_237);
    Lab::new(&[(Write, 0), (Downgrade, 0), (Write, 1)], Faults::DELETED).check(22_276);
    Lab::new(&[(Write, 0), (Downgrade, 0), (Read, 1)], Faults::DROP).check(17_279);
}

#[test]
fn a_child_that_is_no_contender_and_a_note_of_another_lock_s_node_let_nobody_in() {
    let faults = Faults { deletions: 1, drops: 1, ..Faults::NONE };
    let handoffs = Lab::new(&[(Handoff, 0), (Handoff, 1)], faults);
    Lab { has_foreign: true, ..handoffs.clone() }.check(9_777);
    Lab { note: Some((1, 99)), ..handoffs.clone() }.check(7_171);
    let three = Lab::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], Faults::DROP);
    Lab { note: Some((1, 99)), ..three }.check(83_116);
    Lab { has_foreign: true, ..Lab::new(&[(Lock, 0), (Lock, 1)], faults) }.check(1_793);
}

#[test]
fn contenders_with_the_last_numbers_are_refused() {
    let last = Lab::new(&[(Handoff, 0), (Lock, 0), (Lock, 1)], Faults::CUT);
    Lab { first_number: 2_099_999_999, ..last }.check(121_825);
}
