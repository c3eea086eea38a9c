//! The conclusions from the trials of a comparison: figures, thresholds, findings, the verdict. All of it is pure.

pub(crate) mod capacity;
pub(crate) mod diff;
pub(crate) mod finding;
pub(crate) mod headline;
pub(crate) mod metrics;
pub(crate) mod nouns;
pub(crate) mod recovery;
pub(crate) mod result;
pub(crate) mod round;
pub(crate) mod sights;
pub(crate) mod summary;
pub(crate) mod thresholds;
pub(crate) mod verdict;
