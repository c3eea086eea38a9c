//! The models find each planted mistake. Without the mistake, the same contenders and faults are safe.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../../../tests/protocol/model"]
mod model {
    #[allow(dead_code, reason = "other tests use more of it")]
    pub(crate) mod cohort;
    #[allow(dead_code, reason = "other tests use more of it")]
    pub(crate) mod naive;
    #[allow(dead_code, reason = "other tests use more of it")]
    pub(crate) mod permits;
    #[allow(dead_code, reason = "other tests use more of it")]
    pub(crate) mod world;
}

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use model::cohort::{self, Faults as Troubles, Lab as Cohort, Program as Member};
use model::naive::Program::Lock as Contend;
use model::naive::{self, Faults as Mishaps, Lab as Naive};
use model::permits::lab::Program::Take;
use model::permits::lab::{self as permits, Faults as Ills, Lab as Semaphore};
use model::world::lab::Program::{self, Handoff, Lock, Read, Write};
use model::world::lab::{AWAKE, CAUSED, CLEAN, EXCLUSION, Faults, GRANTED_IN_TURN, Lab, SERVED};
use stateright::{Checker, HasDiscoveries, Model};

const NONE: Faults = Faults::NONE;
const DELETED: Faults = Faults { deletions: 1, ..NONE };
/// A reply is lost, and somebody overwrites a node.
const OVERWRITTEN: Faults = Faults { cuts: 1, overwrites: 1, ..NONE };

/// One mistake can be planted at a time.
static PLANTED: Mutex<()> = Mutex::new(());

