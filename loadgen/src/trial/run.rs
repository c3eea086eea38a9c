//! One trial: open a sale and verify it, count, let everyone buy, wait until all is quiet, count again, audit.

use std::time::{Duration, SystemTime};

use buyers::health::{Effort, Generator};
use buyers::load::{Load, LoadResult};
use buyers::model::LoadModel;
use buyers::sample::ByOutcome;
use buyers::tally::Tally;
use reqwest::Url;
use stats::times::Times;
use stats::{as_ms, figures};
use tracing::{Instrument as _, debug_span, instrument};

use crate::audit::history::{HistoryAudit, handovers_ns};
use crate::audit::unchecked::{Gap, Unchecked};
use crate::error::Error;
use crate::lab::cpu::{GENERATOR, ProcessCpu};
use crate::lab::deployment::Deployment;
use crate::lab::history::{HistoryMark, HistorySince};
use crate::lab::postgres_load::PostgresLoad;
use crate::lab::service::Goods;
use crate::lab::service_program::HTTP_GRACE;
use crate::lab::strategy::Strategy;
use crate::lab::traffic::Traffic;
use crate::trial::audit::{Audited, audit};
use crate::trial::goose::GooseReports;
use crate::trial::herd::releases;
use crate::trial::observe::{LeftOut, count, postgres_load, with_lock_waits};
use crate::trial::record::{Curve, Trial, goodput_per_s, sold_out_after_ms};
use crate::trial::schedule::ScheduledTrial;
use crate::trial::settle::settle;

/// Upper bound of the time until all users are ready.
const ARRIVE_WITHIN: Duration = Duration::from_secs(60);
/// The client waits this much longer for an answer than a buyer waits for the lock. It is longer than any limit of an
/// instance, so that the service's own refusal arrives, and not a timeout that leaves open what happened.
pub(crate) const ANSWER_GRACE: Duration = HTTP_GRACE.saturating_add(Duration::from_secs(10));
/// The part that the report leaves out if the history cannot be read.
const HISTORY: &str = "the history of the locks";

/// The context of all trials.
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
    /// The files for goose's own reports, if they are wanted.
    pub(crate) goose_reports: Option<GooseReports>,
    /// The most requests of a trial that are kept for the log. If a trial has more, the log has none of them.
    pub(crate) log_max: usize,
}

/// A trial, and the requests behind it.
pub(crate) struct FinishedTrial {
    pub(crate) trial: Trial,
    pub(crate) tally: Tally,
    /// The wall clock at the release of the buyers, from which the instants of the requests count.
    pub(crate) released_at: SystemTime,
}

/// Runs one trial. It fails only if something is missing that the sale or its audit needs. Observers that fail are left out.
#[instrument(skip_all, fields(block = scheduled.block, strategy = strategy.name, users = scheduled.subject.users))]
pub(crate) async fn trial(
    deployment: &Deployment,
    conditions: &Conditions,
    strategy: &Strategy,
    scheduled: ScheduledTrial<'_>,
) -> Result<FinishedTrial, Error> {
    let database = &deployment.database;
    let mut left_out = LeftOut::default();
    let opened = open_sales(deployment, conditions, strategy).instrument(debug_span!("open the sales")).await?;
    left_out.unless("the removal of dead rows", database.vacuum().instrument(debug_span!("vacuum"))).await;
    let mark = left_out.unless(HISTORY, deployment.service.history_mark()).await;
    let before = count(deployment, &mut left_out).instrument(debug_span!("count before")).await;
    let load = load_of(deployment, conditions, strategy, scheduled)?;
    let buying = buyers::run(&load).instrument(debug_span!("load"));
    let (bought, lock_waits) = with_lock_waits(database, buying, &mut left_out).await;
    let bought = bought?;
    let settled = settle(deployment, &opened).instrument(debug_span!("settle")).await?;
    let mut after = count(deployment, &mut left_out).instrument(debug_span!("count after")).await;
    let history = history_since(deployment, mark, &mut left_out).instrument(debug_span!("read the history")).await;
    if history.strangers > 0 {
        // An instance was restarted, or is another one, so its counters began anew.
        after.snapshot.instances.clear();
    }

    let audit = audit(deployment, strategy, &opened, &bought.tally.told, &history);
    let audited = audit.instrument(debug_span!("audit")).await?;
    let sales: Vec<i64> = opened.iter().map(|goods| goods.sale).collect();
    let counters = (before.postgres.as_ref(), after.postgres.as_ref());
    let postgres = postgres_load(database, counters, lock_waits, (&conditions.goods_nos, &sales), &mut left_out).await;
    let mut cpu = vec![ProcessCpu { process: GENERATOR.to_owned(), cpu_s: bought.cpu_time.as_secs_f64() }];
    cpu.extend(after.cpu.since(&before.cpu));
    let answers = bought.tally.answers();
    let traffic = Traffic::between(&before.snapshot, &after.snapshot, releases(strategy.mechanism, &answers));
    let log_max = conditions.log_max as u64;
    if log_max > 0 && answers.total() > log_max {
        let most = figures::count(log_max);
        left_out.note("the log of requests", &format!("it takes up to {most} a trial; --request-log FILE takes all"));
    }
    let parts = TrialParts {
        conditions,
        strategy,
        scheduled,
        load: &bought,
        history,
        sales,
        answers,
        audited,
        traffic,
        postgres,
        cpu,
        settled,
        left_out: left_out.lines(),
    };
    let trial = parts.into_trial();
    Ok(FinishedTrial { trial, tally: bought.tally, released_at: bought.released_at })
}

