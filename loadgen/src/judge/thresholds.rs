//! Rules that a comparison has to meet: `'zk-mutex p99<250ms'`, `'zk-* oversold==0'`, `'zk-naive@1500 goodput>=50'`.
//!
//! `docs/reports.md` has their grammar. A figure that was not measured, or not in every trial, meets no rule.

mod reader;

use schemars::JsonSchema;
use serde::Serialize;
use stats::figures;
use wildmatch::WildMatch;

pub(crate) use self::reader::metric_names;
use self::reader::{COMPARISONS, Comparison, Reader};
use crate::judge::metrics::{Better, METRICS, Metric, Nature};
use crate::judge::result::{Part, StrategyResult};
use crate::lab::hazard::Hazard;
use crate::lab::strategy::ExpectedFault;
use crate::trial::schedule::named;

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

/// The parts of a rule.
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
    /// The limit of the figure, in milliseconds if it is a time.
    pub(crate) value: f64,
}

/// The result of a rule for one strategy and number of users.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ThresholdResult {
    /// The rule as it was given.
    pub(crate) rule: String,
    /// The strategy.
    pub(crate) strategy: String,
    /// Number of users.
    pub(crate) users: u32,
    /// The build, if two are compared.
    pub(crate) build: Option<String>,
    /// The hazard, if hazards are compared.
    pub(crate) hazard: Option<Hazard>,
    /// The figure, in milliseconds if it is a time. Absent if no trial or only some trials have it; "not reached" if it lies
    /// among requests that were never served.
    #[serde(with = "stats::reached::maybe")]
    #[schemars(with = "Option<stats::reached::Reached>")]
    pub(crate) value: Option<f64>,
    /// Number of trials that have the figure, if only some do.
    pub(crate) part: Option<Part>,
    /// Whether the figure meets the rule.
    pub(crate) is_met: bool,
}

impl ThresholdResult {
    /// Names the strategy, with its build or its hazard if several are compared.
    pub(crate) fn name(&self) -> String {
        named(&self.strategy, self.build.as_deref(), self.hazard)
    }

    /// Describes the rule and what was found.
    pub(crate) fn describe(&self) -> String {
        let value = match (self.value, self.part) {
            (Some(value), _) => format!("is {}", figures::exact(value)),
            (None, Some(part)) => format!("was measured in {part} only"),
            (None, None) => "was not measured".to_owned(),
        };
        format!("{}: {} with {} users {value}", self.rule, self.name(), self.users)
    }
}

impl Threshold {
    /// Shows the rule in these words.
    pub(crate) fn worded(self, text: &str) -> Threshold {
        Threshold { rule: text.to_owned(), ..self }
    }

    /// Reads a rule.
    pub(crate) fn parse(rule: &str) -> Result<Threshold, String> {
        Threshold::parse_by(METRICS, rule)
    }

    /// Reads a rule about the figures of this table.
    pub(crate) fn parse_by(metrics: &[&'static Metric], rule: &str) -> Result<Threshold, String> {
        let mut reader = Reader::new(rule);
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
        let value = reader.value(metric, comparison)?;
        // On one line in every output.
        let rule = rule.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Threshold { rule, strategies: WildMatch::new(pattern), users, metric, comparison, value })
    }

    /// Tells whether the rule is about this strategy with this number of users.
    pub(crate) fn is_about(&self, strategy: &str, users: u32) -> bool {
        self.strategies.matches(strategy) && self.users.is_none_or(|these| these == users)
    }

    /// Returns the rule as it was given.
    pub(crate) fn rule(&self) -> &str {
        &self.rule
    }

    /// Returns the parts of the rule, for tools that check it themselves.
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

