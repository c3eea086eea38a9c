//! Rules that a comparison has to hold: `'zk-mutex p99<250ms'`, `'zk-* oversold==0'`, `'zk-naive@1500 goodput>=50'`.
//!
//! A rule names the strategies (with `*` and `?`, and with a number of users behind `@` where there are several), a metric,
//! a comparison and a value. A figure that was not measured, or not in every trial, holds no rule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::figures;
use wildmatch::WildMatch;

use crate::judge::metrics::{Better, Kind, METRICS, Metric};
use crate::judge::result::{Part, StrategyResult};

/// One rule.
#[derive(Debug, Clone)]
pub(crate) struct Threshold {
    rule: String,
    strategies: WildMatch,
    users: Option<u32>,
    metric: &'static Metric,
    comparison: Comparison,
    /// In the unit of the metric.
    value: f64,
}

/// What a rule says.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    /// The strategies that it is about, with `*` and `?`.
    pub(crate) strategies: String,
    /// The only number of users that it is about, if there is one.
    pub(crate) users: Option<u32>,
    /// The figure.
    pub(crate) metric: &'static Metric,
    /// The comparison, such as `<=`.
    pub(crate) sign: &'static str,
    /// What the figure is compared with, in milliseconds if it is a time.
    pub(crate) value: f64,
}

/// What came of a rule for one strategy and number of users.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ThresholdResult {
    /// The rule as it was given.
    pub(crate) rule: String,
    /// The strategy.
    pub(crate) strategy: String,
    /// How many users.
    pub(crate) users: u32,
    /// The figure, in milliseconds if it is a time; absent if there is none, or if only some trials have it, and "not
    /// reached" if it lies among requests that were never served.
    #[serde(with = "stats::reached::maybe")]
    #[schemars(with = "Option<stats::reached::Reached>")]
    pub(crate) value: Option<f64>,
    /// How many trials have the figure, if only some do.
    pub(crate) part: Option<Part>,
    /// Whether the rule held.
    pub(crate) held: bool,
}

