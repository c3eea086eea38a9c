//! A simulation for a terminal.

use comfy_table::Table;
use simulation::{Accuracy, Deviation, LatencyModel, Point, RecipeSimulation, Simulation};
use stats::as_f64;
use stats::figures::{bytes, count, figure, maybe, ms};
use stats::glossary::DRAIN;

use crate::report::terminal;

/// Columns that hold text; all others hold figures.
const TEXT_COLUMNS: usize = 1;

/// Renders the table, the model, and how far predictions and measurements are apart.
pub(crate) fn render(simulation: &Simulation) -> String {
    let rows = simulation.recipes.iter().flat_map(|of| of.points.iter().map(|point| row(simulation, of, point)));
    let table = framed(rows.collect());
    let mut text = format!(
        "seed {}; predicted, with measurements in brackets; * if left out of the fit\n{table}\n{}: {}\n",
        simulation.seed,
        DRAIN.name.to_lowercase(),
        DRAIN.text,
    );
    let mut line = |sentence: String| {
        text.push_str(&sentence);
        text.push('\n');
    };
    line(model(&simulation.model));
    line(format!(
        "fitted to the times of {} waiters, left out {}",
        list(&simulation.fitted_waiters),
        list(&simulation.left_out_waiters)
    ));
    for of in &simulation.recipes {
        line(deviations(of));
    }
    for (what, accuracy) in [("counts", simulation.counts), ("times", simulation.times)] {
        line(overall(what, accuracy));
    }
    for caveat in &simulation.caveats {
        line(format!("note: {caveat}"));
    }
    text
}

fn framed(rows: Vec<Vec<String>>) -> Table {
    let header = [
        "recipe",
        "waiters",
        "sessions",
        "notifications",
        "per release",
        "requests",
        "per release",
        "bytes",
        "per release",
        "hand-over\nms",
        "drain\nms",
    ]
    .map(str::to_owned);
    terminal::framed(&header, rows, TEXT_COLUMNS)
}

fn row(simulation: &Simulation, of: &RecipeSimulation, point: &Point) -> Vec<String> {
    let is_same = |measured: &&Point| (measured.waiters, measured.sessions) == (point.waiters, point.sessions);
    let measured = of.measured.iter().find(is_same);
    let is_left_out = measured.is_some() && simulation.left_out_waiters.contains(&point.waiters);
    let per_release = |count: u64| as_f64(count) / f64::from(point.waiters);
    let beside = |shown: fn(&Point) -> String| match measured {
        Some(measured) => format!("{} ({})", shown(point), shown(measured)),
        None => shown(point),
    };
    vec![
        of.recipe.name().to_owned(),
        format!("{}{}", count(point.waiters.into()), if is_left_out { "*" } else { "" }),
        count(point.sessions.into()),
        beside(|point| count(point.notifications)),
        figure(per_release(point.notifications)),
        beside(|point| count(point.requests)),
        figure(per_release(point.requests)),
        beside(|point| bytes(as_f64(point.bytes))),
        bytes(per_release(point.bytes)),
        beside(|point| maybe(point.handover_ms)),
        beside(|point| figure(point.drain_ms)),
    ]
}

fn model(model: &LatencyModel) -> String {
    let LatencyModel { read_ms, commit_ms, message_us, wake_us, child_us, handover_us } = model;
    format!(
        "model: a read takes {}, a write {} more; each message takes {}, each further wake-up of a release {} and each \
         child of a listing {}; a hand-over within a process takes {}",
        ms(*read_ms),
        ms(*commit_ms),
        ms(message_us / 1e3),
        ms(wake_us / 1e3),
        ms(child_us / 1e3),
        ms(handover_us / 1e3),
    )
}

fn deviations(of: &RecipeSimulation) -> String {
    let said = |Deviation { figure: deviating, ratio, factor_worst }: &Deviation| {
        format!("{} ×{} (worst factor {})", deviating.name(), figure(*ratio), figure(*factor_worst))
    };
    match of.deviations.as_slice() {
        [] => format!("{}: no measurement to compare the prediction with", of.recipe.name()),
        some => {
            let said: Vec<String> = some.iter().map(said).collect();
            format!("{}: predicted ÷ measured at the points left out: {}", of.recipe.name(), said.join(", "))
        }
    }
}

fn overall(what: &str, accuracy: Option<Accuracy>) -> String {
    match accuracy {
        Some(Accuracy { comparisons, factor, factor_worst }) => format!(
            "all {what} at the points left out: off by a factor of {} on average and {} at worst, in {} comparisons",
            figure(factor),
            figure(factor_worst),
            count(comparisons),
        ),
        None => format!("all {what}: no measurement to compare them with"),
    }
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(|number| count(u64::from(*number))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulation::{Measured, Recipe, compare, predict};

    #[test]
    fn measurements_stand_in_brackets_with_a_star_if_left_out() {
        let model = LatencyModel {
            read_ms: 0.2,
            commit_ms: 0.5,
            message_us: 20.0,
            wake_us: 30.0,
            child_us: 0.1,
            handover_us: 4.0,
        };
        let point = |recipe, waiters| predict(recipe, waiters, waiters.min(3), 1, &model);
        let handoff = |waiters| point(Recipe::Handoff, waiters);
        let slow = Point { drain_ms: 2.0 * handoff(60).drain_ms, ..handoff(60) };
        let measured = [Measured { recipe: Recipe::Handoff, points: vec![handoff(20), slow] }];
        let predicted = vec![
            (Recipe::Naive, vec![point(Recipe::Naive, 100), point(Recipe::Naive, 100_000)]),
            (Recipe::Handoff, vec![handoff(20), handoff(60), handoff(1_000)]),
        ];
        insta::assert_snapshot!(render(&compare(predicted, &measured, model, 1)));
    }
}
