//! How far predictions are from measurements.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::as_f64;

use crate::Point;

/// A predicted figure of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Watch notifications that the server sends.
    Notifications,
    /// Requests that the sessions send.
    Requests,
    /// Bytes in both directions.
    Bytes,
    /// Median time of a hand-over in milliseconds.
    HandoverMs,
    /// Time of the whole drain in milliseconds.
    DrainMs,
}

/// How far the predictions of one figure are from the measurements, at the numbers of waiters that were left out of the
/// fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// Which figure.
    pub figure: Figure,
    /// Predicted ÷ measured, as the geometric mean over the points left out: 1 where the prediction is right.
    pub ratio: f64,
    /// The largest deviation of these predictions, as a factor in either direction: at least 1.
    pub factor_worst: f64,
}

/// How far predictions of several figures are from the measurements, at the numbers of waiters that were left out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Accuracy {
    /// How many predictions were compared with a measurement.
    pub comparisons: u64,
    /// The mean deviation, as a factor in either direction (geometric mean): at least 1.
    pub factor: f64,
    /// The largest deviation, as a factor in either direction: at least 1.
    pub factor_worst: f64,
}

impl Figure {
    /// All figures, in the order of the tables.
    pub const ALL: [Figure; 5] =
        [Figure::Notifications, Figure::Requests, Figure::Bytes, Figure::HandoverMs, Figure::DrainMs];

    /// Returns the name of the figure in a sentence.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Figure::Notifications => "notifications",
            Figure::Requests => "requests",
            Figure::Bytes => "bytes",
            Figure::HandoverMs => "hand-over",
            Figure::DrainMs => "drain",
        }
    }

    /// Tells whether the figure is a time, which the latency model predicts. All others are counts.
    #[must_use]
    pub fn is_time(self) -> bool {
        matches!(self, Figure::HandoverMs | Figure::DrainMs)
    }

    /// Returns the figure of a point, unless the point has none.
    fn of(self, point: &Point) -> Option<f64> {
        match self {
            Figure::Notifications => Some(as_f64(point.notifications)),
            Figure::Requests => Some(as_f64(point.requests)),
            Figure::Bytes => Some(as_f64(point.bytes)),
            Figure::HandoverMs => point.handover_ms,
            Figure::DrainMs => Some(point.drain_ms),
        }
    }

    /// Returns the logarithm of predicted ÷ measured. `None` if the two cannot be compared: a figure is missing, or only
    /// one of them is zero.
    pub(crate) fn log_ratio(self, predicted: &Point, measured: &Point) -> Option<f64> {
        let predicted = self.of(predicted)?;
        let measured = self.of(measured)?;
        match (predicted > 0.0, measured > 0.0) {
            (true, true) => Some((predicted / measured).ln()),
            (false, false) => Some(0.0),
            _ => None,
        }
    }
}

impl Deviation {
    /// Returns the deviation by the logarithms of ratios. `None` without ratios.
    pub(crate) fn of(figure: Figure, log_ratios: &[f64]) -> Option<Deviation> {
        Some(Deviation { figure, ratio: mean(log_ratios.iter().copied())?.exp(), factor_worst: worst(log_ratios) })
    }
}

impl Accuracy {
    /// Returns the accuracy by the logarithms of ratios. `None` without ratios.
    pub(crate) fn of(log_ratios: &[f64]) -> Option<Accuracy> {
        let factor = mean(log_ratios.iter().map(|log| log.abs()))?.exp();
        Some(Accuracy { comparisons: log_ratios.len() as u64, factor, factor_worst: worst(log_ratios) })
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let count = as_f64(values.len());
    (count > 0.0).then(|| values.sum::<f64>() / count)
}

fn worst(log_ratios: &[f64]) -> f64 {
    log_ratios.iter().fold(0.0, |worst: f64, log| worst.max(log.abs())).exp()
}

#[cfg(test)]
mod tests {
    use crate::*;

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value} is not {expected}");
    }

    #[test]
    fn twice_and_half_cancel_in_the_ratio_but_not_in_the_factor() {
        let logs = [2.0_f64.ln(), 0.5_f64.ln()];
        let deviation = Deviation::of(Figure::DrainMs, &logs).unwrap();
        assert_near(deviation.ratio, 1.0);
        assert_near(deviation.factor_worst, 2.0);
        let accuracy = Accuracy::of(&logs).unwrap();
        assert_near(accuracy.factor, 2.0);
        assert_eq!(accuracy.comparisons, 2);
    }

    #[test]
    fn a_deviation_needs_ratios() {
        assert_eq!(Deviation::of(Figure::Bytes, &[]), None);
        assert_eq!(Accuracy::of(&[]), None);
    }

    #[test]
    fn two_zeros_agree_and_one_zero_cannot_be_compared() {
        let point = |notifications| Point { notifications, ..Point::default() };
        let compare = |predicted, measured| Figure::Notifications.log_ratio(&point(predicted), &point(measured));
        assert_eq!(compare(0, 0), Some(0.0));
        assert_eq!(compare(0, 3), None);
        assert_eq!(compare(3, 0), None);
        assert_near(compare(6, 3).unwrap(), 2.0_f64.ln());
    }
}
