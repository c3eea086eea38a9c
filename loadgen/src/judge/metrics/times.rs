//! The figures of speed: how much was sold in a second, and how long the buyers waited.

use stats::{Estimate, as_f64};

use super::metric::{Better, Compared, FigureSource, K6, Kind, Metric, PageTable, ROW, TableWidth, exact, rows};
use crate::trial::schedule::Schedule;

rows! {
    BUYERS {
        key: "n", title: "n", unit: "sold", kind: Kind::Count, better: Better::Neither,
        definition: "Buyers who got a unit in a measured trial: the sample of the response times.",
        source: FigureSource::SumMeasured(|trial| Some(as_f64(trial.latency.response.sold.count()))),
        table: PageTable::Response,
    }
    GOODPUT {
        key: "goodput", title: "Sold", unit: "units/s", better: Better::Higher,
        definition: "Units of the stock sold a second, from the first start to the last sale; units beyond the stock do not \
            count. Median over the trials.",
        source: FigureSource::Median(|trial| trial.goodput_per_s),
        is_shown: Schedule::has_no_hazards,
        table: PageTable::Response, column: TableWidth::Narrow, compared: Compared::Times,
    }
    CONFIRMED_GOODPUT {
        key: "confirmed_goodput", title: "Con\u{ad}firmed", unit: "units/s", better: Better::Higher,
        definition: "The same until the last order was committed. It is less than the units sold a second where buyers are answered \
            before their order is committed.",
        source: FigureSource::Median(|trial| trial.confirmed_per_s),
        table: PageTable::Confirmed, column: TableWidth::Wide, lab_only: true,
    }
    P50 {
        key: "p50", title: "p50", unit: "ms", kind: Kind::Time,
        definition: "Median response time of the buyers who got a unit. Median over the trials, of which each needs 20 such \
            buyers.",
        source: FigureSource::Median(|trial| trial.latency.response.sold.quantile_ms(500)),
        is_shown: Schedule::has_no_hazards,
        table: PageTable::Response, column: TableWidth::Narrow, compared: Compared::Times, k6: Some(K6::SoldTime("p(50)")),
    }
    P90 {
        key: "p90", title: "p90", unit: "ms", kind: Kind::Time,
        definition: "90 % of the buyers who got a unit waited at most this long, all trials merged.",
        source: FigureSource::Quantile(|trial| &trial.latency.response.sold, 900),
        table: PageTable::Response, column: TableWidth::Wide, compared: Compared::Times, k6: Some(K6::SoldTime("p(90)")),
    }
    P95 {
        key: "p95", title: "p95", unit: "ms", kind: Kind::Time,
        definition: "95 % of the buyers who got a unit waited at most this long, all trials merged.",
        source: FigureSource::Quantile(|trial| &trial.latency.response.sold, 950),
        table: PageTable::Rules, k6: Some(K6::SoldTime("p(95)")),
    }
    P99 {
        key: "p99", title: "p99", unit: "ms", kind: Kind::Time,
        definition: "99 % of the buyers who got a unit waited at most this long, all trials merged.",
        source: FigureSource::Quantile(|trial| &trial.latency.response.sold, 990),
        is_shown: Schedule::has_no_hazards,
        table: PageTable::Response, column: TableWidth::Narrow, compared: Compared::Times, k6: Some(K6::SoldTime("p(99)")),
    }
    P999 {
        key: "p999", title: "p99.9", unit: "ms", kind: Kind::Time,
        definition: "99.9 % of the buyers who got a unit waited at most this long, all trials merged.",
        source: FigureSource::Quantile(|trial| &trial.latency.response.sold, 999),
        table: PageTable::Rules, k6: Some(K6::SoldTime("p(99.9)")),
    }
    MAX {
        key: "max", title: "Longest", unit: "ms", kind: Kind::Time,
        definition: "The longest response time of a buyer who got a unit.",
        source: FigureSource::Longest(|trial| &trial.latency.response.sold),
        table: PageTable::Response, column: TableWidth::Wide, compared: Compared::Times, k6: Some(K6::SoldTime("max")),
    }
    CONFIRMED_P50 {
        key: "confirmed_p50", title: "Con\u{ad}firmed p50", unit: "ms", kind: Kind::Time,
        definition: "Median time from the buyer's wish to the commit of the order. A buyer that is told \"sold\" and has no order \
            counts as never confirmed. The response time, where the answer comes after the commit. Median over the trials.",
        source: FigureSource::Median(|trial| trial.latency.confirmed_sold.quantile_ms(500)),
        table: PageTable::Confirmed, column: TableWidth::Wide, lab_only: true,
    }
    CONFIRMED_P99 {
        key: "confirmed_p99", title: "Con\u{ad}firmed p99", unit: "ms", kind: Kind::Time,
        definition: "99 % of the buyers who were told \"sold\" had a committed order this long after their wish, all trials merged.",
        source: FigureSource::Quantile(|trial| &trial.latency.confirmed_sold, 990),
        table: PageTable::Confirmed, column: TableWidth::Wide, lab_only: true,
    }
    BACKLOG {
        key: "backlog", title: "Backlog", unit: "orders", kind: Kind::Count,
        definition: "Orders that were promised and not committed at the last answer \"sold\". Zero where the answer comes after the \
            commit. Median over the trials.",
        source: FigureSource::Median(|trial| trial.backlog.map(as_f64)),
        table: PageTable::Confirmed, lab_only: true,
    }
    BACKLOG_TIME {
        key: "backlog_time", title: "Backlog written", unit: "ms", kind: Kind::Time,
        definition: "From the last answer \"sold\" to the commit of the last order: how long it took to write the backlog. Zero where \
            the answer comes after the commit. Median over the trials.",
        source: FigureSource::Median(|trial| trial.backlog_ms),
        table: PageTable::Confirmed, lab_only: true,
    }
    RATIO {
        key: "ratio", title: "Ratio", unit: "to the refer\u{ad}ence", kind: Kind::Ratio,
        definition: "Median response time as a multiple of the reference's, paired within blocks, with its exact 95 % \
            interval from Walsh averages. ~: no significant difference, or within 5 %. ?: too few trials to find any. \
            1 for the reference itself. Strategies that sold wrongly or were not decided have none.",
        of_shops: Some(
            "Median response time as a multiple of the reference's, paired within blocks, with its exact 95 % interval from \
             Walsh averages. ~: no significant difference, or within 5 %. ?: too few trials to find any. 1 for the reference \
             itself. Shops that sold wrongly or were not decided have none.",
        ),
        is_shown: Schedule::has_relations,
        source: FigureSource::Result(|result| {
            let Some(ratio) = result.ratio_to_reference else { return result.is_reference().then(|| exact(1.0)) };
            Some(Estimate { value: ratio.estimate, low: ratio.low, high: ratio.high })
        }),
        needs: |nature| !nature.oversells, table: PageTable::Response, column: TableWidth::Narrow,
    }
    SILENCE_MAX {
        key: "silence_max", title: "Longest silence", unit: "ms", kind: Kind::Time,
        definition: "Longest time in which a buyer waited for an answer and none got one, in the worst trial.",
        source: FigureSource::Largest(|trial| trial.silence_max_ms),
        table: PageTable::Response, column: TableWidth::Wide,
    }
    P50_CORRECTED {
        key: "p50_corrected", title: "p50", unit: "ms, corrected", kind: Kind::Time,
        definition: "Median response time of the buyers who got a unit in a closed loop, corrected as wrk does: with the requests \
            that a user would have made while it waited. Absent in other models.",
        source: FigureSource::Quantile(|trial| &trial.latency.corrected_sold, 500),
        table: PageTable::Rules,
    }
    P90_CORRECTED {
        key: "p90_corrected", title: "p90", unit: "ms, corrected", kind: Kind::Time,
        definition: "The 90th percentile of the same times.",
        source: FigureSource::Quantile(|trial| &trial.latency.corrected_sold, 900),
        table: PageTable::Rules,
    }
    P99_CORRECTED {
        key: "p99_corrected", title: "p99", unit: "ms, corrected", kind: Kind::Time,
        definition: "The 99th percentile of the same times.",
        source: FigureSource::Quantile(|trial| &trial.latency.corrected_sold, 990),
        table: PageTable::Rules,
    }
    SOLD_OUT_AFTER {
        key: "sold_out_after", title: "Sold out after", unit: "ms", kind: Kind::Time,
        definition: "From the release of the buyers until the buyer of the last unit had the answer. Absent if not every unit was \
            confirmed. Median over the trials.",
        source: FigureSource::Median(|trial| trial.sold_out_after_ms),
        table: PageTable::Response, column: TableWidth::Wide,
    }
}
