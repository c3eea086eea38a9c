//! A round of a torture run: buyers buy at the service of the lab while faults strike, and everybody must be served again after that.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use buyers::lab::LabPurchase;
use buyers::load::Purchase;
use program::chain;
use stats::as_ms;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use weather::{ComingFault, Struck, storm};

use super::audit::audit;
use super::observe::LeftOut;
use super::settle::settle;
use super::{ANSWER_GRACE, HISTORY, history_since, open_sales, purchase_of, repeats_of};
use crate::audit::trial::LabFacts;
use crate::audit::unchecked::{Gap, Unchecked};
use crate::error::Error;
use crate::lab::commits::Commits;
use crate::lab::deployment::Deployment;
use crate::lab::strategy::Strategy;
use crate::lab::strike::Exposed;
use crate::lab::toll::{InstanceCounts, Toll};
use crate::trial::round::{FaultRecord, RoundEvidence, RoundSeen};
use crate::trial::run::Conditions;
use crate::trial::schedule::ScheduledTrial;

/// Upper bound of the time in which each instance sells again after the faults.
const SERVED_WITHIN: Duration = Duration::from_secs(30);
/// Interval between two purchases after the faults.
const SERVED_POLL: Duration = Duration::from_millis(100);
/// Units for each instance then: a purchase without an answer may have one.
const UNITS_AFTERWARDS: u32 = 1000;
/// In a sale with a limit per buyer, some requests are the second ones of the buyers before them.
const TWICE: Option<NonZeroUsize> = NonZeroUsize::new(4);

