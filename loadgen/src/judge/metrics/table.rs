//! The one table of figures. Every output shows a row that is added here, or to the rows of the generator.

use stats::figures as format;
use stats::{Estimate, as_f64, rate};

use super::generator;
use super::metric::{
    Better, Compared, FigureSource, K6, Kind, Metric, Nature, PageTable, ROW, TableWidth, exact, of_books, rows,
};
use crate::lab::cpu::GENERATOR;
use crate::trial::record::Trial;
use crate::trial::schedule::Schedule;

/// Every figure, in the order in which tables show them.
pub(crate) static METRICS: &[&Metric] = &joined::<{ ROWS.len() + generator::ROWS.len() }>(ROWS, generator::ROWS);

/// Returns the figures that a service of the lab can have, or those of shops that files describe.
pub(crate) fn metrics_of(is_lab: bool) -> Vec<&'static Metric> {
    METRICS.iter().copied().filter(|metric| is_lab || metric.is_of_any_shop()).collect()
}

const fn joined<const N: usize>(first: &[&'static Metric], second: &[&'static Metric]) -> [&'static Metric; N] {
    let mut all = [first[0]; N];
    let mut position = 0;
    while position < N {
        all[position] = if position < first.len() { first[position] } else { second[position - first.len()] };
        position += 1;
    }
    all
}

