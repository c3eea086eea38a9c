//! Those of the thresholds that k6 can check.

use std::fmt::Write as _;

use crate::export::load::Load;
use crate::judge::thresholds::{Parts, Threshold};

/// The thresholds that k6 cannot check, as they were given.
pub(super) fn unsaid<'a>(load: &Load<'a>) -> Vec<&'a str> {
    let thresholds = load.settings.thresholds.iter();
    thresholds.filter(|threshold| !is_said(load, threshold)).map(Threshold::rule).collect()
}

/// The thresholds that k6 can check and that are about none of the runs, as they were given.
pub(super) fn idle<'a>(load: &Load<'a>) -> Vec<&'a str> {
    let is_idle = |threshold: &Threshold| {
        !load.runs.iter().any(|run| threshold.is_about(run.strategy.as_deref().unwrap_or_default(), run.users))
    };
    let thresholds = load.settings.thresholds.iter();
    thresholds.filter(|threshold| is_said(load, threshold) && is_idle(threshold)).map(Threshold::rule).collect()
}

/// The rules, and what makes k6's thresholds of those that are about the strategy and the users of a run.
pub(super) fn rules(load: &Load<'_>) -> String {
    let mut text = String::from(
        "/** @type {{ strategies: RegExp, users: number | null, metric: string, holds: string }[]} */\nconst RULES = [",
    );
    let mut any = false;
    for threshold in &load.settings.thresholds {
        let parts = threshold.parts();
        let Some((metric, holds)) = expression(&parts, load.settings.stock) else { continue };
        let users = parts.users.map_or_else(|| "null".to_owned(), |users| users.to_string());
        let _ = write!(
            text,
            "\n  // {}\n  {{ strategies: {}, users: {users}, metric: '{metric}', holds: `{holds}` }},",
            threshold.rule(),
            pattern(&parts.strategies)
        );
        any = true;
    }
    text += if any { "\n];\n" } else { "];\n" };
    text + THRESHOLDS
}

const THRESHOLDS: &str = "
/** The rules that are about this strategy with so many users, as k6 wants them. */
function thresholds() {
  /** @type {{ [metric: string]: string[] }} */
  const chosen = {};
  for (const { strategies, users, metric, holds } of RULES) {
    if (strategies.test(STRATEGY) && (users === null || users === USERS)) {
      chosen[metric] = (chosen[metric] || []).concat(holds);
    }
  }
  if (chosen.sold_ms) {
    // Where nothing was sold, k6 takes all of its times for 0, but what was not measured holds no rule.
    chosen.sold = (chosen.sold || []).concat('count>0');
  }
  return chosen;
}
";

fn is_said(load: &Load<'_>, threshold: &Threshold) -> bool {
    expression(&threshold.parts(), load.settings.stock).is_some()
}

/// The metric of k6 that a rule is about, and what has to hold of it as a template of JavaScript; with so many units of
/// each SKU on sale.
fn expression(rule: &Parts, stock: u32) -> Option<(&'static str, String)> {
    let Parts { sign, value, .. } = rule;
    let bound = |sign: &str| Some(("sold", format!("count{sign}${{{stock} * GOODS.length}}")));
    let quantile = |quantile: &str| Some(("sold_ms", format!("{quantile}{sign}{value}")));
    match rule.metric {
        "p50" => quantile("p(50)"),
        "p90" => quantile("p(90)"),
        "p99" => quantile("p(99)"),
        "p999" => quantile("p(99.9)"),
        "max" => quantile("max"),
        "refused" => Some(("refused", format!("rate{sign}{value}"))),
        "errors" => Some(("errors", format!("rate{sign}{value}"))),
        "dropped" => Some(("dropped_iterations", format!("count{sign}{value}"))),
        // Neither is below zero, so that none of it is a bound of what was sold.
        "oversold" if ["<=", "=="].contains(sign) && *value == 0.0 => bound("<="),
        "undersold" if ["<=", "=="].contains(sign) && *value == 0.0 => bound(">="),
        _ => None,
    }
}

/// A pattern of names as a regular expression of JavaScript.
fn pattern(wild: &str) -> String {
    format!("/^{}$/", wild.replace('*', ".*").replace('?', "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(rule: &str) -> Option<(&'static str, String)> {
        expression(&Threshold::parse(rule).unwrap().parts(), 100)
    }

    #[test]
    fn what_buyers_are_told_can_be_checked_by_k6() {
        for (rule, metric, holds) in [
            ("zk-mutex p99<250ms", "sold_ms", "p(99)<250"),
            ("zk-mutex p999 <= 1.5s", "sold_ms", "p(99.9)<=1500"),
            ("zk-mutex max<1s", "sold_ms", "max<1000"),
            ("zk-mutex errors==0%", "errors", "rate==0"),
            ("zk-mutex refused<5%", "refused", "rate<0.05"),
            ("zk-mutex dropped==0", "dropped_iterations", "count==0"),
            ("zk-mutex oversold==0", "sold", "count<=${100 * GOODS.length}"),
            ("zk-mutex undersold<=0", "sold", "count>=${100 * GOODS.length}"),
        ] {
            assert_eq!(said(rule), Some((metric, holds.to_owned())), "{rule}");
        }
    }

    #[test]
    fn what_only_the_servers_know_cannot() {
        for rule in ["zk-mutex oversold<5", "zk-mutex lost_updates==0", "zk-mutex goodput>=50", "zk-mutex overlaps==0"]
        {
            assert_eq!(said(rule), None, "{rule}");
        }
    }

    #[test]
    fn patterns_of_names_are_regular_expressions_of_whole_names() {
        assert_eq!(pattern("zk-*"), "/^zk-.*$/");
        assert_eq!(pattern("pg-row-loc?"), "/^pg-row-loc.$/");
    }
}
