//! The figures of the load generator itself: whether it kept up, and the arrivals that it dropped.

use buyers::model::LoadModel;
use stats::as_f64;

use super::metric::{Better, FigureSource, K6, Kind, Metric, PageTable, ROW, TableWidth, exact, rows};
use crate::trial::schedule::Schedule;

/// Tells whether arrivals can be dropped. The page of the lab always has these figures.
fn has_arrivals(schedule: &Schedule) -> bool {
    !schedule.is_of_shops() || matches!(schedule.model, Some(LoadModel::Open { .. }))
}

rows! {
    START_LAG_P50 {
        key: "start_lag_p50", title: "Start lag p50", unit: "ms, worst trial", kind: Kind::Time,
        definition: "Median time from the intended start of a request to the actual one.",
        source: FigureSource::Largest(|trial| trial.generator.start_lag_p50_ms),
        table: PageTable::Generator,
    }
    START_LAG_SHARE {
        key: "start_lag_share", title: "Start lag", unit: "of the p50", kind: Kind::Share,
        definition: "Part of the p50 that is the wait for the load generator. The rest of the p50 counts from the \
                     actual starts, and is the service's.",
        of_shops: Some(
            "Part of the p50 that is the wait for the load generator. The rest of the p50 counts from the actual starts, and \
             is the shop's.",
        ),
        source: FigureSource::Result(|result| {
            let [response, service] = [&result.latency.response, &result.latency.service].map(|by| by.sold.quantile_ms(500));
            Some(exact((1.0 - service? / response.filter(|p50| p50.is_finite())?).max(0.0)))
        }),
        table: PageTable::Response, column: TableWidth::Wide,
    }
    START_LAG_MAX {
        key: "start_lag_max", title: "Start lag", unit: "ms, longest", kind: Kind::Time,
        definition: "Longest time from the intended start of a request to the actual one.",
        source: FigureSource::Largest(|trial| trial.generator.start_lag_max_ms),
        table: PageTable::Generator,
    }
    START_SPREAD {
        key: "start_spread", title: "First starts", unit: "ms, spread", kind: Kind::Time,
        definition: "From the first user's first request to the last user's, in the worst trial.",
        source: FigureSource::Largest(|trial| Some(trial.generator.start_spread_ms)),
        table: PageTable::Generator,
    }
    HEARTBEAT_P90 {
        key: "heartbeat_p90", title: "Heartbeat", unit: "ms late, p90", kind: Kind::Time,
        definition: "90 % of the beats of the load generator's heartbeat were at most this late. An answer that has \
                     arrived waits as long before it is read.",
        source: FigureSource::Quantile(|trial| &trial.generator.heartbeat, 900),
        table: PageTable::Generator,
    }
    RUN_QUEUE {
        key: "run_queue", title: "Waited for a processor", unit: "of the threads' time", kind: Kind::Share,
        definition: "Time in which threads of the load generator were ready and had no processor, as a share of that time and of \
            their time on one, in the worst trial. Absent where the system does not tell.",
        source: FigureSource::Largest(|trial| trial.generator.run_queue_share),
        table: PageTable::Generator,
    }
    PRESSURE {
        key: "pressure", title: "Pressure", unit: "of the time", kind: Kind::Share,
        definition: "Time in which some program of the load generator's machine, others included, was ready and had no processor \
            (pressure stall information), as a share of the worst trial. Absent where the system does not tell.",
        source: FigureSource::Largest(|trial| trial.generator.pressure_share),
        table: PageTable::Processors,
    }
    GENERATOR_CPU {
        key: "generator_cpu", title: "Processor", unit: "of all cores", kind: Kind::Share,
        definition: "Processor time of the load generator as a share of all cores, in the worst trial.",
        source: FigureSource::Largest(|trial| trial.generator.cpu_share),
        table: PageTable::Generator,
    }
    GENERATOR_CPU_PER_REQUEST {
        key: "generator_cpu_per_request", title: "Processor", unit: "µs per request",
        definition: "Processor time of the load generator for each request, in the worst trial.",
        source: FigureSource::Largest(|trial| trial.generator.cpu_us_per_request),
        table: PageTable::Generator,
    }
    LATE {
        key: "late", title: "Late starts", unit: "> 5 ms", kind: Kind::Share,
        definition: "Requests that started more than 5 ms later than they were meant to.",
        source: FigureSource::Share(|trial| (trial.generator.late, trial.answers.total())),
        table: PageTable::Generator,
    }
    DROPPED {
        key: "dropped", title: "Dropped", unit: "arrivals", kind: Kind::Count,
        definition: "Arrivals of an open model that found no user free and were never started.",
        source: FigureSource::SumMeasured(|trial| Some(as_f64(trial.generator.dropped))),
        is_shown: has_arrivals, table: PageTable::Generator, k6: Some(K6::Count("dropped_iterations")),
    }
    DROPPED_SHARE {
        key: "dropped_share", title: "Dropped", unit: "of the arrivals", kind: Kind::Share,
        definition: "Dropped arrivals as a share of all arrivals.",
        source: FigureSource::Share(|trial| (trial.generator.dropped, trial.generator.requests + trial.generator.dropped)),
        is_shown: has_arrivals, table: PageTable::Generator,
    }
    DROPPED_BUSY {
        key: "dropped_busy", title: "Dropped while all waited", unit: "arrivals", kind: Kind::Count,
        definition: "Dropped arrivals that found all users waiting for answers: the service was slower than the rate, or the \
            users were too few. The generator was late for the others.",
        of_shops: Some(
            "Dropped arrivals that found all users waiting for answers: the shop was slower than the rate, or the users were \
             too few. The generator was late for the others.",
        ),
        source: FigureSource::SumMeasured(|trial| Some(as_f64(trial.generator.dropped_busy))),
        is_shown: has_arrivals, table: PageTable::Generator,
    }
    LATE_IDLE {
        key: "late_idle", title: "Late while a user was idle", unit: "of the arrivals", kind: Kind::Share,
        definition: "Requests and arrivals that the load generator handled more than 5 ms late although a user was idle: its \
            own fault.",
        source: FigureSource::Share(|trial| (trial.generator.late_idle, trial.generator.requests + trial.generator.dropped)),
        table: PageTable::Generator,
    }
    CLIENT_LIMITED {
        key: "client_limited", title: "Client-limited", unit: "trials", kind: Kind::Count, better: Better::Zero,
        definition: "Measured trials in which the load generator was the bottleneck.",
        source: FigureSource::SumMeasured(|trial| Some(f64::from(u8::from(trial.generator.limited)))),
        beside: |result| Some(format!("of {}", result.measured_trials)),
        table: PageTable::Generator,
    }
}
