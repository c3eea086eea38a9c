//! What every test run checks: a few contenders and faults.

// L1

use zk_recipes_protocol::session_queue::Batching;

use super::check::Search;
use super::cohort::{CohortModel as Process, Faults as Troubles, Program as Member};
use super::endless::find_endless_run;
use super::naive::{Faults as Mishaps, NaiveModel as Naive, Program as Contender};
use super::permits::Program::{Take, Try};
use super::permits::{Faults as Ills, PermitsModel as Semaphore};
use super::queue::Program::{Downgrade, Handoff, Lead, Lock, Place, Read, TryHandoff, TryLock, Write};
use super::queue::{Data, Faults, Program, QueueModel};

#[test]
fn two_contenders_withstand_faults_of_several_kinds_together() {
    QueueModel::new(&[(Lock, 0), (Lock, 1)], Faults::ALL).check(321_747);
    QueueModel::new(&[(Lock, 0), (Handoff, 0)], Faults::MOST).check(610_330);
    QueueModel::new(&[(Handoff, 0), (Handoff, 0)], Faults::MOST).check(775_644);
    QueueModel::new(&[(Handoff, 0), (Handoff, 1)], Faults::MOST).check(335_175);
    QueueModel::new(&[(Lock, 0), (TryLock, 1)], Faults::ALL).check(270_220);
    QueueModel::new(&[(Handoff, 0), (TryHandoff, 1)], Faults::MOST).check(232_619);
    QueueModel::new(&[(Write, 0), (Read, 1)], Faults::ALL).check(300_297);
}

/// The machine asks its names only for markers, modes and numbers. So each program has as many states as with the names of a mutex.
// L79
#[test]
fn the_participants_of_an_election_are_a_queue() {
    QueueModel::new(&[(Lead, 0), (Lead, 1)], Faults::ALL).check(321_747);
    QueueModel::new(&[(Lead, 0), (Lead, 0), (Lead, 1)], Faults::DELETED).check(128_229);
}

#[test]
fn three_contenders_withstand_the_end_of_a_connection() {
    QueueModel::new(&[(Lock, 0), (Lock, 1), (Lock, 2)], Faults::CUT).check(74_750);
    QueueModel::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], Faults::CUT).check(283_480);
    QueueModel::new(&[(Write, 0), (Read, 1), (Read, 1)], Faults::CUT).check(143_314);
}

// L12
#[test]
fn readers_of_one_session_share_reads_and_wait_for_the_writer() {
    let readers = [(Write, 1), (Read, 0), (Read, 0)];
    QueueModel::new(&readers, Faults::DROP).check(65_698);
    QueueModel::new(&readers, Faults { cuts: 1, expiries: 1, ..Faults::NONE }).check(174_395);
}

#[test]
fn three_contenders_withstand_a_contender_that_gives_up() {
    QueueModel::new(&[(Lock, 0), (Lock, 1), (Lock, 2)], Faults::DROP).check(57_944);
    QueueModel::new(&[(Lock, 0), (Lock, 0), (Lock, 1)], Faults::DROP).check(77_428);
    QueueModel::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], Faults::DROP).check(163_373);
    QueueModel::new(&[(Handoff, 0), (Lock, 0), (Handoff, 1)], Faults::DROP).check(211_928);
    QueueModel::new(&[(Lock, 0), (Lock, 0), (TryLock, 1)], Faults::DROP).check(77_196);
    QueueModel::new(&[(Write, 0), (Write, 1), (Read, 1)], Faults::DROP).check(74_820);
}

#[test]
fn three_contenders_withstand_nodes_that_are_deleted_by_hand() {
    QueueModel::new(&[(Lock, 0), (Lock, 0), (Lock, 1)], Faults::DELETED).check(128_229);
    QueueModel::new(&[(Lock, 0), (Lock, 0), (Lock, 0)], Faults::DELETED).check(206_849);
    QueueModel::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], Faults::DELETED).check(373_931);
    QueueModel::new(&[(Write, 0), (Read, 1), (Read, 1)], Faults::DELETED).check(108_636);
}

#[test]
fn a_contender_with_a_place_may_wait_for_the_grant_later() {
    let faults = Faults { cuts: 1, drops: 1, deletions: 1, ..Faults::NONE };
    QueueModel::new(&[(Place, 0), (Lock, 1)], faults).check(52_589);
    QueueModel::new(&[(Place, 0), (Lock, 0)], faults).check(172_486);
}

#[test]
fn a_writer_that_goes_on_to_read_lets_no_other_writer_in() {
    QueueModel::new(&[(Write, 0), (Downgrade, 0), (Write, 1)], Faults::CUT).check(37_041);
    QueueModel::new(&[(Write, 0), (Downgrade, 0), (Write, 1)], Faults::DROP).check(13_650);
    QueueModel::new(&[(Write, 0), (Downgrade, 0), (Write, 1)], Faults::DELETED).check(21_021);
    QueueModel::new(&[(Write, 0), (Downgrade, 0), (Read, 1)], Faults::DROP).check(12_496);
}

