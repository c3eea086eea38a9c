//! The statistics of the comparison. They are pure: random numbers come from a seed, which is an argument.
//!
//! The unit of replication is the trial and never the request, because the lock correlates the requests of a burst. So
//! intervals are over blocks. They are exact: each has the values that a rank test does not reject, and none is drawn by
//! chance. Ratios are paired within blocks ([`paired`]) or, between runs, taken between two sets of them ([`unpaired`]).
//! Many figures of two sides are tested at once ([`joint`]). The number of trials bounds the rate at which a strategy may still
//! fail ([`rate`]). Latencies are kept in histograms that can be merged ([`times`]). The highest rate that a shop holds is
//! searched for by many short trials ([`capacity`]). All reports write their numbers in the same formats ([`figures`]), and
//! use the same words ([`glossary`]).

pub mod capacity;
pub mod figures;
pub mod glossary;
pub mod joint;
pub mod paired;
mod ranks;
pub mod rate;
pub mod reached;
pub mod times;
pub mod unpaired;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fewest blocks for an interval. With fewer, the extremes of the sample do not reach as far as a 95 % interval of
/// their median must.
pub const BLOCKS_MIN: usize = 6;

/// Equivalence margin: a ratio whose interval stays this close to one is too small a difference to act upon, however
/// certain it is.
pub const EQUIVALENT: f64 = 0.05;

/// The p below which a difference is significant.
pub const SIGNIFICANCE: f64 = 0.05;

/// A figure, with its exact 95 % interval over the blocks where it has one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The figure, from all blocks. A quantile that lies among requests that were never served is "not reached".
    #[serde(with = "reached::always")]
    #[schemars(with = "reached::Reached")]
    pub value: f64,
    /// Lower end of the interval; absent when there are fewer than six blocks, and of a figure that is not a median.
    #[serde(with = "reached::maybe")]
    #[schemars(with = "Option<reached::Reached>")]
    pub low: Option<f64>,
    /// Upper end of the interval.
    #[serde(with = "reached::maybe")]
    #[schemars(with = "Option<reached::Reached>")]
    pub high: Option<f64>,
}

/// The conclusion from a ratio to the reference, or between two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// Smaller, with an interval that lies below one and a test that holds after Holm's correction.
    Smaller,
    /// Larger, likewise.
    Larger,
    /// No significant difference in this run: written `~`.
    Indistinguishable,
    /// Too few blocks: fewer than six, or too few for any difference to hold after the correction. Written `?`.
    TooFewBlocks,
}

/// A ratio of two medians, with its interval and its test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// Hodges-Lehmann estimate of the ratio.
    pub estimate: f64,
    /// Lower end of its exact 95 % interval, from Walsh averages; absent when there are fewer than six blocks.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Two-sided p of Wilcoxon's signed-rank test, exact.
    pub p: f64,
    /// The p after Holm's correction for the number of ratios with the same number of users.
    pub p_holm: f64,
    /// The smallest p that this number of blocks can give.
    pub p_min: f64,
    /// Blocks that have both figures.
    pub blocks: usize,
    /// The conclusion.
    pub difference: Difference,
}

impl Ratio {
    /// Returns a ratio before its correction.
    fn new(log_estimate: f64, log_interval: Option<(f64, f64)>, [p, p_min]: [f64; 2], blocks: usize) -> Ratio {
        let (low, high) = log_interval.map(|(low, high)| (low.exp(), high.exp())).unzip();
        let mut ratio = Ratio {
            estimate: log_estimate.exp(),
            low,
            high,
            p,
            p_holm: p,
            p_min,
            blocks,
            difference: Difference::TooFewBlocks,
        };
        ratio.conclude(1);
        ratio
    }

    /// Draws the conclusion about a ratio that belongs to a family of this size.
    fn conclude(&mut self, family: usize) {
        // Holm's correction is milder for all but the smallest p. So one ratio may hold although its blocks alone would
        // rarely be enough.
        let can_be_told = self.p_holm < SIGNIFICANCE || self.p_min * as_f64(family) < SIGNIFICANCE;
        self.difference = match (self.low, self.high) {
            (Some(low), Some(high)) if can_be_told => {
                let equivalent = low > 1.0 - EQUIVALENT && high < 1.0 + EQUIVALENT;
                if self.p_holm >= SIGNIFICANCE || equivalent {
                    Difference::Indistinguishable
                } else if high < 1.0 {
                    Difference::Smaller
                } else if low > 1.0 {
                    Difference::Larger
                } else {
                    Difference::Indistinguishable
                }
            }
            _ => Difference::TooFewBlocks,
        };
    }
}

/// Corrects a family of ratios for their number by Holm's method, and draws the conclusions anew.
pub fn correct<'a>(ratios: impl Iterator<Item = &'a mut Ratio>) {
    let mut ratios: Vec<&mut Ratio> = ratios.collect();
    let corrected = holm(&ratios.iter().map(|ratio| ratio.p).collect::<Vec<_>>());
    let family = ratios.len();
    for (ratio, p_holm) in ratios.iter_mut().zip(corrected) {
        ratio.p_holm = p_holm;
        ratio.conclude(family);
    }
}

/// Corrects p-values by Holm's step-down method: each p is multiplied by the number of hypotheses not yet rejected, and
/// is never smaller than the one before it.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut corrected = vec![0.0; p.len()];
    let mut largest = 0.0_f64;
    for (rejected, index) in order.into_iter().enumerate() {
        largest = largest.max((p[index] * as_f64(p.len() - rejected)).min(1.0));
        corrected[index] = largest;
    }
    corrected
}

