//! The models find each planted mistake. Without the mistake, the same contenders and faults are safe.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../../../../simulation/src"]
#[allow(dead_code, unreachable_pub, unused_imports, reason = "others use more of it")]
mod weather {
    pub mod check;
    pub mod cohort;
    pub mod model;
    pub mod naive;
    pub mod permits;
    pub mod queue;
}

mod cohorts;

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use weather::check::Search;
use weather::naive::Program::Lock as Contend;
use weather::naive::{self, Faults as Mishaps, NaiveModel as Naive};
use weather::permits::Program::Take;
use weather::permits::{self, Faults as Ills, PermitsModel as Semaphore};
use weather::queue::Program::{self, Handoff, Lock, Read, Write};
use weather::queue::{AWAKE, CAUSED, CLEAN, Data, EXCLUSION, Faults, GRANTED_IN_TURN, QueueModel, SERVED};

const NONE: Faults = Faults::NONE;
const DELETED: Faults = Faults { deletions: 1, ..NONE };
/// A reply is lost, and somebody overwrites a node.
const OVERWRITTEN: Faults = Faults { cuts: 1, overwrites: 1, ..NONE };

/// One mistake can be planted at a time.
static PLANTED: Mutex<()> = Mutex::new(());

/// Expects the rule to be broken with the mistake, and to be kept without it.
fn expect_to_find<M: Search + Debug>(mistake: &str, model: &M, rule: &'static str) {
    let _alone = PLANTED.lock().unwrap_or_else(PoisonError::into_inner);
    zk_recipes_protocol::plant(Some(mistake));
    assert!(model.breaks(rule), "{mistake}: {model:?} keeps that {rule}");
    zk_recipes_protocol::plant(None);
    assert!(!model.breaks(rule), "without a mistake, {model:?} breaks that {rule}");
}

fn model(users: &[(Program, usize)], faults: Faults) -> QueueModel {
    QueueModel::new(users, faults)
}

#[test]
fn a_waiter_that_watches_the_last_in_the_queue_is_found_asleep() {
    let three = model(&[(Lock, 0), (Lock, 1), (Lock, 2)], NONE);
    expect_to_find("a waiter watches the last in the queue", &three, SERVED);
}

#[test]
fn a_reader_that_watches_the_reader_ahead_is_found_asleep() {
    let three = model(&[(Write, 0), (Read, 1), (Read, 2)], NONE);
    expect_to_find("a reader watches the reader directly ahead", &three, AWAKE);
}

// L12
#[test]
fn a_reader_that_joins_without_a_look_and_holds_is_found() {
    let three = model(&[(Write, 1), (Read, 0), (Read, 0)], NONE);
    expect_to_find("a contender that joined without a look holds unless it knows its predecessor", &three, EXCLUSION);
}

#[test]
fn a_grant_to_a_contender_whose_node_is_not_listed_is_found() {
    let two = model(&[(Lock, 0), (Lock, 1)], DELETED);
    expect_to_find("a contender holds although its node is not listed", &two, EXCLUSION);
    expect_to_find("a contender holds although its node is not listed", &two, GRANTED_IN_TURN);
}

#[test]
fn a_listing_that_is_a_proof_without_the_own_node_is_found() {
    let two = model(&[(Lock, 0), (Lock, 1)], Faults::DELETED);
    expect_to_find("a listing without the own node is a proof", &two, EXCLUSION);
    expect_to_find("a listing without the own node is a proof", &two, GRANTED_IN_TURN);
}

#[test]
fn a_create_that_is_repeated_without_a_search_is_found() {
    let one = model(&[(Lock, 0)], Faults { cuts: 1, drops: 1, ..NONE });
    expect_to_find("a create is repeated without a search", &one, SERVED);
    expect_to_find("a create is repeated without a search", &one, CLEAN);
}

#[test]
fn a_waiter_that_reads_the_note_and_not_its_own_node_is_found() {
    let three = model(&[(Handoff, 0), (Handoff, 1), (Handoff, 2)], DELETED);
    expect_to_find("a waiter reads the note and not its own node", &three, EXCLUSION);
    let beside_foreign = QueueModel { has_foreign: true, ..model(&[(Handoff, 0), (Handoff, 1)], DELETED) };
    expect_to_find("a waiter reads the note and not its own node", &beside_foreign, GRANTED_IN_TURN);
}

#[test]
fn a_contender_that_takes_any_only_child_for_its_own_is_found() {
    let two = model(&[(Handoff, 0), (Handoff, 1)], DELETED);
    expect_to_find("a contender takes any only child for its own", &two, EXCLUSION);
}

#[test]
fn a_predecessor_that_gave_up_and_counts_as_released_is_found() {
    let three = model(&[(Handoff, 0), (Handoff, 1), (Handoff, 2)], Faults::DROP);
    expect_to_find("a predecessor that gave up is taken for one that released", &three, EXCLUSION);
}

#[test]
fn a_note_of_a_contender_that_never_held_is_found() {
    let three = model(&[(Handoff, 0), (Handoff, 1), (Handoff, 2)], Faults::DROP);
    expect_to_find("a contender that never held leaves a note", &three, EXCLUSION);
}

