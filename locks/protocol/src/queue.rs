//! Which contenders hold, and which node each waiter watches: a pure decision from one listing.
//!
//! The rule is Curator's. A contender that wants the lock alone holds when no contender is ahead. A contender that
//! shares the lock holds when no contender that wants it alone is ahead. A waiter watches the nearest node that keeps it
//! from holding. So a release wakes only contenders that it may let in: one that wants the lock alone, or all that share
//! it up to the next that wants it alone.

use crate::names::{Mode, Names, Sequence};

/// A child of the lock's node that takes part in the queue. `S` is its name, owned or borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued<S> {
    /// The name of its node.
    pub name: S,
    /// How it wants the lock.
    pub mode: Mode,
    sequence: Sequence,
}

/// The contender that a waiter watches: the nearest one ahead that keeps it from holding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Predecessor {
    /// The number of its node.
    pub sequence: Sequence,
    /// The name of its node.
    pub name: String,
}

/// The children of the lock's node: the contenders, and a foreign child. `S` is a name, owned or borrowed.
///
/// Many contenders of one session may read one listing. So it is sorted once, and each of them finds its place fast.
#[derive(Debug)]
pub struct Queue<S> {
    names: Names,
    /// The contenders by number. Numbers begin anew after the last one, so the first of them may be behind the last.
    contenders: Vec<Queued<S>>,
    /// The places of the contenders that want the lock alone, in the same order.
    exclusive: Vec<usize>,
    /// A child that is no contender of ours, if there is one. We ignore it. Curator would count it.
    foreign: Option<S>,
}

impl<S> Queued<S> {
    /// Tells whether `other` is ahead of this one and keeps it from holding.
    fn is_barred_by(&self, other: &Self) -> bool {
        let ahead = other.sequence.queue_cmp(self.sequence).is_lt();
        ahead && (self.mode == Mode::Exclusive || other.mode == Mode::Exclusive)
    }
}

impl<S: AsRef<str>> Queue<S> {
    /// Reads a listing. The order of the children does not matter.
    pub fn from_children(children: impl IntoIterator<Item = S>, names: Names) -> Self {
        let children = children.into_iter();
        let mut contenders = Vec::with_capacity(children.size_hint().0);
        let mut foreign = None;
        for name in children {
            match names.parse(name.as_ref()) {
                Some((mode, sequence)) => contenders.push(Queued { name, mode, sequence }),
                None => foreign = Some(name),
            }
        }
        contenders.sort_by_key(|contender| contender.sequence);
        let exclusive = contenders.iter().enumerate().filter(|(_, contender)| contender.mode == Mode::Exclusive);
        let exclusive = exclusive.map(|(place, _)| place).collect();
        Self { names, contenders, exclusive, foreign }
    }

    /// Returns a child that is no contender, if there is one.
    pub fn foreign(&self) -> Option<&S> {
        self.foreign.as_ref()
    }

    /// Tells whether the contender of this name is in the listing.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn find(&self, name: &str) -> Option<&Queued<S>> {
        let (_, sequence) = self.names.parse(name)?;
        let smaller = self.contenders.partition_point(|other| other.sequence < sequence);
        // A reader beside its writer has the number of the writer.
        let mut equal = self.contenders[smaller..].iter().take_while(|other| other.sequence == sequence);
        equal.find(|contender| contender.name.as_ref() == name)
    }

    /// Tells whether one more contender, at the end of the queue, would hold at once.
    pub fn admits(&self, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive => self.contenders.is_empty(),
            Mode::Shared => self.exclusive.is_empty(),
        }
    }

    /// Returns the nearest contender that keeps the one named `own` from holding. `None` if no contender does, or if the node
    /// of `own` is missing.
    pub fn predecessor_of(&self, own: &str) -> Option<Predecessor> {
        let nearest = self.bar_of(self.find(own)?)?;
        Some(Predecessor { sequence: nearest.sequence, name: nearest.name.as_ref().to_owned() })
    }

    /// Returns the nearest contender that keeps `own` from holding.
    fn bar_of(&self, own: &Queued<S>) -> Option<&Queued<S>> {
        let is_smaller = |other: &Queued<S>| other.sequence < own.sequence;
        // The number before the smallest one is the greatest one.
        let nearest = match own.mode {
            Mode::Exclusive => {
                let smaller = self.contenders.partition_point(is_smaller);
                self.contenders[..smaller].last().or(self.contenders.last())
            }
            Mode::Shared => {
                let smaller = self.exclusive.partition_point(|&place| is_smaller(&self.contenders[place]));
                let nearest = self.exclusive[..smaller].last().or(self.exclusive.last());
                nearest.map(|&place| &self.contenders[place])
            }
        };
        // If the nearest one does not bar it, no farther one does. A lone contender finds itself here, and does not bar
        // itself.
        nearest.filter(|nearest| own.is_barred_by(nearest))
    }

    /// Returns the contenders in the order of the queue, each with whether it holds.
    pub fn into_order(self) -> Vec<(Queued<S>, bool)> {
        let held: Vec<bool> = self.contenders.iter().map(|own| self.bar_of(own).is_none()).collect();
        // If the numbers have begun anew, the queue begins behind the gap.
        let is_gap = |pair: &[Queued<S>]| pair[0].sequence.queue_cmp(pair[1].sequence).is_gt();
        let head = self.contenders.windows(2).position(is_gap).map_or(0, |before| before + 1);
        let mut order: Vec<_> = self.contenders.into_iter().zip(held).collect();
        order.rotate_left(head);
        order
    }
}

#[cfg(test)]
mod fuzzed;
