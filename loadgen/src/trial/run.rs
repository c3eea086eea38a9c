//! One trial: open a sale and verify it, count, let everyone buy, wait until all is quiet, count again, audit.

use std::time::{Duration, SystemTime};

use buyers::health::{Effort, Generator};
use buyers::model::LoadModel;
use buyers::purchase::{Load, Purchase};
use buyers::sample::{ByOutcome, Sample, problems};
use reqwest::Url;
use stats::as_ms;
use stats::times::Times;
use tokio::time::{Instant, MissedTickBehavior};
use tracing::{Instrument as _, debug_span, instrument};

use crate::audit::history::{HistoryAudit, handovers_ns};
use crate::audit::unchecked::{Gap, Unchecked};
use crate::error::Error;
use crate::lab::counters::Snapshot;
use crate::lab::cpu::{CpuTimes, GENERATOR, ProcessCpu};
use crate::lab::deployment::Deployment;
use crate::lab::history::HistorySince;
use crate::lab::postgres_load::{LockWaits, PostgresCounters, PostgresLoad};
use crate::lab::service::Goods;
use crate::lab::service_program::HTTP_GRACE;
use crate::lab::strategy::Strategy;
use crate::lab::traffic::Traffic;
use crate::trial::books::{Audited, audit};
use crate::trial::goose::GooseReports;
use crate::trial::herd::releases;
use crate::trial::plan::PlannedTrial;
use crate::trial::record::{Curve, Latency, Trial, goodput_per_s, silence_max, sold_at, sold_out_after_ms};
use crate::trial::settle::{settle, snapshot_of};

/// How long all users together may take to be ready.
const ARRIVE_WITHIN: Duration = Duration::from_secs(60);
/// The client waits this much longer for an answer than a buyer waits for the lock. It is longer than any limit of an
/// instance, so that the service's own refusal arrives, and not a timeout that leaves open what happened.
pub(crate) const ANSWER_GRACE: Duration = HTTP_GRACE.saturating_add(Duration::from_secs(10));
/// How often is looked who waits for a lock of the database.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// What all trials have in common.
#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    pub(crate) model: LoadModel,
    /// Draws the arrivals of an open model, together with the number of the block.
    pub(crate) seed: u32,
    pub(crate) stock: u32,
    /// The SKUs on sale.
    pub(crate) goods_nos: Vec<i64>,
    pub(crate) lock_wait: Duration,
    /// Cores of the machine.
    pub(crate) cores: usize,
    /// Where goose writes its own reports, if they are wanted.
    pub(crate) goose_reports: Option<GooseReports>,
}

/// A trial, and the single requests behind it.
pub(crate) struct Ran {
    pub(crate) trial: Trial,
    pub(crate) samples: Vec<Sample>,
    /// The wall clock at the instant from which the samples count.
    pub(crate) released_at: SystemTime,
}

/// Everything that is counted, at one moment.
struct Counted {
    snapshot: Snapshot,
    postgres: PostgresCounters,
    cpu: CpuTimes,
}

