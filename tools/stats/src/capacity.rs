//! The highest rate that a shop holds: the multiple-loss-ratio search of RFC 9971 (draft-ietf-bmwg-mlrsearch).
//!
//! A [`Goal`] says what a trial may lose, and how often a trial may lose more. For each goal, the search looks for the two
//! bounds of the rate: the highest load that holds it, below the lowest load that does not. They are at most the width of
//! the goal apart. Noise decides about the loads nearest to the capacity, so it often lies just beyond a bound. Therefore
//! the interval of a [`Capacity`] has one width more on either side.
//!
//! A [`Search`] has no clock and sends nothing. It names the next load, the caller offers it and tells what was lost, until
//! no load is left to try. All goals are searched at once, and every trial counts for each of them.
//!
//! The search starts at the lowest rate, with short trials, and at most doubles the rate from one trial to the next. So
//! it does not overload a shop by more than it must. It finds wide bounds first, and narrows them with longer trials. The
//! RFC leaves the choice of loads open; its package starts at the highest rate instead.

mod grid;
mod target;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::as_f64;
use grid::Grid;
use target::{Target, Tried, TriedLoads};

/// Targets of a goal: the goal itself, and two coarser ones before it.
const LEVELS: usize = 3;

/// Trials of a load in a row in which the generator is the limit, until the search stays below this load.
const CLIENT_LIMITED_MAX: u32 = 3;

/// The narrowest width of a goal.
const WIDTH_MIN: f64 = 0.001;

/// What a rate must hold: RFC 9971, Section 4.6. For `p99<250ms`, a request is lost if it is later than 250 ms or fails, and
/// the loss ratio is 1 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Largest share of lost requests in a good trial: at least 0, below 1 (Section 4.6.3).
    pub loss_ratio: f64,
    /// Largest share of the time of the trials that bad trials may have: at least 0, below 1. The RFC recommends one half
    /// (Section 4.6.4).
    pub exceed_ratio: f64,
    /// Length of the first trials, which only show where to look (Section 4.6.6).
    pub first_length: Duration,
    /// Length from which a trial can show that a load holds (Section 4.6.1). See [`shortest_length`].
    pub length: Duration,
    /// The sum of the lengths that is enough to classify a load (Section 4.6.2).
    pub duration_sum: Duration,
    /// Largest distance of the bounds, as a share of the upper one (Section 4.6.5).
    pub width: f64,
}

impl Goal {
    /// Returns what is wrong with the goal for a search from the lowest rate, and its remedy.
    fn defect(&self, lowest: f64) -> Option<String> {
        let Goal { loss_ratio, exceed_ratio, first_length, length, duration_sum, width } = self;
        let is_share = |ratio: &f64| (0.0..1.0).contains(ratio);
        let sends = first_length.as_secs_f64() * lowest >= 1.0;
        [
            (is_share(loss_ratio), format!("its loss ratio is {loss_ratio}: name one from 0 to below 1")),
            (is_share(exceed_ratio), format!("its exceed ratio is {exceed_ratio}: name one from 0 to below 1")),
            ((WIDTH_MIN..1.0).contains(width), format!("its width is {width}: name one from {WIDTH_MIN} to below 1")),
            (first_length <= length, format!("its first trials are longer than the last: name at most {length:?}")),
            (length <= duration_sum, format!("its duration sum is shorter than a trial: name at least {length:?}")),
            (sends, format!("at {lowest} per second, {first_length:?} have no request: raise one of the two")),
        ]
        .into_iter()
        .find_map(|(is_met, defect)| (!is_met).then_some(defect))
    }

    /// Returns the targets of the goal, the coarsest first. The duration sums are in equal ratios, each width is half of
    /// the one before it.
    fn targets(&self, goal: usize, grid: &Grid) -> [Target; LEVELS] {
        let ratio = (self.first_length.as_secs_f64() / self.duration_sum.as_secs_f64()).sqrt();
        let width = grid.width(self.width);
        let sums = [self.first_length, self.duration_sum.mul_f64(ratio), self.duration_sum];
        let widths = [4 * width, 2 * width, width];
        std::array::from_fn(|level| Target {
            goal,
            loss_ratio: self.loss_ratio,
            exceed_ratio: self.exceed_ratio,
            length: self.length.min(sums[level]),
            duration_sum: sums[level],
            width: widths[level],
        })
    }
}

/// Returns the shortest length of a trial that can tell a rate one width above the capacity by the lateness of its requests.
///
/// In a paced queue, such a rate delays each request by the width times the time since the start. So a trial of
/// `limit / width` has no late request yet. In trials that are n times as long as the shortest, the rate that holds is one
/// n-th of the width above the capacity.
pub fn shortest_length(limit: Duration, width: f64, loss_ratio: f64) -> Duration {
    Duration::try_from_secs_f64(limit.as_secs_f64() / (width * (1.0 - loss_ratio))).unwrap_or(Duration::MAX)
}

