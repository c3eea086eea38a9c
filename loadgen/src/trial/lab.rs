//! A trial at the service of the lab, which tells more than any other shop: the history of its locks, its counters, and those
//! of its servers.

mod audit;
mod confirm;
mod observe;
pub(crate) mod round;
mod settle;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use buyers::lab::LabPurchase;
use buyers::load::{LoadResult, Purchase};
use buyers::repeat::Repeats;
use buyers::reserve::TwoSteps;
use reqwest::Url;
use stats::times::Times;
use tracing::{Instrument as _, debug_span, instrument};

use self::audit::{Audited, audit};
use self::confirm::confirm;
use self::observe::{Counted, LeftOut, count, postgres_load, with_lock_waits};
use self::settle::{Settled, settle};
use crate::audit::history::{HistoryAudit, handovers_ns};
use crate::audit::unchecked::{Gap, Unchecked};
use crate::error::Error;
use crate::lab::cpu::CpuTimes;
use crate::lab::deployment::Deployment;
use crate::lab::history::{HistoryMark, HistorySince};
use crate::lab::service::Goods;
use crate::lab::service_program::HTTP_GRACE;
use crate::lab::strategy::{Answers, Strategy};
use crate::lab::strike::{Exposed, Strike};
use crate::lab::traffic::Traffic;
use crate::trial::herd::releases;
use crate::trial::record::StrikeRecord;
use crate::trial::run::{Conditions, FinishedTrial, Seen, record};
use crate::trial::schedule::ScheduledTrial;

/// The client waits this much longer for an answer than a buyer waits for the lock. It is longer than any limit of an
/// instance, so that the service's own refusal arrives, and not a timeout that leaves open what happened.
pub(crate) const ANSWER_GRACE: Duration = HTTP_GRACE.saturating_add(Duration::from_secs(10));
/// The part that the report leaves out if the history cannot be read.
const HISTORY: &str = "the history of the locks";

/// Runs one trial. It fails only if something is missing that the sale or its audit needs. Observers that fail are left out.
#[instrument(skip_all, fields(block = scheduled.block, strategy = strategy.name, users = scheduled.subject.users))]
pub(crate) async fn trial(
    mut exposed: Exposed<'_>,
    conditions: &Conditions,
    strategy: &Strategy,
    scheduled: ScheduledTrial<'_>,
) -> Result<FinishedTrial, Error> {
    let deployment = &*exposed.deployment;
    let database = &deployment.database.clone();
    let mut left_out = LeftOut::default();
    let opened = open_sales(deployment, conditions, strategy).instrument(debug_span!("open the sales")).await?;
    left_out.unless("the removal of dead rows", database.vacuum().instrument(debug_span!("vacuum"))).await;
    let mark = left_out.unless(HISTORY, deployment.service.history_mark()).await;
    let before = count(deployment, &mut left_out).instrument(debug_span!("count before")).await;
    let purchase = Purchase::Lab(purchase_of(deployment, conditions, strategy, &opened)?);
    let load = conditions.load(scheduled, purchase, conditions.lock_wait + ANSWER_GRACE);
    let is_over = AtomicBool::new(false);
    let buying = async {
        let bought = buyers::run(load).instrument(debug_span!("load")).await;
        is_over.store(true, Ordering::Relaxed);
        bought
    };
    let ((bought, lock_waits), strike) = tokio::join!(
        with_lock_waits(database, buying, &mut left_out),
        strike(&mut exposed, strategy, &opened, || is_over.load(Ordering::Relaxed))
    );
    let mut bought = bought?;
    let strike = strike?;
    let promised = || bought.tally.told.iter().map(|told| told.promised.len() as u64).sum();
    let promised = strategy.hazard.is_none().then(promised);
    let rest = settle(&exposed, strategy, &opened, promised).instrument(debug_span!("settle")).await?;
    let deployment = &*exposed.deployment;
    let after = count(deployment, &mut left_out).instrument(debug_span!("count after")).await;
    let history = history_since(deployment, mark, &mut left_out).instrument(debug_span!("read the history")).await;
    let withdrawn = strike.map_or(0, |strike| strike.withdrawn);
    let audit = audit(deployment, strategy, (&opened, withdrawn), &bought.tally.told, &history);
    let audited = audit.instrument(debug_span!("audit")).await?;
    let (confirmed_at, books_agree) =
        confirm(deployment, strategy, (&opened, strike.map(|strike| strike.at)), &mut bought, &mut left_out).await?;
    let sales: Vec<i64> = opened.iter().map(|goods| goods.sale).collect();
    let counters = (before.postgres.as_ref(), after.postgres.as_ref());
    let postgres = postgres_load(database, counters, lock_waits, (&conditions.goods_nos, &sales), &mut left_out).await;
    let parts = LabParts { conditions, strategy, before, after, history, audited, rest };
    let mut seen = Seen {
        sales,
        postgres,
        confirmed_at: Some(confirmed_at),
        left_out: left_out.lines(),
        ..parts.into_seen(&bought)
    };
    if strategy.hazard.is_some() {
        // A process that was killed has lost its history, so the books alone tell.
        let unstruck = [(Gap::Strike, u64::from(strike.is_none()))].into_iter().collect();
        seen.unchecked = Unchecked::sum([&seen.unchecked.of_books(), &unstruck]);
        let stock: i64 = opened.iter().map(|goods| goods.stock_initial - withdrawn).sum();
        let has_left = seen.audit.sold < stock;
        seen.strike = strike.map(|strike| StrikeRecord::of(strike, &bought, has_left, books_agree));
    }
    Ok(record(conditions, scheduled, bought, seen))
}

