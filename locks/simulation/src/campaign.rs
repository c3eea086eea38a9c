//! Many walks through the models of a machine, on all processors.

use std::fmt::Debug;
use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use clap::ValueEnum;

use super::clocks::Clocks;
use super::cohort::CohortModel;
use super::draws::Drawn;
use super::model::Model;
use super::naive::NaiveModel;
use super::permits::PermitsModel;
use super::queue::QueueModel;
use super::walk::{Told, Walk, walk_by_seed};

/// A machine of the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Machine {
    /// The queue locks: several sessions, and servers that lag behind
    Queue,
    /// The lock with one node that wakes everybody
    Naive,
    /// The semaphore
    Permits,
    /// The contenders of a process that share one place in the queue
    Cohort,
    /// The proof of life: a session, a follower and a leader
    Clocks,
}

/// A walk that broke a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its seed.
    pub seed: u64,
    /// The rule that it broke.
    pub rule: &'static str,
    /// After how many steps.
    pub steps: u64,
}

/// What walks through the models of a machine have found.
#[derive(Clone, Debug)]
pub struct Tally {
    /// The number of walks.
    pub walks: u64,
    /// The number of their steps.
    pub steps: u64,
    /// The most calm steps per visit of a walk, and its seed.
    pub slowest: (u64, u64),
    /// What the walks are made to reach, and how many of them did.
    pub sights: Vec<(&'static str, u64)>,
    /// The walks that broke a rule, in the order of their seeds.
    pub broken: Vec<Broken>,
    /// The most calm steps per visit that are allowed.
    pub patience: u64,
}

impl Machine {
    /// Returns the name that the command line has for it.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Walks with each seed, until all are done, one has broken a rule, or `is_over` tells so.
    pub fn run(self, seeds: Range<u64>, is_over: impl Fn() -> bool + Sync) -> Tally {
        match self {
            Self::Queue => run::<QueueModel>(seeds, is_over),
            Self::Naive => run::<NaiveModel>(seeds, is_over),
            Self::Permits => run::<PermitsModel>(seeds, is_over),
            Self::Cohort => run::<CohortModel>(seeds, is_over),
            Self::Clocks => run::<Clocks>(seeds, is_over),
        }
    }

    /// Walks once, and tells the model and each action with the state after it.
    pub fn trace(self, seed: u64, tell: impl FnMut(String)) -> Walk {
        match self {
            Self::Queue => trace::<QueueModel>(seed, tell),
            Self::Naive => trace::<NaiveModel>(seed, tell),
            Self::Permits => trace::<PermitsModel>(seed, tell),
            Self::Cohort => trace::<CohortModel>(seed, tell),
            Self::Clocks => trace::<Clocks>(seed, tell),
        }
    }
}

fn trace<M: Model + Drawn + Debug>(seed: u64, mut tell: impl FnMut(String)) -> Walk {
    let mut is_first = true;
    walk_by_seed(seed, |model: &M, told| {
        if std::mem::take(&mut is_first) {
            tell(format!("{model:?}"));
        }
        match told {
            Told::Action(action) => tell(format!("{action:?}")),
            Told::State(state) => tell(format!("    {state:?}")),
        }
    })
}

pub(super) fn run<M: Model + Drawn>(seeds: Range<u64>, is_over: impl Fn() -> bool + Sync) -> Tally {
    let next = AtomicU64::new(seeds.start);
    let none = Tally {
        walks: 0,
        steps: 0,
        slowest: (0, seeds.start),
        sights: M::SIGHTS.iter().map(|name| (*name, 0)).collect(),
        broken: Vec::new(),
        patience: M::PATIENCE,
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
                    let walk = walk_by_seed::<M>(seed, |_, _| {});
                    tally.add(seed, &walk);
                    if walk.broken.is_some() {
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

impl Tally {
    fn add(&mut self, seed: u64, walk: &Walk) {
        self.walks += 1;
        self.steps += walk.steps;
        self.slowest = self.slowest.max((walk.calm / (walk.visits + 1), seed));
        self.sights.iter_mut().enumerate().for_each(|(i, sight)| sight.1 += u64::from(walk.sights.has(i)));
        self.broken.extend(walk.broken.map(|rule| Broken { seed, rule, steps: walk.steps }));
    }

    fn join(&mut self, other: Self) {
        self.walks += other.walks;
        self.steps += other.steps;
        self.slowest = self.slowest.max(other.slowest);
        self.sights.iter_mut().zip(other.sights).for_each(|(sight, other)| sight.1 += other.1);
        self.broken.extend(other.broken);
    }

    /// Returns what no walk has reached.
    pub fn unseen(&self) -> impl Iterator<Item = &'static str> {
        self.sights.iter().filter(|(_, seen)| *seen == 0).map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rarest sights take hundreds of thousands of walks, which `make weather` has time for.
    #[test]
    fn every_machine_keeps_its_rules_in_all_weather() {
        for machine in Machine::value_variants() {
            let tally = machine.run(0..6_000, || false);
            assert_eq!((tally.broken.first(), tally.walks), (None, 6_000), "{machine:?}");
            let unseen: Vec<&str> = tally.unseen().collect();
            assert!(unseen.len() * 10 <= tally.sights.len(), "{machine:?} has not reached {unseen:#?}");
        }
    }

    #[test]
    fn a_seed_replays_its_walk() {
        for machine in Machine::value_variants() {
            let told = |seed| {
                let mut told = String::new();
                let walk = machine.trace(seed, |line| told += &line);
                (walk, told)
            };
            assert_eq!(told(7), told(7), "{machine:?}");
            assert_ne!(told(7).1, told(8).1, "{machine:?}");
        }
    }
}
