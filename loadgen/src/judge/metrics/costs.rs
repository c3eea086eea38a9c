//! The figures of the cost: refusals, hand-overs, and what a sale costs ZooKeeper, Postgres and the processors.

use stats::as_f64;
use stats::figures as format;

use super::metric::{Better, Compared, FigureSource, K6, Kind, Metric, Nature, PageTable, ROW, TableWidth, rows};
use crate::lab::cpu::GENERATOR;
use crate::trial::record::Trial;

rows! {
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
        definition: "Processor time of the service and the servers for each request. Median over the trials. Absent if a hazard \
                     restarts one of them.",
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
