//! Fits the latency model to measured points by damped least squares (Levenberg and Marquardt's) of logarithms. So a
//! time that is predicted twice as long as measured counts as much as one predicted half as long.
//!
//! Few points are measured, on a machine that may do something else meanwhile. Two rules follow from that. A large
//! deviation counts in proportion to its size, and not by its square, so that one disturbed drain does not bend the
//! model. Every parameter is pulled a little towards the start of the search. So a parameter that the points do not
//! determine stays plausible.

use crate::{LatencyModel, Point, Recipe, predict};

const N: usize = LatencyModel::PARAMETERS;

/// The deviation, as a logarithm, up to which a time counts by its square.
const NEAR: f64 = 0.2;
/// The weight of a parameter that is a factor of e away from its start, relative to a time that is off by as much. A
/// parameter that is a factor of 500 away counts as much as a time that is off by 20 %.
const PULL: f64 = 0.001;
/// The weight of the time of a drain, relative to the median of its hand-overs. The time of a drain includes every pause of
/// the machine, which the model does not know.
const DRAIN_SHARE: f64 = 0.25;
/// The step of a parameter, as a logarithm, that shows its influence.
const PROBE: f64 = 0.02;
/// The longest step of a parameter at a time, as a logarithm: a factor of e.
const STEP_MAX: f64 = 1.0;
/// The search ends when no parameter moves by more than a thousandth.
const STEP_END: f64 = 0.001;
const STEPS_MAX: usize = 100;
/// The damping of the first step, and the damping above which no step is worth a trial.
const DAMPING_START: f64 = 0.01;
const DAMPING_MAX: f64 = 1e6;

/// A point to fit the model to, and its recipe.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FitSample<'a> {
    pub(crate) recipe: Recipe,
    pub(crate) measured: &'a Point,
}

/// The logarithms of the parameters.
type Parameters = [f64; N];

/// The logarithm of predicted ÷ measured of one time, and its weight.
#[derive(Debug, Clone, Copy)]
struct Residual {
    log: f64,
    share: f64,
}

/// The linear equations of a step: a square matrix, and the right-hand side.
type Equations = ([Parameters; N], Parameters);

