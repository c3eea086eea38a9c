//! The batches that have come: none of them is decided again.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// The numbers of the batches of the last while.
pub(super) struct Nonces {
    kept_for: Duration,
    known: HashSet<u64>,
    /// Each number with the time at which it is forgotten, the oldest first.
    order: VecDeque<(Instant, u64)>,
}

impl Nonces {
    /// Remembers each number for that long.
    pub(super) fn new(kept_for: Duration) -> Self {
        Self { kept_for, known: HashSet::new(), order: VecDeque::new() }
    }

    /// Notes a number. Returns `false` if it is remembered already.
    #[must_use]
    pub(super) fn note(&mut self, nonce: u64, now: Instant) -> bool {
        while let Some((_, forgotten)) = self.order.pop_front_if(|(until, _)| *until <= now) {
            self.known.remove(&forgotten);
        }
        let is_new = self.known.insert(nonce);
        if is_new {
            self.order.push_back((now + self.kept_for, nonce));
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S56
    #[test]
    fn a_number_is_remembered_for_its_time_and_no_longer() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let mut nonces = Nonces::new(2 * second);
        for (nonce, after, is_new) in [(7, 0, true), (7, 1, false), (8, 1, true), (7, 2, true), (8, 2, false)] {
            assert_eq!(nonces.note(nonce, start + after * second), is_new, "{nonce} after {after} s");
        }
        assert!(nonces.note(9, start + 60 * second));
        assert_eq!((nonces.known.len(), nonces.order.len()), (1, 1));
    }
}
