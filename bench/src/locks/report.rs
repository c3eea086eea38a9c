//! The report: as text, as data for programs, and as a chart.

pub(crate) mod chart;
pub(crate) mod json;
pub(crate) mod markdown;
mod waits;

use bench::Ratio;

use crate::results::ClosedLoopRow;
use crate::waiters::Waiters;
use crate::waits::WaitRow;

/// The content of a report.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// The conditions of the measurements, a sentence each.
    pub(crate) conditions: Vec<String>,
    /// The rows of the closed loop.
    pub(crate) rows: Vec<ClosedLoopRow>,
    /// The rows of the open load, if it was measured.
    pub(crate) waits: Vec<WaitRow>,
    pub(crate) ratios: Vec<Ratio>,
    pub(crate) waiters: Option<Waiters>,
}
