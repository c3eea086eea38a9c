//! One trial: open a sale and verify it, count, let everyone buy, wait until all is quiet, count again, audit.

use std::time::Duration;

use loadgen::audit::{Audit, Evidence, foreign_order};
use loadgen::stats::{Times, as_ms};
use tokio::time::{Instant, MissedTickBehavior};

use crate::error::Error;
use crate::generator::{Burst, Generator};
use crate::herd::{Activity, Snapshot, Traffic, releases};
use crate::plan::PlannedTrial;
use crate::scenario::{self, Purchase};
use crate::service::Goods;
use crate::stack::{HTTP_GRACE, Stack};
use crate::strategies::Strategy;
use crate::trial::{ByOutcome, Outcome, Sample, Timings, Trial, problems, sold_per_second};

/// How long all users together may take to be ready.
const ARRIVE_WITHIN: Duration = Duration::from_secs(60);
/// The client waits this much longer for an answer than a buyer waits for the lock. It is longer than any limit of an
/// instance, so that the service's own refusal arrives, and not a timeout that leaves open what happened.
const ANSWER_GRACE: Duration = HTTP_GRACE.saturating_add(Duration::from_secs(10));
/// How long a trial may take to come to rest.
const SETTLE_WITHIN: Duration = Duration::from_secs(10);
/// Two looks this far apart must be alike.
const SETTLE_POLL: Duration = Duration::from_millis(50);

/// What all trials have in common.
#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    pub(crate) users: u32,
    pub(crate) stock: u32,
    pub(crate) goods_no: i64,
    pub(crate) lock_wait: Duration,
    /// Cores of the machine.
    pub(crate) cores: usize,
}

/// Runs one trial.
///
/// # Errors
///
/// [`Error::Service`], [`Error::Postgres`] or [`Error::Reset`] when a server or an instance fails,
/// [`Error::ForeignOrder`] when the sale has an order nobody asked for, and those of [`scenario::run`].
///
/// # Cancel safety
///
/// The buyers give up; the sale stays open in the database, and the next trial opens another.
pub(crate) async fn trial(
    stack: &Stack,
    conditions: &Conditions,
    strategy: &Strategy,
    planned: PlannedTrial<'_>,
) -> Result<Trial, Error> {
    let opened = open_sale(stack, conditions).await?;
    let before = snapshot(stack).await?;
    let burst = scenario::run(&purchase(stack, conditions, strategy)).await?;
    let settled = settle(stack, conditions, opened.sale, &before).await?;
    let after = snapshot(stack).await?;

    let mut answers = ByOutcome::default();
    for sample in &burst.samples {
        *answers.get_mut(sample.outcome) += 1;
    }
    let audit = audit(stack, conditions, strategy, opened, &burst.samples, &answers).await?;
    let timings = Timings::of(&burst.samples);
    let length = burst.samples.iter().map(|sample| sample.response).max().unwrap_or_default();
    Ok(Trial {
        block: planned.block,
        strategy: strategy.name.clone(),
        sale: opened.sale,
        answers,
        audit,
        ledger_balanced: audit.ledger_balanced(),
        sold_per_second: sold_per_second(&burst.samples),
        duration_ms: as_ms(length),
        latency_ms: timings.response.map(Times::summary),
        first_byte_ms: timings.first_byte_sold.summary(),
        zookeeper: Traffic::between(&before, &after, releases(strategy.guard, &answers)),
        settled,
        generator: Generator::judge(&Burst {
            start_lags: burst.samples.iter().map(|sample| sample.start_lag).collect(),
            response_p50: response_p50(&burst.samples),
            length,
            cpu_time: burst.cpu_time,
            cores: conditions.cores,
        }),
        problems: problems(&burst.samples),
        timings,
    })
}

/// Opens a new sale, and makes sure that the database has it as the service says.
async fn open_sale(stack: &Stack, conditions: &Conditions) -> Result<Goods, Error> {
    let opened = stack.service.reset(conditions.goods_no, conditions.stock).await?;
    let recorded = stack.database.goods(conditions.goods_no).await?;
    if recorded == opened {
        Ok(opened)
    } else {
        let advice = "is this the database of the service?";
        Err(Error::Reset(format!("the service opened {opened:?}, but the database holds {recorded:?}; {advice}")))
    }
}

