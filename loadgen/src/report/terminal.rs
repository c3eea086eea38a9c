//! The comparison for a terminal.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table};

use crate::judge::diff::{Diff, Row};
use crate::lab::strategy::Strategy;
use crate::report::{Report, table};

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
        "response times of the sold, from the intended start to the last byte; – where the sample cannot carry it\n\
         ratio of the medians with its 95 % interval; ~ not to be told from 1, ? too few trials to tell\n",
    );
    for line in table::generator(report).iter().chain(&report.caveats) {
        text.push_str(line);
        text.push('\n');
    }
    text += &format!("{}\n", report.verdict.sentence);
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

/// What came of comparing two runs.
pub(crate) fn diff(diff: &Diff) -> String {
    let header = ["strategy", "figure", "old", "new", "new/old [95 %]", "p (Holm)", ""].map(str::to_owned);
    let row = |row: &Row| {
        let interval = match (row.ratio.low, row.ratio.high) {
            (Some(low), Some(high)) => format!("{:.2} [{low:.2}, {high:.2}]", row.ratio.estimate),
            _ => format!("{:.2}", row.ratio.estimate),
        };
        vec![
            format!("{} @{}", row.strategy, row.users),
            row.figure.to_owned(),
            table::figure(Some(row.old)),
            table::figure(Some(row.new)),
            interval,
            format!("{:.3}", row.ratio.p_holm),
            row.verdict().to_owned(),
        ]
    };
    let mut text = format!("{}\n", framed(&header, diff.rows.iter().map(row).collect(), 2));
    text.push_str("medians over the trials; ~ not to be told apart, ? too few trials to tell\n");
    for line in &diff.caveats {
        text += &format!("{line}\n");
    }
    let worse: Vec<String> =
        diff.regressions().map(|row| format!("{} of {} with {} users", row.figure, row.strategy, row.users)).collect();
    for broken in &diff.broken {
        text += &format!("verdict: {broken}\n");
    }
    if !worse.is_empty() {
        text += &format!("verdict: worse: {}\n", worse.join(", "));
    }
    if worse.is_empty() && diff.broken.is_empty() {
        text.push_str("verdict: no regression that these trials could show\n");
    }
    text
}

/// A table without lines between its rows, of which the first columns hold text and the others figures.
pub(crate) fn framed(header: &[String], rows: Vec<Vec<String>>, text_columns: usize) -> Table {
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
