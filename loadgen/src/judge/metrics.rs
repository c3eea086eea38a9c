//! The figures of a report.
//!
//! Each figure has one row: in `books.rs`, `times.rs`, `costs.rs` or `generator.rs`. `table.rs` joins them. The terminal table, Markdown, the page,
//! the JSON schema, thresholds, `diff`, the rules of k6 and `docs/reports.md` iterate it, so a row that is added there
//! appears in all of them.

mod books;
mod costs;
mod generator;
mod metric;
mod table;
mod times;

pub(crate) use self::books::*;
pub(crate) use self::costs::*;
pub(crate) use self::generator::*;
#[cfg(test)]
pub(crate) use self::metric::ROW;
pub(crate) use self::metric::{
    Better, Compared, FigureSource, K6, Kind, Metric, Nature, PageTable, SoldNeeded, TableWidth, TrialsOfStrategy,
};
pub(crate) use self::table::*;
pub(crate) use self::times::*;
