//! Records which purchase was in which critical section, and when. An auditor checks that no two of them overlapped.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;

use super::clock::Moment;
use crate::sale::{GoodsNo, Token};

/// The latest critical sections of one instance. The memory is bounded: new records replace the oldest.
#[derive(Debug)]
pub struct History {
    id: String,
    capacity: usize,
    records: Mutex<Records>,
}

#[derive(Debug, Default)]
struct Records {
    kept: VecDeque<Record>,
    /// The number of the first record in `kept`.
    first: u64,
}

/// The critical section of one purchase on one SKU. A purchase has one record for each SKU of its cart. The times are
/// nanoseconds of the clock that the answer names, and `asked_ns` <= `entered_ns` <= `left_ns`.
///
/// If the strategy has `permits` in the list of strategies, a section lies within its hold. `entered_ns` is taken after
/// the reply to the acquire, or to the statement that waits for a lock of Postgres. `left_ns` is taken before the
/// release, the commit or the rollback is sent. So at most `permits` records with the same clock, strategy and SKU
/// overlap. The exception is a purchase that outlives its hold unnoticed, for example in a pause longer than the session
/// timeout. It counts as inside until the loss is noticed, also if a fence refuses its write.
///
/// Under a lock of ZooKeeper or of the process, the section begins before the first read. It ends when the reply to the
/// commit has come or is given up; the lock is kept until the commit is over. `zk-mutex-early-release` releases its lock
/// before the commit and stays inside until after it. `pg-row-lock` and `pg-advisory` are inside from after the read,
/// `pg-conditional` from after the update, all three until before the commit. All purchases of a batch of `pg-merge`,
/// `zk-merge` or `zk-owner` are inside together, from its begin until before its commit; they enter in the order in which they
/// are decided. If one of their statements fails, the section ends before that statement, because the database may end the
/// hold before the service hears of it. The owner of a SKU of `zk-owner` has the records of all its purchases, which asked when
/// they reached the owner.
///
/// Purchases that did not get inside have no record. Neither have looks, `pg-function`, which is one
/// statement, and `pg-optimistic` and `pg-serializable`, whose sections may overlap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = CriticalSection)]
pub struct Record {
    /// The number of the record in this instance, from 0.
    pub seq: u64,
    /// The strategy.
    pub strategy: &'static str,
    /// The SKU.
    pub goods_no: i64,
    /// The fencing token of the hold; null without a token.
    #[schema(required)]
    pub token: Option<i64>,
    /// The second part of the token: local hand-overs since the grant.
    #[schema(required)]
    pub token_handover: Option<i64>,
    /// When the purchase began its first acquire, or sent its first statement that waits for a lock. About `entered_ns`
    /// if the strategy waits for nothing. The order of these times need not be the order of the queue.
    pub asked_ns: u64,
    /// When the purchase held every lock of its cart.
    pub entered_ns: u64,
    /// When the purchase was about to leave.
    pub left_ns: u64,
    /// The order that was written for the purchase; null without one. If the transaction was rolled back, there is no such
    /// order. A purchase of a strategy with `permits` names its order also if the outcome of the commit is unknown. The
    /// `asked_ns` of the orders of one transaction grow in the order in which its units were sold.
    #[schema(required)]
    pub order_id: Option<i64>,
}

/// A part of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = HistoryPage)]
pub struct Page {
    /// The random identity of this history. An instance that was restarted has another one, and two instances never have the
    /// same one, whatever their names are.
    pub history_id: String,
    /// The number of the record after the last one of this page.
    pub next: u64,
    /// The number of all records made so far.
    pub recorded_total: u64,
    /// The number of records that newer ones have replaced.
    pub dropped_total: u64,
    /// In the order in which their sections ended.
    pub records: Vec<Record>,
}

/// A purchase in a critical section. The drop ends the visit and records it.
#[derive(Debug)]
pub struct Visit {
    history: Arc<History>,
    strategy: &'static str,
    /// The SKUs, each with the fencing token of its hold.
    goods: Vec<(GoodsNo, Option<Token>)>,
    asked: Moment,
    entered: Moment,
    /// When the purchase was last seen inside. `None` if it is inside until the drop.
    left: Option<Moment>,
    order_id: Option<i64>,
}

impl History {
    /// Makes a history of the latest `capacity` records.
    pub fn new(capacity: usize) -> Self {
        Self { id: format!("{:032x}", rand::random::<u128>()), capacity, records: Mutex::default() }
    }

