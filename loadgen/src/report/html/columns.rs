//! The figures of a table of the page, as its columns.

use crate::judge::metrics::{Better, Metric, PageTable};
use crate::judge::result::StrategyResult;
use crate::report::html::page::{Cell, Emphasis, TableColumn};

/// Returns one column for each figure of the table.
pub(super) fn columns(metrics: &[&Metric], table: PageTable) -> Vec<TableColumn> {
    let own = metrics.iter().filter(|metric| metric.table == table);
    own.map(|metric| TableColumn::figures(metric.title, metric.unit)).collect()
}

/// Returns the cells of a result in these columns.
pub(super) fn cells(metrics: &[&Metric], table: PageTable, result: &StrategyResult) -> Vec<Cell> {
    metrics.iter().filter(|metric| metric.table == table).map(|metric| cell(metric, result)).collect()
}

fn cell(metric: &Metric, result: &StrategyResult) -> Cell {
    let is_bad = metric.better == Better::Zero && metric.is_fault(result);
    Cell {
        text: metric.text(result),
        aside: metric.aside(result).unwrap_or_default(),
        sort: metric.value(result),
        mark: if is_bad { Emphasis::Bad } else { Emphasis::None },
    }
}