/// Reads the history of the instances since a mark. If that fails, the locks are unchecked.
async fn history_since(deployment: &Deployment, mark: Option<HistoryMark>, left_out: &mut LeftOut) -> HistorySince {
    let unread = || HistorySince { unread: deployment.service.urls().len() as u64, ..HistorySince::default() };
    match mark {
        Some(mark) => left_out.unless(HISTORY, deployment.service.history_since(&mark)).await.unwrap_or_else(unread),
        None => unread(),
    }
}

/// All that the record of a trial is made of.
struct TrialParts<'a> {
    conditions: &'a Conditions,
    strategy: &'a Strategy,
    scheduled: ScheduledTrial<'a>,
    load: &'a LoadResult,
    history: HistorySince,
    /// The number of the sale of each SKU.
    sales: Vec<i64>,
    answers: ByOutcome<u64>,
    audited: Audited,
    traffic: Traffic,
    postgres: PostgresLoad,
    cpu: Vec<ProcessCpu>,
    settled: bool,
    left_out: Vec<String>,
}

impl TrialParts<'_> {
    fn into_trial(self) -> Trial {
        let TrialParts { conditions, strategy, scheduled, load, history, settled, .. } = self;
        let tally = &load.tally;
        let mut sold_at = tally.sold_at.clone();
        sold_at.sort_unstable();
        let stock = usize::try_from(conditions.stock).unwrap_or(usize::MAX) * conditions.goods_nos.len();
        let Audited { audit, unchecked } = self.audited;
        let unsettled = [(Gap::Rest, u64::from(!settled))].into_iter().collect();
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
        Trial {
            block: scheduled.block,
            warm_up: scheduled.warm_up,
            strategy: strategy.name.clone(),
            users: scheduled.subject.users,
            build: scheduled.subject.build.clone(),
            sales: self.sales,
            answers: self.answers,
            audit,
            ledger_balanced: audit.ledger_balanced(),
            unchecked: Unchecked::sum([&unchecked, &unsettled]).words(),
            history: one_clock.then(|| HistoryAudit::of(&sections, strategy.permits, missing)),
            handovers,
            goodput_per_s: goodput_per_s(tally.first_start, &sold_at, stock),
            sold_out_after_ms: sold_out_after_ms(&sold_at, stock),
            duration_ms: as_ms(tally.length),
            silence_max_ms: tally.silence_max.map(as_ms),
            latency: tally.latency.clone(),
            zookeeper: self.traffic,
            postgres: self.postgres,
            cpu: self.cpu,
            settled,
            generator: Generator::judge(effort(conditions, load)),
            problems: tally.problems.clone(),
            left_out: self.left_out,
            sold_over_time: Curve::of(sold_at),
            entered_over_time: Curve::of(entered),
        }
    }
}

fn effort(conditions: &Conditions, load: &LoadResult) -> Effort {
    let tally = &load.tally;
    let response = &tally.latency.response;
    let all = [&response.sold, &response.sold_out, &response.refused, &response.error, &response.timeout];
    Effort {
        starts: tally.starts.clone(),
        dropped: load.dropped,
        is_open: matches!(conditions.model, LoadModel::Open { .. }),
        response_p50_ms: Times::merged(all).median_served_ms(),
        length: tally.length,
        cpu_time: load.cpu_time,
        cores: conditions.cores,
        heartbeat: tally.heartbeat.clone(),
        processors: load.processors,
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

fn load_of(
    deployment: &Deployment,
    conditions: &Conditions,
    strategy: &Strategy,
    scheduled: ScheduledTrial<'_>,
) -> Result<Load, Error> {
    let at_instances = |path: &str| -> Result<Vec<Url>, Error> {
        let instances = deployment.service.urls().iter().map(|instance| format!("{instance}{path}"));
        instances.map(|url| Url::parse(&url).map_err(|error| Error::Generator(format!("{url}: {error}")))).collect()
    };
    let goods = |goods_no: &i64| at_instances(&format!("/goods-stock/{goods_no}?strategy={}", strategy.name));
    Ok(Load {
        urls: conditions.goods_nos.iter().map(goods).collect::<Result<_, _>>()?,
        probes: at_instances("/healthz")?,
        users: usize::try_from(scheduled.subject.users).unwrap_or(usize::MAX),
        model: conditions.model,
        // Every strategy of a block has the same arrivals, and every block others.
        seed: u64::from(conditions.seed) << 32 | scheduled.block as u64,
        answer_within: conditions.lock_wait + ANSWER_GRACE,
        arrive_within: ARRIVE_WITHIN,
        goose_report: conditions.goose_reports.as_ref().map(|reports| reports.file(scheduled)),
        log_max: conditions.log_max,
    })
}
