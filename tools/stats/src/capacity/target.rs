//! What the trials of a load say for a goal: RFC 9971, Sections 4.7.2 and 6.

use std::collections::BTreeMap;
use std::time::Duration;

/// The conclusion about a load, once no further trial within the duration sum can change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// The load holds (Section 4.7.2.2).
    Lower,
    /// The load does not hold (Section 4.7.2.1).
    Upper,
}

/// One trial of a load, with the share of its requests that each goal counts as lost.
#[derive(Debug, Clone)]
pub(super) struct Tried {
    pub(super) length: Duration,
    pub(super) loss_ratios: Vec<f64>,
}

/// The trials so far, by their loads.
pub(super) type TriedLoads = BTreeMap<i32, Vec<Tried>>;

/// What a load is judged by: a goal, or a coarser form of it with which the search begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    /// The position of the goal among the goals of the search.
    pub(super) goal: usize,
    pub(super) loss_ratio: f64,
    pub(super) exceed_ratio: f64,
    pub(super) length: Duration,
    pub(super) duration_sum: Duration,
    /// The bounds are close enough at this distance, in loads of the grid.
    pub(super) width: i32,
}

impl Target {
    /// Returns the relevant lower and upper bound (Sections 4.8.1 and 4.8.2): the lowest load that does not hold, and the
    /// highest one below it that does. So a load above one that failed never counts.
    pub(super) fn bounds(&self, tried: &TriedLoads) -> (Option<i32>, Option<i32>) {
        let mut lower = None;
        for (load, trials) in tried {
            match self.classify(trials) {
                Some(Bound::Upper) => return (lower, Some(*load)),
                Some(Bound::Lower) => lower = Some(*load),
                None => {}
            }
        }
        (lower, None)
    }

    /// Classifies a load as in Section 6.1 and Appendix A. `None`: undecided.
    ///
    /// A shorter trial counts only against the load, and only as far as the good ones among the shorter do not balance it.
    /// A load whose full-length trials reach the duration sum is never undecided: nothing is missing then.
    pub(super) fn classify(&self, trials: &[Tried]) -> Option<Bound> {
        let mut sums = [Duration::ZERO; 4];
        for trial in trials {
            let is_short = usize::from(trial.length < self.length);
            let is_high = usize::from(self.loss_ratio_of(trial) > self.loss_ratio);
            sums[2 * is_short + is_high] += trial.length;
        }
        let [full_low, full_high, short_low, short_high] = sums.map(|sum| sum.as_secs_f64());
        let balancing = short_low * self.exceed_ratio / (1.0 - self.exceed_ratio);
        let high = full_high + (short_high - balancing).max(0.0);
        let full = full_low + high;
        let whole = full.max(self.duration_sum.as_secs_f64());
        let tolerated = whole * self.exceed_ratio;
        let [optimistic, pessimistic] = [high, high + (whole - full)].map(|high| high <= tolerated);
        match (optimistic, pessimistic) {
            (_, true) => Some(Bound::Lower),
            (false, _) => Some(Bound::Upper),
            (true, false) => None,
        }
    }

    /// Returns the loss ratio of the conditional throughput (Section 6.2 and Appendix B): the quantile at the exceed ratio
    /// of the full-length trials, with the missing ones as lost.
    pub(super) fn quantile_loss_ratio(&self, trials: &[Tried]) -> f64 {
        let mut full: Vec<&Tried> = trials.iter().filter(|trial| trial.length >= self.length).collect();
        full.sort_by(|a, b| self.loss_ratio_of(a).total_cmp(&self.loss_ratio_of(b)));
        let whole = full.iter().map(|trial| trial.length).sum::<Duration>().max(self.duration_sum);
        let mut remaining = whole.as_secs_f64() * (1.0 - self.exceed_ratio);
        for trial in full {
            remaining -= trial.length.as_secs_f64();
            if remaining <= 0.0 {
                return self.loss_ratio_of(trial);
            }
        }
        1.0
    }

    /// Returns how many full-length trials decide a load at most.
    pub(super) fn trials_max(&self) -> u64 {
        u64::try_from(self.duration_sum.as_nanos().div_ceil(self.length.as_nanos().max(1))).unwrap_or(u64::MAX)
    }

    fn loss_ratio_of(&self, trial: &Tried) -> f64 {
        trial.loss_ratios[self.goal]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Duration {
        Duration::from_secs_f64(text.parse().unwrap())
    }

    fn target(text: &[&str]) -> Target {
        let [loss_ratio, exceed_ratio, length, duration_sum] = *text else { panic!("{text:?}") };
        Target {
            goal: 0,
            loss_ratio: loss_ratio.parse().unwrap(),
            exceed_ratio: exceed_ratio.parse().unwrap(),
            length: seconds(length),
            duration_sum: seconds(duration_sum),
            width: 1,
        }
    }

    /// Reads trials as `load:seconds:lost/offered*repetitions`.
    fn tried(text: &str) -> TriedLoads {
        let mut tried = TriedLoads::new();
        for trial in text.split(' ') {
            let [load, length, lost, offered, times] = trial.split([':', '/', '*']).collect::<Vec<_>>()[..] else {
                panic!("{trial}")
            };
            let loss_ratio = lost.parse::<f64>().unwrap() / offered.parse::<f64>().unwrap();
            let trial = Tried { length: seconds(length), loss_ratios: vec![loss_ratio] };
            let trials = tried.entry(load.parse().unwrap()).or_default();
            trials.extend(std::iter::repeat_n(trial, times.parse().unwrap()));
        }
        tried
    }

    fn letter(bound: Option<Bound>) -> char {
        match bound {
            Some(Bound::Lower) => 'L',
            Some(Bound::Upper) => 'U',
            None => '?',
        }
    }

    /// The rows are answers of the Python package MLRsearch 1.2.1, written by `tests/mlrsearch/cases.py`.
    #[test]
    fn loads_are_classified_as_by_the_package_of_the_rfc() {
        let rows: Vec<&str> = include_str!("../../tests/mlrsearch/cases.csv").lines().skip(1).collect();
        assert_eq!(rows.len(), 324);
        for row in rows {
            let cells: Vec<&str> = row.split(',').collect();
            let target = target(&cells[..4]);
            let tried = tried(cells[4]);
            let classes: String = tried.values().map(|trials| letter(target.classify(trials))).collect();
            assert_eq!(classes, cells[5], "{row}");
            let (lower, upper) = target.bounds(&tried);
            let [expected_lower, expected_upper] = [6, 7].map(|cell| cells[cell].parse().ok());
            assert_eq!((lower, upper), (expected_lower, expected_upper), "{row}");
            let loss = lower.map(|load| target.quantile_loss_ratio(&tried[&load]));
            assert_eq!(loss, cells[8].parse().ok(), "{row}");
        }
    }

    #[test]
    fn short_trials_alone_never_show_that_a_load_holds() {
        let target = target(&["0.01", "0.5", "4", "4"]);
        assert_eq!(target.classify(&tried("1:1:0/100*99")[&1]), None);
        assert_eq!(target.classify(&tried("1:1:2/100*3")[&1]), Some(Bound::Upper));
        assert_eq!(target.classify(&tried("1:1:2/100*3 1:1:0/100*3")[&1]), None);
    }
}
