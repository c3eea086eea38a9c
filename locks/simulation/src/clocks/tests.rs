//! All states of short runs, with the right settings and with one mistake.

use super::super::check::Search;
use super::*;

#[track_caller]
fn expect_loss_in_time(clocks: Clocks, states: usize) {
    clocks.check(states);
}

#[track_caller]
fn expect_loss_too_late(clocks: Clocks) {
    assert!(clocks.breaks(LOST));
}

// L36
#[test]
fn a_hold_is_lost_before_the_leader_expires_the_session() {
    expect_loss_in_time(RIGHT, 1_444_120);
}

#[test]
fn a_hold_is_lost_in_time_if_all_messages_are_answered_at_once() {
    expect_loss_in_time(Clocks { reads_max: 1, proofs_max: 2, is_prompt: true, ..RIGHT }, 620_942);
}

#[test]
fn a_hold_is_lost_in_time_although_the_next_server_grants_less() {
    expect_loss_in_time(Clocks { attaches: true, is_prompt: true, reads_max: 0, proofs_max: 2, ..RIGHT }, 1_511_785);
}

#[test]
fn a_tick_beyond_half_the_timeout_is_covered_if_given() {
    expect_loss_in_time(Clocks { ping_after: TIMEOUT * 3 / 8, tick: Some(TIMEOUT * 3 / 4), ..RIGHT }, 1_464_047);
}

#[test]
fn planted_an_unknown_tick_beyond_half_the_timeout_is_found() {
    expect_loss_too_late(Clocks { ping_after: TIMEOUT * 3 / 8, ..RIGHT });
}

#[test]
fn planted_a_message_that_counts_before_the_ping_is_found() {
    expect_loss_too_late(Clocks { tick: Some(0), ..RIGHT });
}

#[test]
fn planted_a_proof_that_counts_from_its_answer_is_found() {
    expect_loss_too_late(Clocks { counted_from_answer: Messages::Proofs, ..RIGHT });
}

#[test]
fn planted_a_message_that_counts_from_its_answer_is_found() {
    expect_loss_too_late(Clocks { counted_from_answer: Messages::Reads, ..RIGHT });
}

#[test]
fn planted_an_answer_of_a_deposed_leader_that_counts_is_found() {
    expect_loss_too_late(Clocks { is_sync_proof: true, ..RIGHT });
}

#[test]
fn planted_an_unknown_shorter_timeout_is_found() {
    expect_loss_too_late(Clocks { attaches: true, asks: false, ..RIGHT });
}
