//! Who holds, who waits, and for whom: the decision, from one listing. Pure.
//!
//! The rule is Curator's `StandardLockInternalsDriver`: the contender with the lowest sequence number holds, and every
//! other watches the one directly ahead of it, so that a release wakes one waiter instead of all of them.

use crate::node::Sequence;

/// A child of the lock's parent that takes part in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contender<'a> {
    name: &'a str,
    sequence: Sequence,
}

/// The children of a lock's parent, sorted by who is a contender.
#[derive(Debug)]
pub(crate) struct Queue<'a> {
    contenders: Vec<Contender<'a>>,
    /// A child that is no contender of ours, if there is one. We ignore it, Curator would count it.
    foreign: Option<&'a str>,
}

/// The answer to "do I hold?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict<'a> {
    /// Our own node is in the listing and nobody is ahead of it.
    Granted,
    /// Somebody is ahead; the nearest of them is the one to watch.
    Behind { predecessor: &'a str },
    /// Our own node is not in the listing. Never a grant: whoever deleted it may have let another in.
    Missing,
}

impl<'a> Queue<'a> {
    /// Reads a listing, in whatever order the server gave it.
    pub(crate) fn from_children<S: AsRef<str>>(children: &'a [S], lock_name: &str) -> Self {
        let mut queue = Self { contenders: Vec::with_capacity(children.len()), foreign: None };
        for name in children.iter().map(AsRef::as_ref) {
            match Sequence::parse(name, lock_name) {
                Some(sequence) => queue.contenders.push(Contender { name, sequence }),
                None => queue.foreign = Some(name),
            }
        }
        queue
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.contenders.is_empty()
    }

    pub(crate) fn foreign(&self) -> Option<&'a str> {
        self.foreign
    }

    /// Decides for the contender named `own`. One pass: the queue need not be sorted to find a predecessor.
    pub(crate) fn verdict(&self, own: &str) -> Verdict<'a> {
        let Some(own) = self.contenders.iter().find(|contender| contender.name == own) else {
            return Verdict::Missing;
        };
        self.contenders
            .iter()
            .filter(|other| other.sequence.queue_cmp(own.sequence).is_lt())
            .max_by(|a, b| a.sequence.queue_cmp(b.sequence))
            .map_or(Verdict::Granted, |nearest| Verdict::Behind { predecessor: nearest.name })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(numbers: impl IntoIterator<Item = i32>) -> Vec<String> {
        numbers.into_iter().map(|number| format!("_c_x{number}-lock-{number:010}")).collect()
    }

    #[test]
    fn the_lowest_sequence_holds_whatever_the_order_of_the_listing() {
        let children = names([7, 3, 5]);
        let queue = Queue::from_children(&children, "lock-");
        assert_eq!(queue.verdict(&children[1]), Verdict::Granted);
        assert_eq!(queue.verdict(&children[2]), Verdict::Behind { predecessor: &children[1] });
        assert_eq!(queue.verdict(&children[0]), Verdict::Behind { predecessor: &children[2] });
    }

    #[test]
    fn a_missing_own_node_is_never_a_grant() {
        let children = names([1, 2]);
        assert_eq!(Queue::from_children(&children, "lock-").verdict("_c_x9-lock-0000000000"), Verdict::Missing);
        assert_eq!(Queue::from_children::<&str>(&[], "lock-").verdict("_c_x9-lock-0000000000"), Verdict::Missing);
    }

    #[test]
    fn a_foreign_child_that_sorts_first_does_not_block_the_queue() {
        let mut children = names([4]);
        children.push("0".to_owned());
        let queue = Queue::from_children(&children, "lock-");
        assert_eq!(queue.verdict(&children[0]), Verdict::Granted);
        assert_eq!(queue.foreign(), Some("0"));
    }

    #[test]
    fn the_holder_before_the_wrap_keeps_the_lock_after_it() {
        let children = names([i32::MAX, i32::MIN, i32::MIN + 1]);
        let queue = Queue::from_children(&children, "lock-");
        assert_eq!(queue.verdict(&children[0]), Verdict::Granted);
        assert_eq!(queue.verdict(&children[1]), Verdict::Behind { predecessor: &children[0] });
        assert_eq!(queue.verdict(&children[2]), Verdict::Behind { predecessor: &children[1] });
    }

    /// Removes contenders in every order and, after each removal, re-decides only for those whose watched node went,
    /// as the server would wake them. Whoever is first must then know it: nobody entitled sleeps for ever.
    #[test]
    fn in_every_order_of_departure_the_first_in_the_queue_is_awake() {
        for size in 1..=6 {
            let children = names(0..size);
            for order in permutations((0..children.len()).collect()) {
                let mut present: BTreeSet<usize> = (0..children.len()).collect();
                let decide = |present: &BTreeSet<usize>, own: usize| {
                    let listing: Vec<&String> = present.iter().map(|&i| &children[i]).collect();
                    match Queue::from_children(&listing, "lock-").verdict(&children[own]) {
                        Verdict::Granted => None,
                        Verdict::Behind { predecessor } => children.iter().position(|name| name == predecessor),
                        Verdict::Missing => panic!("a present contender was not found"),
                    }
                };
                let mut watching: Vec<Option<usize>> = (0..children.len()).map(|i| decide(&present, i)).collect();
                for departs in order {
                    present.remove(&departs);
                    let woken: Vec<usize> = present.iter().copied().filter(|&i| watching[i] == Some(departs)).collect();
                    assert!(woken.len() <= 1, "a departure wakes at most one waiter");
                    for own in woken {
                        watching[own] = decide(&present, own);
                    }
                    let holders: Vec<usize> = present.iter().copied().filter(|&i| watching[i].is_none()).collect();
                    assert_eq!(holders, present.first().copied().into_iter().collect::<Vec<_>>());
                }
            }
        }
    }

    fn permutations(items: Vec<usize>) -> Vec<Vec<usize>> {
        if items.len() <= 1 {
            return vec![items];
        }
        let mut all = Vec::new();
        for i in 0..items.len() {
            let mut rest = items.clone();
            let first = rest.remove(i);
            all.extend(permutations(rest).into_iter().map(|mut tail| {
                tail.insert(0, first);
                tail
            }));
        }
        all
    }
}
