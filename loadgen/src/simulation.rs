//! What one machine cannot show: the notifications, requests, bytes and times of a *drain*, in which very many waiters all
//! queue at once for one lock and each holds it once, whoever holds giving it back at once.
//!
//! The counts follow from the decisions of the lock library itself, in a discrete-event simulation: each place in a queue
//! asks what the library's acquire loop asks, and decides with the library's own functions on what it is answered. The
//! times follow from a [`LatencyModel`] of a few parameters that is fitted to drains that were measured on this machine.
//!
//! What is exact, and what is not:
//!
//! * The counts of the naive lock, by rounds, as its holders wait for all others to watch again. With holders that do not,
//!   fewer are notified, and those who are not ask the more often.
//! * The requests and notifications of the queues with a session for each waiter, but for the few requests of those at
//!   the head of a mutex's queue: whether they ask for each of the few ahead, or list all, depends on how many had joined
//!   when they looked first.
//! * So do the bytes of a mutex: here all join at one instant, and see each other in their first listing; real ones join
//!   one after the other, and see fewer. A listing is decided on by the nearest of those ahead, which decides alike.
//! * With several waiters in a session it depends on the order in which they come who is next to whom, and so who lists
//!   and who passes the lock on. One order is drawn from the seed. That contenders who join a long queue one after the
//!   other are held back to join in groups has no part in it, as all join at once.
//! * Servers and clients share one machine, which the model takes for one that does a thing at a time.
//!
//! Pure: no clock, no task, no I/O.

mod costs;
mod deviation;
mod drain;
mod fit;
mod model;
mod naive;
mod place;
mod server;

use loadgen::stats::as_f64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::deviation::{Accuracy, Deviation, Figure};
use self::fit::Sample;
pub(crate) use self::model::LatencyModel;

/// What a file of a simulation says it is.
pub(crate) const SCHEMA: &str = "seckill-simulation/1";

/// Below which node measured drains have their locks. The length of a path counts among the bytes.
pub(crate) const PARENT: &str = "/simulate";

/// Sessions that the waiters of a cohort lock share unless told otherwise: those of one process share one, and three
/// instances of the service is what a comparison starts.
const COHORT_SESSIONS: u32 = 3;

/// A prediction that is off by more than this factor at a point held out is named.
const FACTOR_NAMED: f64 = 1.25;

/// Java clients refuse answers longer than this unless told otherwise.
const JAVA_ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// A recipe that is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Recipe {
    /// One fixed node that everybody watches: the herd.
    Naive,
    /// A queue of nodes, each waiter watching the one before it.
    Mutex,
    /// The same, in which a release tells the next that nobody is ahead.
    Handoff,
    /// A queue of processes, each of which hands the lock over within itself.
    Cohort,
}

/// One drain, predicted or measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Point {
    /// How many queued at once, the first holder included. Each held the lock once, so there were as many releases.
    pub(crate) waiters: u32,
    /// Sessions that they shared, in turns.
    pub(crate) sessions: u32,
    /// Watch notifications that the server sent, while they queued and while they were served.
    pub(crate) notifications: u64,
    /// Requests that the sessions sent.
    pub(crate) requests: u64,
    /// Bytes of those requests, of their replies and of the notifications, as the sessions count them.
    pub(crate) bytes: u64,
    /// Milliseconds from the call of a release to the next grant, the median; absent with a single waiter.
    pub(crate) handover_ms: Option<f64>,
    /// Milliseconds from the first release, when all others wait, to the confirmation of the last one. Not among them is the
    /// time for which the holders of the naive lock wait for the server to say that all others watch again, once they do.
    pub(crate) drain_ms: f64,
}

/// What is known of one recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecipeSimulation {
    /// The recipe.
    pub(crate) recipe: Recipe,
    /// Predictions, by number of waiters; those of the numbers that were measured are among them.
    pub(crate) points: Vec<Point>,
    /// What was measured on this machine, by number of waiters; empty if this recipe was not.
    pub(crate) measured: Vec<Point>,
    /// How far predictions are from measurements at the points held out, by figure.
    pub(crate) deviations: Vec<Deviation>,
}