/// Returns the width of a goal whose interval reaches at most this share above and below its middle: 0.05 for ± 5 %.
pub fn width_for(margin: f64) -> f64 {
    // The interval is three widths wide.
    1.0 - ((1.0 - margin) / (1.0 + margin)).cbrt()
}

/// A load to offer: RFC 9971, Section 4.5.3.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NextLoad {
    /// Requests per second.
    pub rate: f64,
    /// How long they are offered.
    pub length: Duration,
}

/// The result of a goal: RFC 9971, Section 4.8.4. Rates are per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// How the search for this goal ended.
    pub end: CapacityEnd,
    /// The highest rate that holds the goal, below the upper bound: the relevant lower bound.
    pub lower: Option<f64>,
    /// The lowest rate that does not hold the goal: the relevant upper bound.
    pub upper: Option<f64>,
    /// The lower end of the interval: one width below the lower bound.
    pub low: Option<f64>,
    /// The upper end of the interval: one width above the upper bound.
    pub high: Option<f64>,
    /// The rate of the requests that were not lost at the lower bound: the conditional throughput.
    pub throughput: Option<f64>,
    /// Length in seconds of the trials that support the bounds. It is shorter than the length of the goal if the search was
    /// left early.
    pub trial_seconds: f64,
}

/// How the search for a goal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityEnd {
    /// The capacity lies between both bounds, which are close enough.
    Bounded,
    /// No rate holds: even the lowest one is an upper bound.
    NoRateHolds,
    /// The capacity is above the highest rate, which is a lower bound.
    AboveHighest,
    /// The generator does not make the rates that are left to try.
    ClientLimited,
    /// The search was left early. The bounds may be far apart.
    Unfinished,
}

/// Why no search can begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsearchable(String);

impl fmt::Display for Unsearchable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Unsearchable {}

/// A search for the capacity by each of several goals: the controller of RFC 9971, Section 4.9.2.
///
/// It depends only on the losses that it was told, in their order.
#[derive(Debug, Clone)]
pub struct Search {
    grid: Grid,
    pursuits: Vec<Pursuit>,
    tried: TriedLoads,
    /// How often in a row the generator was the limit at a load.
    client_limited: BTreeMap<i32, u32>,
}

/// How far the search for one goal is.
#[derive(Debug, Clone, Copy)]
struct Pursuit {
    targets: [Target; LEVELS],
    /// The target that is searched for. The next one follows when its bounds are close enough, and none comes back.
    level: usize,
    /// The bounds of the target before it, as they were then.
    hint: (i32, i32),
}

impl Search {
    /// Starts a search between two rates per second.
    ///
    /// # Errors
    ///
    /// No goal is named or a goal contradicts itself, the rates are no range, or the shortest trial sends no request.
    pub fn new(goals: &[Goal], lowest: f64, highest: f64) -> Result<Search, Unsearchable> {
        if !(lowest > 0.0 && lowest < highest && highest.is_finite()) {
            let range = format!("no rate lies between {lowest} and {highest} per second");
            return Err(Unsearchable(format!("{range}: name a lowest rate above 0, and a highest rate above it")));
        }
        for (number, goal) in goals.iter().enumerate() {
            if let Some(defect) = goal.defect(lowest) {
                return Err(Unsearchable(format!("goal {}: {defect}", number + 1)));
            }
        }
        let Some(width) = goals.iter().map(|goal| goal.width).reduce(f64::min) else {
            return Err(Unsearchable("no goal is named: name at least one, for example p99<250ms".to_owned()));
        };
        let grid = Grid::new(lowest, highest, width);
        let targets = goals.iter().enumerate().map(|(number, goal)| goal.targets(number, &grid));
        let pursuits = targets.map(|targets| Pursuit { targets, level: 0, hint: (0, 0) }).collect();
        Ok(Search { grid, pursuits, tried: BTreeMap::new(), client_limited: BTreeMap::new() })
    }

    /// Returns the next load to offer. `None`: every goal has its result.
    pub fn next_load(&self) -> Option<NextLoad> {
        self.next().map(|(load, length)| NextLoad { rate: self.grid.rate(load), length })
    }

    /// Adds the result of a trial of the next load: the requests that were due, and how many of them each goal counts as
    /// lost. A goal has the number of its position. Late, failed and dropped requests are lost, and were due.
    ///
    /// A trial without a request says nothing about the shop: the generator was the limit. Without a next load, the result
    /// is not counted.
    pub fn add(&mut self, offered: u64, lost: impl Fn(usize) -> u64) {
        if offered == 0 {
            return self.add_client_limited();
        }
        if let Some((load, length)) = self.next() {
            let loss_ratio = |goal| as_f64(lost(goal)) / as_f64(offered);
            let loss_ratios = (0..self.pursuits.len()).map(loss_ratio).collect();
            self.tried.entry(load).or_default().push(Tried { length, loss_ratios });
            self.client_limited.remove(&load);
            self.advance();
        }
    }