/// Returns the model whose predictions of times are nearest to the measured times.
pub(crate) fn fit(samples: &[FitSample<'_>], seed: u32) -> LatencyModel {
    let start = LatencyModel::START.to_array().map(f64::ln);
    let pull = |at: &Parameters| -> Parameters { std::array::from_fn(|i| at[i] - start[i]) };
    let cost = |at: &Parameters, residuals: &[Residual]| {
        let pulled: f64 = pull(at).iter().map(|away| PULL * away * away).sum();
        residuals.iter().map(|residual| residual.cost()).sum::<f64>() + pulled
    };
    let mut best = start;
    let mut apart = residuals(samples, seed, &start);
    let mut least = cost(&best, &apart);
    let mut damping = DAMPING_START;
    for _ in 0..STEPS_MAX {
        let (matrix, right) = equations(samples, seed, &best, &apart, &pull(&best));
        // A step that brings no improvement is tried again with more damping: shorter, and more directly downhill.
        let step = loop {
            let mut damped = matrix;
            (0..N).for_each(|i| damped[i][i] *= 1.0 + damping);
            let step = solve((damped, right)).map(|step| step.clamp(-STEP_MAX, STEP_MAX));
            let candidate: Parameters = std::array::from_fn(|i| best[i] + step[i]);
            let of_candidate = residuals(samples, seed, &candidate);
            let cost = cost(&candidate, &of_candidate);
            if cost < least {
                best = candidate;
                apart = of_candidate;
                least = cost;
                damping /= 4.0;
                break step;
            }
            damping *= 4.0;
            if damping > DAMPING_MAX {
                break [0.0; N];
            }
        };
        if step.iter().all(|step| step.abs() < STEP_END) {
            break;
        }
    }
    LatencyModel::from_array(best.map(f64::exp))
}

/// Returns the normal equations of one step: the change of every logarithm with every parameter, weighed by how near the
/// logarithm is.
fn equations(
    samples: &[FitSample<'_>],
    seed: u32,
    at: &Parameters,
    apart: &[Residual],
    pull: &Parameters,
) -> Equations {
    let influences: [Vec<f64>; N] = std::array::from_fn(|parameter| {
        // The simulation has no derivative in closed form.
        let mut moved = *at;
        moved[parameter] += PROBE;
        let changed = residuals(samples, seed, &moved);
        changed.iter().zip(apart).map(|(changed, was)| (changed.log - was.log) / PROBE).collect()
    });
    let weighed = |of: &[f64], with: &dyn Fn(usize) -> f64| -> f64 {
        of.iter().zip(apart).enumerate().map(|(i, (of, residual))| of * with(i) * residual.weight()).sum()
    };
    let mut matrix: [Parameters; N] =
        std::array::from_fn(|i| std::array::from_fn(|j| weighed(&influences[i], &|at| influences[j][at])));
    (0..N).for_each(|i| matrix[i][i] += PULL);
    (matrix, std::array::from_fn(|i| -weighed(&influences[i], &|at| apart[at].log) - PULL * pull[i]))
}

/// Solves linear equations by elimination. There is a solution, because the pull to the start is on every diagonal.
fn solve((mut matrix, mut right): Equations) -> Parameters {
    for column in 0..N {
        let by_size = |a: &usize, b: &usize| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs());
        // The largest pivot keeps the rounding errors small.
        let pivot = (column..N).max_by(by_size).unwrap_or(column);
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        for row in column + 1..N {
            let factor = matrix[row][column] / matrix[column][column];
            let above = matrix[column];
            (column..N).for_each(|i| matrix[row][i] -= factor * above[i]);
            right[row] -= factor * right[column];
        }
    }
    let mut solution = [0.0; N];
    for row in (0..N).rev() {
        let known: f64 = (row + 1..N).map(|i| matrix[row][i] * solution[i]).sum();
        solution[row] = (right[row] - known) / matrix[row][row];
    }
    solution
}

/// Returns how far all predicted times of the samples are from the measured times.
fn residuals(samples: &[FitSample<'_>], seed: u32, parameters: &Parameters) -> Vec<Residual> {
    let model = LatencyModel::from_array(parameters.map(f64::exp));
    let times = samples.iter().flat_map(|FitSample { recipe, measured }| {
        let predicted = predict(*recipe, measured.waiters, measured.sessions, seed, &model);
        let handover = predicted.handover_ms.zip(measured.handover_ms);
        let handover = handover.map(|(predicted, measured)| Residual::of(predicted, measured, 1.0));
        [handover, Some(Residual::of(predicted.drain_ms, measured.drain_ms, DRAIN_SHARE))].into_iter().flatten()
    });
    times.collect()
}

impl Residual {
    /// Returns the residual of one time. Takes neither time for shorter than a nanosecond.
    fn of(predicted_ms: f64, measured_ms: f64, share: f64) -> Residual {
        Residual { log: (predicted_ms.max(1e-6) / measured_ms.max(1e-6)).ln(), share }
    }

    /// Returns its cost: its square while it is small, and in proportion to it beyond [`NEAR`].
    fn cost(self) -> f64 {
        self.share * 2.0 * NEAR * NEAR * ((1.0 + (self.log / NEAR).powi(2)).sqrt() - 1.0)
    }

    /// Returns its weight in the normal equations, which becomes smaller beyond [`NEAR`].
    fn weight(self) -> f64 {
        self.share / (1.0 + (self.log / NEAR).powi(2)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_of_synthetic_points_are_found_again() {
        let model = LatencyModel {
            read_ms: 0.8,
            commit_ms: 2.5,
            message_us: 31.0,
            wake_us: 44.0,
            child_us: 6.0,
            handover_us: 4.0,
        };
        let points: Vec<(Recipe, Point)> = Recipe::ALL
            .into_iter()
            .flat_map(|recipe| [8, 40, 160].map(|waiters| (recipe, waiters)))
            .map(|(recipe, waiters)| (recipe, predict(recipe, waiters, recipe.sessions_default(waiters), 1, &model)))
            .collect();
        let samples: Vec<_> = points.iter().map(|(recipe, measured)| FitSample { recipe: *recipe, measured }).collect();
        let found = fit(&samples, 1);
        for (found, given) in found.to_array().into_iter().zip(model.to_array()) {
            // Not exactly, because the search pulls them towards its start.
            assert!((found / given).ln().abs() < 0.25, "{found} for {given}");
        }
        for recipe in &Recipe::ALL {
            let drain_ms = |model| predict(*recipe, 500, recipe.sessions_default(500), 1, model).drain_ms;
            let log = (drain_ms(&found) / drain_ms(&model)).ln();
            assert!(log.abs() < 0.1, "{recipe:?}: {found:?}");
        }
    }

    #[test]
    fn one_disturbed_drain_does_not_bend_the_model() {
        let mut points: Vec<Point> =
            [8, 20, 50].map(|waiters| predict(Recipe::Handoff, waiters, waiters, 1, &LatencyModel::START)).into();
        let undisturbed = fit_handoff(&points);
        points[1].drain_ms *= 10.0;
        let disturbed = fit_handoff(&points);
        let handover = |model: &LatencyModel| predict(Recipe::Handoff, 1_000, 1_000, 1, model).drain_ms;
        let ratio = handover(&disturbed) / handover(&undisturbed);
        assert!((0.8..1.25).contains(&ratio), "{ratio}: {disturbed:?}");
    }

    fn fit_handoff(points: &[Point]) -> LatencyModel {
        let samples: Vec<_> = points.iter().map(|measured| FitSample { recipe: Recipe::Handoff, measured }).collect();
        fit(&samples, 1)
    }

    #[test]
    fn without_samples_the_model_is_the_start_of_the_search() {
        let found = fit(&[], 1).to_array();
        let start = LatencyModel::START.to_array();
        assert!(found.into_iter().zip(start).all(|(found, start)| (found - start).abs() < 1e-9));
    }
}