rows! {
    BAD_TRIALS {
        key: "bad_trials", title: "Bad trials", unit: "of all", kind: Kind::Count, better: Better::Zero,
        definition: "Trials that sold a unit too many or too few, twice or out of sequence, misplaced one, or lost an update. Also \
                     those in which a buyer got more than one may have, or was told what the database refutes. The warm-up counts. \
                     Next to it is the exact one-sided 95 % upper bound of their rate, if it is below one half.",
        of_shops: Some(
            "Trials that sold a unit too many or too few, lost an update, gave a buyer more than one may have, or told a buyer \
             something that the books deny; warm-up included. Next to it is the exact one-sided 95 % upper bound of their \
             rate, if it is below one half: a few good trials prove little.",
        ),
        source: FigureSource::Result(|result| Some(exact(f64::from(result.bad_trials)))),
        beside: |result| {
            let bound = Some(result.bad_trial_rate_upper_95).filter(|bound| rate::is_telling(*bound));
            let bound = bound.map_or_else(String::new, |bound| format!(" (≤ {})", format::percent(bound)));
            Some(format!("of {}{bound}", result.trials))
        },
        column: TableWidth::Wide,
    }
    OVERSOLD {
        key: "oversold", title: "Over\u{ad}sold", unit: "units, worst", kind: Kind::Count, better: Better::Zero,
        definition: "Units sold beyond the stock, in the worst trial; warm-up included.",
        source: FigureSource::Worst(|trial| Some(as_f64(trial.audit.oversold))),
        beside: |result| OVERSELL_RATE.value(result).filter(|rate| *rate > 0.0).map(|rate| format!("({})", format::percent(rate))),
        column: TableWidth::Narrow, compared: Compared::Exact, k6: Some(K6::SoldAtMost),
    }
    OVERSELL_RATE {
        key: "oversell_rate", title: "Oversell rate", unit: "of the stock, worst", kind: Kind::Share, better: Better::Zero,
        definition: "Units sold beyond the stock, divided by the stock, in the worst trial.",
        source: FigureSource::Result(|result| Some(exact(OVERSOLD.value(result)? / as_f64(result.stock)))),
        table: PageTable::Rules,
    }
    UNDERSOLD {
        key: "undersold", title: "Under\u{ad}sold", unit: "units, worst", kind: Kind::Count, better: Better::Zero,
        definition: "Units that buyers wanted and did not get although one of them was told \"sold out\", or although enough \
            buyers were told \"sold\" to take them all; worst trial.",
        source: FigureSource::Worst(|trial| Some(as_f64(trial.audit.undersold))),
        column: TableWidth::Narrow, compared: Compared::Exact, k6: Some(K6::SoldAtLeast),
    }
    LOST_UPDATES {
        key: "lost_updates", title: "Lost updates", unit: "worst", kind: Kind::Count, better: Better::Zero,
        definition: "Initial stock − final stock − units sold, in the worst trial. Negative: the deduction of an order was \
            overwritten. Positive: stock vanished without an order.",
        source: FigureSource::Worst(|trial| of_books(trial, |read| read.stock, as_f64(trial.audit.lost_updates))),
        compared: Compared::Exact,
    }
    DOUBLE_SALES {
        key: "double_sales", title: "Sold twice", unit: "units, worst", kind: Kind::Count, better: Better::Zero,
        definition: "Orders for a unit that an earlier order had already taken, in the worst trial.",
        source: FigureSource::Worst(|trial| Some(as_f64(trial.audit.double_sales))),
        compared: Compared::Exact,
        lab_only: true,
    }
    OUT_OF_SEQUENCE {
        key: "out_of_sequence", title: "Out of sequence", unit: "orders, worst", kind: Kind::Count, better: Better::Zero,
        definition: "Orders that do not continue the sequence of the sale, in the worst trial. An order begins with the \
                     units that the previous order left. The orders of a batch follow each other, and their numbers \
                     grow. Absent if the orders do not say how many units they left.",
        source: FigureSource::Worst(|trial| trial.audit.out_of_sequence.map(as_f64)),
        lab_only: true,
    }
    MISPLACED {
        key: "misplaced", title: "Misplaced", unit: "units, worst", kind: Kind::Count, better: Better::Zero,
        definition: "Units whose rows disagree with the orders or the ledger, in the worst trial. Absent without such rows.",
        source: FigureSource::Worst(|trial| trial.audit.misplaced.map(as_f64)), table: PageTable::Database,
    }
    UNBALANCED {
        key: "unbalanced", title: "Ledger", unit: "trials not balanced", kind: Kind::Count, better: Better::Zero,
        definition: "Trials whose orders differ from what buyers were told, apart from indeterminate orders.",
        source: FigureSource::Sum(|trial| of_books(trial, |read| read.orders, f64::from(u8::from(!trial.ledger_balanced)))),
    }
    OVER_LIMIT {
        key: "over_limit", title: "Over the limit", unit: "buyers, worst", kind: Kind::Count, better: Better::Zero,
        definition: "Buyers that got more units than one buyer may have, in the worst trial. Zero where the shop has no \
                     such limit.",
        column: TableWidth::Wide, is_shown: Schedule::limits_buyers,
        source: FigureSource::Worst(|trial| Some(as_f64(trial.audit.over_limit))),
    }
    OVERLAPS {
        key: "overlaps", title: "Overlaps", unit: "all trials", kind: Kind::Count, better: Better::Zero,
        definition: "Critical sections that were entered while the lock had no free permit, by the instances' own \
                     clocks. Absent where sections may overlap, or without a history.",
        source: FigureSource::Sum(|trial| trial.history.as_ref()?.overlaps.map(as_f64)),
        needs: |nature| nature.permits.is_some() && !nature.oversells,
        column: TableWidth::Wide,
        lab_only: true,
    }
    TOKEN_REGRESSIONS {
        key: "token_regressions", title: "Token regres\u{ad}sions", unit: "all trials", kind: Kind::Count, better: Better::Zero,
        definition: "Holds whose fencing token is not above the tokens of all earlier holds.",
        source: FigureSource::Sum(|trial| trial.history.as_ref()?.token_regressions.map(as_f64)),
        needs: |nature| nature.has_zookeeper_lock() && nature.excludes(),
        lab_only: true,
    }
    TOKENS_OUT_OF_ORDER {
        key: "tokens_out_of_order", title: "Tokens out of order", unit: "orders, all trials", kind: Kind::Count,
        better: Better::Zero,
        definition: "Orders with a lower fencing token than an earlier order. Absent without tokens, and for a lock \
                     with several permits.",
        source: FigureSource::Sum(|trial| trial.audit.tokens_out_of_order.map(as_f64)),
        needs: |nature| nature.has_zookeeper_lock() && (nature.excludes() || nature.permits.is_none()),
        lab_only: true,
    }
    OVERTAKEN_IN_BATCH {
        key: "overtaken_in_batch", title: "Over\u{ad}taken in a batch", unit: "orders, all trials", kind: Kind::Count,
        better: Better::Zero,
        definition: "Orders that a batch sold after the order of a buyer that arrived later at the same instance. Absent without \
            batches, or if the history does not tell when their buyers arrived.",
        source: FigureSource::Sum(|trial| trial.audit.overtaken_in_batch.map(as_f64)),
        needs: |nature| nature.permits.is_none() && !nature.oversells,
        table: PageTable::Handover,
        lab_only: true,
    }
    INDETERMINATE {
        key: "indeterminate", title: "Indeter\u{ad}minate", unit: "orders", kind: Kind::Count,
        definition: "Orders in the database whose buyers saw an error or no answer. They count against no strategy.",
        of_shops: Some("Orders in the books whose buyers saw an error or no answer. They count against no shop."),
        source: FigureSource::Sum(|trial| of_books(trial, |read| read.orders, as_f64(trial.audit.indeterminate))),
    }
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
        table: PageTable::Response, column: TableWidth::Narrow, compared: Compared::Times,
    }
    P50 {
        key: "p50", title: "p50", unit: "ms", kind: Kind::Time,
        definition: "Median response time of the buyers who got a unit. Median over the trials, of which each needs 20 such \
            buyers.",
        source: FigureSource::Median(|trial| trial.latency.response.sold.quantile_ms(500)),
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
    REFUSED {
        key: "refused", title: "Refused", unit: "of the requests", kind: Kind::Share,
        definition: "Requests that were refused with the promise that nothing was written.",
        source: FigureSource::Share(|trial| (trial.answers.refused, trial.answers.total())),
        table: PageTable::Outcomes, compared: Compared::Exact, k6: Some(K6::Rate("refused")),
    }
    ERRORS {
        key: "errors", title: "Errors", unit: "of the requests", kind: Kind::Share,
        definition: "Requests that ended in an error or a timeout: the unit may have been sold.",
        source: FigureSource::Share(|trial| (trial.answers.failed(), trial.answers.total())),
        table: PageTable::Outcomes, compared: Compared::Exact, k6: Some(K6::Rate("errors")),
    }
    HANDOVERS {
        key: "handovers", title: "Hand-overs", unit: "n", kind: Kind::Count, better: Better::Neither,
        definition: "Releases of the lock after which a waiter entered, where the history tells.",
        source: FigureSource::SumMeasured(|trial| some_count(trial.handovers.count())),
        table: PageTable::Handover,
    }
    HANDOVER_P50 {
        key: "handover_p50", title: "Hand-over p50", unit: "ms", kind: Kind::Time,
        definition: "Median time from a release of the lock to the entry of the next waiter. Median over the trials.",
        source: FigureSource::Median(|trial| trial.handovers.quantile_ms(500)),
        needs: Nature::excludes, table: PageTable::Handover,
    }
    HANDOVER_P99 {
        key: "handover_p99", title: "Hand-over p99", unit: "ms", kind: Kind::Time,
        definition: "99 % of the hand-overs took at most this long.",
        source: FigureSource::Quantile(|trial| &trial.handovers, 990),
        needs: Nature::excludes, table: PageTable::Handover,
    }
    HANDOVER_MAX {
        key: "handover_max", title: "Longest hand-over", unit: "ms", kind: Kind::Time,
        definition: "The longest time from a release of the lock to the entry of the next waiter.",
        source: FigureSource::Longest(|trial| &trial.handovers),
        needs: Nature::excludes, table: PageTable::Handover,
    }
    INSIDE_MAX {
        key: "inside_max", title: "Inside at once", unit: "most", kind: Kind::Count, better: Better::Neither,
        definition: "Most visitors of the critical section of one SKU at one instant.",
        source: FigureSource::Worst(|trial| trial.history.as_ref().map(|history| as_f64(history.inside_max))),
        table: PageTable::Handover,
    }
    INVERSION_SHARE {
        key: "inversion_share", title: "Out of order", unit: "of all pairs", kind: Kind::Share, better: Better::Neither,
        definition: "Share of the pairs of buyers that were served in another order than they asked in: 0 for a queue, about \
            one half for a lock without an order. Median over the trials.",
        source: FigureSource::Median(|trial| trial.history.as_ref()?.inversion_share()),
        table: PageTable::Handover,
    }
    NOTIFICATIONS_PER_RELEASE {
        key: "notifications_per_release", title: "Notifi\u{ad}cations", unit: "per release",
        definition: "Watch events that ZooKeeper sent for each release of the lock. Next to it is the number to expect \
                     if all users wait at once. Absent if buyers got no decision, because their releases are unknown. \
                     Median over the trials.",
        source: FigureSource::Median(|trial| trial.zookeeper.notifications_per_release()),
        beside: |result| result.notifications_per_release_expected.map(|expected| format!("of {}", format::figure(expected))),
        needs: Nature::has_zookeeper_lock, table: PageTable::Herd, column: TableWidth::Narrow, compared: Compared::Cost,
    }
    CLIENT_NOTIFICATIONS {
        key: "client_notifications_per_release", title: "Received", unit: "per release",
        definition: "Watch events that the instances' sessions received for each release. Median over the trials.",
        source: FigureSource::Median(|trial| trial.zookeeper.client_notifications_per_release()),
        needs: Nature::has_zookeeper_lock, table: PageTable::Herd,
    }
    WAKE_MAX {
        key: "wake_max", title: "Woken at once", unit: "most", kind: Kind::Count,
        definition: "Most connections that one deletion woke, if it is a new record of that server.",
        source: FigureSource::Worst(|trial| trial.zookeeper.wake_max.map(as_f64)),
        table: PageTable::Herd, is_record: true,
    }
    NOTIFICATIONS {
        key: "notifications", title: "Notifi\u{ad}cations", unit: "a trial",
        definition: "Watch events of a trial, as the servers count them, or else the instances' sessions. Next to them \
                     is the number to expect if all users wait at once. Median over the trials.",
        source: FigureSource::Median(|trial| trial.zookeeper.notifications().map(as_f64)),
        beside: |result| result.notifications_expected.map(|expected| format!("of {}", format::count(expected))),
        table: PageTable::Herd,
    }
    REQUESTS_PER_SALE {
        key: "requests_per_sale", title: "Requests", unit: "per sale",
        definition: "Requests to ZooKeeper for each unit sold. Median over the trials.",
        source: FigureSource::Median(|trial| trial.per_sale(trial.zookeeper.client_requests.map(as_f64))),
        table: PageTable::Herd, column: TableWidth::Wide, compared: Compared::Cost,
    }
    BYTES_PER_SALE {
        key: "bytes_per_sale", title: "Bytes", unit: "per sale",
        definition: "Bytes to and from ZooKeeper for each unit sold. Median over the trials.",
        source: FigureSource::Median(|trial| trial.per_sale(trial.zookeeper.client_bytes().map(as_f64))),
        table: PageTable::Herd,
    }
    COMMITS_PER_SALE {
        key: "commits_per_sale", title: "Commits", unit: "per sale",
        definition: "Transactions that wrote or locked a row and were committed, for each unit sold. Median over the trials.",
        source: FigureSource::Median(|trial| trial.per_sale(trial.postgres.commits.map(as_f64))),
        table: PageTable::Database,
        compared: Compared::Cost,
    }
    BATCH {
        key: "batch", title: "Batch", unit: "sales per commit", better: Better::Neither,
        definition: "Orders that one transaction wrote, on average. Median over the trials.",
        source: FigureSource::Median(|trial| trial.postgres.batch_mean),
        table: PageTable::Database,
    }
    BATCH_MAX {
        key: "batch_max", title: "Largest batch", unit: "sales", kind: Kind::Count, better: Better::Neither,
        definition: "Most orders that one transaction wrote.",
        source: FigureSource::Largest(|trial| trial.postgres.batch_max.map(as_f64)),
        table: PageTable::Database,
    }
    ROLLBACKS {
        key: "rollbacks", title: "Rollbacks", unit: "measured trials", kind: Kind::Count,
        definition: "Transactions that wrote or locked a row and were rolled back.",
        source: FigureSource::SumMeasured(|trial| trial.postgres.rollbacks.map(as_f64)),
        table: PageTable::Database,
    }
    WAL_BYTES_PER_SALE {
        key: "wal_bytes_per_sale", title: "Write-ahead log", unit: "bytes per sale",
        definition: "Bytes of Postgres' write-ahead log for each unit sold. Median over the trials.",
        source: FigureSource::Median(|trial| trial.per_sale(trial.postgres.wal_bytes.map(as_f64))),
        table: PageTable::Database, compared: Compared::Times,
    }
    LOCK_WAIT_PER_SALE {
        key: "lock_wait_per_sale", title: "Lock wait", unit: "ms per sale", kind: Kind::Time,
        definition: "Time that connections waited for locks of Postgres, added up and estimated from samples, for each unit \
            sold. Median over the trials.",
        source: FigureSource::Median(|trial| trial.per_sale(trial.postgres.lock_wait_ms)),
        table: PageTable::Database,
    }
    LOCK_WAITING_MAX {
        key: "lock_waiting_max", title: "Waiting at once", unit: "most seen", kind: Kind::Count,
        definition: "Most connections that were seen to wait for a lock of Postgres at one instant.",
        source: FigureSource::Largest(|trial| trial.postgres.lock_waiting_max.map(as_f64)),
        table: PageTable::Database,
    }
    CPU_PER_REQUEST {
        key: "cpu_per_request", title: "All but the generator", unit: "ms per request", kind: Kind::Time,
        definition: "Processor time of the service and the servers for each request. Median over the trials.",
        source: FigureSource::Median(cpu_per_request),
        table: PageTable::Processors, lab_only: true,
    }
}

fn cpu_per_request(trial: &Trial) -> Option<f64> {
    let others: Vec<f64> = trial.cpu.iter().filter(|cpu| cpu.process != GENERATOR).map(|cpu| cpu.cpu_s * 1e3).collect();
    (!others.is_empty() && trial.generator.requests > 0)
        .then(|| others.iter().sum::<f64>() / as_f64(trial.generator.requests))
}

fn some_count(count: u64) -> Option<f64> {
    (count > 0).then(|| as_f64(count))
}
