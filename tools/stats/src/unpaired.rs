//! Ratios between two independent sides: two sets of runs, or of blocks.

use super::ranks::{ends, inverted, sums_of_draws};
use super::{Estimate, as_f64, median};

/// Largest number of values for which every way to divide them is counted. Beyond it, the rank sum is normal to more digits
/// than an interval shows.
const EXACT_MAX: usize = 80;
/// Standard deviations from the middle of a normal distribution to the end of its inner 95 %.
const NORMAL_95: f64 = 1.959_964;

/// Returns the ratio of the new values to the old ones, with its exact 95 % interval. `None` if a side has no value, or if
/// a value is infinite or not positive.
///
/// It is estimated from logarithms by Hodges and Lehmann's shift.
pub fn ratio(new: &[f64], old: &[f64]) -> Option<Estimate> {
    if !new.iter().chain(old).all(|value| value.is_finite() && *value > 0.0) {
        return None;
    }
    let [new, old] = [new, old].map(|values| values.iter().copied().map(f64::ln).collect::<Vec<_>>());
    let (low, high) = interval(&new, &old).map(|(low, high)| (low.exp(), high.exp())).unzip();
    Some(Estimate { value: shift(&new, &old)?.exp(), low, high })
}

/// Returns the median of all differences between a value of the first and a value of the second.
pub fn shift(first: &[f64], second: &[f64]) -> Option<f64> {
    median(&differences(first, second))
}

/// Returns the exact 95 % interval of the shift between two samples of one shape: the shifts that the rank-sum test
/// (Mann-Whitney, Wilcoxon) does not reject. `None` with too few values: four and four are enough.
///
/// The rank sum after a shift is the number of differences above it, so the ends are differences.
pub fn interval(first: &[f64], second: &[f64]) -> Option<(f64, f64)> {
    let mut differences = differences(first, second);
    let taken = first.len();
    let all = taken + second.len();
    if all > EXACT_MAX {
        let pairs = as_f64(differences.len());
        let deviation = (pairs * as_f64(all + 1) / 12.0).sqrt();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position among the differences")]
        let position = (pairs / 2.0 + 0.5 - NORMAL_95 * deviation).max(0.0) as usize;
        return ends(&mut differences, position);
    }
    let ranks: Vec<usize> = (1..=all).collect();
    let sums = sums_of_draws(&ranks, taken);
    // The first ranks have the smallest sum.
    inverted(differences, &sums[taken * (taken + 1) / 2..])
}

fn differences(first: &[f64], second: &[f64]) -> Vec<f64> {
    first.iter().flat_map(|a| second.iter().map(move |b| a - b)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(range: std::ops::Range<i32>) -> Vec<f64> {
        range.map(f64::from).collect()
    }

    #[test]
    fn four_and_four_values_are_enough_for_an_interval() {
        assert_eq!(interval(&values(4..8), &values(0..4)), Some((1.0, 7.0)));
        assert_eq!(interval(&values(3..6), &values(0..3)), None);
        assert_eq!(interval(&[], &values(0..3)), None);
    }

    #[test]
    fn the_interval_of_many_values_equals_the_exact_count() {
        let spread = |count: u32, step: u32| -> Vec<f64> { (0..count).map(|i| f64::from(i * step % 101)).collect() };
        let first = spread(41, 37);
        let second = spread(40, 61);
        let exact = inverted(differences(&first, &second), &sums_of_draws(&(1..=81).collect::<Vec<_>>(), 41)[861..]);
        assert_eq!(interval(&first, &second), exact);
    }

    #[test]
    fn a_run_that_is_a_third_slower_has_that_ratio() {
        let old: Vec<f64> = (0..10).map(|i| 100.0 + f64::from(i)).collect();
        let new: Vec<f64> = old.iter().map(|value| value * 1.33).collect();
        let ratio = ratio(&new, &old).unwrap();
        assert!((ratio.value - 1.33).abs() < 0.01 && ratio.low.unwrap() > 1.25, "{ratio:?}");
        assert_eq!(super::ratio(&old, &[]), None);
        assert_eq!(super::ratio(&old, &[0.0]), None);
        assert_eq!(super::ratio(&old, &[f64::INFINITY]), None);
    }

    proptest! {
        #[test]
        fn the_interval_does_not_mind_which_side_came_first(
            first in prop::collection::vec(0_i32..50, 0..12),
            second in prop::collection::vec(0_i32..50, 0..12),
        ) {
            let [first, second] = [first, second].map(|values| values.into_iter().map(f64::from).collect::<Vec<_>>());
            let turned = interval(&second, &first).map(|(low, high)| (-high, -low));
            prop_assert_eq!(interval(&first, &second), turned);
        }
    }
}
