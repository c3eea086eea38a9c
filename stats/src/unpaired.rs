//! Ratios between two runs with independent blocks.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use super::ranks::{doubled_midranks, sums_of_draws, two_sided};
use super::{Ratio, as_f64, median, resample};

/// Largest number of values for the exact test, which counts every way to divide them. Beyond it, the counts do not fit
/// in memory.
const EXACT_MAX: usize = 80;
/// Number of random divisions of more values than that.
const PERMUTATIONS: u64 = 100_000;

/// Returns the ratio of a new run's figures to an old run's figures. `None` if one of the runs has none.
///
/// It is estimated from logarithms by Hodges and Lehmann's shift: the median of all differences between a value of the
/// one run and a value of the other. It has a bootstrap interval over the blocks of both runs, and the rank-sum test.
pub fn ratio(new: &[f64], old: &[f64], seed: u64) -> Option<Ratio> {
    let [new, old] = [new, old]
        .map(|figures| figures.iter().copied().filter(|figure| *figure > 0.0).map(f64::ln).collect::<Vec<_>>());
    let interval = resample::interval_of_two([new.len(), old.len()], seed, |in_new, in_old| {
        let pick = |values: &[f64], blocks: &[usize]| blocks.iter().map(|block| values[*block]).collect::<Vec<_>>();
        shift(&pick(&new, in_new), &pick(&old, in_old))
    });
    let p = [rank_sum(&new, &old, seed), rank_sum_min(new.len(), old.len())];
    Some(Ratio::new(shift(&new, &old)?, interval, p, new.len().min(old.len())))
}

/// Returns the smallest p that the rank-sum test can give. Samples that do not overlap give it: one division of the
/// values at either end.
fn rank_sum_min(first: usize, second: usize) -> f64 {
    let ways: f64 = (1..=first).map(|i| as_f64(second + i) / as_f64(i)).product();
    (2.0 / ways).min(1.0)
}

/// Returns the median of all differences between a value of the first and a value of the second.
pub fn shift(first: &[f64], second: &[f64]) -> Option<f64> {
    let differences: Vec<f64> = first.iter().flat_map(|a| second.iter().map(move |b| a - b)).collect();
    median(&differences)
}

/// Returns the two-sided p of the rank-sum test (Mann-Whitney, Wilcoxon) that both samples come from one distribution.
/// Up to 80 values in all, it is exact, ties included. Beyond that, it comes from 100 000 random permutations.
pub fn rank_sum(first: &[f64], second: &[f64], seed: u64) -> f64 {
    let mut ranks = doubled_midranks(&[first, second].concat());
    let taken = first.len();
    let observed: usize = ranks[..taken].iter().sum();
    if ranks.len() <= EXACT_MAX {
        return two_sided(&sums_of_draws(&ranks, taken), observed);
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // The sample itself is one of the ways.
    let (mut below, mut above) = (1, 1);
    for _ in 0..PERMUTATIONS {
        let (drawn, _) = ranks.partial_shuffle(&mut random, taken);
        let sum: usize = drawn.iter().sum();
        below += u64::from(sum <= observed);
        above += u64::from(sum >= observed);
    }
    (2.0 * as_f64(below.min(above)) / as_f64(PERMUTATIONS + 1)).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Difference;

    fn values(range: std::ops::Range<i32>) -> Vec<f64> {
        range.map(f64::from).collect()
    }

    #[test]
    fn samples_that_do_not_overlap_have_the_smallest_p() {
        // One of the C(10, 5) = 252 ways at either end.
        assert!((rank_sum(&values(0..5), &values(5..10), 1) - 2.0 / 252.0).abs() < 1e-12);
        assert!((rank_sum_min(5, 5) - 2.0 / 252.0).abs() < 1e-12);
        assert!((rank_sum(&[], &values(0..3), 1) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn many_values_are_permuted_and_agree_with_what_is_exact() {
        let (first, second) = (values(0..41), values(4..44));
        let exact = two_sided(&sums_of_draws(&doubled_midranks(&[first.clone(), second.clone()].concat()), 41), {
            doubled_midranks(&[first.clone(), second.clone()].concat())[..41].iter().sum()
        });
        assert!((rank_sum(&first, &second, 1) - exact).abs() < 0.01, "{exact}");
    }

    #[test]
    fn a_run_that_is_a_third_slower_is_larger() {
        let old: Vec<f64> = (0..10).map(|i| 100.0 + f64::from(i)).collect();
        let new: Vec<f64> = old.iter().map(|value| value * 1.33).collect();
        let ratio = ratio(&new, &old, 1).unwrap();
        assert_eq!((ratio.difference, ratio.blocks), (Difference::Larger, 10));
        assert!((ratio.estimate - 1.33).abs() < 0.01, "{ratio:?}");
        assert_eq!(super::ratio(&old, &old, 1).unwrap().difference, Difference::Indistinguishable);
        assert_eq!(super::ratio(&old, &[], 1), None);
    }

    proptest! {
        #[test]
        fn the_test_does_not_mind_which_run_came_first(
            first in prop::collection::vec(0_i32..6, 0..9),
            second in prop::collection::vec(0_i32..6, 0..9),
        ) {
            let [first, second] = [first, second].map(|values| values.into_iter().map(f64::from).collect::<Vec<_>>());
            prop_assert!((rank_sum(&first, &second, 1) - rank_sum(&second, &first, 1)).abs() < 1e-9);
        }
    }
}
