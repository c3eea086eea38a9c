//! The comparison as a table. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bench::markdown::table;
use stats::figures::{ABSENT, count, figure, interval, ms, percent};

use crate::gate::{Instructions, Time, Times, Verdict};
use crate::recorded::{Side, Sides};

const COLUMNS: [&str; 8] = ["bench", "base", "head", "head ÷ base", "interval", "base noise", "head noise", "verdict"];

/// The columns of words, which stand to the left; figures stand to the right.
const NAME: usize = 0;
const VERDICT: usize = COLUMNS.len() - 1;

/// All that was compared.
#[derive(Debug)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

/// One bench.
#[derive(Debug)]
struct Row {
    name: String,
    finding: Finding,
}

#[derive(Debug)]
enum Finding {
    Times(Times),
    Instructions(Instructions),
    /// What only one revision has, and how much of it.
    Only(Side, String),
}

impl Report {
    /// Puts together what both revisions have, of the benches that have `filter` in their names.
    pub(crate) fn new(
        times: BTreeMap<String, Sides<[Time; 2]>>,
        instructions: BTreeMap<String, Sides<u64>>,
        filter: Option<&str>,
    ) -> Self {
        let row = |name, finding: Option<Finding>| finding.map(|finding| Row { name, finding });
        let times = in_order(times).filter_map(|(name, sides)| row(name, times_of(sides)));
        let instructions = in_order(instructions).filter_map(|(name, sides)| row(name, instructions_of(sides)));
        let is_wanted = |row: &Row| filter.is_none_or(|part| row.name.contains(part));
        Self { rows: times.chain(instructions).filter(is_wanted).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn is_regressed(&self) -> bool {
        self.rows.iter().any(|row| row.finding.verdict() == Some(Verdict::Regressed))
    }

    /// A Markdown table with a line of totals below.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = String::new();
        table(&mut text, COLUMNS, &[NAME, VERDICT], self.rows.iter().map(Row::cells));
        text.push('\n');
        text += &self.totals();
        text
    }

    fn totals(&self) -> String {
        let with = |verdict| self.rows.iter().filter(|row| row.finding.verdict() == verdict).count();
        let only_in =
            |side| self.rows.iter().filter(|row| matches!(row.finding, Finding::Only(of, _) if of == side)).count();
        let mut text = format!(
            "{} benches: {} faster, {} the same, {} slower, {} regressed, {} cannot tell; {} new, {} deleted\n",
            self.rows.len(),
            with(Some(Verdict::Faster)),
            with(Some(Verdict::Same)),
            with(Some(Verdict::Slower)),
            with(Some(Verdict::Regressed)),
            with(Some(Verdict::CannotTell)),
            only_in(Side::Head),
            only_in(Side::Base),
        );
        for row in &self.rows {
            if let Some((what, why)) = row.finding.reason() {
                // Writing into a String cannot fail.
                let _ = writeln!(text, "{what}: {}: {why}", row.name);
            }
        }
        text
    }
}

/// By name, with the numbers in the names in the order of numbers.
fn in_order<T>(benches: BTreeMap<String, T>) -> impl Iterator<Item = (String, T)> {
    let mut benches: Vec<_> = benches.into_iter().collect();
    benches.sort_by_cached_key(|(name, _)| sort_key(name));
    benches.into_iter()
}

/// The name with its numbers padded to one width.
fn sort_key(name: &str) -> String {
    let (mut key, mut digits) = (String::new(), String::new());
    for character in name.chars().chain([' ']) {
        if character.is_ascii_digit() {
            digits.push(character);
            continue;
        }
        if !digits.is_empty() {
            let _ = write!(key, "{digits:0>20}");
            digits.clear();
        }
        key.push(character);
    }
    key
}

fn times_of(sides: Sides<[Time; 2]>) -> Option<Finding> {
    sides.into_finding(|base, head| Finding::Times(Times { base, head }), mean)
}

fn instructions_of(sides: Sides<u64>) -> Option<Finding> {
    sides.into_finding(|base, head| Finding::Instructions(Instructions { base, head }), instructions)
}

impl<T> Sides<T> {
    fn into_finding(self, both: impl FnOnce(T, T) -> Finding, format: impl FnOnce(T) -> String) -> Option<Finding> {
        match (self.base, self.head) {
            (Some(base), Some(head)) => Some(both(base, head)),
            (Some(base), None) => Some(Finding::Only(Side::Base, format(base))),
            (None, Some(head)) => Some(Finding::Only(Side::Head, format(head))),
            (None, None) => None,
        }
    }
}

/// The time of one revision: the geometric mean of both halves, as the ratio is one of both halves.
fn mean([first, second]: [Time; 2]) -> String {
    ms((first.point_ns * second.point_ns).sqrt() / 1e6)
}

fn instructions(instructions: u64) -> String {
    format!("{} instr", count(instructions))
}

impl Finding {
    /// The verdict, where there is something to compare.
    fn verdict(&self) -> Option<Verdict> {
        match self {
            Self::Times(times) => Some(times.verdict()),
            Self::Instructions(instructions) => Some(instructions.verdict()),
            Self::Only(..) => None,
        }
    }

