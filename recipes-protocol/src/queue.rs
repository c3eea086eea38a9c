//! Which contenders hold, and which node each waiter watches: a pure decision from one listing.
//!
//! The rule is Curator's. A contender that wants the lock alone holds when no contender is ahead. A contender that
//! shares the lock holds when no contender that wants it alone is ahead. A waiter watches the nearest node that keeps it
//! from holding. So a release wakes only contenders that it may let in: one that wants the lock alone, or all that share
//! it up to the next that wants it alone.

use crate::names::{Mode, Names, Sequence};

/// A child of the lock's node that takes part in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contender<'a> {
    /// The name of its node.
    pub name: &'a str,
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

/// The children of the lock's node: the contenders, and a foreign child.
#[derive(Debug)]
pub struct Queue<'a> {
    contenders: Vec<Contender<'a>>,
    /// A child that is no contender of ours, if there is one. We ignore it. Curator would count it.
    foreign: Option<&'a str>,
}

impl Contender<'_> {
    /// Tells whether `other` is ahead of this one and keeps it from holding.
    fn is_barred_by(&self, other: &Self) -> bool {
        let ahead = other.sequence.queue_cmp(self.sequence).is_lt();
        ahead && (self.mode == Mode::Exclusive || other.mode == Mode::Exclusive)
    }
}

impl<'a> Queue<'a> {
    /// Reads a listing. The order of the children does not matter.
    pub fn from_children<S: AsRef<str>>(children: &'a [S], names: Names) -> Self {
        let mut queue = Self { contenders: Vec::with_capacity(children.len()), foreign: None };
        for name in children.iter().map(AsRef::as_ref) {
            match names.parse(name) {
                Some((mode, sequence)) => queue.contenders.push(Contender { name, mode, sequence }),
                None => queue.foreign = Some(name),
            }
        }
        queue
    }

    /// Returns a child that is no contender, if there is one.
    pub fn foreign(&self) -> Option<&'a str> {
        self.foreign
    }

    /// Tells whether the contender of this name is in the listing.
    pub fn has(&self, name: &str) -> bool {
        self.contenders.iter().any(|contender| contender.name == name)
    }

    /// Tells whether one more contender, at the end of the queue, would hold at once.
    pub fn admits(&self, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive => self.contenders.is_empty(),
            Mode::Shared => self.contenders.iter().all(|other| other.mode == Mode::Shared),
        }
    }

    /// Returns the nearest contender that keeps the one named `own` from holding. `None` if no contender does, or if the node
    /// of `own` is missing.
    pub fn predecessor_of(&self, own: &str) -> Option<Predecessor> {
        let own = self.contenders.iter().find(|contender| contender.name == own)?;
        let ahead = self.contenders.iter().filter(|other| own.is_barred_by(other));
        let nearest = ahead.max_by(|a, b| a.sequence.queue_cmp(b.sequence));
        nearest.map(|nearest| Predecessor { sequence: nearest.sequence, name: nearest.name.to_owned() })
    }

    /// Returns the contenders in the order of the queue, each with whether it holds.
    pub fn into_order(mut self) -> Vec<(Contender<'a>, bool)> {
        self.contenders.sort_by(|a, b| a.sequence.queue_cmp(b.sequence));
        let first_exclusive = self.contenders.iter().find(|contender| contender.mode == Mode::Exclusive).copied();
        let first = self.contenders.first().copied();
        let holds = |contender: &Contender<'_>| {
            let bar = if contender.mode == Mode::Exclusive { &first } else { &first_exclusive };
            !bar.as_ref().is_some_and(|bar| contender.is_barred_by(bar))
        };
        let held: Vec<bool> = self.contenders.iter().map(holds).collect();
        self.contenders.into_iter().zip(held).collect()
    }
}
