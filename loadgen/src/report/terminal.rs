//! The comparison for a terminal.

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, Width};

use crate::judge::diff::Diff;
use crate::judge::diff::rows::Row;
use crate::judge::metrics::{Metric, NOTIFICATIONS_PER_RELEASE, P99, RATIO, TableWidth, UNDERSOLD};
use crate::lab::strategy::Strategy;
use crate::report::Report;
use crate::report::table::{self, COMPARED, TextTable, compared, titles};

/// Width at which a narrow table wraps the finding.
const KEPT_WIDTH: usize = 12;

/// Width at which a table wraps sentences if there is no terminal.
const PROSE_WIDTH: u16 = 110;

/// Widths of a terminal to which a narrow table adapts. Without a terminal it takes the largest.
const NARROW_WIDTHS: [u16; 2] = [60, 100];

/// The figures that a narrow table leaves out if there is no room, in this order.
static LEFT_OUT_FIRST: [&Metric; 4] = [&NOTIFICATIONS_PER_RELEASE, &RATIO, &UNDERSOLD, &P99];

/// Renders the table, the conditions and the verdict. A narrow table fits the columns of the terminal.
pub(crate) fn render(report: &Report, metrics: &[&Metric], column: TableWidth, columns: Option<u16>) -> String {
    let metrics = &report.shown(metrics)[..];
    let mut text = format!("{}\n", table::conditions(report));
    text += &match column {
        TableWidth::Narrow => narrow(report, metrics, columns),
        TableWidth::Wide | TableWidth::Page => wide(report, metrics, column),
    };
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

/// Renders a table at its full width: a pipe shows all of it, and so does a terminal that wraps lines.
fn wide(report: &Report, metrics: &[&Metric], column: TableWidth) -> String {
    let table = TextTable::of(report, metrics, column);
    let title = |(title, unit): (&str, &str)| format!("{title}\n{unit}").trim_end().replace('\u{ad}', "");
    let header: Vec<String> = table.header().into_iter().map(title).collect();
    format!("{}\n", framed(&header, table.rows(), table::TEXT_COLUMNS))
}

/// Renders a table that fits the columns of the terminal, and says which figures it leaves out for that.
fn narrow(report: &Report, metrics: &[&Metric], columns: Option<u16>) -> String {
    let [least, most] = NARROW_WIDTHS;
    let room = usize::from(columns.unwrap_or(most).clamp(least, most));
    let mut shown = metrics.to_vec();
    let mut left_out = Vec::new();
    let mut candidates =
        LEFT_OUT_FIRST.iter().filter(|candidate| metrics.iter().any(|metric| metric.key == candidate.key));
    let (header, rows, widths, (padding, rest)) = loop {
        let table = TextTable::of(report, &shown, TableWidth::Narrow);
        let title =
            |(title, unit): (&str, &str)| format!("{title} {unit}").trim_end().replace('\u{ad}', "").replace(' ', "\n");
        let header: Vec<String> = table.header().into_iter().map(title).collect();
        let rows = table.rows();
        let widths = widths(&header, &rows);
        // One blank stands between two columns, and the padding in each.
        let needed = |padding| widths.iter().map(|width| width + padding + 1).sum::<usize>() - 1;
        let fit = [1, 0].into_iter().find_map(|padding| Some((padding, room.checked_sub(needed(padding))?)));
        match (fit, candidates.next()) {
            (Some(fit), _) => break (header, rows, widths, fit),
            (None, None) => break (header, rows, widths, (0, 0)),
            (None, Some(next)) => {
                shown.retain(|metric| metric.key != next.key);
                left_out.push(next.name());
            }
        }
    };
    let natural = rows.iter().map(|row| row[0].chars().count()).max().unwrap_or(0);
    let mut rest = rest;
    let mut framed = framed(&header, rows, table::TEXT_COLUMNS);
    for (at, column) in framed.column_iter_mut().enumerate() {
        column.set_padding((0, u16::from(padding > 0)));
        if at < table::TEXT_COLUMNS {
            let most = if at == 0 { natural } else { KEPT_WIDTH };
            // The first columns take what is left of the room, as far as they can use it.
            let width = (widths[at] + rest).min(most).max(widths[at]);
            rest -= width - widths[at];
            let width = u16::try_from(width + padding).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(width)));
        }
    }
    let mut text = format!("{framed}\n");
    if !left_out.is_empty() {
        text += &format!("left out, as the terminal is narrow: {}; report.html has them\n", left_out.join(", "));
    }
    text
}

/// Returns the least width of each column. Columns of text may wrap between words. Figures and the words of headings may not.
fn widths(header: &[String], rows: &[Vec<String>]) -> Vec<usize> {
    let width = |text: &str| text.chars().count();
    let longest = |text: &str| text.split_whitespace().map(width).max().unwrap_or(0);
    let of_column = |at: usize| {
        let cell = |row: &Vec<String>| if at < table::TEXT_COLUMNS { longest(&row[at]) } else { width(&row[at]) };
        rows.iter().map(cell).chain([longest(&header[at])]).max().unwrap_or(0)
    };
    (0..header.len()).map(of_column).collect()
}

