//! Midranks, the exact distributions of rank statistics, ties included, and the intervals that invert their tests.

/// The probability outside each end of a 95 % interval.
const TAIL: f64 = 0.025;

/// Returns the interval of the location that a rank test does not reject, from the values that its statistic counts.
/// `weights` are the probabilities of the statistic if the location is the true one, from its smallest value on.
///
/// The test rejects a location outside the `k`-th value from either end, and the largest such `k` is taken. `None` if
/// there is none: there are too few values for 95 %.
pub(super) fn inverted(mut values: Vec<f64>, weights: &[f64]) -> Option<(f64, f64)> {
    let mut tail = 0.0;
    let rejected = weights.iter().take_while(|weight| {
        tail += **weight;
        tail <= TAIL
    });
    ends(&mut values, rejected.count())
}

/// Returns the `k`-th value from either end.
pub(super) fn ends(values: &mut [f64], k: usize) -> Option<(f64, f64)> {
    values.sort_unstable_by(f64::total_cmp);
    Some((*values.get(k.checked_sub(1)?)?, *values.get(values.len().checked_sub(k)?)?))
}

/// Returns twice the midrank of each value. With ties a midrank is half a whole number, so twice it is a whole one.
pub(super) fn doubled_midranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let same = |index: &&usize| values[**index].total_cmp(&values[order[first]]).is_eq();
        let count = order[first..].iter().take_while(same).count();
        // The ranks are first + 1 to first + count. Twice their mean is the sum of the two ends.
        for index in &order[first..first + count] {
            ranks[*index] = 2 * first + 1 + count;
        }
        first += count;
    }
    ranks
}

/// Returns the two-sided p of a sum under a distribution over sums: twice the smaller tail. Both tails include the
/// sum itself.
pub(super) fn two_sided(weights: &[f64], observed: usize) -> f64 {
    let total: f64 = weights.iter().sum();
    let below: f64 = weights[..=observed].iter().sum();
    let above: f64 = weights[observed..].iter().sum();
    (2.0 * below.min(above) / total).min(1.0)
}

/// Returns the probability of each sum if every rank is taken or left with equal chance.
pub(super) fn sums_of_subsets(ranks: &[usize]) -> Vec<f64> {
    let mut weights = vec![0.0; ranks.iter().sum::<usize>() + 1];
    weights[0] = 1.0;
    let mut reached = 0;
    for rank in ranks {
        reached += rank;
        // From the largest sum down, so that each rank is added at most once.
        for sum in (0..=reached).rev() {
            let with = sum.checked_sub(*rank).map_or(0.0, |without| weights[without]);
            weights[sum] = 0.5 * (weights[sum] + with);
        }
    }
    weights
}

/// Returns the probability of each sum if `taken` of the ranks are drawn without replacement.
pub(super) fn sums_of_draws(ranks: &[usize], taken: usize) -> Vec<f64> {
    let sum_max: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0_f64; sum_max + 1]; taken + 1];
    ways[0][0] = 1.0;
    let mut reached = 0;
    for (seen, rank) in ranks.iter().enumerate() {
        reached += rank;
        // From the largest count down, so that each rank is drawn at most once.
        for count in (1..=taken.min(seen + 1)).rev() {
            for sum in *rank..=reached {
                ways[count][sum] += ways[count - 1][sum - rank];
            }
        }
    }
    let weights = ways.swap_remove(taken);
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|ways| ways / total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tied_values_share_the_mean_of_their_ranks() {
        assert_eq!(doubled_midranks(&[10.0, 30.0, 20.0]), [2, 6, 4]);
        assert_eq!(doubled_midranks(&[5.0, 5.0, 1.0, 9.0, 5.0]), [6, 6, 2, 10, 6]);
        assert_eq!(doubled_midranks(&[]), Vec::<usize>::new());
    }

    #[test]
    fn the_sums_of_subsets_are_counted_exactly() {
        // Of the ranks 1, 2, 3 (doubled) the eight subsets have the sums 0, 1, 2, 3, 3, 4, 5, 6.
        let weights = sums_of_subsets(&[2, 4, 6]);
        let eighths: Vec<f64> = weights.iter().step_by(2).map(|weight| weight * 8.0).collect();
        assert_eq!(eighths, [1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn the_sums_of_draws_are_counted_exactly() {
        // Two of the ranks 1, 2, 3, 4 (doubled): sums 3, 4, 5, 5, 6, 7.
        let weights = sums_of_draws(&[2, 4, 6, 8], 2);
        let sixths: Vec<f64> = [6, 8, 10, 12, 14].iter().map(|sum| (weights[*sum] * 6.0).round()).collect();
        assert_eq!(sixths, [1.0, 1.0, 2.0, 1.0, 1.0]);
    }
}
