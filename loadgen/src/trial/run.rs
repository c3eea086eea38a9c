//! One trial: put the stock on sale, let everyone buy, wait until all is quiet, audit. What differs from shop to shop is in
//! `lab`, for the service of the lab, and in `any`, for a shop that a file describes.

use std::time::{Duration, SystemTime};

use buyers::habits::PaymentHabits;
use buyers::health::{Effort, Generator};
use buyers::load::{Load, LoadResult, Purchase};
use buyers::model::LoadModel;
use buyers::sample::ByOutcome;
use buyers::tally::Tally;
use stats::times::Times;
use stats::{as_ms, figures};

use crate::audit::history::HistoryAudit;
use crate::audit::shop::{BooksRead, Evidence};
use crate::audit::trial::Audit;
use crate::audit::unchecked::{Gap, Unchecked};
use crate::lab::cpu::{GENERATOR, ProcessCpu};
use crate::lab::postgres_load::PostgresLoad;
use crate::lab::traffic::Traffic;
use crate::trial::goose::GooseReports;
use crate::trial::record::{Curve, StrikeRecord, Trial, goodput_per_s, sold_out_after_ms};
use crate::trial::schedule::ScheduledTrial;

/// Upper bound of the time until all users are ready.
const ARRIVE_WITHIN: Duration = Duration::from_secs(60);

/// The context of all trials.
#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    pub(crate) model: LoadModel,
    /// Draws the arrivals of an open model, together with the number of the block.
    pub(crate) seed: u32,
    /// Units on sale of each SKU.
    pub(crate) stock: u32,
    /// Most units that one buyer of the lab may have of each SKU, if the sales have such a limit.
    pub(crate) per_buyer: Option<u32>,
    /// How buyers pay if the strategy sells in two steps.
    pub(crate) habits: PaymentHabits,
    /// The SKUs on sale. A shop that a file describes has one.
    pub(crate) goods_nos: Vec<i64>,
    /// How long a buyer of the lab waits for the lock.
    pub(crate) lock_wait: Duration,
    /// Cores of the machine.
    pub(crate) cores: usize,
    /// The files for goose's own reports, if they are wanted.
    pub(crate) goose_reports: Option<GooseReports>,
    /// The most requests of a trial that are kept for the log. If a trial has more, the log has none of them.
    pub(crate) log_max: usize,
}

impl Conditions {
    /// Returns the seed of the arrivals. Every subject of a block has the same arrivals, and every block others.
    pub(crate) fn seed_of(&self, scheduled: ScheduledTrial<'_>) -> u64 {
        u64::from(self.seed) << 32 | scheduled.block as u64
    }

    /// Makes the load of a trial, in which a purchase takes at most `answer_within`.
    pub(super) fn load(&self, scheduled: ScheduledTrial<'_>, purchase: Purchase, answer_within: Duration) -> Load {
        Load {
            purchase,
            users: self.model.users_of(usize::try_from(scheduled.subject.users).unwrap_or(usize::MAX)),
            model: self.model,
            seed: self.seed_of(scheduled),
            answer_within,
            arrive_within: ARRIVE_WITHIN,
            goose_report: self.goose_reports.as_ref().map(|reports| reports.file(scheduled)),
            log_max: self.log_max,
        }
    }
}

/// A trial, and the requests behind it.
pub(crate) struct FinishedTrial {
    pub(crate) trial: Trial,
    pub(crate) tally: Tally,
    /// The wall clock at the release of the buyers, from which the instants of the requests count.
    pub(crate) released_at: SystemTime,
}

/// What was seen of the shop in one trial. What a shop does not tell is absent or empty.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) audit: Audit,
    pub(super) unchecked: Unchecked,
    /// What the audit of a shop that a file describes stands on.
    pub(super) evidence: Option<Evidence>,
    pub(super) books_read: Option<BooksRead>,
    /// What nothing could show, a line each.
    pub(super) unseen: Vec<String>,
    /// When the orders of the sold were committed, from the release on, in no order. Absent if nobody tells.
    pub(super) confirmed_at: Option<Vec<Duration>>,
    /// The number of the sale of each SKU.
    pub(super) sales: Vec<i64>,
    pub(super) history: Option<HistoryAudit>,
    pub(super) handovers: Times,
    /// When critical sections were entered, from the first request for the lock on.
    pub(super) entered: Vec<Duration>,
    pub(super) traffic: Traffic,
    pub(super) postgres: PostgresLoad,
    /// Processor time of the processes of the shop.
    pub(super) cpu: Vec<ProcessCpu>,
    pub(super) settled: bool,
    /// The strike of the hazard, if there was one.
    pub(super) strike: Option<StrikeRecord>,
    pub(super) left_out: Vec<String>,
}

