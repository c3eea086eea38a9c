//! What was found, as text for people, as data for programs, and as a picture.

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
    /// Of the closed loop.
    pub(crate) rows: Vec<ClosedLoopRow>,
    /// Of the open load; none if it was left out.
    pub(crate) waits: Vec<WaitRow>,
    pub(crate) ratios: Vec<Ratio>,
    pub(crate) waiters: Option<Waiters>,
}
