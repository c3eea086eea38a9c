//! A simulation for a terminal.

use comfy_table::Table;
use simulation::{Accuracy, Deviation, LatencyModel, Point, RecipeSimulation, Simulation};
use stats::as_f64;

use crate::report::terminal;

/// What stands for a figure that there is none of.
const ABSENT: &str = "–";

/// Columns that hold text; all others hold figures.
const TEXT_COLUMNS: usize = 1;

/// The table, the model, and how far predictions and measurements are apart.
pub(crate) fn render(simulation: &Simulation) -> String {
    let rows = simulation.recipes.iter().flat_map(|of| of.points.iter().map(|point| row(simulation, of, point)));
    let table = framed(rows.collect());
    let mut text = format!(
        "a drain: all waiters queue at once for one lock, and each holds it once; seed {}\npredicted, and in brackets \
         what was measured; * where that was held out of the fit\n{table}\n",
        simulation.seed
    );
    let mut line = |sentence: String| {
        text.push_str(&sentence);
        text.push('\n');
    };
    line(model(&simulation.model));
    line(format!(
        "fitted to the times of {} waiters, held out {}",
        list(&simulation.fitted_waiters),
        list(&simulation.held_out_waiters)
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
        "/release",
        "requests",
        "/release",
        "bytes",
        "/release",
        "hand-over\nms",
        "drain\ns",
    ]
    .map(str::to_owned);
    terminal::framed(&header, rows, TEXT_COLUMNS)
}

fn row(simulation: &Simulation, of: &RecipeSimulation, point: &Point) -> Vec<String> {
    let is_same = |measured: &&Point| (measured.waiters, measured.sessions) == (point.waiters, point.sessions);
    let measured = of.measured.iter().find(is_same);
    let is_held_out = measured.is_some() && simulation.held_out_waiters.contains(&point.waiters);
    let per_release = |count: u64| figure(as_f64(count) / f64::from(point.waiters));
    let beside = |shown: fn(&Point) -> String| match measured {
        Some(measured) => format!("{} ({})", shown(point), shown(measured)),
        None => shown(point),
    };
    vec![
        of.recipe.name().to_owned(),
        format!("{}{}", point.waiters, if is_held_out { "*" } else { "" }),
        point.sessions.to_string(),
        beside(|point| large(as_f64(point.notifications))),
        per_release(point.notifications),
        beside(|point| large(as_f64(point.requests))),
        per_release(point.requests),
        beside(|point| large(as_f64(point.bytes))),
        per_release(point.bytes),
        beside(|point| point.handover_ms.map_or_else(|| ABSENT.to_owned(), figure)),
        beside(|point| figure(point.drain_ms / 1000.0)),
    ]
}

/// About three significant digits.
fn figure(value: f64) -> String {
    match value {
        value if value < 0.1 => format!("{value:.4}"),
        value if value < 1.0 => format!("{value:.3}"),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => large(value),
    }
}

/// A number that may be very large: whole below a hundred thousand, and in powers of a thousand above.
fn large(value: f64) -> String {
    match value {
        value if value < 1e5 => format!("{value:.0}"),
        value if value < 1e6 => format!("{:.1}k", value / 1e3),
        value if value < 1e9 => format!("{:.1}M", value / 1e6),
        value if value < 1e12 => format!("{:.1}G", value / 1e9),
        value => format!("{:.1}T", value / 1e12),
    }
}

fn model(model: &LatencyModel) -> String {
    let LatencyModel { read_ms, commit_ms, message_us, wake_us, child_us, handover_us } = model;
    format!(
        "model: a read takes {read_ms:.3} ms, a write {commit_ms:.3} ms more; busy for {message_us:.1} µs a message, \
         {wake_us:.1} µs each further wake-up by a release and {child_us:.3} µs a child of a listing; {handover_us:.1} µs \
         a hand-over within a process"
    )
}

fn deviations(of: &RecipeSimulation) -> String {
    let said = |Deviation { figure, ratio, factor_worst }: &Deviation| {
        format!("{} ×{ratio:.2} (worst factor {factor_worst:.2})", figure.name())
    };
    match of.deviations.as_slice() {
        [] => format!("{}: nothing was measured to hold the prediction against", of.recipe.name()),
        some => {
            let said: Vec<String> = some.iter().map(said).collect();
            format!("{}: predicted ÷ measured where held out: {}", of.recipe.name(), said.join(", "))
        }
    }
}

fn overall(what: &str, accuracy: Option<Accuracy>) -> String {
    match accuracy {
        Some(Accuracy { comparisons, factor, factor_worst }) => format!(
            "all {what} where held out: off by a factor of {factor:.2} on average and {factor_worst:.2} at worst, of \
             {comparisons} comparisons"
        ),
        None => format!("all {what}: nothing was measured to hold them against"),
    }
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulation::{Measured, Recipe, compare, predict};

    #[test]
    fn figures_have_about_three_digits_however_small_or_large() {
        let shown = [0.0037, 0.1234, 3.456, 45.67, 456.7, 99_999.0].map(figure);
        assert_eq!(shown, ["0.0037", "0.123", "3.46", "45.7", "457", "99999"]);
        assert_eq!([163_100.0, 4.1e6, 16.3e9, 1.6e12].map(large), ["163.1k", "4.1M", "16.3G", "1.6T"]);
    }

    #[test]
    fn what_was_measured_stands_in_brackets_with_a_star_where_it_was_held_out() {
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
