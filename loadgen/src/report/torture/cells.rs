//! The cells of the tables of torture: what was seen of a fault at strategies of a kind.

use stats::figures::things;
use stats::median;

use crate::trial::round::{FaultRecord, RoundSeen};

/// How many times the floor the median may be before it is marked, and how many milliseconds it may be above that: a purchase takes some
/// time itself.
const MARKED_FROM: f64 = 2.0;
pub(super) const PURCHASE_MS: f64 = 250.0;
/// How a cell says that a fault never struck alone.
pub(super) const UNTRIED: &str = "–";

/// How a cell says that a hazard is to be expected.
const OPEN: &str = "†";

/// How often a fault struck strategies of a kind alone, and in how many of these cases something was seen in the round.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StruckCell {
    pub(super) alone: usize,
    pub(super) broken: usize,
    pub(super) hazards: usize,
    pub(super) unchecked: usize,
    /// Whether the promise of one of the strategies leaves a hazard open.
    pub(super) is_open: bool,
}

/// The times from the end of a fault that struck alone to the next sale, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct RecoveryCell {
    pub(super) times: Vec<f64>,
    pub(super) floors: Vec<f64>,
    /// How often no order came although units were left.
    pub(super) without_sale: usize,
    /// The times to the next fault, where that came before the next sale, in milliseconds.
    pub(super) cut_short: Vec<f64>,
    /// Whether a time is one of another instance than the struck one.
    pub(super) is_elsewhere: bool,
}

impl StruckCell {
    /// Writes the cell of the matrix.
    pub(super) fn cell(&self) -> String {
        let StruckCell { alone, broken, hazards, unchecked, is_open } = *self;
        if alone == 0 {
            return UNTRIED.to_owned();
        }
        let mut seen = Vec::new();
        if broken > 0 {
            seen.push(format!("**{broken} broken**"));
        }
        if hazards > 0 {
            seen.push(things(hazards, "hazard"));
        }
        if unchecked > 0 {
            seen.push(format!("{unchecked} unchecked"));
        }
        let open = if is_open { OPEN } else { "" };
        if seen.is_empty() { format!("{alone}{open}") } else { format!("{alone}{open}: {}", seen.join(", ")) }
    }
}

impl RecoveryCell {
    /// Writes the cell of the recovery.
    pub(super) fn cell(&self) -> String {
        let longest = self.cut_short.iter().copied().reduce(f64::max);
        let cut_short = longest.map(|time| format!("{} cut short (≥ {})", self.cut_short.len(), seconds(time)));
        let never = (self.without_sale > 0).then(|| format!("{} never", self.without_sale));
        let others: Vec<String> = never.into_iter().chain(cut_short).collect();
        let (Some(typical), Some(floor)) = (median(&self.times), median(&self.floors)) else {
            return if others.is_empty() { UNTRIED.to_owned() } else { others.join(", ") };
        };
        let worst = self.times.iter().copied().fold(typical, f64::max);
        let range = if self.times.len() == 1 {
            seconds(typical)
        } else {
            format!("{} – {}", seconds(typical), seconds(worst))
        };
        let marked = if typical > MARKED_FROM * floor + PURCHASE_MS { format!("**{range}**") } else { range };
        let elsewhere = if self.is_elsewhere { "\\*" } else { "" };
        let others: String = others.iter().map(|other| format!(", {other}")).collect();
        format!("{marked}{elsewhere} ({}){others}", seconds(floor))
    }
}

/// Tells whether a fault struck as it should, and no other one at the same time.
pub(super) fn is_alone(record: &FaultRecord) -> bool {
    record.is_alone && record.failed.is_none()
}

/// What came after a fault.
pub(super) enum Recovery {
    /// The next sale, and the milliseconds until then.
    Sale {
        after_ms: f64,
        /// Whether it is one of another instance than the struck one.
        is_elsewhere: bool,
    },
    /// The next fault, and the milliseconds until then.
    CutShort(f64),
    /// Nothing was sold any more.
    Nothing,
}

impl Recovery {
    /// Finds what came after a fault of a round.
    pub(super) fn after(record: &FaultRecord, seen: &RoundSeen) -> Recovery {
        let there = record.next_sale_there_ms.filter(|_| record.fault.site.is_of_process());
        let Some(after_ms) = there.or(record.next_sale_ms) else { return Recovery::Nothing };
        let begins = seen.faults.iter().filter(|next| next.failed.is_none()).map(|next| next.begun_ms);
        let next = begins.map(|begin| begin - record.ended_ms).filter(|after| *after > 0.0).reduce(f64::min);
        match next.filter(|next| *next < after_ms) {
            Some(next) => Recovery::CutShort(next),
            None => Recovery::Sale { after_ms, is_elsewhere: record.fault.site.is_of_process() && there.is_none() },
        }
    }
}

/// Writes milliseconds as seconds.
fn seconds(ms: f64) -> String {
    format!("{:.2}", ms / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::trial::Audit;

    #[test]
    fn a_fault_that_comes_before_the_next_sale_cuts_it_short() {
        let first = FaultRecord { next_sale_ms: Some(900.0), ..FaultRecord::example(1000.0) };
        let next = |after_ms: f64| FaultRecord { begun_ms: first.ended_ms + after_ms, ..FaultRecord::example(0.0) };
        let after = |next: FaultRecord| {
            let seen = RoundSeen::example(vec![first.clone(), next], Audit::default());
            match Recovery::after(&first, &seen) {
                Recovery::Sale { after_ms, .. } => format!("sale {after_ms}"),
                Recovery::CutShort(after_ms) => format!("cut short {after_ms}"),
                Recovery::Nothing => "nothing".to_owned(),
            }
        };
        assert_eq!(after(next(1000.0)), "sale 900");
        assert_eq!(after(next(500.0)), "cut short 500");
        assert_eq!(after(FaultRecord { failed: Some("no".to_owned()), ..next(500.0) }), "sale 900");
    }
}