/// Renders the strategies that a service lists.
pub(crate) fn strategies(strategies: &[Strategy], columns: Option<u16>) -> String {
    let header = ["strategy", "promise", "what it does"].map(str::to_owned);
    let row = |strategy: &Strategy| {
        vec![strategy.name.clone(), strategy.promise.as_str().to_owned(), strategy.summary.clone()]
    };
    let mut table = framed(&header, strategies.iter().map(row).collect(), header.len());
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(columns.map_or(PROSE_WIDTH, |columns| columns.clamp(NARROW_WIDTHS[0], PROSE_WIDTH)));
    format!("{table}\n")
}

/// Renders a comparison of runs.
pub(crate) fn diff(diff: &Diff, metrics: &[&Metric]) -> String {
    let mut text = figures_of(diff, metrics);
    for reason in &diff.reasons {
        text += &format!("verdict: {reason}\n");
    }
    text
}

/// Renders every figure of both sides, and a description of the sides.
fn figures_of(diff: &Diff, metrics: &[&Metric]) -> String {
    let mut header = vec![diff.subject.nouns().one.to_owned()];
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

/// Makes a table without lines between its rows. The first columns hold text, and the others figures.
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
    use crate::report::{fixture, shop_fixture};

    #[test]
    fn a_comparison() {
        insta::assert_snapshot!(render(&fixture::report(), METRICS, TableWidth::Narrow, None));
    }

    // C31
    #[test]
    fn the_narrow_table_fits_the_terminal_and_breaks_no_word() {
        let mut report = fixture::report();
        for result in &mut report.results {
            result.strategy = "zk-mutex-early-release".to_owned();
            result.users = 1500;
        }
        report.schedule.users = vec![30, 1500];
        for (columns, expected) in [(None, 100), (Some(200), 100), (Some(80), 80), (Some(60), 60), (Some(20), 60)] {
            let text = render(&report, METRICS, TableWidth::Narrow, columns);
            let table: Vec<&str> = text
                .lines()
                .skip_while(|line| !line.starts_with('─'))
                .take_while(|line| !line.starts_with("Times") && !line.starts_with("left out"))
                .collect();
            let widest = table.iter().map(|line| line.chars().count()).max().unwrap();
            assert!((expected - 20..=expected).contains(&widest), "{widest} columns:\n{text}");
            let words: Vec<&str> = table.iter().flat_map(|line| line.split_whitespace()).collect();
            for word in ["Strategy", "Oversold", "units/s", "p50", "zk-mutex-early-release", "@1500", "oversold,"] {
                assert!(words.contains(&word), "{word} is not whole in:\n{text}");
            }
            assert_eq!(text.contains("left out, as the terminal is narrow: "), expected < 100, "{text}");
        }
    }

    #[test]
    fn the_wide_table_has_all_that_the_narrow_one_has_and_intervals() {
        let (narrow, wide) = [TableWidth::Narrow, TableWidth::Wide]
            .map(|column| render(&fixture::report(), METRICS, column, None))
            .into();
        assert!(wide.contains("Bad trials") && !narrow.contains("Bad"), "{narrow}\n{wide}");
        assert!(wide.contains('[') && !narrow.contains('['), "{narrow}\n{wide}");
    }

    #[test]
    fn a_comparison_of_two_builds() {
        insta::assert_snapshot!(render(&fixture::builds("zk-mutex"), METRICS, TableWidth::Narrow, None));
    }

    #[test]
    fn an_interrupted_comparison() {
        insta::assert_snapshot!(render(&fixture::interrupted(), METRICS, TableWidth::Narrow, None));
    }

    #[test]
    fn a_comparison_on_a_narrow_terminal() {
        insta::assert_snapshot!(render(&fixture::report(), METRICS, TableWidth::Narrow, Some(60)));
    }

    #[test]
    fn a_check_of_a_right_shop() {
        let report = shop_fixture::right_shop();
        insta::assert_snapshot!(render(&report, &report.metrics(), TableWidth::Narrow, None));
    }

    #[test]
    fn a_check_of_a_wrong_shop() {
        let report = shop_fixture::wrong_shop();
        insta::assert_snapshot!(render(&report, &report.metrics(), TableWidth::Wide, None));
    }

    #[test]
    fn a_check_of_two_shops_on_a_narrow_terminal() {
        let report = shop_fixture::wrong_shop_beside_right();
        insta::assert_snapshot!(render(&report, &report.metrics(), TableWidth::Narrow, Some(60)));
    }

    #[test]
    fn a_list_of_strategies() {
        insta::assert_snapshot!(strategies(&fixture::strategies(), None));
    }
}