/// Predictions for very many waiters, the measurements behind them, and how far the two are apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Simulation {
    /// The name and version of this format.
    pub(crate) schema: String,
    /// What the order was drawn from in which those ask who ask at once.
    pub(crate) seed: u32,
    /// The fitted latency model.
    pub(crate) model: LatencyModel,
    /// Numbers of waiters to whose measured times the model was fitted.
    pub(crate) fitted_waiters: Vec<u32>,
    /// Numbers of waiters that were measured, and kept out of the fit to test it.
    pub(crate) held_out_waiters: Vec<u32>,
    /// The recipes, in the order in which they were asked for.
    pub(crate) recipes: Vec<RecipeSimulation>,
    /// How far all predicted notifications, requests and bytes are from the measurements at the points held out.
    pub(crate) counts: Option<Accuracy>,
    /// How far all predicted times are from the measurements at the points held out.
    pub(crate) times: Option<Accuracy>,
    /// What to bear in mind, and where the model was found wrong; one sentence each.
    pub(crate) caveats: Vec<String>,
}

/// What was measured of one recipe.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Measured {
    pub(crate) recipe: Recipe,
    pub(crate) points: Vec<Point>,
}

impl Point {
    /// Whether its times are times, and it has as many sessions as it may.
    pub(crate) fn is_sound(&self) -> bool {
        let is_time = |ms: f64| ms.is_finite() && ms >= 0.0;
        (1..=self.waiters).contains(&self.sessions) && is_time(self.drain_ms) && self.handover_ms.is_none_or(is_time)
    }
}

impl Recipe {
    /// All of them, in the order of the tables.
    pub(crate) const ALL: [Recipe; 4] = [Recipe::Naive, Recipe::Mutex, Recipe::Handoff, Recipe::Cohort];

    /// The name on the command line and in the tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Recipe::Naive => "naive",
            Recipe::Mutex => "mutex",
            Recipe::Handoff => "handoff",
            Recipe::Cohort => "cohort",
        }
    }

    /// How many sessions so many waiters have unless told otherwise: one each, but for a cohort, which is a session.
    pub(crate) fn sessions_default(self, waiters: u32) -> u32 {
        match self {
            Recipe::Naive | Recipe::Mutex | Recipe::Handoff => waiters,
            Recipe::Cohort => COHORT_SESSIONS.min(waiters),
        }
    }
}

/// Predicts one drain.
pub(crate) fn predict(recipe: Recipe, waiters: u32, sessions: u32, seed: u32, model: &LatencyModel) -> Point {
    match recipe {
        Recipe::Naive => naive::drain(waiters, sessions, seed, model),
        Recipe::Mutex | Recipe::Handoff | Recipe::Cohort => drain::drain(recipe, waiters, sessions, seed, model),
    }
}

/// Numbers of waiters from `first` to `last`, both among them: in steps of 1, 2, 5, 10 and so on between.
pub(crate) fn spaced(first: u32, last: u32) -> Vec<u32> {
    let decades = std::iter::successors(Some(1_u32), |decade| decade.checked_mul(10));
    let steps = decades.flat_map(|decade| [1, 2, 5].map(|digit| decade.saturating_mul(digit)));
    let between = steps.filter(|step| (first + 1..last).contains(step));
    let mut numbers: Vec<u32> = std::iter::once(first).chain(between).chain([last]).collect();
    numbers.dedup();
    numbers
}

/// Tells the numbers to fit the model to from those to hold out: the largest is held out, since predictions are for more
/// waiters than were measured, and so is every second one below it but the smallest.
pub(crate) fn split(measured: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let largest_first: Vec<u32> = measured.iter().rev().copied().collect();
    let last = largest_first.len().saturating_sub(1);
    let is_held_out = |position: usize| position.is_multiple_of(2) && (position < last || last == 0);
    let pick = |wanted: bool| -> Vec<u32> {
        let chosen = largest_first.iter().enumerate().filter(|(position, _)| is_held_out(*position) == wanted);
        chosen.map(|(_, waiters)| *waiters).rev().collect()
    };
    (pick(false), pick(true))
}

