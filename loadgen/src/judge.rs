//! What is judged, and by what: all of it is pure.

pub mod audit;
pub(crate) mod diff;
pub(crate) mod finding;
pub(crate) mod headline;
pub(crate) mod herd;
pub mod history;
pub mod ledger;
pub(crate) mod metrics;
pub mod orders;
pub(crate) mod result;
pub(crate) mod summary;
pub(crate) mod thresholds;
pub(crate) mod verdict;