/// Makes the record of a trial.
pub(super) fn record(
    conditions: &Conditions,
    scheduled: ScheduledTrial<'_>,
    bought: LoadResult,
    seen: Seen,
) -> FinishedTrial {
    let tally = &bought.tally;
    let answers = tally.answers();
    let mut sold_at = tally.sold_at.clone();
    sold_at.sort_unstable();
    let stock = usize::try_from(conditions.stock).unwrap_or(usize::MAX) * conditions.goods_nos.len();
    let confirmed_at = seen.confirmed_at.map(|mut confirmed_at| {
        confirmed_at.sort_unstable();
        confirmed_at
    });
    let unsettled = [(Gap::Rest, u64::from(!seen.settled))].into_iter().collect();
    let of_generator = |time: Duration| ProcessCpu { process: GENERATOR.to_owned(), cpu_s: time.as_secs_f64() };
    let cpu = bought.cpu_time.map(of_generator).into_iter().chain(seen.cpu).collect();
    let mut left_out = seen.left_out;
    left_out.extend(unlogged(conditions, &answers));
    let trial = Trial {
        block: scheduled.block,
        warm_up: scheduled.warm_up,
        strategy: scheduled.subject.strategy.clone(),
        users: scheduled.subject.users,
        build: scheduled.subject.build.clone(),
        hazard: scheduled.subject.hazard,
        strike: seen.strike,
        sales: seen.sales,
        answers,
        audit: seen.audit,
        ledger_balanced: seen.audit.ledger_balanced(),
        unchecked: Unchecked::sum([&seen.unchecked, &unsettled]).words(),
        evidence: seen.evidence,
        books_read: seen.books_read,
        unseen: seen.unseen,
        history: seen.history,
        handovers: seen.handovers,
        goodput_per_s: goodput_per_s(tally.first_start, &sold_at, stock),
        sold_out_after_ms: sold_out_after_ms(&sold_at, stock),
        confirmed_per_s: confirmed_at.as_ref().and_then(|at| goodput_per_s(tally.first_start, at, stock)),
        backlog: confirmed_at.as_ref().and_then(|at| backlog(&sold_at, at)),
        backlog_ms: confirmed_at.as_ref().and_then(|at| Some(as_ms(at.last()?.saturating_sub(*sold_at.last()?)))),
        duration_ms: as_ms(tally.length),
        silence_max_ms: tally.silence_max.map(as_ms),
        latency: tally.latency.clone(),
        zookeeper: seen.traffic,
        postgres: seen.postgres,
        cpu,
        settled: seen.settled,
        generator: Generator::judge(effort(conditions, &bought)),
        problems: tally.problems.clone(),
        left_out,
        sold_over_time: Curve::of(sold_at),
        entered_over_time: Curve::of(seen.entered),
    };
    FinishedTrial { trial, tally: bought.tally, released_at: bought.released_at }
}

/// Returns how many orders were promised and not committed at the last answer. Both lists are in order.
fn backlog(sold_at: &[Duration], confirmed_at: &[Duration]) -> Option<u64> {
    let last = sold_at.last()?;
    let committed = confirmed_at.partition_point(|at| at <= last);
    Some(sold_at.len().saturating_sub(committed) as u64)
}

/// Tells that the log of requests does not have this trial, if it had too many.
fn unlogged(conditions: &Conditions, answers: &ByOutcome<u64>) -> Option<String> {
    let log_max = conditions.log_max as u64;
    let most = figures::count(log_max);
    (log_max > 0 && answers.total() > log_max)
        .then(|| format!("the log of requests: it takes up to {most} a trial; --request-log FILE takes all"))
}

fn effort(conditions: &Conditions, load: &LoadResult) -> Effort {
    let tally = &load.tally;
    let response = &tally.latency.response;
    let ByOutcome { sold, sold_out, over_limit, unpaid, refused, error, timeout } = response;
    let all = [sold, sold_out, over_limit, unpaid, refused, error, timeout];
    Effort {
        starts: tally.starts.clone(),
        dropped: load.dropped,
        is_open: load.is_open,
        response_p50_ms: Times::merged(all).median_served_ms(),
        length: tally.length,
        cpu_time: load.cpu_time,
        cores: conditions.cores,
        heartbeat: tally.heartbeat.clone(),
        processors: load.processors,
    }
}
