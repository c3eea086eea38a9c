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

    /// How many wait, with those that have gone and were not taken out of the queue yet.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
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