impl ThresholdResult {
    /// The rule and what was found.
    pub(crate) fn describe(&self) -> String {
        let value = match (self.value, self.part) {
            (Some(value), _) => format!("is {}", figures::exact(value)),
            (None, Some(part)) => format!("was measured in {part} only"),
            (None, None) => "was not measured".to_owned(),
        };
        format!("{}: {} with {} users {value}", self.rule, self.strategy, self.users)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    Equal,
    AtLeast,
    Greater,
}

/// The longest first, as `<` begins `<=`.
const COMPARISONS: [(&str, Comparison); 5] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("==", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

impl Comparison {
    fn holds(self, figure: f64, value: f64) -> bool {
        match self {
            Comparison::Less => figure < value,
            Comparison::AtMost => figure <= value,
            #[expect(clippy::float_cmp, reason = "counts are whole, and a rule that says so means it")]
            Comparison::Equal => figure == value,
            Comparison::AtLeast => figure >= value,
            Comparison::Greater => figure > value,
        }
    }
}

/// Names of the figures that a rule may be about.
pub(crate) fn metric_names(metrics: &[&Metric]) -> String {
    metrics.iter().map(|metric| metric.key).collect::<Vec<_>>().join(", ")
}

impl Threshold {
    /// Reads a rule.
    ///
    /// # Errors
    ///
    /// What is wrong, with the rule and a mark at the place.
    pub(crate) fn parse(rule: &str) -> Result<Threshold, String> {
        Threshold::parse_by(METRICS, rule)
    }

    /// Reads a rule about the figures of this table.
    ///
    /// # Errors
    ///
    /// Those of [`Threshold::parse`].
    pub(crate) fn parse_by(metrics: &[&'static Metric], rule: &str) -> Result<Threshold, String> {
        let mut reader = Reader { rule, at: 0 };
        let pattern = reader.word(|c| c.is_ascii_alphanumeric() || "-_*?".contains(c));
        if pattern.is_empty() {
            return Err(reader.wrong("a strategy is expected here, such as zk-mutex or zk-*"));
        }
        let users = if reader.take("@") { Some(reader.users()?) } else { None };
        reader.space();
        let metric = reader.metric(metrics)?;
        reader.space();
        let comparison = COMPARISONS.iter().find(|(sign, _)| reader.take(sign)).map(|(_, comparison)| *comparison);
        let comparison = comparison.ok_or_else(|| reader.wrong("one of <, <=, ==, >= and > is expected here"))?;
        reader.space();
        let value = reader.value(metric)?;
        // On one line, wherever it is written.
        let rule = rule.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Threshold { rule, strategies: WildMatch::new(pattern), users, metric, comparison, value })
    }

    /// Whether the rule is about this strategy with this number of users.
    pub(crate) fn is_about(&self, strategy: &str, users: u32) -> bool {
        self.strategies.matches(strategy) && self.users.is_none_or(|these| these == users)
    }

    /// The rule as it was given.
    pub(crate) fn rule(&self) -> &str {
        &self.rule
    }

    /// The parts of the rule, for tools that check it themselves.
    pub(crate) fn parts(&self) -> Parts {
        let sign =
            COMPARISONS.iter().find(|(_, comparison)| *comparison == self.comparison).map_or("", |(sign, _)| sign);
        Parts {
            strategies: self.strategies.to_string(),
            users: self.users,
            metric: self.metric,
            sign,
            value: self.value,
        }
    }

    /// What comes of the rule for each result that it is about.
    pub(crate) fn check(&self, results: &[StrategyResult]) -> Vec<ThresholdResult> {
        let about = results.iter().filter(|result| self.is_about(&result.strategy, result.users));
        let check = |result: &StrategyResult| {
            // A fault counts by its size, whatever its sign.
            let size = |value: f64| if self.metric.better == Better::Zero { value.abs() } else { value };
            let part = result.partial.get(self.metric.key).copied();
            let value = self.metric.value(result).filter(|_| part.is_none()).map(size);
            ThresholdResult {
                rule: self.rule.clone(),
                strategy: result.strategy.clone(),
                users: result.users,
                value,
                part,
                held: value.is_some_and(|figure| self.comparison.holds(figure, self.value)),
            }
        };
        about.map(check).collect()
    }
}

/// Reads a rule from left to right, and knows where it is.
struct Reader<'a> {
    rule: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.rule[self.at..]
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let word = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn space(&mut self) {
        self.word(char::is_whitespace);
    }

    fn take(&mut self, sign: &str) -> bool {
        let taken = self.rest().starts_with(sign);
        self.at += if taken { sign.len() } else { 0 };
        taken
    }

    fn users(&mut self) -> Result<u32, String> {
        let at = self.at;
        let digits = self.word(|c| c.is_ascii_digit());
        digits.parse().map_err(|_| Reader { at, ..*self }.wrong("a number of users is expected here"))
    }

    fn metric(&mut self, metrics: &[&'static Metric]) -> Result<&'static Metric, String> {
        let at = self.at;
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '_');
        let metric = metrics.iter().copied().find(|metric| metric.key == name);
        metric.ok_or_else(|| {
            let names = metric_names(metrics);
            Reader { at, ..*self }.wrong(&format!("a metric is expected here, one of {names}"))
        })
    }

    /// The rest of the rule, in the unit of the metric.
    fn value(&mut self, metric: &Metric) -> Result<f64, String> {
        let text = self.rest().trim_end();
        let (value, example) = match metric.kind {
            // humantime knows no fractions, which a rule may well have.
            Kind::Time => (time_ms(text), "a time is expected here, such as 250ms or 1.5s"),
            Kind::Share => (share_of(text), "a share is expected here, such as 0.05 or 5%"),
            Kind::Count | Kind::Number | Kind::Ratio => (text.parse().ok(), "a number is expected here"),
        };
        value.filter(|value: &f64| value.is_finite()).ok_or_else(|| self.wrong(example))
    }

    fn wrong(&self, what: &str) -> String {
        let before = self.rule[..self.at].chars().count();
        format!("{what}\n  {}\n  {}^", self.rule, " ".repeat(before))
    }
}

fn time_ms(text: &str) -> Option<f64> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
    let factor = match &text[number.len()..] {
        "us" | "µs" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 60e3,
        _ => return None,
    };
    Some(number.trim_end().parse::<f64>().ok()? * factor)
}

fn share_of(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => Some(percent.trim_end().parse::<f64>().ok()? / 100.0),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Report, fixture};