/// The numbers of waiters in several measurements, each once, in order.
pub(crate) fn numbers(measured: &[Measured]) -> Vec<u32> {
    let mut numbers: Vec<u32> = measured.iter().flat_map(|of| &of.points).map(|point| point.waiters).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Fits the latency model to those of the measured points that are not held out.
pub(crate) fn fit(measured: &[Measured], seed: u32) -> LatencyModel {
    let (fitted, _) = split(&numbers(measured));
    let samples: Vec<Sample<'_>> = measured
        .iter()
        .flat_map(|Measured { recipe, points }| points.iter().map(|measured| Sample { recipe: *recipe, measured }))
        .filter(|sample| fitted.contains(&sample.measured.waiters))
        .collect();
    fit::fit(&samples, seed)
}

/// Puts predictions, by recipe, beside what was measured.
pub(crate) fn compare(
    predicted: Vec<(Recipe, Vec<Point>)>,
    measured: &[Measured],
    model: LatencyModel,
    seed: u32,
) -> Simulation {
    let (fitted_waiters, held_out_waiters) = split(&numbers(measured));
    let (mut recipes, mut counts, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for (recipe, points) in predicted {
        let of = measured.iter().find(|of| of.recipe == recipe);
        let measured = of.map_or_else(Vec::new, |of| of.points.clone());
        let mut deviations = Vec::new();
        for figure in Figure::ALL {
            let held_out = measured.iter().filter(|point| held_out_waiters.contains(&point.waiters));
            let logs: Vec<f64> = held_out
                .filter_map(|point| {
                    figure.log_ratio(&predict(recipe, point.waiters, point.sessions, seed, &model), point)
                })
                .collect();
            deviations.extend(Deviation::of(figure, &logs));
            if figure.is_time() { times.extend(logs) } else { counts.extend(logs) }
        }
        recipes.push(RecipeSimulation { recipe, points, measured, deviations });
    }
    let caveats = caveats(&recipes, measured);
    Simulation {
        schema: SCHEMA.to_owned(),
        seed,
        model,
        fitted_waiters,
        held_out_waiters,
        recipes,
        counts: Accuracy::of(&counts),
        times: Accuracy::of(&times),
        caveats,
    }
}

/// What to bear in mind of these predictions, and where they were found wrong.
fn caveats(recipes: &[RecipeSimulation], measured: &[Measured]) -> Vec<String> {
    let mut caveats = Vec::new();
    for RecipeSimulation { recipe, deviations, .. } in recipes {
        for Deviation { figure, ratio, factor_worst } in deviations.iter().filter(|of| of.factor_worst > FACTOR_NAMED) {
            caveats.push(format!(
                "the model is wrong about the {} of {}: predicted ÷ measured is {ratio:.2} on average, and off by a \
                 factor of {factor_worst:.2} at worst",
                figure.name(),
                recipe.name(),
            ));
        }
    }
    if !measured.is_empty() {
        caveats.push(
            "the model knows of no pauses, be it of a garbage collector or for another program: they make the drains \
             that are measured longer, and hardly the median of their hand-overs"
                .to_owned(),
        );
    }
    let predicted = |of: Recipe| recipes.iter().filter(move |found| found.recipe == of).flat_map(|found| &found.points);
    let largest = numbers(measured).last().copied().unwrap_or(0);
    let beyond = recipes.iter().flat_map(|of| &of.points).any(|point| point.waiters > largest);
    if beyond {
        caveats.push(format!("no more than {largest} waiters were measured; beyond, the figures are extrapolated"));
    }
    if predicted(Recipe::Naive).next().is_some() {
        caveats.push(
            "a holder of the naive lock waits until all others watch again, without which fewer would be notified and \
             ask the more often; in that pause whatever has nothing to do goes to sleep, so that small drains are \
             measured slower than the model, which has no such wake-up"
                .to_owned(),
        );
    }
    if predicted(Recipe::Mutex).next().is_some() {
        caveats.push(
            "all waiters of the mutex are taken to join at one instant and list each other; where they come one after \
             the other, the first listings are shorter"
                .to_owned(),
        );
    }
    let child_bytes = costs::Costs::of(Recipe::Mutex).child_bytes;
    if let Some(point) =
        predicted(Recipe::Mutex).find(|point| u64::from(point.waiters) * child_bytes > JAVA_ANSWER_BYTES_MAX)
    {
        caveats.push(format!(
            "a listing of {} waiters of the mutex is longer than the 1 MiB that Java clients accept unless told \
             otherwise",
            point.waiters
        ));
    }
    caveats
}

fn ns_to_ms(ns: u64) -> f64 {
    as_f64(ns) / 1e6
}

#[cfg(test)]
mod tests;
