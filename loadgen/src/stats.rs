//! Statistics of the comparison: quantiles that the sample can carry, medians of trials, and the exact
//! bound on how often a trial may still go wrong.
//!
//! One definition everywhere: a quantile is the smallest recorded value at or below which the share `q`
//! of the sample lies (nearest rank, as an HDR histogram reports it).

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longest time a histogram holds, in microseconds; longer ones are recorded as this.
const TIME_MAX_US: u64 = 3_600_000_000;

/// A quantile is printed only when at least this many values are expected above it.
const VALUES_ABOVE_MIN: u64 = 10;

/// Converts a count for arithmetic; counts here stay far below 2^53, where an `f64` is still exact.
#[allow(clippy::cast_precision_loss)]
pub fn as_f64(count: u64) -> f64 {
    count as f64
}

/// [`as_f64`] for a signed count.
#[allow(clippy::cast_precision_loss)]
pub fn as_f64_signed(count: i64) -> f64 {
    count as f64
}

/// A duration in milliseconds, exact to the microsecond.
pub fn as_ms(duration: Duration) -> f64 {
    as_f64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)) / 1e3
}

/// Times in microseconds with three significant digits; histograms of several trials can be merged.
#[derive(Debug, Clone)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, TIME_MAX_US, 3);
        Times(histogram.expect("BUG: the bounds of the histogram are constants and in order"))
    }
}

impl Times {
    /// No times yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one time, in whole microseconds and at least one.
    pub fn record(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(TIME_MAX_US);
        self.0.saturating_record(us.clamp(1, TIME_MAX_US));
    }

    /// Adds all times of another histogram.
    ///
    /// # Panics
    ///
    /// Never: all of these histograms have the same bounds.
    pub fn merge(&mut self, other: &Times) {
        let merged = self.0.add(&other.0);
        merged.expect("BUG: histograms of equal bounds can always be added");
    }

    /// How many times there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The quantile in milliseconds, or nothing when the sample is too small for it.
    pub fn quantile_ms(&self, permille: u16) -> Option<f64> {
        quantile_is_carried(self.count(), permille)
            .then(|| as_f64(self.0.value_at_quantile(f64::from(permille) / 1e3)) / 1e3)
    }

    /// What the report shows of these times.
    pub fn summary(&self) -> TimeSummary {
        TimeSummary {
            n: self.count(),
            p50: self.quantile_ms(500),
            p90: self.quantile_ms(900),
            p99: self.quantile_ms(990),
            max: (self.count() > 0).then(|| as_f64(self.0.max()) / 1e3),
        }
    }
}

/// Quantiles in milliseconds; absent ones could not be carried by the `n` values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeSummary {
    /// The median.
    pub p50: Option<f64>,
    /// What nine of ten took at most.
    pub p90: Option<f64>,
    /// What 99 of 100 took at most.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// How many there were.
    pub n: u64,
}

/// Whether `n` values say anything about a quantile: n(1 − q) must be at least ten.
pub fn quantile_is_carried(n: u64, permille: u16) -> bool {
    n * u64::from(1000_u16.saturating_sub(permille)) >= VALUES_ABOVE_MIN * 1000
}

/// The middle value, or the mean of the middle two; nothing of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The median, over the blocks that have both figures, of one strategy's figure divided by the reference's.
///
/// Dividing within a block cancels what the machine did to the whole block.
pub fn paired_ratio(figures: &[Option<f64>], reference: &[Option<f64>]) -> Option<f64> {
    let ratios: Vec<f64> = figures
        .iter()
        .zip(reference)
        .filter_map(|pair| match pair {
            (Some(figure), Some(reference)) if *reference > 0.0 => Some(figure / reference),
            _ => None,
        })
        .collect();
    median(&ratios)
}

/// Upper end of the exact (Clopper-Pearson) one-sided 95 % interval of a rate, after `bad` of `trials`.
///
/// It is the rate at which seeing `bad` or fewer would have a probability of 5 %; with none bad it is
/// 1 − 0.05^(1/trials). Without a trial nothing is known, and the bound is 1.
pub fn rate_upper_95(bad: u32, trials: u32) -> f64 {
    if bad >= trials {
        return 1.0;
    }
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    // Sixty halvings take the interval below the resolution of an f64 in [0, 1].
    for _ in 0..60 {
        let rate = f64::midpoint(low, high);
        if binomial_cdf(bad, trials, rate) > 0.05 {
            low = rate;
        } else {
            high = rate;
        }
    }
    high
}

