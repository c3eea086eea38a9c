//! The statistics give the answers that SciPy, NumPy and statsmodels give; `vectors/statistics.py` asked them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, wherever it does")]

use serde::Deserialize;
use stats::{holm, median_estimate, paired, rate, unpaired};

#[derive(Deserialize)]
struct Vectors {
    clopper_pearson: Vec<Rate>,
    paired: Vec<Paired>,
    rank_sum: Vec<RankSum>,
    holm: Vec<Holm>,
    bootstrap_of_median: Vec<Bootstrap>,
}

#[derive(Deserialize)]
struct Rate {
    bad: u32,
    trials: u32,
    upper_95: f64,
}

#[derive(Deserialize)]
struct Paired {
    differences: Vec<f64>,
    p: f64,
    hodges_lehmann: f64,
}

#[derive(Deserialize)]
struct RankSum {
    first: Vec<f64>,
    second: Vec<f64>,
    p: f64,
    shift: f64,
}

#[derive(Deserialize)]
struct Holm {
    p: Vec<f64>,
    corrected: Vec<f64>,
}

#[derive(Deserialize)]
struct Bootstrap {
    values: Vec<f64>,
    low: f64,
    high: f64,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("vectors/statistics.json")).unwrap()
}

fn assert_close(ours: f64, theirs: f64, tolerance: f64, of: &dyn std::fmt::Debug) {
    assert!((ours - theirs).abs() <= tolerance, "{ours} is not {theirs}: {of:?}");
}

#[test]
fn the_bounds_of_a_rate_are_those_of_scipy() {
    let rates = vectors().clopper_pearson;
    assert!(!rates.is_empty());
    for Rate { bad, trials, upper_95 } in rates {
        assert_close(rate::upper_95(bad, trials), upper_95, 1e-9, &(bad, trials));
    }
}

#[test]
fn the_signed_rank_test_is_that_of_scipy_with_every_sign_flipped() {
    let samples = vectors().paired;
    assert!(!samples.is_empty());
    for Paired { differences, p, hodges_lehmann } in samples {
        assert_close(paired::wilcoxon(&differences), p, 1e-9, &differences);
        assert_close(paired::hodges_lehmann(&differences).unwrap(), hodges_lehmann, 1e-9, &differences);
    }
}

#[test]
fn the_rank_sum_test_is_that_of_scipy_with_every_division_tried() {
    let samples = vectors().rank_sum;
    assert!(!samples.is_empty());
    for RankSum { first, second, p, shift } in samples {
        assert_close(unpaired::rank_sum(&first, &second, 1), p, 1e-9, &(&first, &second));
        assert_close(unpaired::shift(&first, &second).unwrap(), shift, 1e-9, &(&first, &second));
    }
}

#[test]
fn holm_s_correction_is_that_of_statsmodels() {
    let families = vectors().holm;
    assert!(!families.is_empty());
    for Holm { p, corrected } in families {
        for (ours, theirs) in holm(&p).into_iter().zip(corrected) {
            assert_close(ours, theirs, 1e-12, &p);
        }
    }
}

#[test]
fn the_bootstrap_interval_is_that_of_scipy_but_for_chance() {
    let samples = vectors().bootstrap_of_median;
    assert!(!samples.is_empty());
    for Bootstrap { values, low, high } in samples {
        let ours = median_estimate(&values, 1).unwrap();
        // Ten thousand resamples of a median that jumps from value to value.
        let tolerance = 0.05 * (high - low);
        assert_close(ours.low.unwrap(), low, tolerance, &values);
        assert_close(ours.high.unwrap(), high, tolerance, &values);
    }
}
