//! The comparison as rows of text, which the terminal and the Markdown file frame each in their own way.

use stats::Difference;

use crate::judge::finding::Finding;
use crate::judge::result::StrategyResult;
use crate::report::Report;
use crate::trial::plan::Plan;

/// What stands for a figure that there is none of, or that the sample cannot carry.
const ABSENT: &str = "–";

/// Titles of the columns; a line break where a narrow heading may have one.
pub(crate) fn header(report: &Report) -> Vec<String> {
    let ratio = reference(report).map_or_else(|| "ratio".to_owned(), |reference| format!("×\n{reference}"));
    let titles = [
        "strategy",
        "promise",
        "kept",
        "bad trials\n(≤ 95 %)",
        "oversold",
        "undersold",
        "overlaps",
        "sold\n/s",
        "p50\nms",
        "p90\nms",
        "p99\nms",
        "max\nms",
        &ratio,
        "notifications\n/release",
        "requests\n/sale",
    ];
    titles.map(str::to_owned).to_vec()
}

/// The strategy that all ratios refer to, if it is one and the same.
fn reference(report: &Report) -> Option<&String> {
    let mut references = report.results.iter().filter_map(|result| result.reference.as_ref());
    let first = references.next()?;
    references.all(|reference| reference == first).then_some(first)
}

/// The column that is left out where room is short: the promise is the same in every comparison.
pub(crate) const PROMISE_COLUMN: usize = 1;

/// Columns that hold text; all others hold figures.
pub(crate) const TEXT_COLUMNS: usize = 3;

/// One row for each strategy and number of users, in the service's order.
pub(crate) fn rows(report: &Report) -> Vec<Vec<String>> {
    let tell_users = report.plan.users.len() > 1;
    report.results.iter().map(|result| row(result, tell_users)).collect()
}

fn row(result: &StrategyResult, tell_users: bool) -> Vec<String> {
    let sold = &result.latency.response.sold;
    let users = if tell_users { format!(" @{}", result.users) } else { String::new() };
    vec![
        format!("{}{users}", result.strategy),
        result.promise.as_str().to_owned(),
        kept(result.finding).to_owned(),
        bad_trials(result),
        ran(result, result.oversold_max.to_string()),
        ran(result, result.undersold_max.to_string()),
        result.overlaps.map_or_else(|| ABSENT.to_owned(), |overlaps| overlaps.to_string()),
        figure(result.goodput_per_s.map(|estimate| estimate.value)),
        figure(sold.quantile_ms(500)),
        figure(sold.quantile_ms(900)),
        figure(sold.quantile_ms(990)),
        figure(sold.max_ms()),
        ratio(result),
        notifications(result),
        figure(result.requests_per_sale.map(|estimate| estimate.value)),
    ]
}

/// The ratio with its interval, and whether it is to be told from one.
fn ratio(result: &StrategyResult) -> String {
    match &result.ratio_to_reference {
        Some(ratio) => match (ratio.low, ratio.high) {
            (Some(low), Some(high)) => {
                let sign = match ratio.difference {
                    Difference::Smaller | Difference::Larger => "",
                    Difference::Indistinguishable => " ~",
                    Difference::TooFewBlocks => " ?",
                };
                format!("{:.2} [{low:.2}, {high:.2}]{sign}", ratio.estimate)
            }
            _ => format!("{:.2} ?", ratio.estimate),
        },
        None if result.reference.as_ref() == Some(&result.strategy) => "1".to_owned(),
        None => ABSENT.to_owned(),
    }
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
    let measured = result.notifications_per_release.map(|estimate| estimate.value);
    match (measured, result.notifications_per_release_expected) {
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
pub(crate) fn figure(value: Option<f64>) -> String {
    match value {
        None => ABSENT.to_owned(),
        Some(value) if value < 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

/// The conditions in one line.
pub(crate) fn conditions(report: &Report) -> String {
    let Plan { model_described, stock, goods, instances, trials, seed, .. } = &report.plan;
    let sessions = report.plan.zk_sessions_total.map_or(String::new(), |total| format!(", ZooKeeper sessions {total}"));
    let hold = report.plan.hold.as_ref().map_or(String::new(), |hold| format!(", hold {hold}"));
    let each = if *goods > 1 { format!(" of each of {goods} SKUs") } else { String::new() };
    let warm_up = if report.plan.blocks.iter().any(|block| block.warm_up) { " after a warm-up" } else { "" };
    let levels: Vec<String> = report.plan.users.iter().map(u32::to_string).collect();
    let levels = match levels.as_slice() {
        [others @ .., _] if !others.is_empty() => format!(" (and with {} users)", others.join(", ")),
        _ => String::new(),
    };
    format!(
        "{model_described}{levels}; stock {stock}{each}; instances {instances}{sessions}{hold}; \
         trials of each strategy {trials}{warm_up}, seed {seed}"
    )
}

/// What the load generator itself did, in one line; nothing without a trial.
pub(crate) fn generator(report: &Report) -> Option<String> {
    let worst = |figure: fn(&crate::load::health::Generator) -> f64| {
        report.trials.iter().map(|trial| figure(&trial.generator)).reduce(f64::max)
    };
    let lag = worst(|generator| generator.start_lag_p50_ms.unwrap_or(0.0))?;
    let spread = worst(|generator| generator.start_spread_ms)?;
    let cpu = worst(|generator| generator.cpu_share)? * 100.0;
    let each = worst(|generator| generator.cpu_us_per_request.unwrap_or(0.0))?;
    let limited = report.trials.iter().filter(|trial| trial.generator.limited).count();
    Some(format!(
        "generator, worst trial: median start {lag:.1} ms later than meant, first starts spread over {spread:.1} ms, \
         {cpu:.0} % of all cores, {each:.0} µs of processor time a request; client-limited in {limited} of {} trials",
        report.trials.len()
    ))
}