    /// Adds a trial of the next load in which the generator was the limit. It says nothing about the shop, so the load is
    /// tried again. After three such trials in a row, the search stays below the load.
    pub fn add_client_limited(&mut self) {
        if let Some((load, _)) = self.next() {
            *self.client_limited.entry(load).or_default() += 1;
            self.advance();
        }
    }

    /// Returns the result of each goal so far, in the order of the goals.
    pub fn capacities(&self) -> Vec<Capacity> {
        self.pursuits.iter().map(|pursuit| self.capacity(pursuit)).collect()
    }

    /// Returns a number of trials that no search exceeds, whatever the trials lose.
    ///
    /// A target asks for a full-length trial of a load between its bounds. Such a load is undecided, and is decided when its
    /// full-length trials reach the duration sum. So a target asks for each load only until then. The generator may be the
    /// limit twice before each of these trials. After the third time in a row, the load is not tried again.
    pub fn trials_max(&self) -> u64 {
        let loads = u64::from(self.grid.last.unsigned_abs()) + 1;
        let targets = self.pursuits.iter().flat_map(|pursuit| &pursuit.targets);
        let of_a_load = targets.map(Target::trials_max).fold(1, u64::saturating_add);
        loads.saturating_mul(of_a_load).saturating_mul(u64::from(CLIENT_LIMITED_MAX))
    }

    /// Returns the next load. Of the loads that the goals need, the lowest is first, and then the longest trial: it may make
    /// the others superfluous.
    fn next(&self) -> Option<(i32, Duration)> {
        let needed = self.pursuits.iter().filter_map(|pursuit| self.needed(pursuit));
        needed.min_by_key(|(load, length)| (*load, Reverse(*length)))
    }

    /// Returns the load that a goal needs. `None` if the bounds are close enough, or if no load between them may be tried.
    fn needed(&self, pursuit: &Pursuit) -> Option<(i32, Duration)> {
        let target = &pursuit.targets[pursuit.level];
        let (lower, upper) = target.bounds(&self.tried);
        let end = self.end();
        let low = lower.unwrap_or(-1);
        let high = upper.map_or(end, |upper| upper.min(end));
        // An end of the grid is no bound: its last load must be tried too.
        let width = if low >= 0 && high <= self.grid.last { target.width } else { 1 };
        (high - low > width).then(|| (self.grid.choose((low, high), pursuit.hint, target.width), target.length))
    }

    /// Returns the first load that may not be tried: the lowest one at which the generator is the limit, or the one after
    /// the last.
    fn end(&self) -> i32 {
        let mut limits = self.client_limited.iter().filter(|(_, times)| **times >= CLIENT_LIMITED_MAX);
        limits.next().map_or(self.grid.last + 1, |(load, _)| *load)
    }

    /// Takes each goal to its next target as far as the bounds are close enough.
    fn advance(&mut self) {
        for index in 0..self.pursuits.len() {
            let mut pursuit = self.pursuits[index];
            while pursuit.level + 1 < LEVELS && self.needed(&pursuit).is_none() {
                let (lower, upper) = pursuit.targets[pursuit.level].bounds(&self.tried);
                let lower = lower.unwrap_or(0);
                pursuit.hint = (lower, upper.unwrap_or(lower));
                pursuit.level += 1;
            }
            self.pursuits[index] = pursuit;
        }
    }

    fn capacity(&self, pursuit: &Pursuit) -> Capacity {
        let is_finished = pursuit.level + 1 == LEVELS && self.needed(pursuit).is_none();
        let level = if is_finished { pursuit.level } else { pursuit.level.saturating_sub(1) };
        let target = &pursuit.targets[level];
        let (lower, upper) = target.bounds(&self.tried);
        let end = match (lower, upper) {
            _ if !is_finished => CapacityEnd::Unfinished,
            (Some(lower), Some(upper)) if upper - lower <= target.width => CapacityEnd::Bounded,
            (None, Some(0)) => CapacityEnd::NoRateHolds,
            (Some(lower), None) if lower == self.grid.last => CapacityEnd::AboveHighest,
            _ => CapacityEnd::ClientLimited,
        };
        let rate = |load: i32| self.grid.rate(load);
        let width = self.grid.ratio(target.width);
        let throughput = |load: i32| rate(load) * (1.0 - target.quantile_loss_ratio(&self.tried[&load]));
        Capacity {
            end,
            lower: lower.map(rate),
            upper: upper.map(rate),
            low: lower.map(|load| rate(load) / width),
            high: upper.map(|load| rate(load) * width),
            throughput: lower.map(throughput),
            trial_seconds: target.length.as_secs_f64(),
        }
    }
}
