//! Who was in which critical section when, for an auditor who checks that no two overlapped.

use std::collections::VecDeque;

use nix::time::{ClockId, clock_gettime};
use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;

use crate::stock::{GoodsNo, Token};

/// The last critical sections of one instance. The memory is bounded: new ones take the place of the oldest.
#[derive(Debug)]
pub struct History {
    capacity: usize,
    records: Mutex<Records>,
}

#[derive(Debug, Default)]
struct Records {
    kept: VecDeque<Record>,
    /// The number of the first that is kept.
    first: u64,
}

/// One critical section, as far as one SKU is concerned. The times are of the system's monotonic clock in nanoseconds,
/// which all processes of one host share and which counts from its boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = CriticalSection)]
pub struct Record {
    /// The number of the record in this instance, from 0.
    pub seq: u64,
    /// The strategy.
    pub strategy: &'static str,
    /// The SKU.
    pub goods_no: i64,
    /// The fencing token of the hold, where there was one.
    #[schema(required)]
    pub token: Option<i64>,
    /// Its second part: hand-overs within a process since the grant.
    #[schema(required)]
    pub token_handover: Option<i64>,
    /// When the section had been entered.
    pub entered_ns: u64,
    /// When it was about to be left.
    pub left_ns: u64,
}

/// A part of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = HistoryPage)]
pub struct Page {
    /// The number of the record that comes after those of this page.
    pub next: u64,
    /// How many records were made in all.
    pub recorded_total: u64,
    /// How many of them made room for newer ones.
    pub dropped_total: u64,
    /// In the order in which the sections were left.
    pub records: Vec<Record>,
}

/// Somebody in a critical section. It is left when this is dropped.
#[derive(Debug)]
pub struct Visit<'a> {
    history: &'a History,
    strategy: &'static str,
    places: Vec<(GoodsNo, Option<Token>)>,
    entered_ns: u64,
}

impl History {
    /// A history of the last `capacity` sections.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, records: Mutex::default() }
    }

    /// Notes that somebody has entered the sections of these SKUs.
    pub fn enter(&self, strategy: &'static str, places: Vec<(GoodsNo, Option<Token>)>) -> Visit<'_> {
        Visit { history: self, strategy, places, entered_ns: now_ns() }
    }

    /// At most `limit` records from number `from` on, or from the oldest that is kept.
    pub fn page(&self, from: u64, limit: usize) -> Page {
        let records = self.records.lock();
        let recorded_total = records.first + records.kept.len() as u64;
        let skipped = from.saturating_sub(records.first);
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(records.kept.len());
        let page: Vec<Record> = records.kept.iter().skip(skipped).take(limit).cloned().collect();
        let next = page.last().map_or(from.min(recorded_total).max(records.first), |last| last.seq + 1);
        Page { next, recorded_total, dropped_total: records.first, records: page }
    }

    /// How many records have made room for newer ones.
    pub fn dropped_total(&self) -> u64 {
        self.records.lock().first
    }

    fn record(&self, visit: &Visit<'_>) {
        let left_ns = now_ns();
        let mut records = self.records.lock();
        for (goods_no, token) in &visit.places {
            let seq = records.first + records.kept.len() as u64;
            records.kept.push_back(Record {
                seq,
                strategy: visit.strategy,
                goods_no: goods_no.get(),
                token: token.map(|token| token.number),
                token_handover: token.map(|token| token.handover),
                entered_ns: visit.entered_ns,
                left_ns,
            });
        }
        while records.kept.len() > self.capacity {
            records.kept.pop_front();
            records.first += 1;
        }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.history.record(self);
    }
}

fn now_ns() -> u64 {
    // Every system that this runs on has the clock.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(std::time::Duration::from).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goods(number: i64) -> GoodsNo {
        GoodsNo::try_from(number).unwrap()
    }

    fn visit(history: &History, number: i64) {
        drop(history.enter("zk-mutex", vec![(goods(number), Some(Token { number: 7, handover: 1 }))]));
    }

    #[test]
    fn a_section_is_recorded_when_it_is_left() {
        let history = History::new(10);
        let visit = history.enter("zk-multi", vec![(goods(1), None), (goods(2), None)]);
        assert_eq!(history.page(0, 10).recorded_total, 0);
        drop(visit);
        let page = history.page(0, 10);
        assert_eq!(page.records.iter().map(|record| record.goods_no).collect::<Vec<_>>(), [1, 2]);
        for record in &page.records {
            assert!(record.entered_ns <= record.left_ns && record.entered_ns > 0, "{record:?}");
        }
    }

    #[test]
    fn the_oldest_make_room_and_are_counted() {
        let history = History::new(3);
        (1..=5).for_each(|number| visit(&history, number));
        let page = history.page(0, 10);
        assert_eq!((page.recorded_total, page.dropped_total, page.next), (5, 2, 5));
        assert_eq!(page.records.iter().map(|record| record.seq).collect::<Vec<_>>(), [2, 3, 4]);
    }

    #[test]
    fn pages_follow_each_other_without_a_gap() {
        let history = History::new(10);
        (1..=5).for_each(|number| visit(&history, number));
        let (mut from, mut seen) = (0, Vec::new());
        loop {
            let page = history.page(from, 2);
            if page.records.is_empty() {
                break;
            }
            seen.extend(page.records.iter().map(|record| record.goods_no));
            from = page.next;
        }
        assert_eq!(seen, [1, 2, 3, 4, 5]);
        assert_eq!(history.page(5, 2).next, 5);
        assert_eq!(history.page(u64::MAX, 2).next, 5, "a number from another life of the instance");
    }
}
