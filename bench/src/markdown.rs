//! The common parts of the reports, as GitHub-flavoured Markdown that can also be read on a terminal.

use std::fmt::Write as _;

use stats::figures::{ABSENT, figure};

use crate::{Goal, Ratio, Spread};

/// Appends a table. The columns of text are aligned to the left, all others to the right.
pub fn table<const N: usize>(
    text: &mut String,
    header: [&str; N],
    text_columns: &[usize],
    rows: impl IntoIterator<Item = [String; N]>,
) {
    let rows: Vec<[String; N]> = rows.into_iter().collect();
    let header = header.map(str::to_owned);
    let width = |column: usize| {
        let cells = rows.iter().chain([&header]).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).max("-:".len())
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let is_text = |column: usize| text_columns.contains(&column);
    let rules = std::array::from_fn(|column| match widths[column] {
        width if is_text(column) => "-".repeat(width),
        width => "-".repeat(width - 1) + ":",
    });
    for row in [&header, &rules].into_iter().chain(&rows) {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if is_text(column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        // Writing into a String cannot fail.
        let _ = writeln!(text, "| {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

/// Appends the table of figures with goals.
pub fn ratios(text: &mut String, ratios: &[Ratio]) {
    table(text, ["figure", "goal", "median", "min..max", "met"], &[0], ratios.iter().map(ratio));
}

fn ratio(ratio: &Ratio) -> [String; 5] {
    let goal = match ratio.goal {
        Goal::AtMost(limit) => format!("≤ {limit}"),
        Goal::AtLeast(limit) => format!("≥ {limit}"),
        Goal::Within(least, most) => format!("{least}..{most}"),
    };
    let is_met = ratio.spread.map(|spread| if ratio.goal.is_met(spread.median) { "yes" } else { "no" });
    let [median, range] = spread(ratio.spread);
    [ratio.name.clone(), goal, median, range, is_met.unwrap_or(ABSENT).to_owned()]
}

/// Writes the median of a figure, and its range.
#[must_use]
pub fn spread(spread: Option<Spread>) -> [String; 2] {
    spread.map_or([ABSENT, ABSENT].map(str::to_owned), |Spread { median, min, max }| {
        [figure(median), format!("{}..{}", figure(min), figure(max))]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_aligned_to_the_left_and_figures_to_the_right() {
        let mut text = String::new();
        let rows = [["mutex", "12", "yes"], ["semaphore", "1234", "–"]];
        table(&mut text, ["recipe", "n", "met"], &[0, 2], rows.map(|row| row.map(str::to_owned)));
        let expected = "\
            | recipe    |    n | met |\n\
            | --------- | ---: | --- |\n\
            | mutex     |   12 | yes |\n\
            | semaphore | 1234 | –   |\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_ratio_is_told_with_its_goal_and_its_range() {
        let told = |goal, values: &[f64]| ratio(&Ratio { name: "one".to_owned(), goal, spread: Spread::of(values) });
        assert_eq!(told(Goal::AtLeast(2.5), &[2.0, 2.6, 3.0]), ["one", "≥ 2.5", "2.60", "2.00..3.00", "yes"]);
        assert_eq!(told(Goal::AtMost(40.0), &[50.0]), ["one", "≤ 40", "50.0", "50.0..50.0", "no"]);
        assert_eq!(told(Goal::Within(0.9, 1.1), &[]), ["one", "0.9..1.1", "–", "–", "–"]);
    }
}
