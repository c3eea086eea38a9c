//! The waits in an open load, over all repetitions.

use bench::Spread;

use crate::ratios::paired;
use crate::results::{Figure, Missing, Results, merged, p50_ms, p99_ms};
use crate::schedule::Load;

/// The implementation that the others are compared with.
const REFERENCE: &str = "curator";

/// The waits of one implementation at one rate. Absent figures could not be measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WaitRow {
    pub(crate) implementation: &'static str,
    pub(crate) rate_per_s: u32,
    /// Acquires that arrived, in all repetitions.
    pub(crate) arrived: u64,
    /// Acquires that were granted.
    pub(crate) granted: u64,
    /// Acquires that were dropped.
    pub(crate) dropped: u64,
    /// Of the waits of all repetitions together.
    pub(crate) p50_ms: Option<f64>,
    /// Of the waits of all repetitions together.
    pub(crate) p99_ms: Option<f64>,
    /// The p50 divided by Curator's, within each repetition.
    pub(crate) p50_ratio: Option<Spread>,
    /// The p99 divided by Curator's, within each repetition.
    pub(crate) p99_ratio: Option<Spread>,
    pub(crate) missing: Option<Missing>,
}

impl WaitRow {
    /// Acquires that were neither granted in time nor dropped.
    pub(crate) fn cut_off(&self) -> u64 {
        self.arrived.saturating_sub(self.granted).saturating_sub(self.dropped)
    }
}

/// Returns one row per rate and implementation.
pub(crate) fn waits(results: &Results) -> Vec<WaitRow> {
    let rates = results.loads().iter().filter_map(|load| match load {
        Load::Rate(rate) => Some(*rate),
        Load::Contenders(_) => None,
    });
    let measured = || results.implementations().iter().filter(|implementation| implementation.has_open_load());
    rates.flat_map(|rate| measured().map(move |implementation| row(results, implementation.name(), rate))).collect()
}

fn row(results: &Results, implementation: &'static str, rate_per_s: u32) -> WaitRow {
    let load = Load::Rate(rate_per_s);
    let windows = || results.windows(implementation, load);
    let times = merged(windows());
    let ratio = |figure: Figure| {
        let is_compared = implementation != REFERENCE;
        is_compared.then(|| paired(results, (implementation, load), (REFERENCE, load), figure)).flatten()
    };
    WaitRow {
        implementation,
        rate_per_s,
        arrived: windows().map(|window| window.arrived).sum(),
        granted: windows().map(|window| window.cycles).sum(),
        dropped: windows().map(|window| window.dropped).sum(),
        p50_ms: times.quantile_ms(500),
        p99_ms: times.quantile_ms(990),
        p50_ratio: ratio(p50_ms),
        p99_ratio: ratio(p99_ms),
        missing: results.missing(implementation, load).cloned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::implementation::Implementation;
    use crate::protocol::Arrived;
    use crate::schedule::{Repetition, Step};
    use crate::window::Window;

    /// Makes results of one repetition per wait. In each, 1000 of 1010 acquires waited that long, and `dropped` were dropped.
    pub(crate) fn waited(waits: &[(&str, &[u64])], dropped: u64) -> Results {
        let load = Load::Rate(500);
        let implementations: Vec<_> = Implementation::all();
        let measured = |name: &str| waits.iter().any(|(found, _)| *found == name);
        let implementations: Vec<_> = implementations.into_iter().filter(|each| measured(each.name())).collect();
        let mut results = Results::new(&implementations, &[Load::Contenders(1), load], 2);
        for (name, waits) in waits {
            let implementation = Implementation::by_name(name).unwrap();
            for (repetition, wait_us) in waits.iter().enumerate() {
                let step = Step { repetition: Repetition::Timed(repetition), implementation, load };
                let waits_us = [(*wait_us, 1000)].into();
                let served = Arrived { arrived: 1010, dropped, elapsed_us: 2_000_000, waits_us };
                results.measured(step, Window::of_arrivals(&served));
            }
        }
        results
    }

    #[test]
    fn a_row_has_all_waits_and_the_ratios_within_repetitions() {
        let rows = waits(&waited(&[("curator", &[2000, 1000]), ("mutex", &[1000, 1000])], 4));
        let [curator, mutex] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!((mutex.implementation, mutex.rate_per_s), ("mutex", 500));
        assert_eq!((mutex.arrived, mutex.granted, mutex.dropped, mutex.cut_off()), (2020, 2000, 8, 12));
        assert_eq!((mutex.p50_ms, mutex.p99_ms), (Some(1.0), Some(1.0)));
        let spread = mutex.p50_ratio.unwrap();
        assert!((spread.min - 0.5).abs() < 1e-3 && (spread.max - 1.0).abs() < 1e-3, "{spread:?}");
        assert_eq!(mutex.p99_ratio, mutex.p50_ratio);
        assert_eq!((curator.p50_ratio, curator.p99_ratio), (None, None), "that would be 1");
    }

    #[test]
    fn only_implementations_with_an_open_load_have_rows() {
        assert_eq!(waits(&waited(&[("raw", &[])], 0)), []);
        let rows = waits(&waited(&[("mutex", &[])], 0));
        assert_eq!((rows.len(), rows[0].arrived, rows[0].p50_ms, rows[0].p50_ratio), (1, 0, None, None));
    }
}
