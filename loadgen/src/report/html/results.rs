//! Tables with a row for each result: the figures of one table of the page, and columns of its own.

use crate::judge::metrics::{Better, Metric, PageTable};
use crate::judge::result::StrategyResult;
use crate::report::Report;
use crate::report::html::names::{is_unranked, name};
use crate::report::html::page::{Cell, Emphasis, Group, TableColumn, TableRow};

/// Returns the columns: the strategy or shop, these columns, and one for each figure of the table.
pub(super) fn columns(
    report: &Report,
    own: impl IntoIterator<Item = TableColumn>,
    metrics: &[&Metric],
    table: PageTable,
) -> Vec<TableColumn> {
    let figures = metrics.iter().filter(|metric| metric.table == table);
    let figures = figures.map(|metric| TableColumn::of(metric));
    std::iter::once(TableColumn::words(report.schedule.nouns().title)).chain(own).chain(figures).collect()
}

/// Returns the row of a result in such columns.
pub(super) fn row(
    report: &Report,
    result: &StrategyResult,
    own: impl IntoIterator<Item = Cell>,
    metrics: &[&Metric],
    table: PageTable,
) -> TableRow {
    let figures = metrics.iter().filter(|metric| metric.table == table).map(|metric| cell(metric, result));
    TableRow { name: name(report, result), cells: own.into_iter().chain(figures).collect() }
}

/// Groups the results as ranked, not ranked and not run, and makes each a row.
pub(super) fn groups(report: &Report, row: impl Fn(&StrategyResult) -> TableRow) -> Vec<Group> {
    groups_of(report, |_| true, row)
}

/// Groups some of the results in the same way.
pub(super) fn groups_of(
    report: &Report,
    is_wanted: impl Fn(&StrategyResult) -> bool,
    row: impl Fn(&StrategyResult) -> TableRow,
) -> Vec<Group> {
    let of = |is: &dyn Fn(&StrategyResult) -> bool| -> Vec<TableRow> {
        report.results.iter().filter(|result| is_wanted(result) && is(result)).map(&row).collect()
    };
    let unranked = if report.schedule.has_hazards() {
        "Each under a hazard: shown, never ranked"
    } else {
        report.schedule.nouns().unranked
    };
    let groups = [
        Group { title: None, rows: of(&|result| result.trials > 0 && !is_unranked(result)) },
        Group { title: Some(unranked), rows: of(&is_unranked) },
        Group { title: Some("Not run"), rows: of(&|result| result.trials == 0) },
    ];
    groups.into_iter().filter(|group| !group.rows.is_empty()).collect()
}

pub(super) fn cell(metric: &Metric, result: &StrategyResult) -> Cell {
    let is_bad = metric.better == Better::Zero && metric.is_fault(result);
    Cell {
        text: metric.text(result),
        aside: metric.aside(result).unwrap_or_default(),
        sort: metric.value(result),
        mark: if is_bad { Emphasis::Bad } else { Emphasis::None },
    }
}