    /// Returns the figure that the rule is about.
    pub(crate) fn metric(&self) -> &'static Metric {
        self.metric
    }

    /// Checks the rule for each result that it is about and that can have the figure.
    pub(crate) fn check(&self, results: &[StrategyResult], instances: usize) -> Vec<ThresholdResult> {
        let about = results.iter().filter(|result| {
            let StrategyResult { mechanism, permits, .. } = **result;
            let nature = Nature {
                mechanism,
                permits,
                oversells: result.promise.expects(instances, false) == ExpectedFault::Oversold,
            };
            self.is_about(&result.strategy, result.users) && self.metric.is_had_by(nature)
        });
        let check = |result: &StrategyResult| {
            // A fault counts by its size: both signs are wrong.
            let size = |value: f64| if self.metric.better == Better::Zero { value.abs() } else { value };
            let part = result.partial.get(self.metric.key).copied();
            let value = self.metric.value(result).filter(|_| part.is_none()).map(size);
            ThresholdResult {
                rule: self.rule.clone(),
                strategy: result.strategy.clone(),
                users: result.users,
                build: result.build.clone(),
                hazard: result.hazard,
                value,
                part,
                is_met: value.is_some_and(|figure| self.comparison.is_met(figure, self.value)),
            }
        };
        about.map(check).collect()
    }
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Report, fixture};

    fn check(rule: &str) -> Vec<ThresholdResult> {
        Threshold::parse(rule).unwrap().check(&fixture::report().results, 3)
    }

    #[test]
    fn a_rule_is_checked_for_every_strategy_that_it_names() {
        let results = check("zk-* oversold==0");
        let names: Vec<&str> = results.iter().map(|result| result.strategy.as_str()).collect();
        assert_eq!(names, ["zk-naive", "zk-mutex"]);
        assert!(results.iter().all(|result| result.is_met && result.value == Some(0.0)), "{results:?}");
        assert!(!check("unguarded oversold == 0")[0].is_met);
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
        let met = |comparison: &str| check(&format!("zk-mutex notifications_per_release{comparison}"))[0].is_met;
        // 299 notifications of 300 releases.
        assert!(met("<1") && met("<=1") && met(">0.99") && met(">=0.5"));
        assert!(!met(">1") && !met("==1") && !met("<0.5"));
    }

    #[test]
    fn what_was_not_measured_meets_no_rule() {
        let mut trials = fixture::report().trials;
        trials.iter_mut().for_each(|trial| trial.history = None);
        let results = Report::of(fixture::findings(None, trials)).results;
        let result = &Threshold::parse("zk-mutex overlaps==0").unwrap().check(&results, 3)[0];
        assert_eq!((result.value, result.is_met), (None, false));
        assert!(result.describe().ends_with("zk-mutex with 300 users was not measured"));
        assert!(check("zk-mutex p50<1ms")[0].describe().starts_with("zk-mutex p50<1ms: zk-mutex with 300 users is 2"));
    }

    #[test]
    fn a_figure_of_some_trials_meets_no_rule() {
        let mut report = fixture::report();
        report.trials.iter_mut().filter(|trial| trial.block == 3).for_each(|trial| trial.zookeeper.releases = None);
        let findings = fixture::findings(None, report.trials);
        let results = Report::of(findings).results;
        let result = &Threshold::parse("zk-mutex notifications_per_release<=1").unwrap().check(&results, 3)[0];
        assert_eq!((result.value, result.is_met), (None, false));
        assert!(result.describe().ends_with("was measured in 7 of 8 trials only"), "{}", result.describe());
    }

    // C20
    #[test]
    fn a_wrong_rule_is_refused_with_a_mark_where_it_is() {
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
        assert!(wrong("zk-mutex oversold<many").starts_with("a whole number is expected here"));
        assert!(wrong("ü p99<1s").starts_with("a strategy is expected here"));
        assert!(wrong("zk-mutex godput>1").contains("client_limited; did you mean goodput?\n"));
    }

    // C20
    #[test]
    fn values_that_no_figure_can_have_are_refused() {
        for (rule, why) in [
            ("a errors<5", "a share is expected here, such as 5% or 0.05"),
            ("a errors<101%", "a share is expected here"),
            ("a oversell_rate<2", "a share is expected here"),
            ("a p99<-5ms", "a time is expected here"),
            ("a p99<+5ms", "a time is expected here"),
            ("a p99<nanms", "a time is expected here"),
            ("a goodput>1e3", "a number is expected here"),
            ("a oversold==0.5", "a whole number is expected here"),
            ("a p99<0ms", "a rule that is never met says nothing"),
            ("a errors>100%", "a rule that is never met says nothing"),
            ("a errors<=1", "a rule that is always met says nothing"),
            ("a goodput>=0", "a rule that is always met says nothing"),
        ] {
            let refused = Threshold::parse(rule).unwrap_err();
            assert!(refused.starts_with(why), "{rule}: {refused}");
        }
        for rule in ["a errors<5%", "a errors==0", "a p95<=0ms", "a errors>=1", "a oversold<1", "a late<0.5%"] {
            Threshold::parse(rule).unwrap();
        }
        for rule in ["a oversell_rate<=1", "a oversell_rate>100%", "a oversell_rate<180%"] {
            Threshold::parse(rule).unwrap();
        }
    }

    // C20
    #[test]
    fn a_rule_skips_strategies_that_cannot_have_the_figure() {
        let met = |rule: &str| {
            let results = check(rule);
            results.into_iter().map(|result| (result.strategy, result.is_met)).collect::<Vec<_>>()
        };
        let [naive, mutex, conditional] = ["zk-naive", "zk-mutex", "pg-conditional"].map(str::to_owned);
        // The control oversells, and the reference is 1.
        let all = [(naive.clone(), false), (mutex.clone(), true), (conditional, true)];
        assert_eq!(met("* ratio<2"), all);
        assert_eq!(met("* notifications_per_release<1"), [(naive, false), (mutex, true)]);
        assert_eq!(met("unguarded ratio<2"), []);
        // The sections of the others may overlap, and have no tokens.
        let [naive, mutex] = ["zk-naive", "zk-mutex"].map(str::to_owned);
        let locks = [(naive, true), (mutex, true)];
        for rule in ["* overlaps==0", "* token_regressions==0", "* tokens_out_of_order==0", "* handover_p50<1s"] {
            assert_eq!(met(rule), locks, "{rule}");
        }
    }
}