    /// Notes that a purchase that asked at `asked` enters the sections of these SKUs now.
    pub fn enter(
        self: Arc<Self>,
        strategy: &'static str,
        goods: Vec<(GoodsNo, Option<Token>)>,
        asked: Moment,
    ) -> Visit {
        let entered = Moment::now().max(asked);
        Visit { history: self, strategy, goods, asked, entered, left: None, order_id: None }
    }

    /// Returns at most `limit` records from number `from` on. If that record is no longer kept, starts with the oldest.
    pub fn page(&self, from: u64, limit: usize) -> Page {
        let records = self.records.lock();
        let recorded_total = records.first + records.kept.len() as u64;
        let skipped = from.saturating_sub(records.first);
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(records.kept.len());
        let page: Vec<Record> = records.kept.iter().skip(skipped).take(limit).cloned().collect();
        let next = page.last().map_or(from.min(recorded_total).max(records.first), |last| last.seq + 1);
        Page { history_id: self.id.clone(), next, recorded_total, dropped_total: records.first, records: page }
    }

    /// Returns how many records were replaced by newer ones.
    pub fn dropped_total(&self) -> u64 {
        self.records.lock().first
    }

    fn record(&self, visit: &Visit) {
        // Taken before the lock of the records: the wait for that lock is no time inside the section.
        let left = visit.left.unwrap_or_else(Moment::now).max(visit.entered);
        let mut records = self.records.lock();
        for (goods_no, token) in &visit.goods {
            let seq = records.first + records.kept.len() as u64;
            records.kept.push_back(Record {
                seq,
                strategy: visit.strategy,
                goods_no: goods_no.get(),
                token: token.map(|token| token.number),
                token_handover: token.map(|token| token.handover),
                asked_ns: visit.asked.ns(),
                entered_ns: visit.entered.ns(),
                left_ns: left.ns(),
                order_id: visit.order_id,
            });
        }
        while records.kept.len() > self.capacity {
            records.kept.pop_front();
            records.first += 1;
        }
    }
}

impl Visit {
    /// Notes the order that was written for the purchase.
    pub fn wrote(&mut self, order_id: i64) {
        self.order_id = Some(order_id);
    }

    /// Notes that the section lasts until now at least. The next statement may end it, at a time that only the
    /// database knows. So the section counts as left now, unless the purchase is seen inside again.
    pub fn seen_inside(&mut self) {
        self.left = Some(Moment::now());
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.history.record(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goods(number: i64) -> GoodsNo {
        GoodsNo::try_from(number).unwrap()
    }

    fn history(capacity: usize) -> Arc<History> {
        Arc::new(History::new(capacity))
    }

    fn visit(history: &Arc<History>, number: i64) {
        let goods = vec![(goods(number), Some(Token { number: 7, handover: 1 }))];
        drop(Arc::clone(history).enter("zk-mutex", goods, Moment::now()));
    }

    #[test]
    fn a_section_is_recorded_when_it_is_left() {
        let history = history(10);
        let asked = Moment::now();
        let visit = Arc::clone(&history).enter("zk-multi", vec![(goods(1), None), (goods(2), None)], asked);
        let inside = Moment::now();
        assert_eq!(history.page(0, 10).recorded_total, 0);
        drop(visit);
        let page = history.page(0, 10);
        assert_eq!(page.records.iter().map(|record| record.goods_no).collect::<Vec<_>>(), [1, 2]);
        for record in &page.records {
            assert_eq!(record.asked_ns, asked.ns());
            assert!(record.asked_ns <= record.entered_ns && record.entered_ns <= inside.ns(), "{record:?}");
            assert!(inside.ns() <= record.left_ns, "{record:?}");
        }
    }

    #[test]
    fn a_section_that_a_statement_may_end_was_left_before_it() {
        let history = history(10);
        let mut visit = Arc::clone(&history).enter("pg-row-lock", vec![(goods(1), None)], Moment::now());
        visit.seen_inside();
        let between = Moment::now();
        visit.seen_inside();
        let sent = Moment::now();
        drop(visit);
        let records = history.page(0, 10).records;
        assert!((between.ns()..=sent.ns()).contains(&records[0].left_ns), "{records:?}");
    }

    #[test]
    fn the_oldest_records_make_room_and_are_counted() {
        let history = history(3);
        (1..=5).for_each(|number| visit(&history, number));
        let page = history.page(0, 10);
        assert_eq!((page.recorded_total, page.dropped_total, page.next), (5, 2, 5));
        assert_eq!(page.records.iter().map(|record| record.seq).collect::<Vec<_>>(), [2, 3, 4]);
    }

    #[test]
    fn pages_follow_each_other_without_a_gap() {
        let history = history(10);
        (1..=5).for_each(|number| visit(&history, number));
        let mut from = 0;
        let mut seen = Vec::new();
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