/// Expects the property to fail with the mistake, and to hold without it.
fn expect_to_find<M>(mistake: &str, lab: &M, property: &'static str)
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Clone + Debug + Eq + Hash + Send + Sync,
    M::Action: Clone + Debug + PartialEq,
{
    let _alone = PLANTED.lock().unwrap_or_else(PoisonError::into_inner);
    zk_recipes_protocol::plant(Some(mistake));
    let found = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let mistaken = lab.clone().checker().finish_when(found).spawn_bfs().join();
    mistaken.assert_any_discovery(property);
    zk_recipes_protocol::plant(None);
    lab.clone().checker().threads(2).spawn_bfs().join().assert_no_discovery(property);
}

fn lab(users: &[(Program, usize)], faults: Faults) -> Lab {
    Lab::new(users, faults)
}

#[test]
fn a_waiter_that_watches_the_last_in_the_queue_is_found_asleep() {
    let three = lab(&[(Lock, 0), (Lock, 1), (Lock, 2)], NONE);
    expect_to_find("a waiter watches the last in the queue", &three, SERVED);
}

#[test]
fn a_reader_that_watches_the_reader_directly_ahead_is_found_asleep() {
    let three = lab(&[(Write, 0), (Read, 1), (Read, 2)], NONE);
    expect_to_find("a reader watches the reader directly ahead", &three, AWAKE);
}

#[test]
fn a_grant_to_a_contender_whose_node_is_not_listed_is_found() {
    let two = lab(&[(Lock, 0), (Lock, 1)], DELETED);
    expect_to_find("a contender holds whose node is not listed", &two, EXCLUSION);
    expect_to_find("a contender holds whose node is not listed", &two, GRANTED_IN_TURN);
}

#[test]
fn a_create_that_is_repeated_without_a_search_is_found_waiting_for_itself() {
    let one = lab(&[(Lock, 0)], Faults { cuts: 1, drops: 1, ..NONE });
    expect_to_find("a create is repeated without a search", &one, SERVED);
    expect_to_find("a create is repeated without a search", &one, CLEAN);
}

#[test]
fn a_hand_over_to_a_contender_that_does_not_ask_for_its_own_node_is_found() {
    let three = lab(&[(Handoff, 0), (Handoff, 1), (Handoff, 2)], DELETED);
    expect_to_find("whoever is handed over to does not ask for its own node", &three, EXCLUSION);
    let beside_foreign = Lab { has_foreign: true, ..lab(&[(Handoff, 0), (Handoff, 1)], DELETED) };
    expect_to_find("whoever is handed over to does not ask for its own node", &beside_foreign, GRANTED_IN_TURN);
}

#[test]
fn a_contender_that_takes_any_only_child_for_its_own_is_found() {
    let two = lab(&[(Handoff, 0), (Handoff, 1)], DELETED);
    expect_to_find("a contender takes any only child for its own", &two, EXCLUSION);
}

#[test]
fn a_predecessor_that_gave_up_and_is_taken_for_one_that_released_is_found() {
    let three = lab(&[(Handoff, 0), (Handoff, 1), (Handoff, 2)], Faults::DROP);
    expect_to_find("a predecessor that gave up is taken for one that released", &three, EXCLUSION);
}

#[test]
fn a_note_of_a_contender_that_never_held_is_found() {
    let three = lab(&[(Handoff, 0), (Handoff, 1), (Handoff, 2)], Faults::DROP);
    expect_to_find("a contender that never held leaves a note", &three, EXCLUSION);
}

#[test]
fn a_waiter_that_asks_for_those_ahead_and_not_for_its_own_node_is_found() {
    let three = lab(&[(Lock, 0), (Lock, 1), (Lock, 2)], DELETED);
    expect_to_find("a waiter asks for those ahead and not for its own node", &three, EXCLUSION);
}

#[test]
fn a_number_that_is_relied_on_although_the_numbers_have_begun_anew_is_found() {
    let two = lab(&[(Lock, 0), (Lock, 1)], Faults { new_parents: 1, ..NONE });
    let again = Lab { holds_before: 2, first_number_anew: 1, ..two };
    expect_to_find("a number is relied on although the numbers have begun anew", &again, EXCLUSION);
}

#[test]
fn a_contender_that_takes_the_one_before_it_for_gone_while_that_holds_is_found() {
    let again = Lab { holds_before: 2, ..lab(&[(Lock, 0), (Lock, 0)], NONE) };
    expect_to_find("the one before is taken for gone while it holds", &again, EXCLUSION);
}

#[test]
fn a_contender_that_asks_after_its_creation_whether_the_one_before_has_let_go_is_found() {
    let again = Lab { holds_before: 2, ..lab(&[(Lock, 0), (Lock, 0), (Lock, 1)], DELETED) };
    expect_to_find("a contender asks after its creation whether the one before has let go", &again, EXCLUSION);
}

#[test]
fn a_hold_that_is_passed_on_to_a_contender_that_may_have_no_node_is_found() {
    let three = lab(&[(Lock, 0), (Lock, 0), (Lock, 1)], DELETED);
    expect_to_find("a hold is passed on to a contender that may have no node", &three, EXCLUSION);
}

#[test]
fn a_search_that_takes_the_node_of_another_kind_of_lock_is_found() {
    let two = lab(&[(Handoff, 0), (Lock, 0)], OVERWRITTEN);
    expect_to_find("a search takes the node of another kind of lock", &two, EXCLUSION);
}

#[test]
fn a_search_that_takes_the_node_of_another_contender_is_found() {
    let two = lab(&[(Handoff, 0), (Handoff, 0)], OVERWRITTEN);
    expect_to_find("a search takes the node of another contender", &two, EXCLUSION);
}

#[test]
fn contenders_that_accept_the_last_number_are_found() {
    let three = lab(&[(Handoff, 0), (Lock, 0), (Lock, 1)], Faults::DROP);
    let last = Lab { first_number: 2_099_999_999, ..three };
    expect_to_find("a contender accepts the last number", &last, EXCLUSION);
}

#[test]
fn a_note_that_counts_in_a_lock_s_node_that_it_does_not_name_is_found() {
    let three = lab(&[(Handoff, 0), (Handoff, 0), (Handoff, 1)], Faults::DROP);
    let copied = Lab { note: Some((1, 99)), ..three };
    expect_to_find("a note counts in a lock's node that it does not name", &copied, EXCLUSION);
}

#[test]
fn a_listing_that_is_older_than_the_node_is_found() {
    let two = lab(&[(Lock, 0), (Lock, 0)], Faults::CUT);
    expect_to_find("a listing counts that is older than the node", &two, CAUSED);
}

/// The look of the second contender overtakes its `create`. In between, somebody deletes the lock's node, which is then created
/// again. The second contender takes its number for one of the earlier lock's node, where the session was granted a later number.
#[test]
fn a_note_that_is_older_than_the_node_is_found() {
    let faults = Faults { cuts: 1, ..Faults::DELETED };
    let again = Lab { holds_before: 2, ..lab(&[(Lock, 0), (Handoff, 0)], faults) };
    expect_to_find("a note counts that is older than the node", &again, EXCLUSION);
}

#[test]
fn a_search_that_takes_an_overwritten_node_before_it_has_read_all_is_found() {
    let two = lab(&[(Handoff, 0), (Handoff, 0)], OVERWRITTEN);
    expect_to_find("a search takes an overwritten node before it has read all", &two, SERVED);
}

#[test]
fn a_second_create_without_a_search_is_found() {
    let two = lab(&[(Handoff, 0), (Handoff, 0)], Faults { overwrites: 2, ..OVERWRITTEN });
    expect_to_find("a contender whose node was adopted creates another without a search", &two, SERVED);
}

#[test]
fn an_adopted_node_that_is_let_go_is_found() {
    let two = lab(&[(Handoff, 0), (Handoff, 0)], Faults { overwrites: 2, ..OVERWRITTEN });
    expect_to_find("an adopted node is let go", &two, GRANTED_IN_TURN);
}

#[test]
fn a_search_that_does_not_ask_again_for_what_it_takes_is_found() {
    let two = lab(&[(Handoff, 0), (Handoff, 0)], OVERWRITTEN);
    expect_to_find("a search does not ask again for the node that it takes", &two, CAUSED);
}

/// One search lists the queue before the node of the other contender exists. Before that search reads the data, somebody overwrites
/// both nodes. The other contender's search then adopts the only node that the first search has listed. The contender of the first
/// search creates another node. One node is left without a contender, and the queue stands behind it.
#[test]
fn searches_of_a_session_that_overlap_are_found() {
    let two = lab(&[(Handoff, 0), (Handoff, 0)], Faults { cuts: 2, overwrites: 2, ..NONE });
    expect_to_find("searches of a session overlap", &two, SERVED);
}

/// Somebody deletes the node of a waiter, and then the lock's node, which is created again. Another contender gets the waiter's
/// number. The waiter gives up before it learns of that, and deletes the node of that name.
#[test]
fn a_waiter_that_gives_up_and_does_not_ask_whose_node_it_deletes_is_found() {
    let faults = Faults { drops: 1, ..Faults::DELETED };
    let two = lab(&[(Handoff, 0), (Handoff, 1)], faults);
    expect_to_find("a waiter that gives up does not ask whose node it deletes", &two, GRANTED_IN_TURN);
}

#[test]
fn permits_that_are_taken_without_a_turn_are_found_waiting_for_each_other() {
    let two = Semaphore::new(&[Take(2), Take(2)], 2, Ills::NONE);
    expect_to_find("permits are taken without a turn", &two, permits::SERVED);
}

#[test]
fn a_permit_that_is_granted_by_a_lease_that_is_missing_is_found() {
    let two = Semaphore::new(&[Take(1), Take(1)], 1, Ills { leases: 1, ..Ills::NONE });
    expect_to_find("a permit is granted although its lease is missing", &two, permits::HELD);
}

#[test]
fn one_permit_too_many_is_found() {
    let two = Semaphore::new(&[Take(1), Take(1)], 1, Ills::NONE);
    expect_to_find("one lease more than there are permits holds", &two, permits::COUNTED);
}

#[test]
fn a_lease_that_is_not_looked_for_after_a_lost_reply_is_found() {
    let two = Semaphore::new(&[Take(1), Take(1)], 1, Ills { replies: 1, ..Ills::NONE });
    expect_to_find("leases are created again without a search", &two, permits::SERVED);
}

#[test]
fn leases_that_may_be_there_and_are_not_deleted_are_found() {
    let one = Semaphore::new(&[Take(1)], 1, Ills { drops: 1, ..Ills::NONE });
    expect_to_find("an attempt that is given up deletes only leases that it knows", &one, permits::CLEAN);
}

#[test]
fn a_waiter_that_sets_its_watch_after_its_look_is_found_asleep() {
    let two = Semaphore::new(&[Take(1), Take(1)], 1, Ills::NONE);
    expect_to_find("a waiter waits by the look before its watch", &two, permits::SERVED);
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
    expect_to_find("a node that is there is another's, also after a lost reply", &two, naive::SERVED);
}

#[test]
fn a_naive_contender_that_deletes_another_s_node_is_found() {
    let two = Naive::new(&[(Contend, 0), (Contend, 1)], Mishaps { drops: 1, ..REPLY });
    expect_to_find("whoever gives up deletes the node, whosever it is", &two, naive::HELD);
    expect_to_find("a deletion without an answer is repeated without a look", &two, naive::HELD);
}

#[test]
fn a_naive_contender_that_leaves_a_node_of_which_it_had_no_answer_is_found() {
    let two = Naive::new(&[(Contend, 0), (Contend, 1)], Mishaps { drops: 1, ..REPLY });
    expect_to_find("after a refusal nothing is looked for, also after a lost reply", &two, naive::CLEAN);
    let one_session = Naive::new(&[(Contend, 0), (Contend, 0)], Mishaps { overwrites: 1, drops: 1, ..REPLY });
    expect_to_find("a contender that had a node looks for no other", &one_session, naive::CLEAN);
}

/// The session loses its holds, and ends.
const ENDED: Troubles = Troubles { losses: true, ..Troubles::NONE };

fn cohort(members: usize, faults: Troubles) -> Cohort {
    Cohort::new(&vec![Member::Lock; members], faults)
}

#[test]
fn a_member_that_takes_the_turn_along_when_it_leaves_is_found() {
    let two = cohort(2, Troubles::DROPS);
    expect_to_find("whoever leaves with a turn takes it along", &two, cohort::SERVED);
}

#[test]
fn a_turn_that_is_given_up_with_what_came_with_it_is_found() {
    let two = cohort(2, Troubles::DROPS);
    expect_to_find("what is of no use is given up with the turn", &two, cohort::SERVED);
    expect_to_find("what is of no use is given up with the turn", &two, cohort::CLEAN);
}

#[test]
fn a_place_that_goes_to_the_next_although_it_is_gone_is_found() {
    let three = cohort(3, Troubles { deletions: 1, ..Troubles::NONE });
    expect_to_find("what is of no use goes to the next", &three, cohort::UNSPOILT);
}

#[test]
fn a_cohort_that_never_looks_for_others_is_found_passing_over_them() {
    expect_to_find("a cohort never looks for others", &cohort(3, Troubles::NONE), cohort::BOUND);
}

#[test]
fn a_holder_that_takes_one_other_for_none_is_found_passing_over_it() {
    expect_to_find("a holder takes one other for none", &cohort(3, Troubles::NONE), cohort::BOUND);
}

#[test]
fn a_holder_that_takes_itself_for_alone_without_its_node_is_found_passing_over_others() {
    let faults = Troubles { deletions: 1, ..Troubles::NONE };
    expect_to_find("a holder whose node is gone takes itself for alone", &cohort(4, faults), cohort::BOUND);
}

#[test]
fn a_hold_that_is_taken_without_a_look_is_found() {
    let two = cohort(2, ENDED);
    expect_to_find("a hold is taken without a look", &two, cohort::SURE);
    // The mistake is worse if the shell also takes the time of the hand-over for the time of the grant.
    let forgetful = Cohort { forgets_age: true, ..two };
    expect_to_find("a hold is taken without a look", &forgetful, cohort::ALONE);
}

#[test]
fn a_lost_hold_that_is_handed_over_is_found_keeping_its_loss_to_itself() {
    expect_to_find("a lost hold is handed over", &cohort(2, ENDED), cohort::SURE);
}

#[test]
fn tokens_that_begin_again_with_the_next_holder_are_found() {
    expect_to_find("tokens begin again with the next holder", &cohort(2, Troubles::NONE), cohort::TOKENS);
}

#[test]
fn a_session_that_ends_without_telling_those_who_wait_is_found() {
    let two = cohort(2, ENDED);
    expect_to_find("those who wait are not told that the session has ended", &two, cohort::ENDED);
}

#[test]
fn a_try_that_takes_the_turn_of_another_is_found() {
    let two = Cohort::new(&[Member::Lock, Member::Lock, Member::Try], Troubles::NONE);
    expect_to_find("whoever only tries takes the turn of another", &two, cohort::SERVED);
}
