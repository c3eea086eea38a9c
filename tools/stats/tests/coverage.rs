//! The share of 95 % intervals that cover the truth, counted over all samples that are equally likely. Nothing is
//! drawn, so nothing depends on luck. `cargo run -p stats --example coverage` measures more distributions.

// C12

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, wherever it does")]

use stats::{as_f64, median_interval, paired, unpaired};

/// Counts the share of samples whose interval covers zero. Each value lies above zero or below it with equal chance, so
/// zero is the true median.
fn covered(above: &[f64], below: &[f64], interval: impl Fn(&[f64]) -> Option<(f64, f64)>) -> f64 {
    let samples = 1_u64 << above.len();
    let covers = |signs: &u64| {
        let value = |i: usize| if signs >> i & 1 == 1 { above[i] } else { -below[i] };
        let sample: Vec<f64> = (0..above.len()).map(value).collect();
        interval(&sample).is_some_and(|(low, high)| low <= 0.0 && 0.0 <= high)
    };
    as_f64((0..samples).filter(covers).count()) / as_f64(samples)
}

/// Returns distances from zero like those of the logarithms of times: many small ones, few large ones.
fn distances(count: u32) -> Vec<f64> {
    (1..=count).map(|i| (0.7 * f64::from(i)).exp_m1()).collect()
}

/// Returns the percentile bootstrap of the Hodges-Lehmann estimate. Earlier versions drew this interval.
fn bootstrap(values: &[f64]) -> Option<(f64, f64)> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % values.len()
    };
    let mut resample = || paired::hodges_lehmann(&(0..values.len()).map(|_| values[next()]).collect::<Vec<_>>());
    let mut estimates: Vec<f64> = (0..1000).filter_map(|_| resample()).collect();
    estimates.sort_by(f64::total_cmp);
    Some((estimates[25], estimates[974]))
}

#[test]
fn the_interval_of_a_ratio_covers_it_in_95_of_100_samples() {
    for blocks in [6, 8, 10] {
        let distances = distances(blocks);
        let share = covered(&distances, &distances, paired::interval);
        assert!((0.95..0.975).contains(&share), "{blocks}: {share}");
    }
}

#[test]
fn a_bootstrap_interval_covers_too_little() {
    let distances = distances(6);
    let share = covered(&distances, &distances, bootstrap);
    assert!(share < 0.92, "{share}");
}

#[test]
fn the_interval_of_a_median_covers_it_however_skewed() {
    for blocks in [6, 7, 8, 10, 12] {
        let below: Vec<f64> = distances(blocks).iter().map(|distance| distance / 100.0).collect();
        let share = covered(&distances(blocks), &below, median_interval);
        assert!((0.95..0.993).contains(&share), "{blocks}: {share}");
    }
    // The interval of Walsh averages is narrower, but needs a symmetric distribution, which figures of trials do not have.
    let below: Vec<f64> = distances(12).iter().map(|distance| distance / 100.0).collect();
    assert!(covered(&distances(12), &below, paired::interval) < 0.95);
}

#[test]
fn the_interval_of_a_shift_covers_it_in_95_of_100_samples() {
    let values = distances(9);
    for taken in [4_u32, 5] {
        let mut covers = 0_u32;
        let mut all = 0_u32;
        for chosen in (0_u32..1 << 9).filter(|chosen| chosen.count_ones() == taken) {
            let side = |is_first: bool| -> Vec<f64> {
                (0..9).filter(|i| (chosen >> i & 1 == 1) == is_first).map(|i| values[i]).collect()
            };
            let (low, high) = unpaired::interval(&side(true), &side(false)).unwrap();
            covers += u32::from(low <= 0.0 && 0.0 <= high);
            all += 1;
        }
        let share = f64::from(covers) / f64::from(all);
        assert!((0.95..0.985).contains(&share), "{taken}: {share}");
    }
}
