//! Mistakes of the cohort.

use super::expect_to_find;
use super::weather::cohort::{self, CohortModel as Cohort, Faults as Troubles, Program as Member};

/// The session loses its holds, and ends.
const ENDED: Troubles = Troubles { losses: true, ..Troubles::NONE };

fn cohort(members: usize, faults: Troubles) -> Cohort {
    Cohort::new(&vec![Member::Lock; members], faults)
}

#[test]
fn a_member_that_leaves_and_keeps_the_turn_is_found() {
    let two = cohort(2, Troubles::DROPS);
    expect_to_find("a member that leaves keeps the turn", &two, cohort::SERVED);
}

#[test]
fn a_turn_that_is_given_up_together_with_its_place_is_found() {
    let two = cohort(2, Troubles::DROPS);
    expect_to_find("a useless place is given up together with the turn", &two, cohort::SERVED);
    expect_to_find("a useless place is given up together with the turn", &two, cohort::CLEAN);
}

#[test]
fn a_deleted_place_that_goes_to_the_next_member_is_found() {
    let three = cohort(3, Troubles { deletions: 1, ..Troubles::NONE });
    expect_to_find("a useless place goes to the next member", &three, cohort::UNSPOILT);
}

#[test]
fn a_cohort_that_never_looks_for_others_is_found() {
    expect_to_find("a cohort never looks for others", &cohort(3, Troubles::NONE), cohort::BOUND);
}

#[test]
fn a_holder_that_ignores_one_other_contender_is_found() {
    expect_to_find("a holder ignores one other contender", &cohort(3, Troubles::NONE), cohort::BOUND);
}

#[test]
fn a_holder_that_counts_as_alone_without_its_node_is_found() {
    let faults = Troubles { deletions: 1, ..Troubles::NONE };
    expect_to_find("a holder whose node is gone counts as alone", &cohort(4, faults), cohort::BOUND);
}

#[test]
fn a_hold_that_is_taken_without_a_look_is_found() {
    let two = cohort(2, ENDED);
    expect_to_find("a member takes a hold without a look", &two, cohort::SURE);
    // The mistake is worse if the shell also takes the time of the hand-over for the time of the grant.
    let forgetful = Cohort { forgets_age: true, ..two };
    expect_to_find("a member takes a hold without a look", &forgetful, cohort::ALONE);
}

#[test]
fn a_lost_hold_that_is_handed_over_is_found() {
    expect_to_find("a lost hold is handed over", &cohort(2, ENDED), cohort::SURE);
}

#[test]
fn tokens_that_begin_again_with_the_next_holder_are_found() {
    expect_to_find("tokens begin again with the next holder", &cohort(2, Troubles::NONE), cohort::TOKENS);
}

#[test]
fn a_session_end_that_waiting_members_do_not_hear_of_is_found() {
    let two = cohort(2, ENDED);
    expect_to_find("waiting members are not told that the session has ended", &two, cohort::ENDED);
}

#[test]
fn a_try_that_takes_the_turn_of_another_is_found() {
    let two = Cohort::new(&[Member::Lock, Member::Lock, Member::Try], Troubles::NONE);
    expect_to_find("a try takes the turn of another member", &two, cohort::SERVED);
}

/// Returns contenders whose holds linger.
fn lingering(members: usize, faults: Troubles) -> Cohort {
    Cohort::lingering(&vec![Member::Lock; members], faults)
}

// L73
#[test]
fn a_hold_that_lingers_beside_a_rival_for_ever_is_found() {
    let one = lingering(1, Troubles::NONE);
    expect_to_find("a hold that lingers ignores other contenders for ever", &one, cohort::SERVED);
    expect_to_find("a hold lingers without a watch", &one, cohort::SERVED);
    expect_to_find("a holder ignores one other contender", &one, cohort::SERVED);
    // With fewer hand-overs, the look at the bound would find the other contender.
    let again = Cohort { max_handovers: 2, ..lingering(2, Troubles::NONE) };
    expect_to_find("a watch that has fired counts as set", &again, cohort::SERVED);
    let unanswered = lingering(2, ENDED);
    expect_to_find("a watch that was not set counts for the next hold", &unanswered, cohort::SERVED);
}

// L76
#[test]
fn a_hold_that_lingers_and_is_taken_without_a_look_is_found() {
    expect_to_find("a hold that lingers is taken without a look", &lingering(2, ENDED), cohort::SURE);
    expect_to_find("a member takes a hold without a look", &lingering(2, ENDED), cohort::SURE);
}

#[test]
fn a_cohort_that_takes_a_hold_again_without_a_bound_is_found() {
    let three = lingering(3, Troubles::NONE);
    expect_to_find("a watch replaces the bound of hand-overs", &three, cohort::BOUND);
}

// L74
#[test]
fn a_hold_that_lingers_against_a_request_is_found() {
    let one = lingering(1, Troubles { requests: 1, ..Troubles::NONE });
    expect_to_find("a hold lingers although somebody has asked for it", &one, cohort::YIELDS);
    expect_to_find(
        "a watch that has fired counts as set",
        &lingering(2, Troubles { requests: 1, ..Troubles::NONE }),
        cohort::YIELDS,
    );
}

#[test]
fn a_hold_that_lingers_for_ever_is_found_left_behind() {
    expect_to_find("the time of a hold that lingers never ends", &lingering(1, Troubles::NONE), cohort::CLEAN);
}
