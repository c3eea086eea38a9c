//! The contenders that may still be ahead of one that has looked at the queue before. Pure.
//!
//! New contenders queue behind every node that exists. So the contenders that were seen ahead only become fewer, and a
//! listing after every step, as Curator makes it, shows little that is new. It is enough to know of each contender ahead
//! that it is gone: by a watch that fired, by a probe, or because a later contender was granted.
//!
//! The exception is a reader that shares the place of its writer. So contenders of a read-write lock list the queue each
//! time.

use crate::names::Sequence;

/// Upper bound of the contenders ahead that a waiter remembers by name. One process may have thousands of waiters, each
/// with thousands ahead.
const REMEMBERED_MAX: usize = 12;

/// A probe of one node costs a server about as much as this number of further children in a listing.
const CHILDREN_PER_PROBE: usize = 128;

/// The contenders that may still keep one contender from holding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Predecessors {
    /// Those that are remembered by name, the nearest last.
    nearest: Vec<(Sequence, String)>,
    /// The nearest contender that is not remembered by name.
    beyond: Option<Sequence>,
    /// The number of contenders in the listing.
    listed: usize,
}

impl Predecessors {
    /// Returns the contenders of a listing that keep one contender from holding. `ahead`: these contenders in any order.
    /// `listed`: the number of all contenders in the listing.
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

    /// Returns the empty set: no contender is ahead.
    pub fn nobody() -> Self {
        Self { nearest: Vec::new(), beyond: None, listed: 0 }
    }

    /// Returns the contender of this number and name, which is directly ahead. Only a listing shows the contenders
    /// before it.
    pub fn directly(number: Sequence, name: String) -> Self {
        Self { nearest: vec![(number, name)], beyond: Some(number.before()), listed: 0 }
    }

    /// Returns the contender with the number before `own`, if it is named by its number alone. Only a listing shows
    /// other contenders ahead, or that number under another name.
    pub fn number_before(own: Sequence, name: impl FnOnce(Sequence) -> String) -> Self {
        let number = own.before();
        Self { nearest: vec![(number, name(number))], beyond: Some(number), listed: 0 }
    }

    /// Returns the nearest contender, which is the one to watch. `None` if no name is known.
    pub fn predecessor(&self) -> Option<(Sequence, &str)> {
        self.nearest.last().map(|(sequence, name)| (*sequence, name.as_str()))
    }

    /// Tells whether no contender can be ahead.
    pub fn is_nobody(&self) -> bool {
        self.nearest.is_empty() && self.beyond.is_none()
    }

    /// Notes that the nearest contender is gone.
    pub fn pop(&mut self) {
        self.nearest.pop();
    }

    /// Notes that all contenders before `floor` are gone.
    pub fn raise(&mut self, floor: Sequence) {
        self.nearest.retain(|(sequence, _)| sequence.queue_cmp(floor).is_ge());
        self.beyond = self.beyond.filter(|sequence| sequence.queue_cmp(floor).is_ge());
    }

    /// Notes which of the contenders remembered by name are `present`, in the order of [`names`](Self::names).
    pub fn keep(&mut self, present: &[bool]) {
        let mut present = present.iter().copied();
        self.nearest.retain(|_| present.next().unwrap_or(true));
    }

    /// Tells whether all of them are remembered by name, so that a probe can replace a listing.
    pub fn is_complete(&self) -> bool {
        self.beyond.is_none()
    }

    /// Tells whether a probe of them is cheaper than another listing.
    pub fn is_cheap_to_probe(&self) -> bool {
        self.nearest.len() * CHILDREN_PER_PROBE <= self.listed
    }

    /// Returns the names that are remembered.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nearest.iter().map(|(_, name)| name.as_str())
    }
}
