//! The bootstrap: how far a figure might have differed with other blocks.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::{BLOCKS_MIN, as_f64};

/// Number of resamples.
const RESAMPLES: usize = 10_000;
/// Number of resamples for a statistic that takes long.
const FEWER_RESAMPLES: usize = 2_000;

/// Returns the percentile interval (2.5 % to 97.5 %) of a statistic over `blocks` blocks. Each resample draws this
/// number of blocks with replacement. `None` with fewer than [`BLOCKS_MIN`] blocks, or if no resample has the figure.
pub fn interval(blocks: usize, seed: u64, statistic: impl FnMut(&[usize]) -> Option<f64>) -> Option<(f64, f64)> {
    interval_of(RESAMPLES, blocks, seed, statistic)
}

/// Returns the [`interval`] of a statistic that takes long, from fewer resamples.
pub fn rough_interval(blocks: usize, seed: u64, statistic: impl FnMut(&[usize]) -> Option<f64>) -> Option<(f64, f64)> {
    interval_of(FEWER_RESAMPLES, blocks, seed, statistic)
}

fn interval_of(
    resamples: usize,
    blocks: usize,
    seed: u64,
    mut statistic: impl FnMut(&[usize]) -> Option<f64>,
) -> Option<(f64, f64)> {
    if blocks < BLOCKS_MIN {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn = vec![0; blocks];
    percentiles(resamples, || {
        draw(&mut random, &mut drawn);
        statistic(&drawn)
    })
}

/// Returns the [`interval`] of a statistic over two independent sets of blocks.
pub fn interval_of_two(
    blocks: [usize; 2],
    seed: u64,
    mut statistic: impl FnMut(&[usize], &[usize]) -> Option<f64>,
) -> Option<(f64, f64)> {
    if blocks.into_iter().any(|blocks| blocks < BLOCKS_MIN) {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let [mut first, mut second] = blocks.map(|blocks| vec![0; blocks]);
    percentiles(RESAMPLES, || {
        draw(&mut random, &mut first);
        draw(&mut random, &mut second);
        statistic(&first, &second)
    })
}

fn draw(random: &mut ChaCha8Rng, drawn: &mut [usize]) {
    let blocks = drawn.len();
    drawn.fill_with(|| random.random_range(0..blocks));
}

fn percentiles(resamples: usize, mut resample: impl FnMut() -> Option<f64>) -> Option<(f64, f64)> {
    let mut figures: Vec<f64> = (0..resamples).filter_map(|_| resample()).collect();
    figures.sort_by(f64::total_cmp);
    Some((quantile(&figures, 0.025)?, quantile(&figures, 0.975)?))
}

/// Returns the quantile of a sorted sample by linear interpolation, as NumPy and R define it by default.
fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q * as_f64(last);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the place lies within the sample")]
    let below = (place.floor() as usize).min(last);
    let above = sorted[(below + 1).min(last)];
    Some(sorted[below] + (above - sorted[below]) * (place - as_f64(below)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_interval() {
        let figures = [3.0, 1.0, 4.0, 1.5, 9.0, 2.6, 5.3];
        let mean =
            |blocks: &[usize]| Some(blocks.iter().map(|block| figures[*block]).sum::<f64>() / as_f64(blocks.len()));
        assert_eq!(interval(7, 42, mean), interval(7, 42, mean));
        assert_ne!(interval(7, 42, mean), interval(7, 43, mean));
    }

    #[test]
    fn the_interval_of_a_mean_is_about_two_standard_errors_wide() {
        // A hundred values evenly over [0, 1): the standard error of their mean is 1/√12/√100.
        let figures: Vec<f64> = (0..100_usize).map(|i| as_f64(i) / 100.0).collect();
        let mean = |blocks: &[usize]| Some(blocks.iter().map(|block| figures[*block]).sum::<f64>() / 100.0);
        let (low, high) = interval(100, 1, mean).unwrap();
        let expected = 2.0 * 1.96 / 12.0_f64.sqrt() / 10.0;
        assert!(((high - low) / expected - 1.0).abs() < 0.05, "{low} {high}");
    }

    #[test]
    fn too_few_blocks_have_no_interval() {
        assert_eq!(interval(BLOCKS_MIN - 1, 1, |_| Some(1.0)), None);
        assert_eq!(interval(BLOCKS_MIN, 1, |_| None), None);
        assert_eq!(interval_of_two([BLOCKS_MIN, 2], 1, |_, _| Some(1.0)), None);
    }

    #[test]
    fn quantiles_are_interpolated() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&sorted, 0.0), Some(1.0));
        assert_eq!(quantile(&sorted, 0.5), Some(2.5));
        assert_eq!(quantile(&sorted, 1.0), Some(4.0));
    }
}
