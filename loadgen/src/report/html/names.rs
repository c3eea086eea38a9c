//! The names of results and loads on the page.

use std::collections::BTreeSet;

use stats::figures::{self, things};

use crate::judge::result::StrategyResult;
use crate::report::Report;

/// Returns the numbers of users with which a trial was run, in order.
pub(super) fn levels(report: &Report) -> Vec<u32> {
    let run = report.results.iter().filter(|result| result.trials > 0);
    run.map(|result| result.users).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Describes the load model of all numbers of users, for every place that shows latencies.
pub(super) fn model_label(report: &Report) -> String {
    let schedule = &report.schedule;
    match schedule.users.as_slice() {
        [] | [_] => schedule.model_described.clone(),
        several => {
            let others: Vec<String> =
                several[..several.len() - 1].iter().map(|users| figures::count(u64::from(*users))).collect();
            format!("{}; and the same with {}", schedule.model_described, things(others.join(", "), "user"))
        }
    }
}

/// Names a result, with the number of users if there are several.
pub(super) fn name(report: &Report, result: &StrategyResult) -> String {
    if report.schedule.users.len() > 1 { format!("{} @{}", result.name(), result.users) } else { result.name() }
}

/// Tells whether its trials were run and show that it may not be ranked.
pub(super) fn is_unranked(result: &StrategyResult) -> bool {
    result.trials > 0 && !result.is_comparable
}