    fn check(rule: &str) -> Vec<ThresholdResult> {
        Threshold::parse(rule).unwrap().check(&fixture::report().results)
    }

    #[test]
    fn a_rule_is_checked_for_every_strategy_that_it_names() {
        let results = check("zk-* oversold==0");
        let names: Vec<&str> = results.iter().map(|result| result.strategy.as_str()).collect();
        assert_eq!(names, ["zk-naive", "zk-mutex"]);
        assert!(results.iter().all(|result| result.held && result.value == Some(0.0)), "{results:?}");
        assert!(!check("unguarded oversold == 0")[0].held);
        assert_eq!(check("zk-mutex@300 oversold==0").len(), 1);
        assert_eq!(check("zk-mutex@1500 oversold==0"), []);
    }

    #[test]
    fn times_shares_and_numbers_are_read_in_their_units() {
        let value = |rule: &str| Threshold::parse(rule).unwrap().value;
        assert_eq!([value("a p99<250ms"), value("a p99 < 1.5s"), value("a max<=2m")], [250.0, 1500.0, 120_000.0]);
        assert_eq!([value("a p50<750us"), value("a refused<5%"), value("a refused<0.05")], [0.75, 0.05, 0.05]);
        assert_eq!(value("a notifications_per_release<=1"), 1.0);
    }

    #[test]
    fn every_comparison_means_what_it_says() {
        let held = |comparison: &str| check(&format!("zk-mutex notifications_per_release{comparison}"))[0].held;
        // 299 notifications of 300 releases.
        assert!(held("<1") && held("<=1") && held(">0.99") && held(">=0.5"));
        assert!(!held(">1") && !held("==1") && !held("<0.5"));
    }

    #[test]
    fn what_was_not_measured_holds_no_rule() {
        let result = &check("pg-conditional notifications_per_release<1000")[0];
        assert_eq!((result.value, result.held), (None, false));
        assert!(result.describe().ends_with("pg-conditional with 300 users was not measured"));
        assert!(check("zk-mutex p50<1ms")[0].describe().starts_with("zk-mutex p50<1ms: zk-mutex with 300 users is 2"));
    }

    #[test]
    fn a_figure_of_some_trials_holds_no_rule() {
        let mut report = fixture::report();
        report.trials.iter_mut().filter(|trial| trial.block == 3).for_each(|trial| trial.zookeeper.releases = None);
        let findings = fixture::findings(None, report.trials);
        let results = Report::of(findings, METRICS).results;
        let result = &Threshold::parse("zk-mutex notifications_per_release<=1").unwrap().check(&results)[0];
        assert_eq!((result.value, result.held), (None, false));
        assert!(result.describe().ends_with("was measured in 7 of 8 trials only"), "{}", result.describe());
    }

    #[test]
    fn a_wrong_rule_is_refused_with_a_mark_at_the_place() {
        let wrong = |rule: &str| Threshold::parse(rule).unwrap_err();
        assert_eq!(
            wrong("zk-mutex p99=250ms"),
            "one of <, <=, ==, >= and > is expected here\n  zk-mutex p99=250ms\n              ^"
        );
        assert!(wrong("zk-mutex p98<1s").starts_with("a metric is expected here, one of bad_trials, oversold, "));
        assert!(wrong("zk-mutex p98<1s").ends_with("\n  zk-mutex p98<1s\n           ^"));
        assert!(wrong("zk-mutex p99<250").ends_with("\n  zk-mutex p99<250\n               ^"));
        assert!(wrong("zk-mutex@x p99<1s").ends_with("\n  zk-mutex@x p99<1s\n           ^"));
        assert!(wrong(" p99<1s").starts_with("a strategy is expected here"));
        assert!(wrong("zk-mutex oversold<many").starts_with("a number is expected here"));
        assert!(wrong("ü p99<1s").starts_with("a strategy is expected here"));
    }
}
