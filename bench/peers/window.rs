//! What one measurement of one implementation has found.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::protocol::Measured;

/// Longest time a histogram holds; longer ones are recorded as this.
const TIME_MAX_US: u64 = 3_600_000_000;

/// A quantile is given only when at least this many values are expected above it.
const VALUES_ABOVE_MIN: u64 = 10;

/// A window of a closed loop.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Cycles that finished in it.
    pub(crate) cycles: u64,
    /// How long it was.
    pub(crate) elapsed: Duration,
    /// How long the cycles took. None when the loop was not yet in its steady state: the first cycles are shorter than
    /// the later ones, as they have queued behind fewer.
    pub(crate) times: Option<Times>,
    /// What the server counted.
    pub(crate) exchange: Exchange,
}

/// What was exchanged with the server between two moments around a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Exchange {
    /// Cycles that finished between the two moments.
    pub(crate) cycles: f64,
    /// Packets that the server received.
    pub(crate) requests: Option<u64>,
    /// Watch events that it sent.
    pub(crate) notifications: Option<u64>,
    /// Bytes in both directions.
    pub(crate) bytes: Option<u64>,
}

impl Window {
    /// The window that a worker measured.
    pub(crate) fn new(measured: &Measured, is_steady: bool, exchange: Exchange) -> Self {
        Self {
            cycles: measured.cycles(),
            elapsed: Duration::from_micros(measured.elapsed_us),
            times: is_steady.then(|| Times::of(measured)),
            exchange,
        }
    }

    /// Cycles a second: hand-offs of a lock that is contended for.
    pub(crate) fn ops_per_s(&self) -> f64 {
        as_f64(self.cycles) / self.elapsed.as_secs_f64()
    }
}

impl Exchange {
    /// Packets a cycle.
    pub(crate) fn requests_per_handoff(&self) -> Option<f64> {
        self.per_cycle(self.requests)
    }

    /// Watch events a cycle.
    pub(crate) fn notifications_per_release(&self) -> Option<f64> {
        self.per_cycle(self.notifications)
    }

    /// Bytes a cycle.
    pub(crate) fn bytes_per_handoff(&self) -> Option<f64> {
        self.per_cycle(self.bytes)
    }

    fn per_cycle(&self, count: Option<u64>) -> Option<f64> {
        Some(as_f64(count?) / self.cycles).filter(|_| self.cycles > 0.0)
    }
}

/// Times with three significant digits.
#[derive(Clone, Debug)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    /// No times yet.
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, TIME_MAX_US, 3);
        Self(histogram.expect("BUG: the bounds of the histogram are constants and in order"))
    }

    fn of(measured: &Measured) -> Self {
        let mut times = Self::new();
        for (us, count) in &measured.times_us {
            times.0.saturating_record_n(*us, *count);
        }
        times
    }

    /// Adds all times of another histogram.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("BUG: histograms of equal bounds can always be added");
    }

    /// The quantile in microseconds, or nothing when the sample is too small for it.
    pub(crate) fn quantile_us(&self, percent: u8) -> Option<f64> {
        let above = self.0.len() * u64::from(100_u8.saturating_sub(percent)) / 100;
        (above >= VALUES_ABOVE_MIN).then(|| as_f64(self.0.value_at_quantile(f64::from(percent) / 100.0)))
    }
}

/// Converts a count for arithmetic; counts here stay far below 2^53, where an `f64` is still exact.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(times_us: &[(u64, u64)]) -> Measured {
        Measured { elapsed_us: 2_000_000, times_us: times_us.iter().copied().collect() }
    }

    #[test]
    fn cycles_a_second_follow_from_the_real_length_of_the_window() {
        let window = Window::new(&measured(&[(100, 30), (200, 10)]), true, Exchange::default());
        assert_eq!(window.cycles, 40);
        assert!((window.ops_per_s() - 20.0).abs() < 1e-9);
    }

    #[test]
    fn a_quantile_needs_ten_values_above_it() {
        let times = |count| Times::of(&measured(&[(150, count)]));
        assert_eq!(times(19).quantile_us(50), None);
        assert_eq!(times(20).quantile_us(50), Some(150.0));
        assert_eq!(times(999).quantile_us(99), None);
        assert_eq!(times(1000).quantile_us(99), Some(150.0));
    }

    #[test]
    fn merged_times_have_the_quantiles_of_the_whole() {
        let mut merged = Times::new();
        merged.merge(&Times::of(&measured(&[(100, 100)])));
        merged.merge(&Times::of(&measured(&[(900, 20)])));
        assert_eq!(merged.quantile_us(50), Some(100.0));
        assert_eq!(merged.quantile_us(90), Some(900.0));
    }

    #[test]
    fn the_first_cycles_of_a_long_queue_are_not_timed() {
        assert!(Window::new(&measured(&[(100, 30)]), false, Exchange::default()).times.is_none());
    }

    #[test]
    fn an_exchange_is_shared_out_among_its_cycles() {
        let exchange = Exchange { cycles: 50.0, requests: Some(150), notifications: Some(0), bytes: None };
        assert_eq!(exchange.requests_per_handoff(), Some(3.0));
        assert_eq!(exchange.notifications_per_release(), Some(0.0));
        assert_eq!(exchange.bytes_per_handoff(), None);
        assert_eq!(Exchange { cycles: 0.0, ..exchange }.requests_per_handoff(), None);
    }
}
