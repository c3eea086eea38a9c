//! The one table of figures. Every output shows a row that is added to one of its parts.

use super::metric::Metric;
use super::{books, costs, generator, times};

/// The parts, in the order in which tables show them.
const PARTS: [&[&Metric]; 4] = [books::ROWS, times::ROWS, costs::ROWS, generator::ROWS];

const LENGTH: usize = books::ROWS.len() + times::ROWS.len() + costs::ROWS.len() + generator::ROWS.len();

/// Every figure, in the order in which tables show them.
pub(crate) static METRICS: &[&Metric] = &joined();

/// Returns the figures that a service of the lab can have, or those of shops that files describe.
pub(crate) fn metrics_of(is_lab: bool) -> Vec<&'static Metric> {
    METRICS.iter().copied().filter(|metric| is_lab || metric.is_of_any_shop()).collect()
}

const fn joined() -> [&'static Metric; LENGTH] {
    let mut all = [PARTS[0][0]; LENGTH];
    let mut filled = 0;
    let mut part = 0;
    while part < PARTS.len() {
        let mut row = 0;
        while row < PARTS[part].len() {
            all[filled] = PARTS[part][row];
            filled += 1;
            row += 1;
        }
        part += 1;
    }
    all
}
