//! The thresholds that k6 can check.

use crate::export::load::ExportedLoad;
use crate::judge::metrics::K6;
use crate::judge::thresholds::{Parts, Threshold};

/// The thresholds of a load, as k6 sees them.
pub(super) struct Rules<'a> {
    pub(super) checked: Vec<Rule<'a>>,
    /// The thresholds that k6 cannot check, as they were given.
    pub(super) unchecked: Vec<&'a str>,
}

/// A threshold that k6 can check.
pub(super) struct Rule<'a> {
    /// The threshold as it was given.
    pub(super) text: &'a str,
    /// The names of its strategies, as a regular expression of JavaScript.
    pub(super) strategies: String,
    /// `None` stands for any number of users.
    pub(super) users: Option<u32>,
    /// The metric of k6.
    pub(super) metric: &'static str,
    /// The condition of k6, as a template literal of JavaScript.
    pub(super) condition: String,
    /// Whether the threshold is about none of the runs.
    is_idle: bool,
}

impl<'a> Rules<'a> {
    pub(super) fn of(load: &ExportedLoad<'a>) -> Self {
        let mut rules = Rules { checked: Vec::new(), unchecked: Vec::new() };
        for threshold in &load.settings.thresholds {
            let parts = threshold.parts();
            match expression(&parts, load.settings.stock) {
                Some((metric, condition)) => rules.checked.push(Rule {
                    text: threshold.rule(),
                    strategies: pattern(&parts.strategies),
                    users: parts.users,
                    metric,
                    condition,
                    is_idle: is_idle(threshold, load),
                }),
                None => rules.unchecked.push(threshold.rule()),
            }
        }
        rules
    }

    /// Returns the thresholds that are about none of the runs, as they were given.
    pub(super) fn idle(&self) -> Vec<&'a str> {
        self.checked.iter().filter(|rule| rule.is_idle).map(|rule| rule.text).collect()
    }
}

fn is_idle(threshold: &Threshold, load: &ExportedLoad<'_>) -> bool {
    let mut runs = load.runs.iter();
    !runs.any(|run| threshold.is_about(&run.strategy, run.users))
}

/// Translates a threshold into the metric of k6 and its condition, a template literal of JavaScript. `stock` is the
/// number of units of each SKU.
fn expression(rule: &Parts, stock: u32) -> Option<(&'static str, String)> {
    let Parts { sign, value, .. } = rule;
    let bound = |sign: &str| Some(("sold", format!("count{sign}${{{stock} * GOODS.length}}")));
    let quantile = |quantile: &str| Some(("sold_ms", format!("{quantile}{sign}{value}")));
    // Neither count is below zero, so "none" is a bound of the units that were sold.
    let is_none = ["<=", "=="].contains(sign) && *value == 0.0;
    match rule.metric.k6? {
        K6::SoldTime(aggregate) => quantile(aggregate),
        K6::Rate(name) => Some((name, format!("rate{sign}{value}"))),
        K6::Count(name) => Some((name, format!("count{sign}{value}"))),
        K6::SoldAtMost => is_none.then(|| bound("<=")).flatten(),
        K6::SoldAtLeast => is_none.then(|| bound(">=")).flatten(),
    }
}

/// Translates a pattern with `*` and `?` into a regular expression of JavaScript.
fn pattern(wild: &str) -> String {
    wild.replace('*', ".*").replace('?', ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(rule: &str) -> Option<(&'static str, String)> {
        expression(&Threshold::parse(rule).unwrap().parts(), 100)
    }

    #[test]
    fn k6_checks_what_buyers_are_told() {
        for (rule, metric, condition) in [
            ("zk-mutex p99<250ms", "sold_ms", "p(99)<250"),
            ("zk-mutex p999 <= 1.5s", "sold_ms", "p(99.9)<=1500"),
            ("zk-mutex max<1s", "sold_ms", "max<1000"),
            ("zk-mutex errors==0%", "errors", "rate==0"),
            ("zk-mutex refused<5%", "refused", "rate<0.05"),
            ("zk-mutex dropped==0", "dropped_iterations", "count==0"),
            ("zk-mutex oversold==0", "sold", "count<=${100 * GOODS.length}"),
            ("zk-mutex undersold<=0", "sold", "count>=${100 * GOODS.length}"),
        ] {
            assert_eq!(translated(rule), Some((metric, condition.to_owned())), "{rule}");
        }
    }

    #[test]
    fn k6_cannot_check_what_only_the_servers_know() {
        for rule in ["zk-mutex oversold<5", "zk-mutex lost_updates==0", "zk-mutex goodput>=50", "zk-mutex overlaps==0"]
        {
            assert_eq!(translated(rule), None, "{rule}");
        }
    }

    #[test]
    fn wildcards_become_regular_expressions() {
        assert_eq!(pattern("zk-*"), "zk-.*");
        assert_eq!(pattern("pg-row-loc?"), "pg-row-loc.");
    }
}