/// Runs one trial.
///
/// # Errors
///
/// [`Error::Service`], [`Error::Postgres`] or [`Error::Reset`] when a server or an instance fails,
/// [`Error::ForeignOrder`] when the sale has an order nobody asked for, and those of [`buyers::run`].
///
/// # Cancel safety
///
/// The buyers give up; the sale stays open in the database, and the next trial opens another.
#[instrument(skip_all, fields(block = planned.block, strategy = strategy.name, users = planned.subject.users))]
pub(crate) async fn trial(
    deployment: &Deployment,
    conditions: &Conditions,
    strategy: &Strategy,
    planned: PlannedTrial<'_>,
) -> Result<Ran, Error> {
    let opened = open_sales(deployment, conditions, strategy).instrument(debug_span!("open the sales")).await?;
    deployment.database.vacuum().instrument(debug_span!("vacuum")).await?;
    let mark = deployment.service.history_mark().await?;
    let before = count(deployment).instrument(debug_span!("count before")).await?;
    let purchase = purchase(deployment, conditions, strategy, planned)?;
    let load = buyers::run(&purchase).instrument(debug_span!("load"));
    let (load, lock_waits) = with_lock_waits(deployment, load).await?;
    let settled = settle(deployment, &opened).instrument(debug_span!("settle")).await?;
    let mut after = count(deployment).instrument(debug_span!("count after")).await?;
    let history = deployment.service.history_since(&mark).instrument(debug_span!("read the history")).await?;
    let transactions = deployment.database.transactions(&before.postgres, &after.postgres).await?;
    if history.strangers > 0 {
        // The counters before and after are of different processes.
        after.snapshot.instances.clear();
    }

    let audit = audit(deployment, strategy, &opened, &load.samples, &history);
    let audited = audit.instrument(debug_span!("audit")).await?;
    let sales: Vec<i64> = opened.iter().map(|goods| goods.sale).collect();
    let batches = deployment.database.batches(&conditions.goods_nos, &sales).await?;
    let length = load.samples.iter().map(|sample| sample.ended).max().unwrap_or_default();
    let postgres = PostgresLoad {
        commits: transactions.map(|(commits, _)| commits),
        rollbacks: transactions.map(|(_, rollbacks)| rollbacks),
        wal_bytes: u64::try_from(after.postgres.wal_bytes - before.postgres.wal_bytes).ok(),
        lock_wait_ms: (lock_waits.looks > 0).then_some(lock_waits.waited_ms),
        lock_waiting_max: (lock_waits.looks > 0).then_some(lock_waits.waiting_max),
        lock_looks: lock_waits.looks,
        batch_mean: batches.map(|(mean, _)| mean),
        batch_max: batches.map(|(_, most)| most),
    };
    let mut cpu = vec![ProcessCpu { process: GENERATOR.to_owned(), cpu_s: load.cpu_time.as_secs_f64() }];
    cpu.extend(after.cpu.since(&before.cpu));
    let answers = ByOutcome::count(&load.samples);
    let traffic = Traffic::between(&before.snapshot, &after.snapshot, releases(strategy.mechanism, &answers));
    let counts = Counts { sales, answers, audited, traffic, postgres, cpu, settled };
    let trial = Measured { conditions, strategy, planned, load: &load, length, history }.into_trial(counts);
    Ok(Ran { trial, samples: load.samples, released_at: load.released_at })
}

/// What the requests and the history tell.
struct Measured<'a> {
    conditions: &'a Conditions,
    strategy: &'a Strategy,
    planned: PlannedTrial<'a>,
    load: &'a Load,
    length: Duration,
    history: HistorySince,
}

/// What was counted and audited.
struct Counts {
    sales: Vec<i64>,
    answers: ByOutcome<u64>,
    audited: Audited,
    traffic: Traffic,
    postgres: PostgresLoad,
    cpu: Vec<ProcessCpu>,
    settled: bool,
}

impl Measured<'_> {
    fn into_trial(self, counts: Counts) -> Trial {
        let Measured { conditions, strategy, planned, load, length, history } = self;
        let samples = &load.samples;
        let sold_at = sold_at(samples);
        let stock = usize::try_from(conditions.stock).unwrap_or(usize::MAX) * conditions.goods_nos.len();
        let Audited { audit, unchecked } = counts.audited;
        let unsettled = [(Gap::Rest, u64::from(!counts.settled))].into_iter().collect();
        let HistorySince { mut sections, missing, one_clock, .. } = history;
        let mut sections = sections.remove(&strategy.name).unwrap_or_default();
        sections.retain(|section| conditions.goods_nos.contains(&section.goods_no));
        let mut handovers = Times::new();
        if one_clock && strategy.permits == Some(1) {
            handovers_ns(&sections).into_iter().for_each(|ns| handovers.record(Duration::from_nanos(ns)));
        }
        let asked_first = sections.iter().filter_map(|section| section.asked_ns).min().filter(|_| one_clock);
        let entered = asked_first.map_or_else(Vec::new, |first| {
            sections.iter().map(|section| Duration::from_nanos(section.entered_ns.saturating_sub(first))).collect()
        });
        let mut latency = Latency::of(samples, load.dropped.busy + load.dropped.idle);
        if matches!(conditions.model, LoadModel::Loop { .. }) {
            latency.correct(samples);
        }
        Trial {
            block: planned.block,
            warm_up: planned.warm_up,
            strategy: strategy.name.clone(),
            users: planned.subject.users,
            build: planned.subject.build.clone(),
            sales: counts.sales,
            answers: counts.answers,
            audit,
            ledger_balanced: audit.ledger_balanced(),
            unchecked: Unchecked::sum([&unchecked, &unsettled]).words(),
            history: one_clock.then(|| HistoryAudit::of(&sections, strategy.permits, missing)),
            handovers,
            goodput_per_s: goodput_per_s(samples, &sold_at, stock),
            sold_out_after_ms: sold_out_after_ms(&sold_at, stock),
            duration_ms: as_ms(length),
            silence_max_ms: silence_max(samples).map(as_ms),
            latency,
            zookeeper: counts.traffic,
            postgres: counts.postgres,
            cpu: counts.cpu,
            settled: counts.settled,
            generator: Generator::judge(effort(conditions, load, length)),
            problems: problems(samples.iter().filter_map(|sample| sample.problem.as_ref())),
            sold_over_time: Curve::of(sold_at),
            entered_over_time: Curve::of(entered),
        }
    }
}

