//! The measurements of a run, and the figures that follow from them.

use std::collections::BTreeMap;

use stats::median;
use stats::times::Times;

use crate::implementation::{Implementation, sessions_of};
use crate::schedule::{Load, Repetition, Step};
use crate::window::{Exchange, Window};

/// The measurements of a run.
#[derive(Debug)]
pub(crate) struct Results {
    implementations: Vec<Implementation>,
    loads: Vec<Load>,
    reps: usize,
    series: BTreeMap<(&'static str, Load), Series>,
}

/// The measurements of one implementation under one load.
#[derive(Debug, Default)]
struct Series {
    /// By repetition; absent ones were not measured.
    windows: BTreeMap<usize, Window>,
    proxied: Option<Exchange>,
    missing: Option<Missing>,
}

/// Why there are no figures, or not all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) reason: String,
    /// Whether the implementation failed, instead of being too slow.
    pub(crate) is_failure: bool,
}

/// The figures of one implementation and number of contenders. Absent ones could not be measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClosedLoopRow {
    pub(crate) implementation: &'static str,
    pub(crate) sessions: u32,
    pub(crate) contenders: u32,
    /// Median over the repetitions.
    pub(crate) cycles_per_s: Option<f64>,
    /// Of the cycles of all repetitions together.
    pub(crate) p50_ms: Option<f64>,
    /// Of the cycles of all repetitions together.
    pub(crate) p99_ms: Option<f64>,
    /// Median over the repetitions.
    pub(crate) requests_per_release: Option<f64>,
    /// Of the one repetition through the proxy.
    pub(crate) bytes_per_release: Option<f64>,
    /// Median over the repetitions.
    pub(crate) notifications_per_release: Option<f64>,
    pub(crate) missing: Option<Missing>,
}

/// A figure of a window.
pub(crate) type Figure = fn(&Window) -> Option<f64>;

impl Results {
    /// Makes results without measurements.
    pub(crate) fn new(implementations: &[Implementation], loads: &[Load], reps: usize) -> Self {
        Self { implementations: implementations.to_vec(), loads: loads.to_vec(), reps, series: BTreeMap::new() }
    }

    /// Stores the window that a step has measured.
    pub(crate) fn measured(&mut self, step: Step, window: Window) {
        let series = self.series.entry((step.implementation.name(), step.load)).or_default();
        match step.repetition {
            Repetition::WarmUp => {}
            Repetition::Timed(repetition) => {
                series.windows.insert(repetition, window);
            }
            Repetition::Bytes => series.proxied = Some(window.exchange),
        }
    }

    /// Stores why a step has measured nothing.
    pub(crate) fn not_measured(&mut self, step: Step, missing: Missing) {
        self.series.entry((step.implementation.name(), step.load)).or_default().missing = Some(missing);
    }

    /// Returns whether to skip a step, because the same one could not be measured before.
    pub(crate) fn is_given_up(&self, step: Step) -> bool {
        let series = self.series.get(&(step.implementation.name(), step.load));
        series.is_some_and(|series| series.missing.is_some())
    }

    /// Returns the implementations that are measured.
    pub(crate) fn implementations(&self) -> &[Implementation] {
        &self.implementations
    }

    /// Returns the loads that they are measured under.
    pub(crate) fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// Returns one row per implementation and number of contenders.
    pub(crate) fn rows(&self) -> Vec<ClosedLoopRow> {
        let rows = self.implementations.iter().flat_map(|implementation| {
            self.loads.iter().filter_map(|load| match load {
                Load::Contenders(contenders) => Some(self.row(implementation.name(), *contenders)),
                Load::Rate(_) => None,
            })
        });
        rows.collect()
    }