/// Lets the hazard of a strategy strike, if it has one.
async fn strike(
    exposed: &mut Exposed<'_>,
    strategy: &Strategy,
    opened: &[Goods],
    is_over: impl Fn() -> bool,
) -> Result<Option<Strike>, Error> {
    match strategy.hazard {
        Some(hazard) => exposed.strike(hazard, strategy, opened, is_over).instrument(debug_span!("strike")).await,
        None => Ok(None),
    }
}

/// Reads the history of the instances since a mark. If that fails, the locks are unchecked.
async fn history_since(deployment: &Deployment, mark: Option<HistoryMark>, left_out: &mut LeftOut) -> HistorySince {
    let unread = || HistorySince { unread: deployment.service.urls().len() as u64, ..HistorySince::default() };
    match mark {
        Some(mark) => left_out.unless(HISTORY, deployment.service.history_since(&mark)).await.unwrap_or_else(unread),
        None => unread(),
    }
}

/// What was read before and after the load.
struct LabParts<'a> {
    conditions: &'a Conditions,
    strategy: &'a Strategy,
    before: Counted,
    after: Counted,
    history: HistorySince,
    audited: Audited,
    rest: Settled,
}

impl LabParts<'_> {
    /// Draws what follows from counters and history. Sales, the load of Postgres and what was left out are still empty.
    fn into_seen(self, bought: &LoadResult) -> Seen {
        let LabParts { conditions, strategy, before, mut after, history, audited, rest } = self;
        if history.strangers > 0 {
            // An instance was restarted, or is another one, so its counters began anew.
            after.snapshot.instances.clear();
            after.cpu = CpuTimes::default();
        }
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
        let held = [(Gap::Held, rest.held)].into_iter().collect();
        let releases = releases(strategy.mechanism, &bought.tally.answers());
        Seen {
            audit: audited.audit,
            unchecked: Unchecked::sum([&audited.unchecked, &held]),
            history: one_clock.then(|| HistoryAudit::of(&sections, strategy.permits, missing)),
            handovers,
            entered,
            traffic: Traffic::between(&before.snapshot, &after.snapshot, releases),
            cpu: after.cpu.since(&before.cpu),
            settled: rest.at_rest,
            ..Seen::default()
        }
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
        opened.push(deployment.service.reset(*goods_no, conditions.stock, conditions.per_buyer, strategy).await?);
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

fn purchase_of(
    deployment: &Deployment,
    conditions: &Conditions,
    strategy: &Strategy,
    opened: &[Goods],
) -> Result<LabPurchase, Error> {
    let urls = match strategy.two_steps {
        true => of_each(deployment, opened, |goods_no| format!("/goods/{goods_no}/reservations")),
        false => of_each(deployment, opened, |goods_no| format!("/goods-stock/{goods_no}?strategy={}", strategy.name)),
    };
    Ok(LabPurchase {
        urls: urls?,
        probes: at_instances(deployment, "/healthz")?,
        names_buyers: conditions.per_buyer.is_some(),
        comes_twice: None,
        answers_at_commit: strategy.answers == Answers::AtCommit,
        decided_within: conditions.lock_wait + ANSWER_GRACE,
        two_steps: strategy.two_steps.then(|| TwoSteps { keys: keys_of(opened), habits: conditions.habits }),
        repeats: None,
    })
}

/// Returns how buyers repeat their requests under keys. Purchases in two steps have keys anyhow.
fn repeats_of(deployment: &Deployment, strategy: &Strategy, opened: &[Goods]) -> Result<Option<Repeats>, Error> {
    if strategy.two_steps {
        return Ok(None);
    }
    let urls = of_each(deployment, opened, |goods_no| format!("/goods/{goods_no}/orders?strategy={}", strategy.name))?;
    Ok(Some(Repeats { urls, keys: keys_of(opened), repeated: Arc::default() }))
}

/// Returns for each SKU the URLs of a path at all instances.
fn of_each(deployment: &Deployment, opened: &[Goods], path: impl Fn(i64) -> String) -> Result<Vec<Vec<Url>>, Error> {
    opened.iter().map(|goods| at_instances(deployment, &path(goods.goods_no))).collect()
}

fn at_instances(deployment: &Deployment, path: &str) -> Result<Vec<Url>, Error> {
    let instances = deployment.service.urls().iter().map(|instance| format!("{instance}{path}"));
    instances.map(|url| Url::parse(&url).map_err(|error| Error::Generator(format!("{url}: {error}")))).collect()
}

/// Returns for each SKU the beginning of keys that no other sale has.
fn keys_of(opened: &[Goods]) -> Vec<String> {
    opened.iter().map(|goods| format!("sale-{}-{}", goods.goods_no, goods.sale)).collect()
}
