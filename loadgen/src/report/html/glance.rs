//! The picture next to the verdict: units sold and oversold, and the waiters that a release woke, as bars.

use stats::{as_f64, figures};

use crate::judge::metrics::NOTIFICATIONS_PER_RELEASE;
use crate::judge::result::StrategyResult;
use crate::report::Report;

/// One row per strategy, all with the largest number of users.
#[derive(Debug)]
pub(super) struct Glance {
    pub(super) users: u32,
    /// The position of the stock on the bars, in percent of their room. `None` if the stock is far more than was sold.
    pub(super) stock: Option<f64>,
    /// Whether the waiters that a release woke are shown.
    pub(super) has_herd: bool,
    pub(super) rows: Vec<GlanceRow>,
}

/// The bars of a strategy. Widths are in percent of their room.
#[derive(Debug)]
pub(super) struct GlanceRow {
    pub(super) name: String,
    /// Units in the trial that sold the most.
    pub(super) sold: String,
    pub(super) within: f64,
    pub(super) beyond: f64,
    /// The part of them beyond the stock.
    pub(super) too_many: Option<String>,
    pub(super) woken: String,
    pub(super) herd: f64,
}

impl Glance {
    /// Draws the picture. `None` if no trial was run.
    pub(super) fn of(report: &Report) -> Option<Glance> {
        let users = report.results.iter().filter(|result| result.trials > 0).map(|result| result.users).max()?;
        let level = || report.results.iter().filter(|result| result.trials > 0 && result.users == users);
        let woken = |result: &StrategyResult| NOTIFICATIONS_PER_RELEASE.value(result);
        let stock = i64::from(report.schedule.stock) * i64::from(report.schedule.goods);
        let most_sold = level().map(|result| sold_most(report, result).0).max()?.max(1);
        let most_woken = level().filter_map(woken).fold(1.0, f64::max);
        let has_line = stock <= 2 * most_sold;
        let longest = if has_line { most_sold.max(stock) } else { most_sold };
        let units = |units: i64| 100.0 * as_f64(units) / as_f64(longest);
        let row = |result: &StrategyResult| {
            let (sold, oversold) = sold_most(report, result);
            GlanceRow {
                name: result.name(),
                sold: figures::signed(sold),
                within: units(sold - oversold),
                beyond: units(oversold),
                too_many: (oversold > 0).then(|| figures::signed(oversold)),
                woken: figures::maybe(woken(result)),
                herd: woken(result).map_or(0.0, |woken| (100.0 * woken / most_woken).max(1.0)),
            }
        };
        let rows = level().map(row).collect();
        Some(Glance { users, stock: has_line.then(|| units(stock)), has_herd: report.is_of_lab(), rows })
    }
}

/// Returns units sold and oversold in the trial that sold the most.
fn sold_most(report: &Report, result: &StrategyResult) -> (i64, i64) {
    let subject = result.subject();
    let own = report.trials.iter().filter(|trial| trial.is_of(&subject));
    own.map(|trial| (trial.audit.sold, trial.audit.oversold)).max().unwrap_or_default()
}