    fn row(&self, implementation: &'static str, contenders: u32) -> ClosedLoopRow {
        let nothing = Series::default();
        let load = Load::Contenders(contenders);
        let series = self.series(implementation, load).unwrap_or(&nothing);
        let times = merged(series.windows.values());
        let cycles_per_s = median(&series.windows.values().map(Window::cycles_per_s).collect::<Vec<_>>());
        let is_idle = cycles_per_s == Some(0.0);
        let idle = || Missing { reason: "no cycle finished in most windows".to_owned(), is_failure: false };
        let median_of = |figure: Figure| median(&series.windows.values().filter_map(figure).collect::<Vec<_>>());
        ClosedLoopRow {
            implementation,
            sessions: sessions_of(contenders),
            contenders,
            cycles_per_s: cycles_per_s.filter(|_| !is_idle),
            p50_ms: times.quantile_ms(500),
            p99_ms: times.quantile_ms(990),
            requests_per_release: median_of(|window| window.exchange.requests_per_release()),
            bytes_per_release: self.bytes_per_release(implementation, load),
            notifications_per_release: median_of(notifications_per_release),
            missing: series.missing.clone().or_else(|| is_idle.then(idle)),
        }
    }

    /// Returns a figure of every timed repetition.
    pub(crate) fn by_repetition(&self, implementation: &str, load: Load, figure: Figure) -> Vec<Option<f64>> {
        let series = self.series(implementation, load);
        let window = |repetition| series?.windows.get(&repetition);
        (0..self.reps).map(|repetition| window(repetition).and_then(figure)).collect()
    }

    /// Returns the bytes per hand-over, which were counted in one repetition.
    pub(crate) fn bytes_per_release(&self, implementation: &str, load: Load) -> Option<f64> {
        self.series(implementation, load)?.proxied?.bytes_per_release()
    }

    /// Returns the windows of the timed repetitions.
    pub(crate) fn windows(&self, implementation: &str, load: Load) -> impl Iterator<Item = &Window> {
        self.series(implementation, load).into_iter().flat_map(|series| series.windows.values())
    }

    /// Returns why there are no figures, or not all.
    pub(crate) fn missing(&self, implementation: &str, load: Load) -> Option<&Missing> {
        self.series(implementation, load)?.missing.as_ref()
    }

    fn series(&self, implementation: &str, load: Load) -> Option<&Series> {
        self.series.iter().find(|(key, _)| **key == (implementation, load)).map(|(_, series)| series)
    }

    /// Returns whether an implementation failed.
    pub(crate) fn has_failures(&self) -> bool {
        self.series.values().any(|series| series.missing.as_ref().is_some_and(|missing| missing.is_failure))
    }
}

/// Merges the times of several windows.
pub(crate) fn merged<'a>(windows: impl Iterator<Item = &'a Window>) -> Times {
    Times::merged(windows.filter_map(|window| window.times.as_ref()))
}

/// Returns the cycles per second.
pub(crate) fn cycles_per_s(window: &Window) -> Option<f64> {
    Some(window.cycles_per_s())
}

/// Returns the median time of a cycle, or the median wait.
pub(crate) fn p50_ms(window: &Window) -> Option<f64> {
    window.times.as_ref()?.quantile_ms(500)
}

/// Returns the time that one in a hundred cycles, or waits, exceeds.
pub(crate) fn p99_ms(window: &Window) -> Option<f64> {
    window.times.as_ref()?.quantile_ms(990)
}