/// P(X ≤ k) of a binomial with `n` trials, for 0 < rate < 1, summed from logarithms so that no term overflows.
fn binomial_cdf(k: u32, n: u32, rate: f64) -> f64 {
    let (ln_hit, ln_miss) = (rate.ln(), (-rate).ln_1p());
    let mut ln_choose = 0.0;
    let mut sum = 0.0;
    for i in 0..=k {
        sum += (ln_choose + f64::from(i) * ln_hit + f64::from(n - i) * ln_miss).exp();
        ln_choose += f64::from(n - i).ln() - f64::from(i + 1).ln();
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(values_ms: impl IntoIterator<Item = u64>) -> Times {
        let mut times = Times::new();
        for value in values_ms {
            times.record(Duration::from_millis(value));
        }
        times
    }

    #[test]
    fn a_quantile_needs_ten_values_above_it() {
        assert!(!quantile_is_carried(19, 500));
        assert!(quantile_is_carried(20, 500));
        assert!(!quantile_is_carried(99, 900));
        assert!(quantile_is_carried(100, 900));
        assert!(!quantile_is_carried(999, 990));
        assert!(quantile_is_carried(1000, 990));
    }

    #[test]
    fn a_small_sample_has_a_maximum_but_no_quantiles() {
        let summary = times([5, 7, 9]).summary();
        assert_eq!((summary.p50, summary.p99, summary.n), (None, None, 3));
        assert!((summary.max.unwrap() - 9.0).abs() < 0.01);
        assert_eq!(times([]).summary().max, None);
    }

    #[test]
    fn merged_times_have_the_quantiles_of_the_whole_and_not_their_mean() {
        let mut merged = times(1..=100);
        merged.merge(&times(901..=1000));
        let summary = merged.summary();
        assert_eq!(summary.n, 200);
        assert!((summary.p50.unwrap() - 100.0).abs() < 0.2);
        assert!((summary.p90.unwrap() - 980.0).abs() < 1.0);
        assert_eq!(summary.p99, None);
    }

    #[test]
    fn a_time_beyond_the_bounds_is_kept_at_the_bound() {
        let mut times = Times::new();
        times.record(Duration::ZERO);
        times.record(Duration::from_secs(u64::MAX));
        assert_eq!(times.count(), 2);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    }

    #[test]
    fn a_ratio_pairs_the_figures_of_each_block() {
        let ours = [Some(10.0), Some(40.0), None, Some(9.0)];
        let reference = [Some(5.0), Some(10.0), Some(1.0), None];
        assert_eq!(paired_ratio(&ours, &reference), Some(3.0));
        assert_eq!(paired_ratio(&[None], &[Some(1.0)]), None);
    }

    #[test]
    fn the_bound_without_a_bad_trial_has_a_closed_form() {
        for trials in [1, 3, 10, 30, 1000] {
            let expected = 1.0 - 0.05_f64.powf(1.0 / f64::from(trials));
            assert!((rate_upper_95(0, trials) - expected).abs() < 1e-12, "{trials}");
        }
        assert!(rate_upper_95(0, 10) < 0.26);
        assert!(rate_upper_95(0, 30) < 0.096);
    }

    #[test]
    fn bounds_agree_with_published_tables() {
        // One-sided 95 % upper limits: 1/10, 2/20 and 5/10.
        assert!((rate_upper_95(1, 10) - 0.3942).abs() < 1e-4);
        assert!((rate_upper_95(2, 20) - 0.2826).abs() < 1e-4);
        assert!((rate_upper_95(5, 10) - 0.7776).abs() < 1e-4);
        assert!((rate_upper_95(3, 3) - 1.0).abs() < f64::EPSILON);
        assert!((rate_upper_95(0, 0) - 1.0).abs() < f64::EPSILON);
    }

    proptest! {
        #[test]
        fn the_bound_lies_above_the_observed_rate(trials in 1_u32..400, bad in 0_u32..400) {
            let bad = bad.min(trials);
            let bound = rate_upper_95(bad, trials);
            prop_assert!(bound <= 1.0 && bound >= f64::from(bad) / f64::from(trials));
        }

        #[test]
        fn the_median_lies_within_the_sample(values in prop::collection::vec(-1e6_f64..1e6, 1..50)) {
            let median = median(&values).unwrap();
            prop_assert!(values.iter().any(|value| *value <= median));
            prop_assert!(values.iter().any(|value| *value >= median));
        }
    }
}
