//! The figures of a section of the page, as columns of its table.

use crate::judge::metrics::{Better, Metric, Section};
use crate::judge::result::StrategyResult;
use crate::report::html::page::{Cell, Column, Mark};

/// One column for each figure of the section.
pub(super) fn columns(metrics: &[&Metric], section: Section) -> Vec<Column> {
    let own = metrics.iter().filter(|metric| metric.section == section);
    own.map(|metric| Column::figures(metric.title, metric.unit)).collect()
}

/// The cells of a result in these columns.
pub(super) fn cells(metrics: &[&Metric], section: Section, result: &StrategyResult) -> Vec<Cell> {
    metrics.iter().filter(|metric| metric.section == section).map(|metric| cell(metric, result)).collect()
}

fn cell(metric: &Metric, result: &StrategyResult) -> Cell {
    let is_bad = metric.better == Better::Zero && metric.is_fault(result);
    Cell {
        text: metric.text(result),
        aside: metric.aside(result).unwrap_or_default(),
        sort: metric.value(result),
        mark: if is_bad { Mark::Bad } else { Mark::None },
    }
}
