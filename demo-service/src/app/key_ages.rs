//! Which idempotency keys have expired, by the clock of this process.
//!
//! The wall clock of the database may jump. So a key expires when this process has known it for its lifetime. After a restart of
//! every instance, keys live longer.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::KeySurvey;

/// Keys are noted at most this often in a lifetime. That limits the memory, and lets a key live for a sixteenth longer.
const MARKS_PER_LIFETIME: u32 = 16;

/// The keys that existed at some moments.
#[derive(Debug)]
pub(super) struct KeyAges {
    lifetime: Duration,
    /// The oldest first.
    marks: VecDeque<Mark>,
}

/// The keys that existed at one moment.
#[derive(Debug)]
struct Mark {
    made: Instant,
    survey: KeySurvey,
    /// When every transaction with an earlier order was known to be over. The keys of these orders are at least as old.
    settled: Option<Instant>,
}

impl KeyAges {
    pub(super) fn new(lifetime: Duration) -> Self {
        Self { lifetime, marks: VecDeque::new() }
    }

    /// Notes a survey that was answered before `now`. Returns the last order whose key has expired, if there is one. The keys of
    /// all orders before it have expired, too.
    pub(super) fn expired(&mut self, survey: KeySurvey, now: Instant) -> Option<i64> {
        for mark in self.marks.iter_mut().filter(|mark| mark.settled.is_none()) {
            mark.settled = (mark.survey.transaction <= survey.oldest_transaction).then_some(now);
        }
        let pause = self.lifetime / MARKS_PER_LIFETIME;
        if survey.last_order.is_some() && self.marks.back().is_none_or(|last| now - last.made >= pause) {
            self.marks.push_back(Mark { made: now, survey, settled: None });
        }
        let is_over = |mark: &Mark| mark.settled.is_some_and(|settled| now - settled >= self.lifetime);
        let over = self.marks.iter().take_while(|mark| is_over(mark)).count();
        self.marks.drain(..over).next_back().and_then(|mark| mark.survey.last_order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(16);

    /// A survey by this transaction.
    fn survey(last_order: i64, oldest_transaction: i64, transaction: i64) -> KeySurvey {
        KeySurvey { last_order: Some(last_order), oldest_transaction, transaction }
    }

    #[test]
    fn a_key_expires_a_lifetime_after_it_was_known() {
        let start = Instant::now();
        let mut ages = KeyAges::new(LIFETIME);
        let mut seen = |order, transaction, seconds| {
            ages.expired(survey(order, transaction, transaction), start + Duration::from_secs(seconds))
        };
        assert_eq!(seen(5, 100, 0), None);
        assert_eq!(seen(7, 101, 1), None, "order 5 is settled");
        assert_eq!(seen(9, 102, 16), None);
        assert_eq!(seen(9, 103, 17), Some(5));
        assert_eq!(seen(9, 104, 31), None, "order 7 was settled at 16");
        assert_eq!(seen(9, 105, 40), Some(9), "the last one of several");
    }

    #[test]
    fn a_key_of_a_slow_transaction_does_not_expire_early() {
        let start = Instant::now();
        let mut ages = KeyAges::new(LIFETIME);
        let mut seen = |oldest, transaction, seconds| {
            ages.expired(survey(5, oldest, transaction), start + Duration::from_secs(seconds))
        };
        // Transaction 90 has an order before order 5, and commits between 30 and 31.
        assert_eq!(seen(90, 100, 0), None);
        assert_eq!(seen(90, 101, 30), None);
        assert_eq!(seen(102, 102, 31), None);
        assert_eq!(seen(103, 103, 46), None);
        assert_eq!(seen(104, 104, 47), Some(5));
    }

    #[test]
    fn a_long_lifetime_costs_little_memory() {
        let start = Instant::now();
        let mut ages = KeyAges::new(LIFETIME);
        for tick in 0..10_000 {
            ages.expired(survey(tick, tick, tick), start + LIFETIME * u32::try_from(tick).unwrap() / 1000);
            assert!(ages.marks.len() <= 18, "{}", ages.marks.len());
        }
    }

    #[test]
    fn without_keys_nothing_is_noted() {
        let mut ages = KeyAges::new(LIFETIME);
        let none = KeySurvey { last_order: None, oldest_transaction: 1, transaction: 1 };
        assert_eq!(ages.expired(none, Instant::now()), None);
        assert!(ages.marks.is_empty());
    }
}
