//! The opening of a comparison under hazards.

use stats::figures::{self, things};

use crate::judge::finding::Finding;
use crate::judge::metrics::{Metric, OVERSOLD, TOLD_WITHOUT_ORDER};
use crate::judge::result::StrategyResult;
use crate::trial::schedule::Schedule;

/// Names the strategies that oversold, and those that told buyers of orders that there are not. Says nothing of a strategy that a
/// hazard did not strike.
pub(super) fn sold(schedule: &Schedule, users: u32, level: &[&StrategyResult]) -> String {
    let struck: Vec<_> = level.iter().filter(|result| result.finding != Finding::Unchecked).collect();
    if struck.is_empty() {
        return "No hazard struck in every trial of a strategy.".to_owned();
    }
    let with = |metric: &Metric| -> Vec<&str> {
        let has = struck.iter().filter(|result| metric.value(result).is_some_and(|value| value > 0.0));
        let mut names: Vec<&str> = has.map(|result| result.strategy.as_str()).collect();
        names.dedup();
        names
    };
    let mut hazards: Vec<_> = struck.iter().filter_map(|result| result.hazard).collect();
    hazards.sort_unstable();
    hazards.dedup();
    let hazards = things(hazards.len(), "hazard");
    let under = match schedule.users.len() {
        1 => format!("Under {hazards}"),
        _ => format!("With {} under {hazards}", things(figures::count(users.into()), "user")),
    };
    let oversold = match with(&OVERSOLD).as_slice() {
        [] => "no strategy oversold".to_owned(),
        names => format!("{} oversold", names.join(" and ")),
    };
    let told = match with(&TOLD_WITHOUT_ORDER).as_slice() {
        [] => "no buyer was told \"sold\" without an order".to_owned(),
        names => format!("{} told buyers \"sold\" without an order", names.join(" and ")),
    };
    format!("{under}, {oversold}, and {told}.")
}
