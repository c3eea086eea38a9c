//! The opening of a comparison under hazards.

use stats::figures::things;

use crate::judge::metrics::{Metric, OVERSOLD, TOLD_WITHOUT_ORDER};
use crate::judge::result::StrategyResult;
use crate::trial::schedule::Schedule;

/// Names the strategies that oversold, and those that told buyers of orders that there are not.
pub(super) fn sold(schedule: &Schedule, level: &[&StrategyResult]) -> String {
    let with = |metric: &Metric| -> Vec<&str> {
        let has = level.iter().filter(|result| metric.value(result).is_some_and(|value| value > 0.0));
        let mut names: Vec<&str> = has.map(|result| result.strategy.as_str()).collect();
        names.dedup();
        names
    };
    let hazards = things(schedule.hazards.len(), "hazard");
    let oversold = match with(&OVERSOLD).as_slice() {
        [] => "no strategy oversold".to_owned(),
        names => format!("{} oversold", names.join(" and ")),
    };
    let told = match with(&TOLD_WITHOUT_ORDER).as_slice() {
        [] => "no buyer was told \"sold\" without an order".to_owned(),
        names => format!("{} told buyers \"sold\" without an order", names.join(" and ")),
    };
    format!("Under {hazards}, {oversold}, and {told}.")
}
