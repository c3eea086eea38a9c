//! Runs on all processors, and what they have found together.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::Run;

/// A run that broke a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its seed.
    pub seed: u64,
    /// The rule that it broke.
    pub rule: &'static str,
    /// After how many steps.
    pub steps: u64,
}

/// What many runs have found.
#[derive(Clone, Debug)]
pub struct RunTally {
    /// The number of runs.
    pub runs: u64,
    /// The number of their steps.
    pub steps: u64,
    /// The most that a run was slow, and its seed.
    pub slowest: (u64, u64),
    /// What the runs are made to reach, and how many of them did.
    pub sights: Vec<(&'static str, u64)>,
    /// The runs that broke a rule, in the order of their seeds.
    pub broken: Vec<Broken>,
}

/// Makes the run of each seed, until all are done, one has broken a rule, or `is_over` tells so.
pub fn run_all(
    seeds: Range<u64>,
    sights: &[&'static str],
    run: impl Fn(u64) -> Run + Sync,
    is_over: impl Fn() -> bool + Sync,
) -> RunTally {
    let next = AtomicU64::new(seeds.start);
    let none = RunTally {
        runs: 0,
        steps: 0,
        slowest: (0, seeds.start),
        sights: sights.iter().map(|name| (*name, 0)).collect(),
        broken: Vec::new(),
    };
    let total = Mutex::new(none.clone());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                let mut tally = none.clone();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || is_over() {
                        break;
                    }
                    let run = run(seed);
                    tally.add(seed, &run);
                    if run.broken.is_some() {
                        next.store(seeds.end, Ordering::Relaxed);
                    }
                }
                if let Ok(mut total) = total.lock() {
                    total.join(tally);
                }
            });
        }
    });
    let mut total = total.into_inner().unwrap_or(none);
    total.broken.sort_by_key(|broken| broken.seed);
    total
}

impl RunTally {
    fn add(&mut self, seed: u64, run: &Run) {
        self.runs += 1;
        self.steps += run.steps;
        self.slowest = self.slowest.max((run.slowness, seed));
        self.sights.iter_mut().enumerate().for_each(|(i, sight)| sight.1 += u64::from(run.sights.has(i)));
        self.broken.extend(run.broken.map(|rule| Broken { seed, rule, steps: run.steps }));
    }

    fn join(&mut self, other: Self) {
        self.runs += other.runs;
        self.steps += other.steps;
        self.slowest = self.slowest.max(other.slowest);
        self.sights.iter_mut().zip(other.sights).for_each(|(sight, other)| sight.1 += other.1);
        self.broken.extend(other.broken);
    }

    /// Returns what no run has reached.
    pub fn unseen(&self) -> impl Iterator<Item = &'static str> {
        self.sights.iter().filter(|(_, seen)| *seen == 0).map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sights;

    /// Breaks a rule by every hundredth seed.
    fn run(seed: u64) -> Run {
        let broken = (seed % 100 == 99).then_some("no seed ends with 99");
        let mut sights = Sights::default();
        sights.note(seed.is_multiple_of(2), 1);
        Run { steps: seed, slowness: seed, sights, broken }
    }

    const SIGHTS: &[&str] = &["never", "every other run"];

    #[test]
    fn a_broken_rule_ends_the_campaign_and_is_told_with_its_seed() {
        let tally = run_all(0..100_000, SIGHTS, run, || false);
        let first = tally.broken[0];
        assert!(tally.runs < 100_000 && first.rule == "no seed ends with 99", "{tally:?}");
        assert_eq!((first.seed, first.steps), (99, 99));
        assert!(tally.broken.is_sorted_by_key(|broken| broken.seed));
    }

    #[test]
    fn a_campaign_that_is_over_makes_no_further_run() {
        assert_eq!(run_all(0..100_000, SIGHTS, run, || true).runs, 0);
    }

    #[test]
    fn the_runs_of_all_processors_are_counted() {
        let tally = run_all(0..99, SIGHTS, run, || false);
        assert_eq!((tally.runs, tally.steps, tally.slowest), (99, 98 * 99 / 2, (98, 98)));
        assert_eq!(tally.sights, [("never", 0), ("every other run", 50)]);
        assert_eq!(tally.unseen().collect::<Vec<_>>(), ["never"]);
    }
}
