//! When the acquires of an open load arrive: independently of each other and of the answers, at a mean rate.

use std::time::Duration;

use stats::as_f64;

/// The moments of the arrivals, from the start of the load. Their gaps are exponential.
///
/// A seed draws the same moments here and in `CuratorRival.java`: the generator is Java's `SplittableRandom`. So within a
/// repetition every implementation meets the same bursts.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    state: u64,
    rate_per_s: f64,
    at_s: f64,
}

impl Arrivals {
    pub(crate) fn new(rate_per_s: u32, seed: u64) -> Self {
        Self { state: seed, rate_per_s: f64::from(rate_per_s), at_s: 0.0 }
    }

    /// Returns the next number of `SplittableRandom.nextLong`.
    fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns the next number of `SplittableRandom.nextDouble`: from 0 to below 1.
    fn next_f64(&mut self) -> f64 {
        // The 53 highest bits, in units of 2⁻⁵³.
        as_f64(self.next_u64() >> 11) * (f64::EPSILON / 2.0)
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.at_s -= (1.0 - self.next_f64()).ln() / self.rate_per_s;
        Some(Duration::from_secs_f64(self.at_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_java() {
        // The first two of `new SplittableRandom(0)`.
        let mut arrivals = Arrivals::new(1, 0);
        assert_eq!([arrivals.next_u64(), arrivals.next_u64()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn arrivals_have_the_rate_and_exponential_gaps() {
        let moments: Vec<f64> = Arrivals::new(200, 7).take(10_000).map(|at| at.as_secs_f64()).collect();
        assert!((moments[9_999] - 50.0).abs() < 1.5, "{}", moments[9_999]);
        let long = moments.windows(2).filter(|pair| pair[1] - pair[0] > 2.0 / 200.0).count();
        // A share of e⁻² of the gaps is longer than twice the mean.
        assert!((1250..1460).contains(&long), "{long}");
    }

    #[test]
    fn a_seed_draws_the_same_arrivals_again() {
        let moments = |seed| Arrivals::new(200, seed).take(100).collect::<Vec<_>>();
        assert_eq!(moments(1), moments(1));
        assert_ne!(moments(1), moments(2));
    }
}