/// Runs one round. An error means that something could not be seen at all; what the round found is in it.
pub(crate) async fn round(
    mut exposed: Exposed<'_>,
    conditions: &Conditions,
    strategy: &Strategy,
    (scheduled, coming): (ScheduledTrial<'_>, &[ComingFault]),
) -> Result<(RoundSeen, RoundEvidence), Error> {
    let mut left_out = LeftOut::default();
    let deployment = &*exposed.deployment;
    let opened = open_sales(deployment, conditions, strategy).await?;
    let before = InstanceCounts::of_all(&deployment.service).await?;
    let mark = left_out.unless(HISTORY, deployment.service.history_mark()).await;
    // Each order names its buyer, also in a sale without a limit. So the orders of each buyer can be compared with its answers.
    let purchase = LabPurchase {
        names_buyers: true,
        comes_twice: conditions.per_buyer.and(TWICE),
        repeats: repeats_of(deployment, strategy, &opened)?,
        ..purchase_of(deployment, conditions, strategy, &opened)?
    };
    let load = conditions.load(scheduled, Purchase::Lab(purchase.clone()), conditions.lock_wait + ANSWER_GRACE);
    let (over, is_over) = oneshot::channel();
    let buying = async {
        let bought = buyers::run(load).await;
        // Nobody listens if the storm is over.
        let _ = over.send(());
        bought
    };
    let storm = storm(&mut exposed, coming, async { is_over.await.unwrap_or_default() });
    let (bought, struck) = tokio::join!(buying, storm);
    let calm_from = Instant::now();
    let calmed = exposed.calm().await;
    let calm_after = calm_from.elapsed();
    let unserved = match calmed {
        Ok(()) => unserved(exposed.deployment, conditions, strategy).await,
        Err(error) => vec![chain(&error)],
    };
    let bought = bought?;
    let rest = settle(&exposed, strategy, &opened, None).await?;
    let deployment = &*exposed.deployment;
    let history = history_since(deployment, mark, &mut left_out).await;
    let audited = audit(deployment, strategy, (&opened, 0), &bought.tally.told, &history).await?;
    let commits = deployment.database.commits(&opened).await?;
    let sections = history.sections.get(&strategy.name).map_or(&[][..], Vec::as_slice);
    // An instance that was killed has lost its history, so the books alone must be whole.
    let unsettled = [(Gap::Rest, u64::from(!rest.at_rest)), (Gap::Held, rest.held)].into_iter().collect();
    let unchecked = Unchecked::sum([&audited.unchecked.of_books(), &unsettled]);
    let evidence = RoundEvidence {
        promise: strategy.promise,
        permits: strategy.permits,
        facts: audited.facts,
        sections: if history.one_clock { sections.to_vec() } else { Vec::new() },
        missing: history.missing,
        orders_without_lines: audited.audit.orders_without_lines,
    };
    let stock: i64 = opened.iter().map(|goods| goods.stock_initial).sum();
    let told_by = bought.tally.told.iter().flat_map(|told| &told.told_by).copied();
    let after = InstanceCounts::of_all(&deployment.service).await?;
    let committed = committed(&evidence.facts, &commits, &told_by.collect());
    let seen = RoundSeen {
        stock,
        faults: struck.iter().map(|struck| fault(struck, bought.released_at, &committed, stock)).collect(),
        answers: bought.tally.answers(),
        repeated: purchase.repeats.map_or(0, |repeats| repeats.repeated.load(Ordering::Relaxed)),
        dropped: bought.dropped.busy + bought.dropped.idle,
        audit: audited.audit,
        overlaps: evidence.overlaps().filter(|_| history.one_clock),
        toll: Toll::between(&before, &after),
        unserved,
        at_rest: rest.at_rest,
        gaps: unchecked.words(),
        problems: bought.tally.problems.clone(),
        calm_after_ms: as_ms(calm_after),
        length_ms: as_ms(bought.tally.length),
    };
    Ok((seen, evidence))
}

/// Puts another SKU on sale, and buys it at each instance. Returns which of them do not sell it in time, one line each.
async fn unserved(deployment: &Deployment, conditions: &Conditions, strategy: &Strategy) -> Vec<String> {
    let goods_no = conditions.goods_nos.iter().max().copied().unwrap_or_default() + 1;
    let service = &deployment.service;
    let units = u32::try_from(service.urls().len()).unwrap_or(u32::MAX).saturating_mul(UNITS_AFTERWARDS);
    if let Err(error) = service.reset(goods_no, units, None, strategy).await {
        return vec![format!("no sale could be started after the faults: {}", chain(&error))];
    }
    let mut unserved = Vec::new();
    for url in service.urls() {
        let until_sold = async {
            while !service.sells(url, goods_no).await {
                sleep(SERVED_POLL).await;
            }
        };
        if timeout(SERVED_WITHIN, until_sold).await.is_err() {
            let within = SERVED_WITHIN.as_secs();
            unserved.push(format!("{url} sold nothing within {within} s after the faults"));
        }
    }
    unserved
}

/// Returns the commit of each order, and the instance that told its buyer, if one did. The earliest comes first.
fn committed(facts: &[LabFacts], commits: &Commits, told_by: &HashMap<i64, usize>) -> Vec<(SystemTime, Option<usize>)> {
    let orders = facts.iter().flat_map(|facts| &facts.orders);
    let commit = |order_id: i64| Some((*commits.at.get(&order_id)?, told_by.get(&order_id).copied()));
    let mut committed: Vec<_> = orders.filter_map(|order| commit(order.order_id)).collect();
    committed.sort_unstable();
    committed
}

/// Records a fault, and how long after its end the next order was committed.
fn fault(
    struck: &Struck,
    released_at: SystemTime,
    committed: &[(SystemTime, Option<usize>)],
    stock: i64,
) -> FaultRecord {
    let Struck { coming, begun_at, ended_at, failed, .. } = struck;
    let since_release = |at: SystemTime| as_ms(at.duration_since(released_at).unwrap_or_default());
    let after = &committed[committed.partition_point(|(at, _)| at < ended_at)..];
    let first_of = |there: Option<usize>| {
        let mut those = after.iter().filter(|(_, told_at)| there.is_none() || *told_at == there);
        those.next().map(|(at, _)| as_ms(at.duration_since(*ended_at).unwrap_or_default()))
    };
    // Nobody can tell how long a sale takes that has nothing to sell.
    let has_units = ((committed.len() - after.len()) as u64) < stock.unsigned_abs();
    FaultRecord {
        fault: coming.fault,
        instance: coming.process,
        server: coming.server,
        strength: coming.strength,
        is_alone: coming.is_alone,
        begun_ms: since_release(*begun_at),
        ended_ms: since_release(*ended_at),
        had_units: has_units,
        next_sale_ms: first_of(None).filter(|_| has_units),
        next_sale_there_ms: first_of(Some(coming.process)).filter(|_| has_units && coming.fault.site.is_of_process()),
        failed: failed.clone(),
    }
}
