//! The figures of one measurement of one implementation.

use std::collections::BTreeMap;
use std::time::Duration;

use stats::as_f64;
use stats::times::Times;

use crate::protocol::{Arrived, Measured};

/// A window of a closed loop, or the timed arrivals of an open load.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Cycles that finished in it, or arrivals that were granted.
    pub(crate) cycles: u64,
    /// The length of the window.
    pub(crate) elapsed: Duration,
    /// Times of the cycles, or waits of the arrivals. `None` if the loop was not yet in its steady state: the first
    /// cycles are shorter, because fewer contenders are ahead.
    pub(crate) times: Option<Times>,
    /// The counts of the server.
    pub(crate) exchange: Exchange,
    /// Acquires that arrived; none in a closed loop.
    pub(crate) arrived: u64,
    /// Arrivals that were dropped.
    pub(crate) dropped: u64,
}

/// The traffic with the server between two moments around a window.
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
    /// Makes the window that a worker measured.
    pub(crate) fn new(measured: &Measured, is_steady: bool, exchange: Exchange) -> Self {
        Self {
            cycles: measured.cycles(),
            elapsed: Duration::from_micros(measured.elapsed_us),
            times: is_steady.then(|| times_of(&measured.times_us)),
            exchange,
            arrived: 0,
            dropped: 0,
        }
    }

    /// Makes a window of the arrivals that a worker served.
    pub(crate) fn of_arrivals(served: &Arrived) -> Self {
        Self {
            cycles: served.waits_us.values().sum(),
            elapsed: Duration::from_micros(served.elapsed_us),
            times: Some(times_of(&served.waits_us)),
            exchange: Exchange::default(),
            arrived: served.arrived,
            dropped: served.dropped,
        }
    }

    /// Returns the cycles per second: hand-overs, if the lock is contended for.
    pub(crate) fn cycles_per_s(&self) -> f64 {
        as_f64(self.cycles) / self.elapsed.as_secs_f64()
    }
}

impl Exchange {
    /// Returns the packets per cycle.
    pub(crate) fn requests_per_release(&self) -> Option<f64> {
        self.per_cycle(self.requests)
    }

    /// Returns the watch events per cycle.
    pub(crate) fn notifications_per_release(&self) -> Option<f64> {
        self.per_cycle(self.notifications)
    }

    /// Returns the bytes per cycle.
    pub(crate) fn bytes_per_release(&self) -> Option<f64> {
        self.per_cycle(self.bytes)
    }

    fn per_cycle(&self, count: Option<u64>) -> Option<f64> {
        Some(as_f64(count?) / self.cycles).filter(|_| self.cycles > 0.0)
    }
}

fn times_of(times_us: &BTreeMap<u64, u64>) -> Times {
    let mut times = Times::new();
    for (us, count) in times_us {
        times.record_n(Duration::from_micros(*us), *count);
    }
    times
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
        assert!((window.cycles_per_s() - 20.0).abs() < 1e-9);
    }

    #[test]
    fn the_times_are_those_of_the_cycles() {
        let times = Window::new(&measured(&[(100, 100), (900, 20)]), true, Exchange::default()).times.unwrap();
        assert_eq!((times.count(), times.quantile_ms(500), times.quantile_ms(900)), (120, Some(0.1), Some(0.9)));
    }

    #[test]
    fn the_first_cycles_of_a_long_queue_are_not_timed() {
        assert!(Window::new(&measured(&[(100, 30)]), false, Exchange::default()).times.is_none());
    }

    #[test]
    fn the_times_of_an_open_load_are_the_waits_of_the_granted() {
        let waits_us = BTreeMap::from([(1_000, 100), (9_000, 20)]);
        let served = Arrived { arrived: 150, dropped: 10, elapsed_us: 2_000_000, waits_us };
        let window = Window::of_arrivals(&served);
        assert_eq!((window.arrived, window.dropped, window.cycles), (150, 10, 120));
        assert_eq!(window.times.unwrap().quantile_ms(500), Some(1.0));
    }

    #[test]
    fn an_exchange_is_shared_out_among_its_cycles() {
        let exchange = Exchange { cycles: 50.0, requests: Some(150), notifications: Some(0), bytes: None };
        assert_eq!(exchange.requests_per_release(), Some(3.0));
        assert_eq!(exchange.notifications_per_release(), Some(0.0));
        assert_eq!(exchange.bytes_per_release(), None);
        assert_eq!(Exchange { cycles: 0.0, ..exchange }.requests_per_release(), None);
    }
}