#[test]
fn neither_a_foreign_child_nor_a_foreign_note_grants() {
    let faults = Faults { deletions: 1, drops: 1, ..Faults::NONE };
    let handoffs = QueueModel::new(&[(Handoff, 0), (Handoff, 1)], faults);
    QueueModel { has_foreign: true, ..handoffs.clone() }.check(13_311);
    QueueModel { data: Data::NoteOf(1, 99), ..handoffs.clone() }.check(10_273);
    let three = QueueModel::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], Faults::DROP);
    QueueModel { data: Data::NoteOf(1, 99), ..three }.check(163_373);
    QueueModel { has_foreign: true, ..QueueModel::new(&[(Lock, 0), (Lock, 1)], faults) }.check(3_309);
}

// L23
#[test]
fn a_contender_of_curator_excludes_ours_and_is_served() {
    let beside =
        |users: &[(Program, usize)], faults| QueueModel { has_curator: true, ..QueueModel::new(users, faults) };
    beside(&[(Lock, 0), (Handoff, 1)], Faults::CUT).check(32_167);
    beside(&[(Lock, 0), (Handoff, 1)], Faults::DROP).check(28_614);
    let again = beside(&[(Lock, 0), (Lock, 0)], Faults { drops: 1, ..Faults::DELETED });
    QueueModel { holds_before: 3, ..again }.check(432_540);
}

// L32
#[test]
fn contenders_that_join_in_batches_are_all_served() {
    let batching = Batching { waiters_per_contender: 1 };
    let batched = |users: &[(Program, usize)], faults| QueueModel { batching, ..QueueModel::new(users, faults) };
    batched(&[(Lock, 0), (Lock, 0), (Lock, 0)], Faults::DROP).check(196_087);
    batched(&[(Handoff, 0), (Lock, 0), (Handoff, 0)], Faults::DROP).check(449_796);
    batched(&[(Handoff, 0), (Handoff, 0), (Handoff, 0), (Handoff, 0)], Faults::NONE).check(1_085_548);
}

// L47
#[test]
fn contenders_that_a_server_throttles_are_all_served() {
    QueueModel::new(&[(Lock, 0), (Lock, 1), (Lock, 2)], Faults::THROTTLED).check(44_825);
    QueueModel::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], Faults::THROTTLED).check(158_867);
    QueueModel::new(&[(Write, 0), (Downgrade, 0), (Read, 1)], Faults::THROTTLED).check(11_948);
    let faults = Faults { cuts: 1, drops: 1, ..Faults::THROTTLED };
    QueueModel::new(&[(Lock, 0), (TryLock, 1)], faults).check(77_476);
    QueueModel::new(&[(Handoff, 0), (Lock, 0)], faults).check(525_711);
    let again = QueueModel::new(&[(Lock, 0), (Lock, 1)], faults);
    QueueModel { holds_before: 3, ..again }.check(76_487);
}

#[test]
fn permits_and_naive_holds_are_had_from_a_server_that_throttles() {
    let few = Ills { throttles: 2, ..Ills::FEW };
    Semaphore::new(&[Take(1), Take(2)], 2, few).check(12_896);
    Semaphore::new(&[Take(2), Try(1)], 2, few).check(13_257);
    let mishaps = Mishaps { replies: 1, throttles: 2, drops: 1, ..Mishaps::NONE };
    Naive::new(&[(Contender::Lock, 0), (Contender::Lock, 0), (Contender::Try, 1)], mishaps).check(217_403);
}

#[test]
fn contenders_with_the_last_numbers_are_refused() {
    let last = QueueModel::new(&[(Handoff, 0), (Lock, 0), (Lock, 1)], Faults::CUT);
    QueueModel { first_number: 2_099_999_999, ..last }.check(109_856);
    let without_prefix = QueueModel::new(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], Faults::DROP);
    QueueModel { first_number: 2_099_999_999, ..without_prefix }.check(21_684);
}

#[test]
fn a_contender_that_relies_on_its_number_holds_alone() {
    let again = |users: &[(Program, usize)], faults| QueueModel { holds_before: 3, ..QueueModel::new(users, faults) };
    again(&[(Lock, 0), (Lock, 1)], Faults::MOST).check(118_501);
    again(&[(Lock, 0), (Lock, 0)], Faults::MOST).check(298_816);
    let faults = Faults { cuts: 1, ..Faults::DELETED };
    again(&[(Lock, 0), (Handoff, 0)], faults).check(65_770);
    again(&[(Lock, 0), (Lock, 0), (Lock, 1)], Faults::DROP).check(104_223);
    let anew = again(&[(Lock, 0), (Lock, 0), (Lock, 1)], Faults::DELETED);
    QueueModel { first_number_anew: 2, ..anew }.check(206_222);
}

