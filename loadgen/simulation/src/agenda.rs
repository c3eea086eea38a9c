//! The events that have yet to happen, by time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events that have yet to happen, the earliest first. Of several at one moment, the one that was entered first comes
/// first.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    entries: BinaryHeap<Scheduled<T>>,
    entered: u64,
}

#[derive(Debug)]
struct Scheduled<T> {
    at_ns: u64,
    number: u64,
    what: T,
}

impl<T> Agenda<T> {
    pub(crate) fn new() -> Agenda<T> {
        Agenda { entries: BinaryHeap::new(), entered: 0 }
    }

    pub(crate) fn enter(&mut self, at_ns: u64, what: T) {
        self.entered += 1;
        self.entries.push(Scheduled { at_ns, number: self.entered, what });
    }

    /// Removes the next event. Returns its time and the event.
    pub(crate) fn next(&mut self) -> Option<(u64, T)> {
        let next = self.entries.pop()?;
        // All waiters ask at one instant. Later there are never as many entries again, so their memory is given back.
        if self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(self.entries.capacity() / 2);
        }
        Some((next.at_ns, next.what))
    }
}

/// The greatest entry is the next one.
impl<T> Ord for Scheduled<T> {
    fn cmp(&self, other: &Scheduled<T>) -> Ordering {
        (other.at_ns, other.number).cmp(&(self.at_ns, self.number))
    }
}

impl<T> PartialOrd for Scheduled<T> {
    fn partial_cmp(&self, other: &Scheduled<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Scheduled<T> {
    fn eq(&self, other: &Scheduled<T>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Scheduled<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_in_the_order_they_were_added() {
        let mut agenda = Agenda::new();
        for (at_ns, what) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            agenda.enter(at_ns, what);
        }
        let order: Vec<_> = std::iter::from_fn(|| agenda.next()).collect();
        assert_eq!(order, [(1, 'a'), (2, 'b'), (5, 'c'), (5, 'd')]);
    }
}