/// Returns the watch events per release.
pub(crate) fn notifications_per_release(window: &Window) -> Option<f64> {
    window.exchange.notifications_per_release()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::Measured;

    /// Makes a window of one second with `cycles` cycles of the same time.
    pub(crate) fn window(cycles: u64, time_us: u64, exchange: Exchange) -> Window {
        let measured = Measured { elapsed_us: 1_000_000, times_us: [(time_us, cycles)].into() };
        Window::new(&measured, true, exchange)
    }

    pub(crate) fn step(repetition: Repetition, name: &str, contenders: u32) -> Step {
        let load = Load::Contenders(contenders);
        Step { repetition, implementation: Implementation::by_name(name).unwrap(), load }
    }

    /// An implementation, its number of contenders, and in each repetition the operations per second and the time of each.
    type Point<'a> = (&'static str, u32, &'a [(u64, u64)]);

    /// Makes the results of a run that measured these points.
    pub(crate) fn results(points: &[Point<'_>]) -> Results {
        let reps = points.iter().map(|(_, _, windows)| windows.len()).max().unwrap_or(0);
        let mut contenders: Vec<u32> = points.iter().map(|(_, contenders, _)| *contenders).collect();
        contenders.sort_unstable();
        contenders.dedup();
        let measured = |all: &Implementation| points.iter().any(|(name, _, _)| *name == all.name());
        let implementations: Vec<_> = Implementation::all().into_iter().filter(measured).collect();
        let loads: Vec<_> = contenders.into_iter().map(Load::Contenders).collect();
        let mut results = Results::new(&implementations, &loads, reps);
        for (name, contenders, windows) in points {
            for (repetition, (cycles, time_us)) in windows.iter().enumerate() {
                let timed = step(Repetition::Timed(repetition), name, *contenders);
                results.measured(timed, window(*cycles, *time_us, Exchange::default()));
            }
        }
        results
    }

    #[test]
    fn a_row_has_medians_of_repetitions_and_quantiles_of_cycles() {
        let mut results = results(&[("mutex", 30, &[(1000, 100), (3000, 300), (2000, 200)])]);
        let exchange = Exchange { cycles: 10.0, bytes: Some(8_000), ..Exchange::default() };
        results.measured(step(Repetition::Bytes, "mutex", 30), window(1, 1, exchange));
        let rows = results.rows();
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!((row.implementation, row.sessions, row.contenders), ("mutex", 3, 30));
        assert_eq!((row.cycles_per_s, row.p50_ms, row.p99_ms), (Some(2000.0), Some(0.2), Some(0.3)));
        assert_eq!((row.bytes_per_release, row.requests_per_release), (Some(800.0), None));
        assert_eq!(row.missing, None);
    }

    #[test]
    fn the_warm_up_leaves_no_figures() {
        let mut results = Results::new(&[Implementation::Curator], &[Load::Contenders(1)], 1);
        results.measured(step(Repetition::WarmUp, "curator", 1), window(100, 100, Exchange::default()));
        assert_eq!(results.rows()[0].cycles_per_s, None);
    }

    #[test]
    fn what_could_not_be_measured_says_why_and_is_given_up() {
        let mut results = Results::new(&[Implementation::Kazoo], &[1, 1500].map(Load::Contenders), 1);
        let warm_up = step(Repetition::WarmUp, "kazoo", 1500);
        assert!(!results.is_given_up(warm_up));
        let missing = Missing { reason: "too slow".to_owned(), is_failure: false };
        results.not_measured(warm_up, missing.clone());
        assert!(results.is_given_up(step(Repetition::Timed(0), "kazoo", 1500)));
        assert!(!results.is_given_up(step(Repetition::Timed(0), "kazoo", 1)));
        assert_eq!(results.rows()[1].missing, Some(missing));
        assert!(!results.has_failures());
        let failure = Missing { reason: "session lost".to_owned(), is_failure: true };
        results.not_measured(warm_up, failure);
        assert!(results.has_failures());
    }

    #[test]
    fn windows_in_which_nothing_finished_are_told_and_tried_again() {
        let results = results(&[("naive", 1500, &[(0, 1), (3, 1), (0, 1)])]);
        let row = &results.rows()[0];
        assert_eq!((row.cycles_per_s, row.p50_ms), (None, None));
        assert_eq!(row.missing.as_ref().unwrap().reason, "no cycle finished in most windows");
        assert!(!results.is_given_up(step(Repetition::Bytes, "naive", 1500)));
    }

    #[test]
    fn a_figure_of_each_repetition_keeps_its_position() {
        let mut results = results(&[("mutex", 1, &[(10, 1), (20, 1)])]);
        results.reps = 3;
        let alone = Load::Contenders(1);
        assert_eq!(results.by_repetition("mutex", alone, cycles_per_s), [Some(10.0), Some(20.0), None]);
        assert_eq!(results.by_repetition("handoff", alone, cycles_per_s), [None; 3]);
        assert_eq!(results.series[&("mutex", alone)].windows[&0].elapsed, Duration::from_secs(1));
    }
}
