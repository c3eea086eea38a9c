//! The history of critical sections that the instances have recorded.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;

use crate::audit::history::Section;
use crate::error::Error;
use crate::lab::service::{Service, json};

/// Records of the history per request: the upper bound of the service.
const PAGE: usize = 10_000;

/// A position in the history of each instance.
#[derive(Debug, Clone)]
pub(crate) struct HistoryMark(Vec<Mark>);

/// A position in the history of one instance.
#[derive(Debug, Clone, Default)]
struct Mark {
    next: u64,
    /// Absent at the beginning, and for an instance that does not tell it.
    history_id: Option<String>,
}

/// The history of the instances since a mark.
#[derive(Debug, Clone, Default)]
pub(crate) struct HistorySince {
    /// The critical sections of each strategy, in no order.
    pub(crate) sections: HashMap<String, Vec<Section>>,
    /// Records that the instances had dropped by then.
    pub(crate) missing: u64,
    /// Instances that are not, or may not be, the ones of the mark. They were restarted, or a URL leads to several. Their
    /// sections in between are unknown.
    pub(crate) strangers: u64,
    /// Instances whose history could not be read. If there is one, all other fields are empty.
    pub(crate) unread: u64,
    /// The names that the instances write into their orders.
    pub(crate) names: HashSet<String>,
    /// Number of instances that were asked.
    pub(crate) instances: u64,
    /// Whether all times come from one clock.
    pub(crate) one_clock: bool,
}

impl HistorySince {
    /// Returns the instant at which the buyer of each order of this strategy arrived at its instance, in nanoseconds.
    pub(crate) fn arrivals(&self, strategy: &str) -> HashMap<i64, u64> {
        let sections = self.sections.get(strategy).into_iter().flatten();
        sections.filter_map(|section| Some((section.order_id?, section.asked_ns?))).collect()
    }

    fn add(&mut self, records: Vec<HistoryRecord>) {
        for record in records {
            self.sections.entry(record.strategy).or_default().push(Section {
                goods_no: record.goods_no,
                token: record.token.map(|token| (token, record.token_handover.unwrap_or(0))),
                asked_ns: record.asked_ns,
                entered_ns: record.entered_ns,
                left_ns: record.left_ns,
                order_id: record.order_id,
            });
        }
    }
}

/// A page of `GET /admin/history`.
#[derive(Deserialize)]
struct HistoryPage {
    /// The clock of the times. Times of two instances can be compared if they name the same clock.
    clock: Option<String>,
    /// The name of the instance.
    instance: Option<String>,
    /// Identifies the history: a restart begins another one.
    history_id: Option<String>,
    next: u64,
    recorded_total: u64,
    dropped_total: u64,
    records: Vec<HistoryRecord>,
}

#[derive(Deserialize)]
struct HistoryRecord {
    strategy: String,
    goods_no: i64,
    token: Option<i64>,
    token_handover: Option<i64>,
    asked_ns: Option<u64>,
    entered_ns: u64,
    left_ns: u64,
    order_id: Option<i64>,
}

impl Service {
    /// Reads the end of the history of each instance.
    pub(crate) async fn history_mark(&self) -> Result<HistoryMark, Error> {
        let mut marks = Vec::with_capacity(self.urls().len());
        for instance in self.urls() {
            let page = self.history_page(instance, 0, 0).await?;
            marks.push(Mark { next: page.recorded_total, history_id: page.history_id });
        }
        Ok(HistoryMark(marks))
    }

    /// Returns the mark before all records that the instances still have.
    pub(crate) fn history_start(&self) -> HistoryMark {
        HistoryMark(vec![Mark::default(); self.urls().len()])
    }

    /// Makes sure that no two URLs lead to one instance: its sections and counters would count twice.
    pub(crate) async fn ensure_distinct(&self) -> Result<(), Error> {
        let mut seen: HashMap<String, &str> = HashMap::new();
        for (url, mark) in self.urls().iter().zip(self.history_mark().await?.0) {
            let Some(history_id) = mark.history_id else { continue };
            if let Some(other) = seen.insert(history_id, url) {
                return Err(Error::Usage(format!("{other} and {url} are one instance; name each instance once")));
            }
        }
        Ok(())
    }

    /// Reads the critical sections since a mark, on all instances.
    pub(crate) async fn history_since(&self, mark: &HistoryMark) -> Result<HistorySince, Error> {
        let mut since = HistorySince { instances: self.urls().len() as u64, ..HistorySince::default() };
        let mut clocks = Vec::with_capacity(self.urls().len());
        for (instance, mark) in self.urls().iter().zip(&mark.0) {
            let mut from = mark.next;
            let mut history_id = mark.history_id.clone();
            loop {
                let page = self.history_page(instance, from, PAGE).await?;
                history_id = history_id.or_else(|| page.history_id.clone());
                since.names.extend(page.instance);
                // Records have numbers from zero on, so the dropped ones are those below `dropped_total`.
                since.missing += page.dropped_total.saturating_sub(from);
                from = page.next;
                let is_stranger = page.history_id.is_none() || page.history_id != history_id;
                let is_last = page.records.is_empty();
                since.add(page.records);
                if is_stranger || is_last {
                    since.strangers += u64::from(is_stranger);
                    clocks.push(page.clock);
                    break;
                }
            }
        }
        // The times of one instance can be compared, also if it does not name its clock.
        since.one_clock = clocks.len() == 1 || clocks.windows(2).all(|two| two[0].is_some() && two[0] == two[1]);
        Ok(since)
    }

    async fn history_page(&self, instance: &str, from: u64, limit: usize) -> Result<HistoryPage, Error> {
        let url = format!("{instance}/admin/history?from={from}&limit={limit}");
        json("GET", &url, self.client.get(&url).bearer_auth(&self.admin_token)).await
    }
}

#[cfg(test)]
mod fuzzed;
