//! The comparison as rows of text, which the terminal and the Markdown file frame each in their own way.

use crate::report::{Parameters, Report, StrategyResult};
use crate::verdict::Finding;

/// What stands for a figure that there is none of, or that the sample cannot carry.
const ABSENT: &str = "–";

/// Titles of the columns; a line break where a narrow heading may have one.
pub(crate) fn header(report: &Report) -> Vec<String> {
    let ratio = report.reference.as_ref().map_or_else(|| "ratio".to_owned(), |reference| format!("×\n{reference}"));
    [
        "strategy",
        "promise",
        "kept",
        "bad trials\n(≤ 95 %)",
        "oversold",
        "undersold",
        "sold\n/s",
        "p50\nms",
        "p90\nms",
        "p99\nms",
        "max\nms",
        &ratio,
        "notifications\n/release",
        "requests\n/sale",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The column that is left out where room is short: the promise is the same in every comparison.
pub(crate) const PROMISE_COLUMN: usize = 1;

/// Columns that hold text; all others hold figures.
pub(crate) const TEXT_COLUMNS: usize = 3;

/// One row a strategy, in the service's order.
pub(crate) fn rows(report: &Report) -> Vec<Vec<String>> {
    report.results.iter().map(row).collect()
}

fn row(result: &StrategyResult) -> Vec<String> {
    let latency = &result.latency_ms;
    vec![
        result.strategy.clone(),
        result.promise.as_str().to_owned(),
        kept(result.finding).to_owned(),
        bad_trials(result),
        ran(result, result.oversold_max.to_string()),
        ran(result, result.undersold_max.to_string()),
        figure(result.sold_per_second),
        figure(latency.p50),
        figure(latency.p90),
        figure(latency.p99),
        figure(latency.max),
        result.ratio_to_reference.map_or_else(|| ABSENT.to_owned(), |ratio| format!("{ratio:.2}")),
        notifications(result),
        figure(result.requests_per_sale),
    ]
}

fn kept(finding: Finding) -> &'static str {
    match finding {
        Finding::Kept => "yes",
        Finding::Broken => "NO",
        Finding::Inconclusive => "refused or failed",
        Finding::LoadTooWeak => "load too weak",
        Finding::NotRun => "not run",
    }
}

fn bad_trials(result: &StrategyResult) -> String {
    let bound = result.bad_trial_rate_upper_95 * 100.0;
    ran(result, format!("{}/{} (≤ {bound:.0} %)", result.bad_trials, result.trials))
}

fn notifications(result: &StrategyResult) -> String {
    match (result.notifications_per_release, result.notifications_per_release_expected) {
        (None, _) => ABSENT.to_owned(),
        (measured, None) => figure(measured),
        (measured, expected) => format!("{} (of {})", figure(measured), figure(expected)),
    }
}

/// The cell, unless no trial stands behind it.
fn ran(result: &StrategyResult, cell: String) -> String {
    if result.trials > 0 { cell } else { ABSENT.to_owned() }
}

/// Three significant digits are all that a histogram has; below ten one decimal, above none.
fn figure(value: Option<f64>) -> String {
    match value {
        None => ABSENT.to_owned(),
        Some(value) if value < 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

/// The conditions in one line.
pub(crate) fn conditions(report: &Report) -> String {
    let parameters = &report.parameters;
    let sessions = parameters.zk_sessions_total.map_or(String::new(), |total| format!(", ZooKeeper sessions {total}"));
    let hold = parameters.hold.as_ref().map_or(String::new(), |hold| format!(", hold {hold}"));
    let Parameters { users, stock, instances, trials, .. } = parameters;
    let seed = report.plan.seed;
    format!(
        "users {users}, all at the same instant; stock {stock}; instances {instances}{sessions}{hold}; \
         trials of each strategy {trials}, seed {seed}"
    )
}

/// What the load generator itself did, in one line; nothing without a trial.
pub(crate) fn generator(report: &Report) -> Option<String> {
    let worst = |figure: fn(&crate::generator::Generator) -> f64| {
        report.trials.iter().map(|trial| figure(&trial.generator)).reduce(f64::max)
    };
    let lag = worst(|generator| generator.start_lag_p50_ms.unwrap_or(0.0))?;
    let spread = worst(|generator| generator.start_spread_ms)?;
    let cpu = worst(|generator| generator.cpu_share)? * 100.0;
    let limited = report.trials.iter().filter(|trial| trial.generator.limited).count();
    Some(format!(
        "generator, worst trial: median start {lag:.1} ms after the release, starts spread over {spread:.1} ms, \
         {cpu:.0} % of all cores; client-limited in {limited} of {} trials",
        report.trials.len()
    ))
}