/// Converts a count for arithmetic. Counts here stay far below 2^53, up to which an `f64` is exact.
pub fn as_f64(count: impl Count) -> f64 {
    count.to_f64()
}

/// A type of counts.
pub trait Count {
    /// Converts the count for arithmetic.
    fn to_f64(self) -> f64;
}

#[allow(clippy::cast_precision_loss)]
impl Count for u64 {
    fn to_f64(self) -> f64 {
        self as f64
    }
}

#[allow(clippy::cast_precision_loss)]
impl Count for i64 {
    fn to_f64(self) -> f64 {
        self as f64
    }
}

#[allow(clippy::cast_precision_loss)]
impl Count for usize {
    fn to_f64(self) -> f64 {
        self as f64
    }
}

/// Returns a duration in milliseconds, exact to the microsecond.
pub fn as_ms(duration: Duration) -> f64 {
    as_f64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)) / 1e3
}

/// Returns the middle value, or the mean of the middle two. `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    let count = values.len();
    if count == 0 {
        return None;
    }
    let (below, upper, _) = values.select_nth_unstable_by(count / 2, f64::total_cmp);
    let lower = below.iter().copied().max_by(f64::total_cmp);
    Some(lower.filter(|_| count.is_multiple_of(2)).map_or(*upper, |lower| f64::midpoint(lower, *upper)))
}

/// Returns the median of a figure that every block has, with its exact interval.
pub fn median_estimate(figures: &[f64]) -> Option<Estimate> {
    let value = median(figures)?;
    let (low, high) = median_interval(figures).unzip();
    Some(Estimate { value, low, high })
}

/// Returns the exact 95 % interval of a median: the medians that the sign test does not reject. `None` with fewer than six
/// values.
///
/// Its ends are values of the sample. It covers the median in at least 95 % of all samples, whatever the distribution. The
/// interval of [`paired::interval`] is narrower, but needs a symmetric distribution, which figures of trials do not have.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    ranks::inverted(values.to_vec(), &ranks::sums_of_subsets(&vec![1; values.len()]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    }

    #[test]
    fn a_median_of_few_blocks_has_no_interval() {
        let estimate = median_estimate(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(estimate, Estimate { value: 2.0, low: None, high: None });
        let estimate = median_estimate(&[4.0, 2.0, 6.0, 1.0, 5.0, 3.0]).unwrap();
        assert_eq!(estimate, Estimate { value: 3.5, low: Some(1.0), high: Some(6.0) });
    }

    #[test]
    fn an_interval_may_end_among_the_unserved() {
        let mut figures = vec![f64::INFINITY; 5];
        figures.extend([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let estimate = median_estimate(&figures).unwrap();
        assert_eq!(estimate, Estimate { value: 6.0, low: Some(2.0), high: Some(f64::INFINITY) });
        let written = serde_json::to_value(estimate).unwrap();
        assert_eq!(written["high"], "not reached");
        assert_eq!(serde_json::from_value::<Estimate>(written).unwrap(), estimate);
    }

    #[test]
    fn a_certain_but_tiny_difference_is_none() {
        let ratio = Ratio::new(0.01, Some((0.005, 0.015)), [0.001; 2], 12);
        assert_eq!(ratio.difference, Difference::Indistinguishable);
        assert_eq!(Ratio::new(0.3, Some((0.2, 0.4)), [0.001; 2], 12).difference, Difference::Larger);
        assert_eq!(Ratio::new(-0.3, Some((-0.4, -0.2)), [0.001; 2], 12).difference, Difference::Smaller);
    }

    #[test]
    fn a_correction_can_take_a_difference_back() {
        let p_min = 0.0005;
        let mut ratios = [
            Ratio::new(0.3, Some((0.2, 0.4)), [0.03, p_min], 12),
            Ratio::new(0.0, Some((-0.1, 0.1)), [0.9, p_min], 12),
        ];
        assert_eq!(ratios[0].difference, Difference::Larger);
        correct(ratios.iter_mut());
        assert_eq!((ratios[0].p_holm, ratios[0].difference), (0.06, Difference::Indistinguishable));
    }

    #[test]
    fn blocks_too_few_for_any_difference_to_hold_tell_none() {
        // Six blocks give p = 2/64 at best. That holds alone, but not as one of two.
        let twice = || Ratio::new(0.7, Some((0.6, 0.8)), [2.0 / 64.0; 2], 6);
        assert_eq!(twice().difference, Difference::Larger);
        let mut two = [twice(), twice()];
        correct(two.iter_mut());
        assert_eq!(two.map(|ratio| ratio.difference), [Difference::TooFewBlocks; 2]);
    }

    proptest! {
        #[test]
        fn the_median_lies_within_the_sample(values in prop::collection::vec(-1e6_f64..1e6, 1..50)) {
            let median = median(&values).unwrap();
            prop_assert!(values.iter().any(|value| *value <= median));
            prop_assert!(values.iter().any(|value| *value >= median));
        }

        #[test]
        fn a_correction_never_makes_a_p_smaller_and_keeps_their_order(p in prop::collection::vec(0.0_f64..=1.0, 0..12)) {
            let corrected = holm(&p);
            for (i, was) in p.iter().enumerate() {
                prop_assert!(corrected[i] >= *was && corrected[i] <= 1.0);
                for (j, other) in p.iter().enumerate() {
                    prop_assert!(was >= other || corrected[i] <= corrected[j]);
                }
            }
        }
    }
}
