//! Who may still be ahead of a contender that has looked at the queue before. Pure.
//!
//! After its own creation nobody comes in ahead of a contender, so what it has once seen ahead only ever becomes less: a
//! listing after every step, as Curator makes it, tells little that is new. It is enough to know of each contender that
//! was ahead that it has gone, by a watch that fired, by asking for it, or because a later one has been granted.

use crate::names::Sequence;

/// How many of those ahead a waiter remembers by name. There may be thousands of waiters in one process, and thousands
/// ahead of each.
const REMEMBERED_MAX: usize = 12;

/// Asking for one node costs a server about as much as this many more children in a listing.
const CHILDREN_PER_PROBE: usize = 128;

/// Those who bar the way of a contender, as far as they may be there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Predecessors {
    /// Their names, the nearest last.
    nearest: Vec<(Sequence, String)>,
    /// The nearest of those that are not remembered by name.
    beyond: Option<Sequence>,
    /// How many contenders the listing had.
    listed: usize,
}

impl Predecessors {
    /// Those of a listing who bar the way of one contender, in any order, of `listed` contenders in all.
    pub fn new(mut ahead: Vec<(Sequence, &str)>, listed: usize) -> Self {
        let mut beyond = None;
        if ahead.len() > REMEMBERED_MAX {
            let forgotten = ahead.len() - REMEMBERED_MAX;
            ahead.select_nth_unstable_by(forgotten - 1, |(a, _), (b, _)| a.queue_cmp(*b));
            beyond = Some(ahead[forgotten - 1].0);
            ahead.drain(..forgotten);
        }
        ahead.sort_unstable_by(|(a, _), (b, _)| a.queue_cmp(*b));
        let nearest = ahead.into_iter().map(|(sequence, name)| (sequence, name.to_owned())).collect();
        Self { nearest, beyond, listed }
    }

    /// Nobody.
    pub fn nobody() -> Self {
        Self { nearest: Vec::new(), beyond: None, listed: 0 }
    }

    /// The contender of this number and name, directly ahead. Who is before it is not known without a listing.
    pub fn directly(number: Sequence, name: String) -> Self {
        Self { nearest: vec![(number, name)], beyond: Some(number.before()), listed: 0 }
    }

    /// Whoever has the number before `own`, if that one is named by its number alone. Who else is ahead, or has that
    /// number under another name, is not known without a listing.
    pub fn number_before(own: Sequence, name: impl FnOnce(Sequence) -> String) -> Self {
        let number = own.before();
        Self { nearest: vec![(number, name(number))], beyond: Some(number), listed: 0 }
    }

    /// The nearest: the one to watch. `None` when nobody is known by name.
    pub fn predecessor(&self) -> Option<(Sequence, &str)> {
        self.nearest.last().map(|(sequence, name)| (*sequence, name.as_str()))
    }

    /// Whether nobody can be ahead.
    pub fn is_nobody(&self) -> bool {
        self.nearest.is_empty() && self.beyond.is_none()
    }

    /// Notes that the predecessor has gone.
    pub fn pop(&mut self) {
        self.nearest.pop();
    }

    /// Notes that all before `floor` have gone.
    pub fn raise(&mut self, floor: Sequence) {
        self.nearest.retain(|(sequence, _)| sequence.queue_cmp(floor).is_ge());
        self.beyond = self.beyond.filter(|sequence| sequence.queue_cmp(floor).is_ge());
    }

    /// Notes who was found `present`, of those remembered by name.
    pub fn keep(&mut self, present: &[bool]) {
        let mut present = present.iter().copied();
        self.nearest.retain(|_| present.next().unwrap_or(true));
    }

    /// Whether all of them are remembered by name, so that whoever asks for these need not list the queue.
    pub fn is_complete(&self) -> bool {
        self.beyond.is_none()
    }

    /// Whether to ask for them is cheaper than another listing.
    pub fn is_cheap_to_probe(&self) -> bool {
        self.nearest.len() * CHILDREN_PER_PROBE <= self.listed
    }

    /// The names of those that are remembered.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nearest.iter().map(|(_, name)| name.as_str())
    }
}
