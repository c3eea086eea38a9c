//! Upper bound of the failure rate of a strategy, after a number of trials.

use super::as_f64;

/// The probability that a rate is above its bound.
const CHANCE: f64 = 0.05;

/// Returns the upper end of the exact (Clopper-Pearson) one-sided 95 % interval of a rate, after `bad` of `trials`.
///
/// At this rate, `bad` or fewer have a probability of 5 %. With none bad it is 1 − 0.05^(1/trials). Without a trial
/// nothing is known, and the bound is 1.
pub fn upper_95(bad: u32, trials: u32) -> f64 {
    upper(bad, trials, CHANCE)
}

/// Returns a bound that the rates of all strategies keep with 95 % confidence together, after the bad trials and all trials
/// of each. `None` without a strategy.
///
/// Each rate has an equal part of the remaining chance (Bonferroni). So the bound holds even if the strategies fail in the
/// same blocks.
pub fn joint_upper_95(strategies: &[(u32, u32)]) -> Option<f64> {
    let chance = CHANCE / as_f64(strategies.len());
    strategies.iter().map(|(bad, trials)| upper(*bad, *trials, chance)).reduce(f64::max)
}

/// Tells whether a bound is informative: a strategy that fails in every second trial is found without statistics.
pub fn is_telling(bound: f64) -> bool {
    bound < 0.5
}

fn upper(bad: u32, trials: u32, chance: f64) -> f64 {
    if bad >= trials {
        return 1.0;
    }
    let mut low = 0.0_f64;
    let mut high = 1.0_f64;
    // Sixty halvings take the interval below the resolution of an f64 in [0, 1].
    for _ in 0..60 {
        let rate = f64::midpoint(low, high);
        if binomial_cdf(bad, trials, rate) > chance {
            low = rate;
        } else {
            high = rate;
        }
    }
    high
}

/// Returns P(X ≤ k) of a binomial with `n` trials, for 0 < rate < 1. The terms are computed from logarithms, so that
/// none overflows.
fn binomial_cdf(k: u32, n: u32, rate: f64) -> f64 {
    let ln_miss = (-rate).ln_1p();
    let mut ln_choose = 0.0;
    let mut sum = 0.0;
    for i in 0..=k {
        sum += (ln_choose + f64::from(i) * rate.ln() + f64::from(n - i) * ln_miss).exp();
        ln_choose += f64::from(n - i).ln() - f64::from(i + 1).ln();
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bound_without_a_bad_trial_has_a_closed_form() {
        for trials in [1, 3, 10, 30, 1000] {
            let expected = 1.0 - 0.05_f64.powf(1.0 / f64::from(trials));
            assert!((upper_95(0, trials) - expected).abs() < 1e-12, "{trials}");
        }
        assert!(upper_95(0, 10) < 0.26);
        assert!(upper_95(0, 30) < 0.096);
    }

    #[test]
    fn bounds_agree_with_published_tables() {
        // One-sided 95 % upper limits: 1/10, 2/20 and 5/10.
        assert!((upper_95(1, 10) - 0.3942).abs() < 1e-4);
        assert!((upper_95(2, 20) - 0.2826).abs() < 1e-4);
        assert!((upper_95(5, 10) - 0.7776).abs() < 1e-4);
        assert!((upper_95(3, 3) - 1.0).abs() < f64::EPSILON);
        assert!((upper_95(0, 0) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn seven_strategies_have_a_wider_bound_than_one() {
        assert!((joint_upper_95(&[(0, 11)]).unwrap() - upper_95(0, 11)).abs() < 1e-12);
        let seven = joint_upper_95(&[(0, 11); 7]).unwrap();
        assert!((seven - (1.0 - (0.05_f64 / 7.0).powf(1.0 / 11.0))).abs() < 1e-9 && seven > 0.36, "{seven}");
        assert_eq!(joint_upper_95(&[]), None);
        assert!(is_telling(seven) && !is_telling(upper_95(0, 1)));
    }

    proptest! {
        #[test]
        fn the_bound_is_above_the_observed_rate(trials in 1_u32..400, bad in 0_u32..400) {
            let bad = bad.min(trials);
            let rate = f64::from(bad) / f64::from(trials);
            prop_assert!((rate..=1.0).contains(&upper_95(bad, trials)));
        }
    }
}
