//! The predictions of a simulation for more waiters than one machine can have, next to the measurements.

use serde::Serialize;
use simulation::{Accuracy, Deviation, Point, RecipeSimulation, Simulation};
use stats::figures;
use stats::glossary::DRAIN;

use crate::report::Report;
use crate::report::html::page::{
    Absent, Cell, Chart, Emphasis, Group, PageItem, PagePart, Table, TableColumn, TableRow,
};

const COMMAND: &str =
    "loadgen simulate --out simulation.json && loadgen report report.json --simulation simulation.json";

/// A prediction that is off by more than this factor is emphasised.
const OFF: f64 = 1.25;

pub(super) fn part(report: &Report) -> PagePart {
    let words = format!(
        "Simulated drains. {} The lock library's own decisions give the counts. A model that is fitted to measured drains \
         gives the times. Some measured drains are left out of the fit, and show how far the predictions are off.",
        DRAIN.text
    );
    let mut items = vec![PageItem::Paragraph(words)];
    match &report.simulation {
        None => {
            let absent = Absent { why: "No simulation was added to this report.".to_owned(), command: COMMAND };
            items.push(PageItem::Charts(vec![chart(
                "simulation",
                "Prediction and measurement",
                Vec::new(),
                Some(absent),
            )]));
        }
        Some(simulation) => {
            let words = |unit: &str, of: fn(&Point) -> f64| -> Vec<String> {
                simulation.recipes.iter().filter_map(|recipe| line(recipe, unit, of)).collect()
            };
            items.push(PageItem::Charts(vec![
                chart("simulated-time", "Time of a drain", words("ms", |point| point.drain_ms), None),
                chart(
                    "simulated-notifications",
                    "Notifications of a drain",
                    words("notifications", |point| stats::as_f64(point.notifications)),
                    None,
                ),
                chart("simulated-bytes", "Bytes of a drain", words("bytes", |point| stats::as_f64(point.bytes)), None),
            ]));
            items.push(PageItem::Table(deviations(simulation)));
            items.extend(simulation.caveats.iter().map(|caveat| PageItem::Paragraph(caveat.clone())));
        }
    }
    PagePart { id: "simulations", title: "With more waiters", items }
}

fn chart(id: &'static str, title: &str, words: Vec<String>, absent: Option<Absent>) -> Chart {
    let caption = "Lines are predictions, and shapes are measurements: the model was fitted to the solid ones, and the \
                   open ones were held out. An open shape on its line is a correct prediction. Both axes are \
                   logarithmic.";
    let wide = id == "simulated-time";
    Chart { id, title: title.to_owned(), caption: caption.to_owned(), label: None, words, absent, wide }
}

/// Writes the largest prediction of a recipe.
fn line(recipe: &RecipeSimulation, unit: &str, of: fn(&Point) -> f64) -> Option<String> {
    let last = recipe.points.last()?;
    let waiters = figures::count(u64::from(last.waiters));
    Some(format!("{}: {} {unit} with {waiters} waiters", recipe.recipe.name(), figures::figure(of(last))))
}

fn deviations(simulation: &Simulation) -> Table {
    let worst =
        |factor: f64| Cell::figure(Some(factor)).marked(if factor > OFF { Emphasis::Open } else { Emphasis::Good });
    let of_recipe = |recipe: &RecipeSimulation| -> Vec<TableRow> {
        let of_figure = |of: &Deviation| TableRow {
            name: format!("{}, {}", recipe.recipe.name(), of.figure.name()),
            cells: vec![Cell::figure(Some(of.ratio)), Cell::figure(None), worst(of.factor_worst), Cell::count(None)],
        };
        recipe.deviations.iter().map(of_figure).collect()
    };
    let of_all = |name: &str, accuracy: Option<&Accuracy>| {
        accuracy.map(|of| TableRow {
            name: name.to_owned(),
            cells: vec![
                Cell::figure(None),
                Cell::figure(Some(of.factor)),
                worst(of.factor_worst),
                Cell::count(Some(of.comparisons)),
            ],
        })
    };
    let mut rows: Vec<TableRow> = simulation.recipes.iter().flat_map(of_recipe).collect();
    rows.extend(of_all("all counts", simulation.counts.as_ref()));
    rows.extend(of_all("all times", simulation.times.as_ref()));
    let left_out: Vec<String> =
        simulation.left_out_waiters.iter().map(|waiters| figures::count(u64::from(*waiters))).collect();
    Table {
        id: "table-simulation",
        caption: format!("How far predictions are off at the numbers of waiters left out: {}", left_out.join(", ")),
        label: None,
        columns: vec![
            TableColumn::words("Prediction"),
            TableColumn::figures("Predicted ÷ measured", "mean"),
            TableColumn::figures("Off", "by a factor of, mean"),
            TableColumn::figures("Off at worst", "by a factor of"),
            TableColumn::figures("Comparisons", ""),
        ],
        groups: vec![Group { title: None, rows }],
    }
}

/// The data of the charts of a simulation.
#[derive(Serialize)]
pub(super) struct SimulationData<'a> {
    left_out: &'a [u32],
    recipes: Vec<RecipeData<'a>>,
}

#[derive(Serialize)]
struct RecipeData<'a> {
    name: &'static str,
    points: &'a [Point],
    measured: &'a [Point],
}

impl<'a> SimulationData<'a> {
    pub(super) fn of(simulation: &'a Simulation) -> Self {
        let recipe = |of: &'a RecipeSimulation| RecipeData {
            name: of.recipe.name(),
            points: &of.points,
            measured: &of.measured,
        };
        SimulationData {
            left_out: &simulation.left_out_waiters,
            recipes: simulation.recipes.iter().map(recipe).collect(),
        }
    }
}
