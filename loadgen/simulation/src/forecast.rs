//! Predictions compared with measurements: the measured points that the latency model is fitted to, and its deviations at
//! the others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::figures;

use crate::costs::Costs;
use crate::deviation::{Accuracy, Deviation, Figure};
use crate::fit::{self, FitSample};
use crate::{LatencyModel, Point, Recipe, predict};

/// The format that a file of a simulation names.
pub const SCHEMA: &str = "seckill-simulation/1";

/// The factor above which a deviation at a point left out is reported.
const FACTOR_NAMED: f64 = 1.25;

/// The longest answer that Java clients accept by default, in bytes.
const JAVA_ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// The results for one recipe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecipeSimulation {
    /// The recipe.
    pub recipe: Recipe,
    /// Predictions, by number of waiters. They include the numbers of waiters that were measured.
    pub points: Vec<Point>,
    /// Measurements on this machine, by number of waiters. Empty if this recipe was not measured.
    pub measured: Vec<Point>,
    /// How far predictions are from measurements at the points left out, by figure.
    pub deviations: Vec<Deviation>,
}

/// Predictions for many waiters, the measurements that they are based on, and the deviations between both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Simulation {
    /// The name and version of this format.
    pub schema: String,
    /// The seed of the order of the waiters that ask at one instant.
    pub seed: u32,
    /// The fitted latency model.
    pub model: LatencyModel,
    /// Numbers of waiters at which the model was fitted to the measured times.
    pub fitted_waiters: Vec<u32>,
    /// Numbers of waiters that were measured but left out of the fit, to test it.
    pub left_out_waiters: Vec<u32>,
    /// The recipes, in the order of the request.
    pub recipes: Vec<RecipeSimulation>,
    /// How far all predicted notifications, requests and bytes are from the measurements at the points left out.
    pub counts: Option<Accuracy>,
    /// How far all predicted times are from the measurements at the points left out.
    pub times: Option<Accuracy>,
    /// Limits of the predictions, and figures that the model predicts wrongly. One sentence each.
    pub caveats: Vec<String>,
}

/// The measurements of one recipe.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The recipe.
    pub recipe: Recipe,
    /// Its points, by number of waiters.
    pub points: Vec<Point>,
}

/// Returns numbers of waiters from `first` to `last`, both included, with 1, 2, 5, 10, 20, 50 and so on between.
pub fn spaced(first: u32, last: u32) -> Vec<u32> {
    let decades = std::iter::successors(Some(1_u32), |decade| decade.checked_mul(10));
    let steps = decades.flat_map(|decade| [1, 2, 5].map(|digit| decade.saturating_mul(digit)));
    let between = steps.filter(|step| (first + 1..last).contains(step));
    let mut numbers: Vec<u32> = std::iter::once(first).chain(between).chain([last]).collect();
    numbers.dedup();
    numbers
}

/// Splits the numbers of waiters into those for the fit and those left out. The largest is left out, because predictions are
/// for more waiters than were measured. Every second one below it is left out as well, except the smallest.
pub fn split(measured: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let largest_first: Vec<u32> = measured.iter().rev().copied().collect();
    let last = largest_first.len().saturating_sub(1);
    let is_left_out = |position: usize| position.is_multiple_of(2) && (position < last || last == 0);
    let pick = |wanted: bool| -> Vec<u32> {
        let chosen = largest_first.iter().enumerate().filter(|(position, _)| is_left_out(*position) == wanted);
        chosen.map(|(_, waiters)| *waiters).rev().collect()
    };
    (pick(false), pick(true))
}

/// Returns the numbers of waiters in several measurements, each once, in order.
pub fn numbers(measured: &[Measured]) -> Vec<u32> {
    let mut numbers: Vec<u32> = measured.iter().flat_map(|of| &of.points).map(|point| point.waiters).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Fits the latency model to the measured points that are not left out.
pub fn fit(measured: &[Measured], seed: u32) -> LatencyModel {
    let (fitted, _) = split(&numbers(measured));
    let samples: Vec<FitSample<'_>> = measured
        .iter()
        .flat_map(|Measured { recipe, points }| points.iter().map(|measured| FitSample { recipe: *recipe, measured }))
        .filter(|sample| fitted.contains(&sample.measured.waiters))
        .collect();
    fit::fit(&samples, seed)
}

/// Compares predictions, by recipe, with the measurements.
pub fn compare(
    predicted: Vec<(Recipe, Vec<Point>)>,
    measured: &[Measured],
    model: LatencyModel,
    seed: u32,
) -> Simulation {
    let (fitted_waiters, left_out_waiters) = split(&numbers(measured));
    let mut recipes = Vec::new();
    let mut counts = Vec::new();
    let mut times = Vec::new();
    for (recipe, points) in predicted {
        let of = measured.iter().find(|of| of.recipe == recipe);
        let measured = of.map_or_else(Vec::new, |of| of.points.clone());
        let mut deviations = Vec::new();
        for figure in Figure::ALL {
            let left_out = measured.iter().filter(|point| left_out_waiters.contains(&point.waiters));
            let logs: Vec<f64> = left_out
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
        left_out_waiters,
        recipes,
        counts: Accuracy::of(&counts),
        times: Accuracy::of(&times),
        caveats,
    }
}

/// Returns the limits of these predictions, and the figures that the model predicts wrongly.
fn caveats(recipes: &[RecipeSimulation], measured: &[Measured]) -> Vec<String> {
    let mut caveats = Vec::new();
    for RecipeSimulation { recipe, deviations, .. } in recipes {
        for Deviation { figure, ratio, factor_worst } in deviations.iter().filter(|of| of.factor_worst > FACTOR_NAMED) {
            caveats.push(format!(
                "the model mispredicts the {} of {}: predicted ÷ measured is {} on average, and the largest deviation is a \
                 factor of {}",
                figure.name(),
                recipe.name(),
                figures::figure(*ratio),
                figures::figure(*factor_worst),
            ));
        }
    }
    if !measured.is_empty() {
        caveats.push(
            "the model has no pauses for garbage collection or other programs; such pauses lengthen measured drains, \
             but hardly change the median hand-over"
                .to_owned(),
        );
    }
    let predicted = |of: Recipe| recipes.iter().filter(move |found| found.recipe == of).flat_map(|found| &found.points);
    let largest = numbers(measured).last().copied().unwrap_or(0);
    let beyond = recipes.iter().flat_map(|of| &of.points).any(|point| point.waiters > largest);
    if beyond {
        caveats.push(format!("the largest measured drain has {largest} waiters; figures for more are extrapolated"));
    }
    if predicted(Recipe::Naive).next().is_some() {
        caveats.push(
            "each holder of the naive lock waits until all others watch again; without that wait, a release would \
             notify fewer waiters, and waiters would ask more often"
                .to_owned(),
        );
        caveats.push(
            "idle threads fall asleep during that wait, and the model does not include their wake-up; so small drains \
             of the naive lock are measured slower than predicted"
                .to_owned(),
        );
    }
    if predicted(Recipe::Mutex).next().is_some() {
        caveats.push(
            "in the model, all waiters of the mutex join at one instant and list each other; if waiters join one \
             after the other, their first listings are shorter"
                .to_owned(),
        );
    }
    let child_bytes = Costs::of(Recipe::Mutex).child_bytes;
    if let Some(point) =
        predicted(Recipe::Mutex).find(|point| u64::from(point.waiters) * child_bytes > JAVA_ANSWER_BYTES_MAX)
    {
        caveats.push(format!(
            "a listing of {} waiters of the mutex is longer than 1 MiB, the default limit of Java clients",
            point.waiters
        ));
    }
    caveats
}