#[test]
fn a_number_that_counts_after_numbers_began_anew_is_found() {
    let two = model(&[(Lock, 0), (Lock, 1)], Faults { new_parents: 1, ..NONE });
    let again = QueueModel { holds_before: 3, first_number_anew: 2, ..two };
    expect_to_find("a number counts although the numbers have begun anew", &again, EXCLUSION);
}

#[test]
fn a_predecessor_that_counts_as_gone_while_it_holds_is_found() {
    let again = QueueModel { holds_before: 3, ..model(&[(Lock, 0), (Lock, 0)], NONE) };
    expect_to_find("a predecessor counts as gone while it holds", &again, EXCLUSION);
}

#[test]
fn a_predecessor_that_is_checked_after_the_creation_is_found() {
    let again = QueueModel { holds_before: 3, ..model(&[(Lock, 0), (Lock, 0), (Lock, 1)], DELETED) };
    expect_to_find("a contender checks after its creation whether its predecessor has released", &again, EXCLUSION);
}

#[test]
fn a_hand_over_to_a_contender_without_a_node_is_found() {
    let three = model(&[(Lock, 0), (Lock, 0), (Lock, 1)], DELETED);
    expect_to_find("a hold is handed over to a contender that may have no node", &three, EXCLUSION);
}

#[test]
fn a_search_that_takes_a_node_of_another_recipe_is_found() {
    let two = model(&[(Handoff, 0), (Lock, 0)], OVERWRITTEN);
    expect_to_find("a search takes the node of another kind of lock", &two, EXCLUSION);
}

#[test]
fn a_search_that_takes_the_node_of_another_contender_is_found() {
    let two = model(&[(Handoff, 0), (Handoff, 0)], OVERWRITTEN);
    expect_to_find("a search takes the node of another contender", &two, EXCLUSION);
}

#[test]
fn contenders_that_accept_the_last_number_are_found() {
    let three = model(&[(Handoff, 0), (Lock, 0), (Lock, 1)], Faults::DROP);
    let last = QueueModel { first_number: 2_099_999_999, ..three };
    expect_to_find("a contender accepts the last number", &last, EXCLUSION);
}

#[test]
fn a_note_of_another_lock_s_node_that_counts_is_found() {
    let three = model(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], Faults::DROP);
    let copied = QueueModel { data: Data::NoteOf(1, 99), ..three };
    expect_to_find("a note of another lock's node counts", &copied, EXCLUSION);
}

#[test]
fn a_listing_that_is_older_than_the_node_is_found() {
    let two = model(&[(Lock, 0), (Lock, 0)], Faults::CUT);
    expect_to_find("a listing counts although it is older than the node", &two, CAUSED);
}

#[test]
fn a_search_that_takes_an_overwritten_node_too_early_is_found() {
    let two = model(&[(Handoff, 0), (Handoff, 0)], OVERWRITTEN);
    expect_to_find("a search takes an overwritten node before it has read all", &two, SERVED);
}

#[test]
fn a_second_create_without_a_search_is_found() {
    let two = model(&[(Handoff, 0), (Handoff, 0)], Faults { overwrites: 2, ..OVERWRITTEN });
    expect_to_find("a contender whose node was adopted creates another without a search", &two, SERVED);
}

#[test]
fn an_adopted_node_that_is_freed_is_found() {
    let two = model(&[(Handoff, 0), (Handoff, 0)], Faults { overwrites: 2, ..OVERWRITTEN });
    expect_to_find("an adopted node is freed", &two, GRANTED_IN_TURN);
}

#[test]
fn a_search_that_does_not_check_an_adopted_node_is_found() {
    let two = model(&[(Handoff, 0), (Handoff, 0)], OVERWRITTEN);
    expect_to_find("a search does not check the node that it adopts", &two, CAUSED);
}

/// One search lists the queue before the node of the other contender exists. Before that search reads the data, somebody overwrites
/// both nodes. The other contender's search then adopts the only node that the first search has listed. The contender of the first
/// search creates another node. One node is left without a contender, and the queue stands behind it.
// L26
#[test]
fn searches_of_a_session_that_overlap_are_found() {
    let two = model(&[(Handoff, 0), (Handoff, 0)], Faults { cuts: 2, overwrites: 2, ..NONE });
    expect_to_find("searches of a session overlap", &two, SERVED);
}

/// Somebody deletes the node of a waiter, and then the lock's node, which is created again. Another contender gets the waiter's
/// number. The waiter gives up before it learns of that, and deletes the node of that name.
// L27
#[test]
fn a_waiter_that_deletes_another_contender_s_node_is_found() {
    let faults = Faults { drops: 1, ..Faults::DELETED };
    let two = model(&[(Handoff, 0), (Handoff, 1)], faults);
    expect_to_find("a waiter that gives up deletes a node of its name without a check", &two, GRANTED_IN_TURN);
}

