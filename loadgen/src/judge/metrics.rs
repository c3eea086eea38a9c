//! The figures of a report.
//!
//! `table.rs` has one row for each figure, and includes the rows of `generator.rs`. The terminal table, Markdown, the page,
//! the JSON schema, thresholds, `diff`, the rules of k6 and `docs/reports.md` iterate it, so a row that is added there
//! appears in all of them.

mod generator;
mod metric;
mod table;

pub(crate) use self::generator::*;
#[cfg(test)]
pub(crate) use self::metric::ROW;
pub(crate) use self::metric::{
    Better, Compared, FigureSource, K6, Kind, Metric, Nature, PageTable, SoldNeeded, TableWidth, TrialsOfStrategy,
};
pub(crate) use self::table::*;