#[test]
fn no_contender_is_busy_for_ever_after_the_last_fault() {
    let faults = Faults { cuts: 1, overwrites: 1, drops: 1, ..Faults::NONE };
    for users in
        [[(Handoff, 0), (Handoff, 0)], [(Handoff, 0), (Lock, 0)], [(Lock, 0), (TryLock, 1)], [(Write, 0), (Read, 1)]]
    {
        let model = QueueModel::new(&users, faults);
        assert_eq!(find_endless_run(&model), None, "{users:?}");
    }
    let model = Naive::new(&[(Contender::Lock, 0), (Contender::Lock, 0)], Mishaps { expiries: 0, ..Mishaps::ALL });
    assert_eq!(find_endless_run(&model), None, "{model:?}");
}

#[test]
fn attempts_hold_no_more_permits_than_exist() {
    Semaphore::new(&[Take(1), Take(1)], 1, Ills::ALL).check(62_860);
    Semaphore::new(&[Take(1), Take(1), Take(1)], 1, Ills { leases: 1, ..Ills::FEW }).check(326_378);
    Semaphore::new(&[Take(1), Take(1), Take(1)], 2, Ills { leases: 1, ..Ills::FEW }).check(334_571);
    Semaphore::new(&[Take(1), Take(1), Take(1)], 2, Ills { lease_locks: 1, expiries: 1, ..Ills::NONE }).check(46_706);
}

// L60
#[test]
fn a_lowered_number_grants_nothing_beyond_it() {
    let lowered = Ills { lowered: 1, ..Ills::NONE };
    Semaphore::new(&[Take(1), Take(1), Take(1)], 2, Ills { drops: 1, ..lowered }).check(200_956);
    Semaphore::new(&[Take(1), Take(1), Take(1)], 3, Ills { lowered: 2, leases: 1, ..Ills::NONE }).check(379_488);
    Semaphore::new(&[Take(1), Take(1), Try(1)], 2, Ills { replies: 1, ..lowered }).check(206_147);
}

#[test]
fn attempts_for_several_permits_do_not_deadlock() {
    let ills = Ills { lease_locks: 0, ..Ills::ALL };
    Semaphore::new(&[Take(1), Take(2)], 2, ills).check(20_395);
    Semaphore::new(&[Take(2), Take(2)], 3, ills).check(32_590);
    Semaphore::new(&[Take(1), Take(2), Take(2)], 2, Ills::FEW).check(126_780);
}

#[test]
fn a_try_for_a_permit_disturbs_no_waiting_attempt() {
    Semaphore::new(&[Take(1), Try(1)], 1, Ills::ALL).check(45_632);
    Semaphore::new(&[Take(1), Take(1), Try(1)], 1, Ills::FEW).check(83_904);
    Semaphore::new(&[Take(2), Try(2)], 2, Ills { lease_locks: 0, ..Ills::ALL }).check(25_131);
}

// L67
#[test]
fn a_cohort_hands_over_its_hold_or_place_despite_all_faults() {
    let [lock, take] = [Member::Lock, Member::Try];
    Process::new(&[lock, lock], Troubles::ALL).check(59_544);
    Process::new(&[lock, lock, lock], Troubles::ALL).check(1_035_336);
    Process::new(&[lock, lock, take], Troubles::ALL).check(787_856);
    Process::new(&[lock, lock, lock, lock], Troubles::DROPS).check(68_739);
}

// L68
#[test]
fn a_cohort_that_looks_each_time_passes_over_no_process() {
    Process { max_handovers: 0, ..Process::new(&[Member::Lock; 3], Troubles::DROPS) }.check(5_061);
}

// L72
#[test]
fn a_lingering_hold_is_taken_or_given_up_despite_all_faults() {
    let [lock, take] = [Member::Lock, Member::Try];
    Process::lingering(&[lock, lock], Troubles::ALL).check(284_256);
    Process::lingering(&[lock, lock, take], Troubles { deletions: 1, ..Troubles::DROPS }).check(78_913);
    Process::lingering(&[lock, lock, lock], Troubles { slow: 0, deletions: 0, ..Troubles::ALL }).check(1_044_825);
    Process::lingering(&[lock, lock, lock, lock], Troubles::DROPS).check(611_463);
    Process::lingering(&[lock, lock], Troubles { requests: 1, ..Troubles::ALL }).check(801_292);
    Process::lingering(&[lock, lock, take], Troubles { requests: 2, ..Troubles::DROPS }).check(178_457);
}

#[test]
fn naive_contenders_hold_one_at_a_time_and_leave_nothing() {
    let [lock, take] = [Contender::Lock, Contender::Try];
    Naive::new(&[(lock, 0), (lock, 0)], Mishaps::ALL).check(18_696);
    Naive::new(&[(lock, 0), (lock, 1)], Mishaps { replies: 2, ..Mishaps::ALL }).check(70_732);
    Naive::new(&[(lock, 0), (lock, 0), (lock, 1)], Mishaps { expiries: 0, ..Mishaps::ALL }).check(393_819);
    Naive::new(&[(lock, 0), (lock, 1), (lock, 2)], Mishaps { replies: 1, drops: 1, ..Mishaps::NONE }).check(57_290);
    Naive::new(&[(lock, 0), (lock, 0), (take, 1)], Mishaps { expiries: 0, ..Mishaps::ALL }).check(379_120);
}
