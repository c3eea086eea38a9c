//! The statistics give the answers that SciPy, NumPy and statsmodels give; `vectors/statistics.py` asked them.

// C11

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, wherever it does")]

use serde::Deserialize;
use stats::joint::{self, SidesFigure};
use stats::{holm, median_interval, paired, rate, unpaired};

#[derive(Deserialize)]
struct Vectors {
    clopper_pearson: Vec<Rate>,
    paired: Vec<Paired>,
    walsh: Vec<IntervalVector>,
    median: Vec<IntervalVector>,
    shift: Vec<Shift>,
    joint: Vec<Joint>,
    holm: Vec<Holm>,
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
struct IntervalVector {
    values: Vec<f64>,
    interval: Option<(f64, f64)>,
}

#[derive(Deserialize)]
struct Shift {
    first: Vec<f64>,
    second: Vec<f64>,
    shift: f64,
    interval: Option<(f64, f64)>,
}

#[derive(Deserialize)]
struct Joint {
    first: Vec<Vec<f64>>,
    second: Vec<Vec<f64>>,
    p: Vec<f64>,
}

#[derive(Deserialize)]
struct Holm {
    p: Vec<f64>,
    corrected: Vec<f64>,
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
fn the_signed_rank_test_agrees_with_scipy() {
    let samples = vectors().paired;
    assert!(!samples.is_empty());
    for Paired { differences, p, hodges_lehmann } in samples {
        assert_close(paired::wilcoxon(&differences), p, 1e-9, &differences);
        assert_close(paired::hodges_lehmann(&differences).unwrap(), hodges_lehmann, 1e-9, &differences);
    }
}

fn assert_interval(ours: Option<(f64, f64)>, theirs: Option<(f64, f64)>, of: &dyn std::fmt::Debug) {
    assert_eq!(ours.is_some(), theirs.is_some(), "{of:?}");
    if let (Some(ours), Some(theirs)) = (ours, theirs) {
        assert_close(ours.0, theirs.0, 1e-9, of);
        assert_close(ours.1, theirs.1, 1e-9, of);
    }
}

#[test]
fn a_centre_has_the_interval_of_scipy_s_signed_rank_test() {
    let samples = vectors().walsh;
    assert!(!samples.is_empty());
    for IntervalVector { values, interval } in samples {
        assert_interval(paired::interval(&values), interval, &values);
    }
}

#[test]
fn a_median_has_the_interval_of_scipy_s_quantile_test() {
    let samples = vectors().median;
    assert!(!samples.is_empty());
    for IntervalVector { values, interval } in samples {
        assert_interval(median_interval(&values), interval, &values);
    }
}

#[test]
fn a_shift_has_the_interval_of_scipy_s_rank_sum_test() {
    let samples = vectors().shift;
    assert!(!samples.is_empty());
    for Shift { first, second, shift, interval } in samples {
        assert_close(unpaired::shift(&first, &second).unwrap(), shift, 1e-9, &(&first, &second));
        assert_interval(unpaired::interval(&first, &second), interval, &(&first, &second));
    }
}

#[test]
fn many_figures_at_once_have_the_p_of_every_division() {
    let families = vectors().joint;
    assert!(!families.is_empty());
    let some = |values: &Vec<f64>| values.iter().copied().map(Some).collect();
    for Joint { first, second, p } in families {
        let figures: Vec<SidesFigure> = first
            .iter()
            .zip(&second)
            .map(|(first, second)| SidesFigure { first: some(first), second: some(second) })
            .collect();
        for (ours, theirs) in joint::test(&figures, 1).into_iter().zip(p) {
            assert_close(ours.p, theirs, 1e-9, &figures);
        }
    }
}

#[test]
fn holm_s_correction_agrees_with_statsmodels() {
    let families = vectors().holm;
    assert!(!families.is_empty());
    for Holm { p, corrected } in families {
        for (ours, theirs) in holm(&p).into_iter().zip(corrected) {
            assert_close(ours, theirs, 1e-12, &p);
        }
    }
}
