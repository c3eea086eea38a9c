//! The comparison for a terminal.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table};

use crate::report::{Report, table};
use crate::strategies::Strategy;

/// Where a table of sentences wraps them.
const PROSE_WIDTH: u16 = 110;

/// The table, the conditions and the verdict.
pub(crate) fn render(report: &Report) -> String {
    let narrow = |mut cells: Vec<String>| {
        cells.remove(table::PROMISE_COLUMN);
        cells
    };
    let rows = table::rows(report).into_iter().map(narrow).collect();
    // As wide as it needs to be: a terminal that wraps lines still shows all of it, and so does a pipe.
    let table = framed(&narrow(table::header(report)), rows, table::TEXT_COLUMNS - 1);
    let mut text = format!("{}\n{table}\n", table::conditions(report));
    text.push_str(
        "response times of the sold, from the release to the last byte; – where the sample cannot carry it\n",
    );
    for line in table::generator(report).iter().chain(&report.warnings) {
        text.push_str(line);
        text.push('\n');
    }
    for reason in &report.verdict.reasons {
        text += &format!("verdict: {reason}\n");
    }
    text
}

/// The strategies that a service lists.
pub(crate) fn strategies(strategies: &[Strategy]) -> String {
    let header = ["strategy", "promise", "what it does"].map(str::to_owned);
    let row = |strategy: &Strategy| {
        vec![strategy.name.clone(), strategy.promise.as_str().to_owned(), strategy.summary.clone()]
    };
    let mut table = framed(&header, strategies.iter().map(row).collect(), header.len());
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(PROSE_WIDTH);
    format!("{table}\n")
}

/// A table without lines between its rows, of which the first columns hold text and the others figures.
fn framed(header: &[String], rows: Vec<Vec<String>>, text_columns: usize) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
    table.set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(text_columns) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_comparison() {
        insta::assert_snapshot!(render(&fixture::report()));
    }

    #[test]
    fn an_interrupted_comparison() {
        insta::assert_snapshot!(render(&fixture::interrupted()));
    }

    #[test]
    fn a_list_of_strategies() {
        insta::assert_snapshot!(strategies(&fixture::strategies()));
    }
}
