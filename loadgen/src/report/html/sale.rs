//! The sale over time.

use stats::figures::{self, things};

use crate::judge::metrics::SOLD_OUT_AFTER;
use crate::judge::result::StrategyResult;
use crate::report::Report;
use crate::report::html::cost::measured;
use crate::report::html::names::name;
use crate::report::html::page::{Absent, Chart, PageItem, PagePart};
use crate::trial::record::Trial;

pub(super) fn part(report: &Report) -> PagePart {
    PagePart { id: "sale", title: "The sale over time", items: vec![PageItem::Charts(vec![chart(report)])] }
}

fn chart(report: &Report) -> Chart {
    let stock_total = i64::from(report.schedule.stock) * i64::from(report.schedule.goods);
    let words = |result: &StrategyResult| {
        let name = name(report, result);
        let beyond = measured(report, result).map(|trial| trial.audit.oversold).max()?;
        let beyond = if beyond > 0 {
            format!("; up to {} too many were sold", things(figures::signed(beyond), "unit"))
        } else {
            String::new()
        };
        let Some(after) = SOLD_OUT_AFTER.of(result) else {
            let left = measured(report, result).map(|trial| stock_total - trial.audit.sold).max()?;
            let left = things(figures::signed(left.max(0)), "unit");
            return Some(format!("{name}: the stock was not gone; up to {left} were left{beyond}"));
        };
        Some(format!("{name}: the stock was gone after {} ms{beyond}", figures::estimate(&after)))
    };
    Chart {
        id: "stock",
        title: "Units that buyers were told of, and units left".to_owned(),
        caption: format!(
            "One row per {}: its trial of median length. All rows have the same axes. The coloured part grows as buyers learn \
             that a unit is theirs, and the grey part above it are the units left. The upper line is the stock: what rises \
             above it are units that do not exist. A buyer who was told of a unit may still have no order.",
            report.schedule.nouns().one
        ),
        label: None,
        words: report.results.iter().filter_map(words).collect(),
        absent: counted(report).all(|trial| trial.sold_over_time.at_ms.is_empty()).then(|| Absent {
            why: why_absent(report, "No trial that counts sold anything."),
            command: report.schedule.nouns().commands.more_trials,
        }),
        wide: true,
    }
}

/// Returns the trials that count.
pub(super) fn counted(report: &Report) -> impl Iterator<Item = &Trial> {
    report.trials.iter().filter(|trial| !trial.warm_up)
}

/// Explains why a chart is absent: no trial ended, or what `otherwise` says.
pub(super) fn why_absent(report: &Report, otherwise: &str) -> String {
    let none_ended = counted(report).next().is_none();
    if none_ended { "No trial that counts was run to its end." } else { otherwise }.to_owned()
}
