//! What the reports have in common, as GitHub-flavoured Markdown.

use std::fmt::Write as _;

use crate::{Goal, Ratio, Spread};

/// What stands for a figure that there is none of.
const ABSENT: &str = "–";

/// Appends a table. The first `text_columns` columns are text, the rest are figures.
pub fn table<const N: usize>(
    text: &mut String,
    header: &[&str; N],
    text_columns: usize,
    rows: impl IntoIterator<Item = [String; N]>,
) {
    let rules = std::array::from_fn(|column| if column < text_columns { "---" } else { "---:" }.to_owned());
    for row in [header.map(str::to_owned), rules].into_iter().chain(rows) {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
}

/// Appends the table of what figures should be, and are.
pub fn ratios(text: &mut String, ratios: &[Ratio]) {
    table(text, &["figure", "goal", "median", "min..max", "met"], 1, ratios.iter().map(ratio));
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

/// The median of a ratio, and its range.
#[must_use]
pub fn spread(spread: Option<Spread>) -> [String; 2] {
    spread.map_or([ABSENT, ABSENT].map(str::to_owned), |Spread { median, min, max }| {
        [decimals(median), format!("{}..{}", decimals(min), decimals(max))]
    })
}

/// Two decimals, unless it is a count.
fn decimals(figure: f64) -> String {
    if figure.fract() == 0.0 && figure >= 10.0 { format!("{figure:.0}") } else { format!("{figure:.2}") }
}

/// Three significant digits are all that a histogram has; below ten one decimal more.
#[must_use]
pub fn figure(value: Option<f64>) -> String {
    match value {
        None => ABSENT.to_owned(),
        Some(value) if value < 10.0 => format!("{value:.2}"),
        Some(value) if value < 100.0 => format!("{value:.1}"),
        Some(value) => thousands(&format!("{value:.0}")),
    }
}

/// Digits in groups of three.
#[must_use]
pub fn thousands(digits: &str) -> String {
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_or_more_and_groups() {
        let figures = [0.0, 1.234, 12.34, 123.4, 1_234.0, 1_234_567.0].map(|value| figure(Some(value)));
        assert_eq!(figures, ["0.00", "1.23", "12.3", "123", "1 234", "1 234 567"]);
    }

    #[test]
    fn a_ratio_is_told_with_its_goal_and_its_range() {
        let ratios = [
            Ratio { name: "one".to_owned(), goal: Goal::AtLeast(2.5), spread: Spread::of(&[2.0, 2.6, 3.0]) },
            Ratio { name: "all".to_owned(), goal: Goal::AtMost(40.0), spread: Spread::of(&[50.0]) },
            Ratio { name: "none".to_owned(), goal: Goal::AtLeast(7.0), spread: None },
        ];
        let mut text = String::new();
        super::ratios(&mut text, &ratios);
        let rows: Vec<_> = text.lines().skip(2).collect();
        let expected = [
            "| one | ≥ 2.5 | 2.60 | 2.00..3.00 | yes |",
            "| all | ≤ 40 | 50 | 50..50 | no |",
            "| none | ≥ 7 | – | – | – |",
        ];
        assert_eq!(rows, expected);
    }
}