// L14
#[test]
fn a_contender_that_waits_for_a_number_of_its_own_is_found() {
    let two = QueueModel { first_number: i32::MAX, ..model(&[(Handoff, 0), (Handoff, 1)], NONE) };
    expect_to_find("a contender goes on waiting although the last number was given twice", &two, SERVED);
}

// L47
#[test]
fn a_throttled_request_that_is_not_repeated_is_found() {
    let two = model(&[(Lock, 0), (Handoff, 1)], Faults { throttles: 1, ..NONE });
    expect_to_find("a throttled create is not repeated", &two, SERVED);
    expect_to_find("a throttled deletion counts as done", &two, CLEAN);
}

#[test]
fn a_hold_without_its_throttled_node_is_found() {
    let one = Semaphore::new(&[Take(2)], 2, Ills { throttles: 1, ..Ills::NONE });
    expect_to_find("permits are granted although their creates were throttled", &one, permits::HELD);
    let two = Naive::new(&[(Contend, 0), (Contend, 1)], Mishaps { throttles: 1, ..Mishaps::NONE });
    expect_to_find("a naive contender whose create was throttled holds", &two, naive::EXCLUSION);
}

#[test]
fn permits_that_are_taken_without_a_lease_lock_are_found() {
    let two = Semaphore::new(&[Take(2), Take(2)], 2, Ills::NONE);
    expect_to_find("permits are taken without a lease lock", &two, permits::SERVED);
}

#[test]
fn a_permit_that_is_granted_without_its_lease_is_found() {
    let two = Semaphore::new(&[Take(1), Take(1)], 1, Ills { leases: 1, ..Ills::NONE });
    expect_to_find("a permit is granted although its lease is missing", &two, permits::HELD);
}

#[test]
fn one_permit_too_many_is_found() {
    let two = Semaphore::new(&[Take(1), Take(1)], 1, Ills::NONE);
    expect_to_find("one more lease holds than there are permits", &two, permits::COUNTED);
}

// L60
#[test]
fn a_permit_beyond_a_lowered_number_is_found() {
    let two = Semaphore::new(&[Take(1), Take(1)], 2, Ills { lowered: 1, ..Ills::NONE });
    expect_to_find("permits are granted although their number was lowered", &two, permits::COUNTED);
}

#[test]
fn an_attempt_that_does_not_search_after_a_lost_reply_is_found() {
    let two = Semaphore::new(&[Take(1), Take(1)], 1, Ills { replies: 1, ..Ills::NONE });
    expect_to_find("leases are created again without a search", &two, permits::SERVED);
}

#[test]
fn leases_that_may_exist_and_are_not_deleted_are_found() {
    let one = Semaphore::new(&[Take(1)], 1, Ills { drops: 1, ..Ills::NONE });
    expect_to_find("an attempt that gives up deletes only the leases that it knows", &one, permits::CLEAN);
}

#[test]
fn a_waiter_that_trusts_a_listing_before_its_watch_is_found() {
    let two = Semaphore::new(&[Take(1), Take(1)], 1, Ills::NONE);
    expect_to_find("a waiter waits by the listing before its watch", &two, permits::SERVED);
}

/// A reply is lost.
const REPLY: Mishaps = Mishaps { replies: 1, ..Mishaps::NONE };

#[test]
fn a_naive_contender_that_holds_by_another_s_node_is_found() {
    let two = Naive::new(&[(Contend, 0), (Contend, 0)], REPLY);
    expect_to_find("a node of the session is taken for the contender's own", &two, naive::EXCLUSION);
}

#[test]
fn a_naive_contender_that_takes_a_node_again_is_found() {
    let two = Naive::new(&[(Contend, 0), (Contend, 0)], Mishaps { overwrites: 1, ..REPLY });
    expect_to_find("a node is taken twice", &two, naive::EXCLUSION);
}

#[test]
fn a_naive_contender_that_waits_for_its_own_node_is_found() {
    let two = Naive::new(&[(Contend, 0), (Contend, 1)], REPLY);
    expect_to_find("the doubt of a lost reply ends with the next answer", &two, naive::SERVED);
    expect_to_find("an existing node counts as another contender's, even after a lost reply", &two, naive::SERVED);
}

#[test]
fn a_naive_contender_that_deletes_another_s_node_is_found() {
    let two = Naive::new(&[(Contend, 0), (Contend, 1)], Mishaps { drops: 1, ..REPLY });
    expect_to_find("a contender that gives up deletes any node at the path", &two, naive::HELD);
    expect_to_find("a deletion without an answer is repeated without a look", &two, naive::HELD);
}

#[test]
fn a_naive_contender_that_leaves_a_node_behind_is_found() {
    let two = Naive::new(&[(Contend, 0), (Contend, 1)], Mishaps { drops: 1, ..REPLY });
    expect_to_find("a refused contender looks for no node, even after a lost reply", &two, naive::CLEAN);
    let one_session = Naive::new(&[(Contend, 0), (Contend, 0)], Mishaps { overwrites: 1, drops: 1, ..REPLY });
    expect_to_find("a contender that had a node looks for no other", &one_session, naive::CLEAN);
}
