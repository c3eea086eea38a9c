//! Ratios within one run: both figures of a ratio come from the same block. That cancels effects of the machine on the
//! whole block.

use super::ranks::{doubled_midranks, inverted, sums_of_subsets, two_sided};
use super::{Ratio, median};

/// Returns the ratio of one strategy's figures to the reference's, over the blocks that have both. `None` without such a
/// block, or if a figure is infinite: without its slowest block, a strategy would look faster.
///
/// It is estimated from logarithms, because a ratio of two is as far from one as a ratio of a half. The estimate is
/// Hodges and Lehmann's (the median of all pairwise means). The test is Wilcoxon's signed-rank test, and the interval has
/// the ratios that this test does not reject.
pub fn ratio(figures: &[Option<f64>], reference: &[Option<f64>]) -> Option<Ratio> {
    if figures.iter().chain(reference).flatten().any(|figure| figure.is_infinite()) {
        return None;
    }
    let logs: Vec<f64> = figures
        .iter()
        .zip(reference)
        .filter_map(|pair| match pair {
            (Some(figure), Some(reference)) if *figure > 0.0 && *reference > 0.0 => Some((figure / reference).ln()),
            _ => None,
        })
        .collect();
    // All differences have one sign: one of the 2^n ways at either end.
    let p_min = 2.0_f64.powi(1 - i32::try_from(logs.len()).unwrap_or(i32::MAX)).min(1.0);
    Some(Ratio::new(hodges_lehmann(&logs)?, interval(&logs), [wilcoxon(&logs), p_min], logs.len()))
}

/// Returns the median of the Walsh averages.
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    median(&walsh_averages(values))
}

/// Returns the exact 95 % interval of the centre of a symmetric distribution: the centres that the signed-rank test does
/// not reject (Tukey). `None` with fewer than six values.
///
/// The rank sum of a centre is the number of Walsh averages above it, so the ends are Walsh averages. The interval covers
/// the centre in at least 95 % of all samples, whatever the distribution, and more often with ties.
pub fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let ranks: Vec<usize> = (1..=values.len()).collect();
    inverted(walsh_averages(values), &sums_of_subsets(&ranks))
}

/// Returns the means of all pairs of values, including the pair of each value with itself.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let pairs = values.iter().enumerate().flat_map(|(i, a)| values[i..].iter().map(|b| f64::midpoint(*a, *b)));
    pairs.collect()
}

/// Returns the two-sided p of Wilcoxon's signed-rank test that the differences lie evenly around zero. It is exact, ties
/// included, because all 2^n ways to flip the signs are counted. Differences of zero say nothing and are left out.
pub fn wilcoxon(differences: &[f64]) -> f64 {
    let differences: Vec<f64> = differences.iter().copied().filter(|difference| *difference != 0.0).collect();
    let ranks = doubled_midranks(&differences.iter().map(|difference| difference.abs()).collect::<Vec<_>>());
    let positive = ranks.iter().zip(&differences).filter(|(_, difference)| **difference > 0.0);
    two_sided(&sums_of_subsets(&ranks), positive.map(|(rank, _)| rank).sum())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Difference;

    #[test]
    fn the_smallest_p_of_n_blocks_is_two_in_two_to_the_n() {
        for n in [6_u32, 10, 12] {
            let differences: Vec<f64> = (1..=n).map(f64::from).collect();
            let expected = 2.0 / 2.0_f64.powi(i32::try_from(n).unwrap());
            assert!((wilcoxon(&differences) - expected).abs() < 1e-12, "{n}");
        }
    }

    #[test]
    fn no_difference_at_all_is_certain_to_be_none() {
        assert!((wilcoxon(&[0.0, 0.0]) - 1.0).abs() < f64::EPSILON);
        assert!((wilcoxon(&[]) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_ratio_pairs_the_figures_of_each_block() {
        let ours = [Some(10.0), Some(40.0), None, Some(9.0)];
        let reference = [Some(5.0), Some(10.0), Some(1.0), None];
        let ratio = ratio(&ours, &reference).unwrap();
        assert!((ratio.estimate - 8.0_f64.sqrt()).abs() < 1e-12, "{ratio:?}");
        assert_eq!((ratio.blocks, ratio.difference), (2, Difference::TooFewBlocks));
        assert_eq!(super::ratio(&[None], &[Some(1.0)]), None);
        assert_eq!(super::ratio(&[Some(1.0), Some(f64::INFINITY)], &[Some(1.0); 2]), None, "it was not reached");
    }

    #[test]
    fn a_strategy_is_indistinguishable_from_itself() {
        let figures: Vec<Option<f64>> = (1..=10).map(|i| Some(f64::from(i))).collect();
        let ratio = ratio(&figures, &figures).unwrap();
        assert_eq!((ratio.estimate, ratio.low, ratio.high), (1.0, Some(1.0), Some(1.0)));
        assert_eq!(ratio.difference, Difference::Indistinguishable);
    }

    #[test]
    fn twice_as_slow_in_every_block_is_larger() {
        let reference: Vec<Option<f64>> = (1..=10).map(|i| Some(f64::from(i))).collect();
        let ours: Vec<Option<f64>> = (1..=10).map(|i| Some(f64::from(i) * (2.0 + 0.01 * f64::from(i)))).collect();
        let ratio = ratio(&ours, &reference).unwrap();
        assert_eq!(ratio.difference, Difference::Larger);
        assert!(ratio.low.unwrap() > 2.0 && ratio.high.unwrap() < 2.11, "{ratio:?}");
    }

    proptest! {
        #[test]
        fn the_test_does_not_mind_which_of_the_two_is_the_reference(differences in prop::collection::vec(-4_i32..=4, 0..14)) {
            let differences: Vec<f64> = differences.into_iter().map(f64::from).collect();
            let opposite: Vec<f64> = differences.iter().map(|difference| -difference).collect();
            prop_assert!((wilcoxon(&differences) - wilcoxon(&opposite)).abs() < 1e-12);
        }

        #[test]
        fn the_estimate_lies_within_the_sample(values in prop::collection::vec(-1e3_f64..1e3, 1..30)) {
            let estimate = hodges_lehmann(&values).unwrap();
            prop_assert!(values.iter().any(|value| *value <= estimate));
            prop_assert!(values.iter().any(|value| *value >= estimate));
        }
    }
}
