//! The comparison as rows of text, which the terminal and the Markdown file frame each in their own way.

use stats::figures::{self, things};

use crate::judge::diff::Diff;
use crate::judge::diff::rows::Row;
use crate::judge::metrics::{
    CLIENT_LIMITED, GENERATOR_CPU, GENERATOR_CPU_PER_REQUEST, Metric, START_LAG_P50, START_SPREAD, TableWidth,
};
use crate::judge::result::StrategyResult;
use crate::report::Report;
use crate::trial::schedule::{CheckedShop, Schedule};

/// Columns that hold text; all others hold figures.
pub(crate) const TEXT_COLUMNS: usize = 2;

/// A table of text: the figures that `column` and narrower tables show.
pub(crate) struct TextTable<'a> {
    report: &'a Report,
    metrics: Vec<&'a Metric>,
    column: TableWidth,
}

impl<'a> TextTable<'a> {
    /// Takes the figures of a report that a table of this width shows.
    pub(crate) fn of(report: &'a Report, metrics: &[&'a Metric], column: TableWidth) -> TextTable<'a> {
        let metrics = metrics.iter().copied().filter(|metric| metric.column <= column).collect();
        TextTable { report, metrics, column }
    }

    /// Titles of the columns, each with its unit. A soft hyphen stands where a narrow heading may break.
    pub(crate) fn header(&self) -> Vec<(&'a str, &'a str)> {
        let figures = self.metrics.iter().map(|metric| (metric.title, metric.unit));
        [(self.report.schedule.nouns().title, ""), ("Kept", "")].into_iter().chain(figures).collect()
    }

    /// Returns one row for each strategy and number of users, in the service's order.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        self.report.results.iter().map(|result| self.row(result)).collect()
    }

    fn row(&self, result: &StrategyResult) -> Vec<String> {
        let users = if self.report.schedule.users.len() > 1 { format!(" @{}", result.users) } else { String::new() };
        let words = [format!("{}{users}", result.name()), result.finding.describe(result.shown()).to_owned()];
        words.into_iter().chain(self.metrics.iter().map(|metric| self.cell(metric, result))).collect()
    }

    /// Writes the value, with its note if there is room.
    fn cell(&self, metric: &Metric, result: &StrategyResult) -> String {
        let value = metric.text(result);
        match metric.aside(result).filter(|_| self.column > TableWidth::Narrow) {
            Some(aside) => format!("{value} {aside}"),
            None => value,
        }
    }
}

/// Explains the columns that need words.
pub(crate) fn legend(report: &Report) -> String {
    let times = "Times are those of the buyers who got a unit, from the intended start to the last byte; – where there are too few of \
                 them.\n";
    if !report.schedule.has_relations() {
        return times.to_owned();
    }
    let mut references: Vec<&str> = report.results.iter().filter_map(|result| result.reference.as_deref()).collect();
    references.dedup();
    let of_build = if report.builds.is_some() { " of the same build" } else { "" };
    let reference = match references.as_slice() {
        [reference] => format!("the p50 of {reference}{of_build}"),
        _ => format!("the p50 of the reference{of_build}"),
    };
    format!("{times}Ratio: p50 ÷ {reference}; ~ no significant difference, ? too few trials to tell.\n")
}

/// Meanings of those columns that need words.
pub(crate) const COMPARED: &str = "medians over runs, blocks or pairs; p is for all times together, or for all counts together; \
    ~ no significant difference, ? cannot tell";

/// Titles of the columns of a comparison of two sides, behind the strategy. The last column holds the conclusion.
pub(crate) fn titles(diff: &Diff) -> [String; 7] {
    let [old, new] = [&diff.old, &diff.new].map(|side| side.name.as_str());
    ["figure", "by", old, new, &format!("{new}/{old} [95 %]"), "p", ""].map(str::to_owned)
}

/// Returns the cells of a figure in these columns.
pub(crate) fn compared(row: &Row, metrics: &[&Metric]) -> [String; 7] {
    let metric = row.metric(metrics);
    let write = |value| metric.map_or_else(|| figures::maybe(value), |metric| metric.write(value));
    [
        metric.map_or_else(|| row.figure.clone(), Metric::name),
        row.unit.word().to_owned(),
        write(row.old),
        write(row.new),
        row.ratio(),
        figures::p_value(row.p),
        row.conclusion.sign().to_owned(),
    ]
}

/// Writes the conditions in one line.
pub(crate) fn conditions(report: &Report) -> String {
    let Schedule { model_described, stock, goods, instances, trials, seed, .. } = &report.schedule;
    let sessions =
        report.schedule.zk_sessions_total.map_or(String::new(), |total| format!(", ZooKeeper sessions {total}"));
    let business_time =
        report.schedule.business_time.as_ref().map_or(String::new(), |time| format!(", business time {time}"));
    let each = if *goods > 1 { format!(" of each of {goods} SKUs") } else { String::new() };
    let warm_up = if report.schedule.blocks.iter().any(|block| block.warm_up) { " after a warm-up" } else { "" };
    let levels: Vec<String> = report.schedule.users.iter().map(u32::to_string).collect();
    let levels = match levels.as_slice() {
        [others @ .., _] if !others.is_empty() => {
            format!(" (and with {})", things(others.join(", "), "user"))
        }
        _ => String::new(),
    };
    let builds = match report.schedule.pair() {
        Some([old, new]) => format!(" of each of the builds {old} and {new}"),
        None => String::new(),
    };
    let subjects = if report.is_of_lab() {
        format!("instances {instances}{sessions}{builds}{business_time}")
    } else {
        report.schedule.shops.iter().map(at_addresses).collect::<Vec<_>>().join(", ")
    };
    let payers = report.schedule.habits.map_or_else(String::new, |habits| format!("; {}", habits.describe()));
    let hazards = report.schedule.hazards_described();
    let hazards = hazards.map_or_else(String::new, |hazards| format!("; hazards: {hazards}"));
    let one = report.schedule.nouns().one;
    let seed = if report.schedule.is_logged() { String::new() } else { format!(", seed {seed}") };
    format!(
        "{model_described}{levels}; stock {stock}{each}{payers}{hazards}; {subjects}; trials of each {one} {trials}{warm_up}{seed}"
    )
}

/// Names a shop that a file describes, with its addresses and its limit.
pub(crate) fn at_addresses(shop: &CheckedShop) -> String {
    let limit =
        shop.per_buyer.map_or_else(String::new, |units| format!(" (at most {} per buyer)", things(units, "unit")));
    format!("{} at {}{limit}", shop.name, shop.urls.join(" and "))
}

/// Describes the load generator in one line. `None` without a measured trial.
pub(crate) fn generator(report: &Report) -> Option<String> {
    let values =
        |metric: &Metric| -> Vec<f64> { report.results.iter().filter_map(|result| metric.value(result)).collect() };
    let worst = |metric: &Metric| Some(metric.write(Some(values(metric).into_iter().reduce(f64::max)?)));
    let limited = CLIENT_LIMITED.write(Some(values(&CLIENT_LIMITED).into_iter().sum()));
    let measured: u64 = report.results.iter().map(|result| u64::from(result.measured_trials)).sum();
    Some(format!(
        "load generator, worst trial: median start {} ms late, first starts spread over {} ms, {} of all cores, {} µs of \
         processor time per request; client-limited in {limited} of {}",
        worst(&START_LAG_P50)?,
        worst(&START_SPREAD)?,
        worst(&GENERATOR_CPU)?,
        worst(&GENERATOR_CPU_PER_REQUEST)?,
        things(measured, "trial"),
    ))
}
