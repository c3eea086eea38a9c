//! Whose turn it is in one process, and whether the lock goes with it: the decisions. Pure.
//!
//! The contenders of one process share one node, so only one of them at a time deals with the server: whoever has the
//! *turn*. It queues for the lock, holds it, and then passes the turn on: with the lock, as a hand-over, or without, for
//! the next to queue for it anew.

use std::collections::VecDeque;
use std::time::Duration;

/// For how long the processes that wait for the lock can be passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// How many hand-overs may follow one another.
    pub max_handovers: u32,
    /// For how long they may go on.
    pub max_hold: Duration,
}

impl Bounds {
    /// Whether one more hand-over may follow so many, which took so long, without asking whether another process waits.
    pub fn allow(&self, handovers: u32, held_for: Duration) -> bool {
        handovers < self.max_handovers && held_for < self.max_hold
    }
}

/// Who has the turn, and who waits for it: first come, first served.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Turns<W> {
    is_taken: bool,
    waiting: VecDeque<W>,
    /// How many have gone since those that had gone were last taken out of the queue.
    gone: usize,
    is_closed: bool,
}

/// The answer to who comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nobody had the turn; it is the newcomer's now.
    Turn,
    /// Somebody has it.
    Wait,
    /// There will be no more turns: the session has ended.
    Closed,
}

/// What is known of a hold when its holder lets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    /// Whether the session or the node was lost.
    pub is_lost: bool,
    /// Whether the [`Bounds`] allow one more hand-over.
    pub is_within_bounds: bool,
    /// Whether our node is there and no other is beside it, once that has been asked.
    pub is_alone: Option<bool>,
}

/// What is to become of a hold whose holder lets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<W> {
    /// It goes to this one, with the turn.
    HandOver(W),
    /// The server is to be asked whether we are alone, and then this again.
    Ask,
    /// The node is to be deleted. The turn is kept until then.
    Release,
}

impl<W> Default for Turns<W> {
    fn default() -> Self {
        Self { is_taken: false, waiting: VecDeque::new(), gone: 0, is_closed: false }
    }
}

impl<W> Turns<W> {
    /// Takes the turn, if nobody has it. Whoever passes it on passes it to who waits, so that nobody can take it from
    /// under their noses.
    pub fn take(&mut self) -> Entry {
        match (self.is_closed, self.is_taken) {
            (true, _) => Entry::Closed,
            (false, true) => Entry::Wait,
            (false, false) => {
                self.is_taken = true;
                Entry::Turn
            }
        }
    }

    /// Adds one who was told to wait, at the end of the queue.
    pub fn wait(&mut self, waiter: W) {
        self.waiting.push_back(waiter);
    }

    /// Decides what becomes of a hold. Who was chosen may have gone by then; then it is decided again.
    pub fn let_go(&mut self, hold: Standing) -> Step<W> {
        if hold.is_lost || self.waiting.is_empty() {
            return Step::Release;
        }
        match (hold.is_within_bounds, hold.is_alone) {
            (true, _) | (false, Some(true)) => self.waiting.pop_front().map_or(Step::Release, Step::HandOver),
            (false, None) => Step::Ask,
            (false, Some(false)) => Step::Release,
        }
    }

    /// To whom the turn passes without a hold; nobody has it when nobody waits. Who was chosen may have gone by then;
    /// then it passes again.
    pub fn pass(&mut self) -> Option<W> {
        let next = self.waiting.pop_front();
        self.is_taken = next.is_some();
        next
    }

    /// Notes that one who waited has gone. Those that have are taken out of the queue when they are half of it, for it
    /// not to grow while one holder stays and waiters come and go.
    pub fn note_gone(&mut self, is_gone: impl Fn(&W) -> bool) {
        self.gone += 1;
        if self.gone * 2 >= self.waiting.len() {
            self.gone = 0;
            self.waiting.retain(|waiter| !is_gone(waiter));
        }
    }

    /// Ends all waiting, for ever. Returns those that did, to be told.
    pub fn close(&mut self) -> VecDeque<W> {
        self.is_closed = true;
        std::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
    fn a_hold_is_handed_over_only_to_who_waits_only_if_it_is_not_lost_and_beyond_the_bounds_only_if_nobody_else_waits()
    {
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
            assert!(turns.waiting.len() <= 2 * there.max(1), "{} for {there}", turns.waiting.len());
        }
        assert!(turns.waiting.is_empty());
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
}
