//! The comparison for a terminal.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, Width};

use crate::judge::diff::Diff;
use crate::judge::diff::rows::Row;
use crate::judge::metrics::{Column, Metric};
use crate::lab::strategy::Strategy;
use crate::report::Report;
use crate::report::table::{self, COMPARED, TextTable, compared, titles};

/// Where a narrow table wraps the finding, its blanks included.
const KEPT_WIDTH: u16 = 13;

/// Where a table of sentences wraps them.
const PROSE_WIDTH: u16 = 110;

/// The table, the conditions and the verdict. A narrow table fits 100 columns.
pub(crate) fn render(report: &Report, metrics: &[&Metric], column: Column) -> String {
    let table = TextTable::of(report, metrics, column);
    let title = |(title, unit): (&str, &str)| match column {
        Column::Narrow => format!("{title} {unit}").trim_end().replace('\u{ad}', "-\n").replace(' ', "\n"),
        Column::Wide | Column::Page => format!("{title}\n{unit}").trim_end().replace('\u{ad}', ""),
    };
    let header: Vec<String> = table.header().into_iter().map(title).collect();
    // A wide table is as wide as it needs to be: a terminal that wraps lines still shows all of it, and so does a pipe.
    let mut framed = framed(&header, table.rows(), table::TEXT_COLUMNS);
    if column == Column::Narrow {
        for column in framed.column_iter_mut() {
            column.set_padding((0, 1));
        }
        if let Some(kept) = framed.column_mut(1) {
            kept.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(KEPT_WIDTH)));
        }
    }
    let mut text = format!("{}\n{framed}\n", table::conditions(report));
    text.push_str(&table::legend(report));
    if let Some(builds) = &report.builds {
        text += &figures_of(builds, metrics);
    }
    for line in table::generator(report).iter().chain(&report.caveats) {
        text.push_str(line);
        text.push('\n');
    }
    text += &format!("{}\n", report.verdict.sentence);
    for detail in &report.verdict.details {
        text += &format!("- {detail}\n");
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

/// What came of comparing runs.
pub(crate) fn diff(diff: &Diff, metrics: &[&Metric]) -> String {
    let mut text = figures_of(diff, metrics);
    for reason in &diff.reasons {
        text += &format!("verdict: {reason}\n");
    }
    text
}

/// Every figure of both sides, and what the sides are.
fn figures_of(diff: &Diff, metrics: &[&Metric]) -> String {
    let mut header = vec!["strategy".to_owned()];
    header.extend(titles(diff));
    let row = |row: &Row| {
        let mut cells = vec![format!("{} @{}", row.named(), row.users)];
        cells.extend(compared(row, metrics));
        cells
    };
    let mut text = format!("{}\n", framed(&header, diff.rows.iter().map(row).collect(), 3));
    text += COMPARED;
    text.push('\n');
    for side in [&diff.old, &diff.new] {
        text += &format!("{}: {}\n", side.name, side.described());
    }
    for line in &diff.caveats {
        text += &format!("{line}\n");
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
    use crate::judge::metrics::METRICS;
    use crate::report::fixture;

    #[test]
    fn a_comparison() {
        insta::assert_snapshot!(render(&fixture::report(), METRICS, Column::Narrow));
    }

    #[test]
    fn the_narrow_table_fits_100_columns_whatever_it_says() {
        let mut report = fixture::report();
        for result in &mut report.results {
            result.strategy = "zk-mutex-early-release".to_owned();
            result.users = 1500;
        }
        report.plan.users = vec![30, 1500];
        let text = render(&report, METRICS, Column::Narrow);
        let table = text
            .lines()
            .skip_while(|line| !line.starts_with('═') && !line.starts_with('─'))
            .take_while(|line| !line.starts_with("Times"));
        let widest = table.map(|line| line.chars().count()).max().unwrap();
        assert!((60..=100).contains(&widest), "{widest} columns:\n{text}");
    }

    #[test]
    fn the_wide_table_has_all_that_the_narrow_one_has_and_intervals() {
        let (narrow, wide) =
            [Column::Narrow, Column::Wide].map(|column| render(&fixture::report(), METRICS, column)).into();
        assert!(wide.contains("Bad trials") && !narrow.contains("Bad"), "{narrow}\n{wide}");
        assert!(wide.contains('[') && !narrow.contains('['), "{narrow}\n{wide}");
    }

    #[test]
    fn a_comparison_of_two_builds() {
        insta::assert_snapshot!(render(&fixture::builds("zk-mutex"), METRICS, Column::Narrow));
    }

    #[test]
    fn an_interrupted_comparison() {
        insta::assert_snapshot!(render(&fixture::interrupted(), METRICS, Column::Narrow));
    }

    #[test]
    fn a_list_of_strategies() {
        insta::assert_snapshot!(strategies(&fixture::strategies()));
    }
}