fn effort(conditions: &Conditions, load: &Load, length: Duration) -> Effort {
    let samples = &load.samples;
    let mut first_starts = std::collections::BTreeMap::new();
    for sample in samples {
        let first = first_starts.entry(sample.user).or_insert(sample.started);
        *first = sample.started.min(*first);
    }
    let mut responses: Vec<Duration> = samples.iter().map(Sample::response).collect();
    responses.sort_unstable();
    Effort {
        start_lags: samples.iter().map(Sample::start_lag).collect(),
        idle_lags: samples.iter().map(Sample::idle_lag).collect(),
        first_starts: first_starts.into_values().collect(),
        dropped: load.dropped,
        is_open: matches!(conditions.model, LoadModel::Open { .. }),
        begins_together: conditions.model.begins_together(),
        response_p50: responses.get(responses.len() / 2).copied(),
        length,
        cpu_time: load.cpu_time,
        cores: conditions.cores,
        pulse: load.pulse.clone(),
    }
}

/// Opens new sales that this strategy sells, and makes sure that the database has them as the service says. Strategies of
/// another family cannot write them.
async fn open_sales(
    deployment: &Deployment,
    conditions: &Conditions,
    strategy: &Strategy,
) -> Result<Vec<Goods>, Error> {
    let mut opened = Vec::with_capacity(conditions.goods_nos.len());
    for goods_no in &conditions.goods_nos {
        opened.push(deployment.service.reset(*goods_no, conditions.stock, strategy).await?);
    }
    let recorded = deployment.database.goods(&conditions.goods_nos).await?;
    match opened.iter().zip(&recorded).find(|(opened, recorded)| opened != recorded) {
        None => Ok(opened),
        Some((opened, recorded)) => {
            let advice = "is this the database of the service?";
            Err(Error::Reset(format!("the service opened {opened:?}, but the database holds {recorded:?}; {advice}")))
        }
    }
}

fn purchase(
    deployment: &Deployment,
    conditions: &Conditions,
    strategy: &Strategy,
    planned: PlannedTrial<'_>,
) -> Result<Purchase, Error> {
    let at_instances = |path: &str| -> Result<Vec<Url>, Error> {
        let instances = deployment.service.urls().iter().map(|instance| format!("{instance}{path}"));
        instances.map(|url| Url::parse(&url).map_err(|error| Error::Generator(format!("{url}: {error}")))).collect()
    };
    let goods = |goods_no: &i64| at_instances(&format!("/goods-stock/{goods_no}?strategy={}", strategy.name));
    Ok(Purchase {
        urls: conditions.goods_nos.iter().map(goods).collect::<Result<_, _>>()?,
        probes: at_instances("/healthz")?,
        users: usize::try_from(planned.subject.users).unwrap_or(usize::MAX),
        model: conditions.model,
        // Every strategy of a block has the same arrivals, and every block others.
        seed: u64::from(conditions.seed) << 32 | planned.block as u64,
        answer_within: conditions.lock_wait + ANSWER_GRACE,
        arrive_within: ARRIVE_WITHIN,
        goose_report: conditions.goose_reports.as_ref().map(|reports| reports.file(planned)),
    })
}

async fn count(deployment: &Deployment) -> Result<Counted, Error> {
    let (snapshot, instances) = snapshot_of(deployment).await?;
    let cpu = CpuTimes::now(instances, &deployment.server_processes);
    Ok(Counted { snapshot, postgres: deployment.database.counters().await?, cpu })
}

/// Looks who waits for locks of the database while the load runs.
async fn with_lock_waits(
    deployment: &Deployment,
    load: impl Future<Output = Result<Load, buyers::Error>>,
) -> Result<(Load, LockWaits), Error> {
    let mut waits = LockWaits::default();
    let mut poll = tokio::time::interval(LOCK_POLL);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tokio::pin!(load);
    let mut looked = Instant::now();
    loop {
        let look = async {
            poll.tick().await;
            deployment.database.waiting().await
        };
        tokio::select! {
            biased;
            ended = &mut load => return Ok((ended?, waits)),
            waiting = look => {
                // Looks come the more rarely the busier the database is, so each stands for the time since the one before.
                waits.add(waiting?, looked.elapsed());
                looked = Instant::now();
            }
        }
    }
}
