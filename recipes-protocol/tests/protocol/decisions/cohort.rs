use std::time::Duration;

use proptest::prelude::*;
use zk_recipes_protocol::cohort::{Bounds, Entry, Standing, Step, Turns};

const HELD: Standing = Standing { is_lost: false, is_within_bounds: true, is_alone: None };

/// A queue behind somebody who has the turn.
fn queue(waiters: impl IntoIterator<Item = u32>) -> Turns<u32> {
    let mut turns = Turns::default();
    assert_eq!(turns.take(), Entry::Turn);
    for waiter in waiters {
        assert_eq!(turns.take(), Entry::Wait);
        turns.wait(waiter);
    }
    turns
}

#[test]
fn one_hand_over_more_is_allowed_until_there_were_so_many_or_they_took_so_long() {
    let bounds = Bounds { max_handovers: 3, max_hold: Duration::from_millis(100) };
    for (handovers, held_ms, is_allowed) in
        [(0, 0, true), (2, 99, true), (3, 0, false), (4, 0, false), (0, 100, false), (0, 5_000, false)]
    {
        assert_eq!(bounds.allow(handovers, Duration::from_millis(held_ms)), is_allowed, "{handovers} {held_ms}");
    }
    assert!(!Bounds { max_handovers: 0, ..bounds }.allow(0, Duration::ZERO));
    assert!(!Bounds { max_hold: Duration::ZERO, ..bounds }.allow(0, Duration::ZERO));
}

#[test]
fn a_hold_is_handed_over_only_to_who_waits_only_if_it_is_not_lost_and_beyond_the_bounds_only_if_nobody_else_waits() {
    for is_lost in [false, true] {
        for is_within_bounds in [false, true] {
            for is_alone in [None, Some(false), Some(true)] {
                let hold = Standing { is_lost, is_within_bounds, is_alone };
                let expected = match (is_lost, is_within_bounds, is_alone) {
                    (true, _, _) => Step::Release,
                    (false, true, _) | (false, false, Some(true)) => Step::HandOver(1),
                    (false, false, None) => Step::Ask,
                    (false, false, Some(false)) => Step::Release,
                };
                assert_eq!(queue([1, 2]).let_go(hold), expected, "{hold:?}");
                assert_eq!(queue([]).let_go(hold), Step::Release, "{hold:?}");
            }
        }
    }
}

#[test]
fn a_hold_to_be_released_keeps_the_turn_until_it_is_passed_on() {
    let mut turns = queue([]);
    assert_eq!(turns.let_go(HELD), Step::Release);
    assert_eq!(turns.take(), Entry::Wait);
    turns.wait(1);
    assert_eq!(turns.pass(), Some(1));
    assert_eq!(turns.take(), Entry::Wait, "it is the other's now");
    assert_eq!(turns.pass(), None);
    assert_eq!(turns.take(), Entry::Turn);
}

#[test]
fn once_closed_there_are_no_turns_and_whoever_waited_is_told() {
    let mut turns = queue([1, 2]);
    assert_eq!(turns.close(), [1, 2]);
    assert_eq!(turns.take(), Entry::Closed);
    assert_eq!(turns.let_go(HELD), Step::Release);
    assert_eq!(turns.pass(), None);
    assert_eq!(turns.take(), Entry::Closed, "also once the last turn is over");
}

#[test]
fn those_who_have_gone_never_make_up_more_than_half_of_a_long_queue() {
    let mut turns = queue(0..1_000);
    for gone in 1..=1_000 {
        turns.note_gone(|waiter| *waiter < gone);
        let there = 1_000 - gone as usize;
        assert!(turns.waiting() <= 2 * there.max(1), "{} for {there}", turns.waiting());
    }
    assert!(turns.waiting() == 0);
}

proptest! {
    /// Whatever comes and goes: turns go in the order of arrival, and to everybody who is still there.
    #[test]
    fn turns_go_in_the_order_of_arrival_to_all_who_have_not_gone(
        events in prop::collection::vec((0..4_u8, any::<prop::sample::Index>()), 0..200)
    ) {
        let mut turns = queue([]);
        let mut there: Vec<u32> = vec![];
        for (number, (event, index)) in (0..).zip(events) {
            match event {
                0 | 1 => {
                    prop_assert_eq!(turns.take(), Entry::Wait);
                    turns.wait(number);
                    there.push(number);
                }
                2 if !there.is_empty() => {
                    there.remove(index.index(there.len()));
                    turns.note_gone(|waiter| !there.contains(waiter));
                }
                _ => {
                    let next = std::iter::from_fn(|| match turns.let_go(HELD) {
                        Step::HandOver(next) => Some(next),
                        Step::Ask | Step::Release => None,
                    })
                    .find(|waiter| there.contains(waiter));
                    prop_assert_eq!(next, there.first().copied());
                    there.drain(..there.len().min(1));
                }
            }
        }
        let rest: Vec<u32> = std::iter::from_fn(|| turns.pass()).filter(|waiter| there.contains(waiter)).collect();
        prop_assert_eq!(rest, there);
        prop_assert_eq!(turns.take(), Entry::Turn);
    }
}