    /// What the reader must know of this bench, and why.
    fn reason(&self) -> Option<(&'static str, String)> {
        match (self, self.verdict()) {
            (Self::Times(times), Some(Verdict::Regressed)) => Some((
                "regressed",
                format!(
                    "takes {} times as long, slower in both halves; the noise of base excuses {}",
                    figure(times.ratio()),
                    figure(times.limit()),
                ),
            )),
            (Self::Times(times), Some(Verdict::CannotTell)) => Some((
                "cannot tell",
                format!("the noise allows that it takes {} times as long", figure(times.allowed())),
            )),
            (Self::Instructions(instructions), Some(Verdict::Regressed)) => {
                Some(("regressed", format!("{} times the instructions", figure(instructions.ratio()))))
            }
            (Self::Only(Side::Base, _), _) => Some(("deleted", "only base has it, so nothing was compared".to_owned())),
            _ => None,
        }
    }
}

impl Row {
    fn cells(&self) -> [String; COLUMNS.len()] {
        let nothing = || ABSENT.to_owned();
        let figures = match &self.finding {
            Finding::Times(times) => {
                let (lower, upper) = times.interval();
                [
                    mean(times.base),
                    mean(times.head),
                    figure(times.ratio()),
                    interval(Some(lower), Some(upper)).unwrap_or_else(nothing),
                    format!("± {}", percent(times.base_noise())),
                    format!("± {}", percent(times.head_noise())),
                ]
            }
            Finding::Instructions(counts) => [
                instructions(counts.base),
                instructions(counts.head),
                figure(counts.ratio()),
                "exact".to_owned(),
                nothing(),
                nothing(),
            ],
            Finding::Only(side, figure) => {
                let in_base = if *side == Side::Base { figure.clone() } else { nothing() };
                let in_head = if *side == Side::Head { figure.clone() } else { nothing() };
                [in_base, in_head, nothing(), nothing(), nothing(), nothing()]
            }
        };
        let verdict = match &self.finding {
            Finding::Only(Side::Base, _) => "deleted".to_owned(),
            Finding::Only(Side::Head, _) => "new".to_owned(),
            finding => finding.verdict().map_or_else(nothing, |verdict| word(verdict).to_owned()),
        };
        let [base, head, ratio, interval, base_noise, head_noise] = figures;
        [self.name.clone(), base, head, ratio, interval, base_noise, head_noise, verdict]
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Same => "~",
        Verdict::CannotTell => "?",
        Verdict::Slower => "slower",
        Verdict::Regressed => "**regressed**",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(point_ns: f64) -> Time {
        Time { point_ns, lower_ns: point_ns * 0.99, upper_ns: point_ns * 1.01 }
    }

    fn both<T>(base: T, head: T) -> Sides<T> {
        Sides { base: Some(base), head: Some(head) }
    }

    fn times(base: [f64; 2], head: [f64; 2]) -> Sides<[Time; 2]> {
        both(base.map(time), head.map(time))
    }

    fn report(head_count: u64, filter: Option<&str>) -> Report {
        let counts = [
            ("queues/verdict/mutex_1000", both(1_234_567, head_count)),
            ("queues/verdict/mutex_100", both(123_456, 123_456)),
            ("queues/parse_name/any", Sides { base: None, head: Some(321) }),
        ];
        let clocked = [
            ("handover/mutex/1500", times([2_000_000.0, 2_100_000.0], [1_000_000.0, 1_050_000.0])),
            ("handover/mutex/30", times([400_000.0, 400_000.0], [460_000.0, 460_000.0])),
            ("handover/mutex/2", times([200_000.0, 500_000.0], [210_000.0, 490_000.0])),
            ("uncontended/mutex", Sides { base: Some([time(900.0), time(950.0)]), head: None }),
        ];
        let owned = |name: &str| name.to_owned();
        Report::new(
            clocked.into_iter().map(|(name, sides)| (owned(name), sides)).collect(),
            counts.into_iter().map(|(name, sides)| (owned(name), sides)).collect(),
            filter,
        )
    }

    #[test]
    fn the_table_shows_ratios_intervals_noise_and_verdicts() {
        insta::assert_snapshot!(report(1_400_000, None).to_markdown());
    }

    #[test]
    fn a_filter_keeps_the_benches_that_have_it_in_their_names() {
        let filtered = report(1_400_000, Some("handover"));
        assert_eq!(filtered.rows.len(), 3);
        assert!(!filtered.is_regressed());
        assert!(report(1_400_000, Some("nothing like it")).is_empty());
    }

    #[test]
    fn one_regressed_bench_closes_the_gate() {
        assert!(!report(1_290_000, None).is_regressed());
        assert!(report(1_300_000, None).is_regressed());
    }

    #[test]
    fn numbers_in_names_are_ordered_as_numbers() {
        let mut names = ["b/1500", "b/2", "a_10000", "b/30", "a_10", "a_9x"];
        names.sort_by_cached_key(|name| sort_key(name));
        assert_eq!(names, ["a_9x", "a_10", "a_10000", "b/2", "b/30", "b/1500"]);
    }
}
