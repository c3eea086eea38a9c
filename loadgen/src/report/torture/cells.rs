//! The cells of the tables of torture: what was seen of a fault at strategies of a kind.

use stats::figures::things;
use stats::median;

use crate::trial::round::FaultRecord;

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
    /// How often the next fault came before the next sale.
    pub(super) cut_short: usize,
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
        let counts = [(self.without_sale, "never"), (self.cut_short, "cut short")];
        let others = counts.into_iter().filter(|(count, _)| *count > 0);
        let others: Vec<String> = others.map(|(count, what)| format!("{count} {what}")).collect();
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

/// Writes milliseconds as seconds.
fn seconds(ms: f64) -> String {
    format!("{:.2}", ms / 1e3)
}
