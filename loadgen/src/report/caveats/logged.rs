//! Limits of a load that other engines made.

use std::collections::BTreeSet;

use stats::figures::{self, count, things};

use crate::trial::schedule::JudgedLog;

/// Names the engines, their logs, and how far apart their machines began. Nothing if this program made the load.
pub(super) fn of(logs: &[JudgedLog]) -> Vec<String> {
    if logs.is_empty() {
        return Vec::new();
    }
    let engines: BTreeSet<&str> = logs.iter().map(|log| &*log.engine).collect();
    let engines = engines.into_iter().collect::<Vec<_>>().join(", ");
    let purchases: u64 = logs.iter().map(|log| log.purchases).sum();
    let purchases = things(count(purchases), "purchase");
    let mut caveats = vec![format!(
        "the load is of {engines}: {purchases} in {}; what an engine did not log is not known, such as its processor time and \
         purchases that it never began",
        things(logs.len(), "log")
    )];
    if let Some(spread) = logs.iter().filter_map(|log| log.first_start_ms).reduce(f64::max) {
        let clocks = match logs.iter().filter(|log| log.clock_ahead_ms.is_none()).count() {
            0 => "by clocks that --clock compares".to_owned(),
            unknown if unknown == logs.len() => "clocks not compared".to_owned(),
            unknown => format!("{} not compared", things(unknown, "clock")),
        };
        caveats.push(format!("the logs of a trial began within {} of each other, {clocks}", figures::ms(spread)));
    }
    let unintended = logs.iter().filter(|log| !log.is_intended).count();
    if unintended > 0 {
        caveats.push(format!(
            "{} without intended starts: response times count from the actual starts there, so a late start is in no figure",
            things(unintended, "log")
        ));
    }
    let resolution = logs.iter().map(|log| log.resolution_ms).fold(0.0, f64::max);
    if resolution >= 1.0 {
        caveats.push(format!("the times of a log are whole multiples of {}", figures::ms(resolution)));
    }
    caveats
}