fn purchase(stack: &Stack, conditions: &Conditions, strategy: &Strategy) -> Purchase {
    let path = format!("/goods-stock/{}?strategy={}", conditions.goods_no, strategy.name);
    Purchase {
        urls: stack.service.urls().iter().map(|instance| format!("{instance}{path}")).collect(),
        users: usize::try_from(conditions.users).unwrap_or(usize::MAX),
        answer_within: conditions.lock_wait + ANSWER_GRACE,
        arrive_within: ARRIVE_WITHIN,
    }
}

async fn snapshot(stack: &Stack) -> Result<Snapshot, Error> {
    let (instances, servers) = tokio::join!(stack.service.metrics(), stack.zookeeper.counters());
    Ok(Snapshot { servers, instances: instances? })
}

/// Waits until the trial has come to rest, and says whether it did in time.
async fn settle(stack: &Stack, conditions: &Conditions, sale: i64, baseline: &Snapshot) -> Result<bool, Error> {
    let look = async || {
        let orders = stack.database.order_count(conditions.goods_no, sale).await?;
        Ok::<_, Error>(Activity { orders, snapshot: snapshot(stack).await? })
    };
    until_alike(look, baseline).await
}

/// Looks again and again until two looks in a row are alike, and says whether they were in time.
async fn until_alike(
    mut look: impl AsyncFnMut() -> Result<Activity, Error>,
    baseline: &Snapshot,
) -> Result<bool, Error> {
    let until_settled = async {
        // The first tick of a plain interval comes at once, and would compare two looks of the same moment.
        let mut poll = tokio::time::interval_at(Instant::now() + SETTLE_POLL, SETTLE_POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut previous = look().await?;
        loop {
            poll.tick().await;
            let activity = look().await?;
            if activity.has_settled(&previous, baseline) {
                return Ok(());
            }
            previous = activity;
        }
    };
    match tokio::time::timeout(SETTLE_WITHIN, until_settled).await {
        Ok(Ok(())) => Ok(true),
        Ok(Err(error)) => Err(error),
        Err(_) => Ok(false),
    }
}

async fn audit(
    stack: &Stack,
    conditions: &Conditions,
    strategy: &Strategy,
    opened: Goods,
    samples: &[Sample],
    answers: &ByOutcome<u64>,
) -> Result<Audit, Error> {
    let (closed, orders) = stack.database.books(conditions.goods_no, opened.sale).await?;
    if closed.sale != opened.sale {
        let advice = "nobody else may sell this SKU meanwhile";
        return Err(Error::Reset(format!("sale {} was replaced by sale {}; {advice}", opened.sale, closed.sale)));
    }
    if let Some(order) = foreign_order(&orders, &strategy.name) {
        return Err(Error::ForeignOrder {
            asked: strategy.name.clone(),
            order_id: order.order_id,
            quantity: order.quantity,
            found: order.strategy.clone(),
        });
    }
    let confirmed: Vec<i64> = samples
        .iter()
        .filter_map(|sample| match sample.outcome {
            Outcome::Sold { order_id, .. } => Some(order_id),
            _ => None,
        })
        .collect();
    Ok(Audit::of(&Evidence {
        stock_initial: opened.stock_initial,
        stock_final: closed.on_hand,
        orders: &orders,
        confirmed: &confirmed,
        sold_out: answers.sold_out,
        refused: answers.refused,
        unanswered: answers.error + answers.timeout,
    }))
}

/// The median response time over all buyers, whatever their answer.
fn response_p50(samples: &[Sample]) -> Option<Duration> {
    let mut times: Vec<Duration> = samples.iter().map(|sample| sample.response).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn two_looks_that_must_be_alike_are_apart() {
        let start = Instant::now();
        let mut looks = Vec::new();
        let look = async || {
            looks.push(start.elapsed());
            // The last order comes in between the first look and the second one.
            Ok(Activity { orders: u64::from(looks.len() > 1), snapshot: Snapshot::default() })
        };
        assert!(until_alike(look, &Snapshot::default()).await.unwrap());
        assert_eq!(looks, [Duration::ZERO, SETTLE_POLL, 2 * SETTLE_POLL]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_comes_to_rest_is_not_waited_for_for_ever() {
        let mut orders = 0;
        let look = async || {
            orders += 1;
            Ok(Activity { orders, snapshot: Snapshot::default() })
        };
        assert!(!until_alike(look, &Snapshot::default()).await.unwrap());
    }
}
