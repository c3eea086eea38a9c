//! The data of the charts: the few figures of a report that they show, as JSON inside the page.

use std::collections::BTreeMap;

use serde::Serialize;
use stats::times::Times;
use stats::{Difference, Estimate, as_f64};

use crate::judge::metrics::{CLIENT_NOTIFICATIONS, GOODPUT, NOTIFICATIONS_PER_RELEASE, P50};
use crate::judge::result::StrategyResult;
use crate::lab::strategy::{Mechanism, Wakes};
use crate::report::Report;
use crate::report::html::cost::{KINDS, cpu_ms, measured};
use crate::report::html::names::levels;
use crate::report::html::simulation::SimulationData;
use crate::trial::herd::expected_of_burst;
use crate::trial::record::{Curve, Trial};

/// Points of the expected curves.
const EXPECTED_POINTS: u32 = 40;

/// The index of each name in the list of strategies.
type StrategyIndexes = BTreeMap<String, usize>;

#[derive(Serialize)]
struct Data<'a> {
    /// Names in the service's order, with the build if two are compared. All other fields name a strategy by its index in
    /// this list.
    strategies: &'a [String],
    /// What one of them is: a strategy or a shop.
    subject: &'static str,
    /// Numbers of users with which a trial was run, in order.
    levels: Vec<u32>,
    stock: u64,
    processes: [&'static str; 5],
    results: Vec<ResultData<'a>>,
    trials: Vec<TrialData>,
    timelines: Vec<Timeline<'a>>,
    expected: Vec<Expected>,
    simulation: Option<SimulationData<'a>>,
}

#[derive(Serialize)]
struct ResultData<'a> {
    strategy: usize,
    users: u32,
    /// Whether it may be ranked.
    ranked: bool,
    p50_ms: Option<Estimate>,
    n: u64,
    reference: Option<&'a str>,
    ratio: Option<RatioData>,
    goodput_per_s: Option<Estimate>,
    zookeeper: bool,
    notifications: Option<Estimate>,
    client_notifications: Option<f64>,
    expected_notifications: Option<f64>,
    /// Pairs of 1/(1 − q) and the quantile q in milliseconds.
    quantiles: Vec<(f64, f64)>,
    cpu_ms: [Option<f64>; 5],
}

#[derive(Serialize)]
struct RatioData {
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    difference: Difference,
}

#[derive(Serialize)]
struct TrialData {
    strategy: usize,
    users: u32,
    block: usize,
    warm_up: bool,
    /// Units beyond the stock; negative if units were left.
    beyond: i64,
}

/// The trial of median length of a strategy.
#[derive(Serialize)]
struct Timeline<'a> {
    strategy: usize,
    users: u32,
    sold: &'a Curve,
    entered: &'a Curve,
}

/// The expected notifications of a lock that wakes one waiter, or all, for several numbers of users.
#[derive(Serialize)]
struct Expected {
    wakes: Wakes,
    /// Pairs of users and notifications per release.
    points: Vec<(u32, f64)>,
}

/// Writes the data as JSON that cannot end the script element around it.
pub(super) fn embed(report: &Report) -> Result<String, serde_json::Error> {
    let mut names: Vec<String> = report.results.iter().map(StrategyResult::name).collect();
    names.dedup();
    let indexes: StrategyIndexes = names.iter().cloned().zip(0..).collect();
    let data = Data {
        subject: report.schedule.nouns().one,
        levels: levels(report),
        stock: u64::from(report.schedule.stock) * u64::from(report.schedule.goods),
        processes: KINDS,
        results: report.results.iter().map(|result| result_data(report, &indexes, result)).collect(),
        trials: report.trials.iter().filter_map(|trial| trial_data(&indexes, trial)).collect(),
        timelines: report.results.iter().filter_map(|result| timeline(report, &indexes, result)).collect(),
        expected: expected(report),
        simulation: report.simulation.as_ref().map(SimulationData::of),
        strategies: &names,
    };
    Ok(inert(&serde_json::to_string(&data)?))
}

/// Escapes the characters that mean something to HTML, or that end a line of script. In JSON they stand in strings alone, where
/// their escapes mean the same.
fn inert(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            other => text.push(other),
        }
    }
    text
}

