//! What the rounds of a torture run tried, and what their faults cost.

use stats::figures::{count, ms, things};

use crate::lab::toll::Toll;
use crate::report::torture::cells::{Recovery, is_alone};
use crate::trial::round::Round;

/// The sums over the rounds of a run.
#[derive(Debug, Default)]
pub(super) struct RunCost {
    /// Requests of buyers.
    requests: u64,
    /// Requests that repeated one of these under its key.
    repeated: u64,
    /// Requests that had no answer, or one that does not tell what came of them.
    unknown: u64,
    /// Faults that struck.
    faults: u64,
    toll: Toll,
    /// The longest time from the end of a fault that struck alone to the next sale, in milliseconds. Those that the next fault cut short do
    /// not count.
    next_sale_ms: f64,
}

impl RunCost {
    pub(super) fn of(rounds: &[Round]) -> RunCost {
        let mut cost = RunCost::default();
        for seen in rounds.iter().map(|round| &round.seen) {
            cost.requests = cost.requests.saturating_add(seen.answers.total());
            cost.repeated = cost.repeated.saturating_add(seen.repeated);
            cost.unknown = cost.unknown.saturating_add(seen.answers.failed());
            cost.toll.add(&seen.toll);
            for fault in seen.faults.iter().filter(|fault| fault.failed.is_none()) {
                cost.faults += 1;
                if let Recovery::Sale { after_ms, .. } = Recovery::after(fault, seen)
                    && is_alone(fault)
                {
                    cost.next_sale_ms = cost.next_sale_ms.max(after_ms);
                }
            }
        }
        cost
    }

    /// Writes it in a line.
    pub(super) fn line(&self) -> String {
        let Toll { sessions_ended, holds_lost, late_writes_refused, descriptors_max } = self.toll;
        format!(
            "{}, {} under a key, at least {} ended, {} lost, {} refused; at most {} of an instance after a round",
            things(self.faults, "fault"),
            things(self.repeated, "repetition"),
            things(sessions_ended, "session"),
            things(holds_lost, "hold"),
            things(late_writes_refused, "late write"),
            things(descriptors_max, "open descriptor"),
        )
    }

    /// The columns of [`row`](Self::row), as Markdown.
    pub(super) const COLUMNS: &str = "requests | repeated under a key | unknown outcomes | faults | sessions ended | holds lost | late writes refused | open descriptors, at most | next sale, at worst";

    /// Writes it as cells of a table in Markdown.
    pub(super) fn row(&self) -> String {
        let Toll { sessions_ended, holds_lost, late_writes_refused, descriptors_max } = self.toll;
        let counts = [
            self.requests,
            self.repeated,
            self.unknown,
            self.faults,
            sessions_ended,
            holds_lost,
            late_writes_refused,
            descriptors_max,
        ];
        let cells: Vec<String> = counts.into_iter().map(count).chain([ms(self.next_sale_ms)]).collect();
        cells.join(" | ")
    }
}