fn result_data<'a>(report: &Report, indexes: &StrategyIndexes, result: &'a StrategyResult) -> ResultData<'a> {
    let sold = &result.latency.response.sold;
    ResultData {
        strategy: indexes[&result.name()],
        users: result.users,
        ranked: result.is_comparable,
        p50_ms: P50.of(result).and_then(drawn),
        n: sold.count(),
        reference: result.reference.as_deref(),
        ratio: result.ratio_to_reference.map(|ratio| RatioData {
            value: ratio.estimate,
            low: ratio.low,
            high: ratio.high,
            difference: ratio.difference,
        }),
        goodput_per_s: GOODPUT.of(result),
        zookeeper: result.mechanism == Mechanism::Zookeeper,
        notifications: NOTIFICATIONS_PER_RELEASE.of(result),
        client_notifications: CLIENT_NOTIFICATIONS.value(result),
        expected_notifications: result.notifications_per_release_expected,
        quantiles: quantiles(sold),
        cpu_ms: cpu_ms(report, result),
    }
}

/// Returns a figure that a chart can draw: one that was reached. An interval that was not reached is left out.
fn drawn(estimate: Estimate) -> Option<Estimate> {
    let interval = estimate.low.zip(estimate.high).filter(|(_, high)| high.is_finite());
    let (low, high) = interval.unzip();
    estimate.value.is_finite().then_some(Estimate { low, high, ..estimate })
}

/// Returns the quantiles up to the longest time, each at 1/(1 − q). The longest time has q = 1, so it stands at the size of the
/// sample.
fn quantiles(times: &Times) -> Vec<(f64, f64)> {
    let n = as_f64(times.count());
    let mut points: Vec<(f64, f64)> =
        times.points().into_iter().map(|(q, ms)| ((1.0 / (1.0 - q)).min(n), ms)).collect();
    points.dedup();
    points
}

fn trial_data(indexes: &StrategyIndexes, trial: &Trial) -> Option<TrialData> {
    let audit = &trial.audit;
    Some(TrialData {
        strategy: *indexes.get(&trial.name())?,
        users: trial.users,
        block: trial.block,
        warm_up: trial.warm_up,
        beyond: if audit.oversold > 0 { audit.oversold } else { -(audit.undersold + audit.unsold_undecided) },
    })
}

fn timeline<'a>(report: &'a Report, indexes: &StrategyIndexes, result: &'a StrategyResult) -> Option<Timeline<'a>> {
    let mut trials: Vec<&Trial> = measured(report, result).collect();
    trials.sort_by(|a, b| a.duration_ms.total_cmp(&b.duration_ms));
    let trial = trials.get(trials.len().checked_sub(1)? / 2)?;
    Some(Timeline {
        strategy: indexes[&result.name()],
        users: result.users,
        sold: &trial.sold_over_time,
        entered: &trial.entered_over_time,
    })
}

/// Returns the expected curves over the numbers of users that were tried.
fn expected(report: &Report) -> Vec<Expected> {
    let levels = levels(report);
    let (Some(fewest), Some(most)) = (levels.first(), levels.last()) else { return Vec::new() };
    if !report.schedule.model.is_some_and(|model| model.is_burst()) || fewest == most {
        return Vec::new();
    }
    let step = (most - fewest).div_ceil(EXPECTED_POINTS).max(1);
    let mut users: Vec<u32> = (*fewest..*most).step_by(usize::try_from(step).unwrap_or(1)).collect();
    users.extend(&levels);
    users.sort_unstable();
    users.dedup();
    let curve = |wakes: Wakes| {
        let of = |users: &u32| Some((*users, expected_of_burst(&report.schedule, wakes, *users)?.1));
        Expected { wakes, points: users.iter().filter_map(of).filter(|(_, each)| *each > 0.0).collect() }
    };
    let of_kind = |wakes: &Wakes| report.results.iter().any(|result| result.wakes == *wakes);
    [Wakes::One, Wakes::All].into_iter().filter(of_kind).map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn nothing_in_the_data_can_end_its_element() {
        let json = serde_json::to_string("</script><!-- & \u{2028}\u{2029}").unwrap();
        let inert = inert(&json);
        assert!(!inert.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{inert}");
        assert_eq!(serde_json::from_str::<String>(&inert).unwrap(), "</script><!-- & \u{2028}\u{2029}");
    }

    #[test]
    fn the_quantiles_rise_to_the_longest_time() {
        let mut times = Times::new();
        (1..=200).for_each(|ms| times.record(std::time::Duration::from_millis(ms)));
        let points = quantiles(&times);
        assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1), "{points:?}");
        let (last, ms) = points.last().unwrap();
        assert!((last - 200.0).abs() < 1e-9 && (ms - 200.0).abs() < 1.0, "{points:?}");
        assert!(quantiles(&Times::new()).is_empty());
    }

    #[test]
    fn the_data_are_lean() {
        let data = embed(&fixture::report()).unwrap();
        assert!(!data.contains("hdr") && data.len() < 60_000, "{} bytes", data.len());
    }
}
