//! Whether a trial has come to rest, so that its counters can be read and its books balanced.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::lab::counters::Snapshot;
use crate::lab::cpu::ProcessCpu;
use crate::lab::deployment::Deployment;
use crate::lab::service::Goods;
use crate::lab::strategy::{Answers, Strategy};
use crate::lab::strike::Exposed;

/// Upper bound of the time in which a trial comes to rest once no more orders come. It is longer than the time after which another
/// consumer of a gate takes over what was not acknowledged.
const SETTLE_WITHIN: Duration = Duration::from_secs(10);
/// Upper bound of the time in which a trial comes to rest, if orders of answered purchases still come.
const WRITTEN_WITHIN: Duration = Duration::from_secs(600);
/// Interval between two looks, which must be alike.
const SETTLE_POLL: Duration = Duration::from_millis(50);

/// The state of everything that a trial may still change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Activity {
    /// Orders of the sale.
    orders: u64,
    /// Purchases that wait for their decision, or for their order.
    waiting: u64,
    /// Units that reservations of the sale still hold.
    held: u64,
    /// The counters of the same moment.
    snapshot: Snapshot,
}

impl Activity {
    /// Tells whether the trial has settled, held units apart: no purchase is in progress at any instance, and no request at any server. An
    /// instance that does not report them counts as busy, and so does a server that reports other counters. Without the counters of
    /// the servers, only the instances count. Since `previous`, no order, notification or watch event
    /// came, and the numbers of watches and ephemeral nodes did not change. There may be more of both than before the trial:
    /// an instance may keep a lock for its next use, or lead an election.
    fn has_settled(&self, previous: &Activity) -> bool {
        let of_instances = |activity: &Activity, name: &str| -> Vec<Option<u64>> {
            activity.snapshot.instances.iter().map(|counters| counters.get(name)).collect()
        };
        let notifications = |activity| of_instances(activity, "zookeeper_notifications_total");
        let quiet = self.orders == previous.orders
            && self.waiting == 0
            && notifications(self) == notifications(previous)
            && of_instances(self, "seckill_requests_in_flight").iter().all(|count| *count == Some(0));
        let (Some(now), Some(was)) = (self.snapshot.servers_total(), previous.snapshot.servers_total()) else {
            return quiet;
        };
        quiet
            && now.watches_fired_total() == was.watches_fired_total()
            && now.get("zk_outstanding_requests") == Some(0)
            && ["zk_watch_count", "zk_ephemerals_count"].iter().all(|name| now.get(name) == was.get(name))
    }
}

/// Reads the counters of all servers and instances, and the processor time of the instances.
pub(super) async fn snapshot_of(deployment: &Deployment) -> Result<(Snapshot, Vec<ProcessCpu>), Error> {
    let (metrics, servers) = tokio::join!(deployment.service.metrics(), deployment.zookeeper.counters());
    let metrics = metrics?;
    Ok((Snapshot { servers, instances: metrics.counters }, metrics.cpu))
}

/// How a trial came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settled {
    /// Whether it did, held units apart.
    pub(super) at_rest: bool,
    /// Units that reservations still held, which nobody paid or cancelled in time.
    pub(super) held: u64,
}

/// Waits until the trial has come to rest. `promised` orders were told before they were written. Absent: a hazard or a fault may have
/// lost some of them, and then the stream tells.
pub(super) async fn settle(
    exposed: &Exposed<'_>,
    strategy: &Strategy,
    opened: &[Goods],
    promised: Option<u64>,
) -> Result<Settled, Error> {
    let deployment = &*exposed.deployment;
    let look = async || {
        let orders = deployment.database.order_count(opened).await?;
        let held = deployment.database.held_units(opened).await?;
        let waiting = match strategy.answers {
            _ if promised.is_none() && strategy.is_gate() => exposed.streamed(strategy).await?,
            Answers::AtCommit => 0,
            Answers::WithTicket => deployment.database.tickets_waiting(opened).await?,
            Answers::BeforeOrder => promised.unwrap_or_default().saturating_sub(orders),
        };
        Ok::<_, Error>(Activity { orders, waiting, held, snapshot: snapshot_of(deployment).await?.0 })
    };
    until_alike(look).await
}

/// Looks again and again until two looks in a row are alike and no unit is held, at most for ten seconds after the last change.
async fn until_alike(mut look: impl AsyncFnMut() -> Result<Activity, Error>) -> Result<Settled, Error> {
    let mut rest = Settled { at_rest: false, held: 0 };
    let until_settled = async {
        let mut previous = look().await?;
        let mut last_change = Instant::now();
        while last_change.elapsed() < SETTLE_WITHIN {
            // The interval counts from the end of a look: two looks at nearly the same moment are always alike.
            tokio::time::sleep(SETTLE_POLL).await;
            let activity = look().await?;
            rest = Settled { at_rest: activity.has_settled(&previous), held: activity.held };
            if rest == (Settled { at_rest: true, held: 0 }) {
                return Ok::<_, Error>(());
            }
            if (activity.orders, activity.held) != (previous.orders, previous.held) {
                last_change = Instant::now();
            }
            previous = activity;
        }
        Ok(())
    };
    tokio::time::timeout(WRITTEN_WITHIN, until_settled).await.unwrap_or(Ok(()))?;
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use testbed::Counters;

    use super::*;
    use crate::lab::counters::tests::snapshot;

    #[tokio::test(start_paused = true)]
    async fn two_looks_that_must_be_alike_are_apart() {
        let start = tokio::time::Instant::now();
        let mut looks = Vec::new();
        let look = async || {
            looks.push(start.elapsed());
            // The last order comes in between the first look and the second one.
            Ok(Activity { orders: u64::from(looks.len() > 1), waiting: 0, held: 0, snapshot: Snapshot::default() })
        };
        assert!(until_alike(look).await.unwrap().at_rest);
        assert_eq!(looks, [Duration::ZERO, SETTLE_POLL, 2 * SETTLE_POLL]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_rest_ends() {
        let start = tokio::time::Instant::now();
        let still = async || Ok(Activity { orders: 1, waiting: 1, held: 0, snapshot: Snapshot::default() });
        assert!(!until_alike(still).await.unwrap().at_rest);
        assert!(start.elapsed() < SETTLE_WITHIN + 2 * SETTLE_POLL, "nothing is decided any more");
        let mut orders = 0;
        let look = async || {
            orders += 1;
            Ok(Activity { orders, waiting: 0, held: 0, snapshot: Snapshot::default() })
        };
        assert!(!until_alike(look).await.unwrap().at_rest, "orders come for ever");
    }

    // C54
    #[tokio::test(start_paused = true)]
    async fn units_that_stay_held_are_told_and_end_the_wait() {
        let start = tokio::time::Instant::now();
        let mut held = 5_u64;
        let look = async || {
            // Two reservations expire, and the others live on.
            held = held.saturating_sub(1).max(3);
            Ok(Activity { orders: 1, waiting: 0, held, snapshot: Snapshot::default() })
        };
        assert_eq!(until_alike(look).await.unwrap(), Settled { at_rest: true, held: 3 });
        assert!(start.elapsed() < SETTLE_WITHIN + 4 * SETTLE_POLL);
    }

    #[test]
    fn a_trial_settles_when_nothing_moves_and_nobody_buys() {
        let activity =
            |changes: &[(&str, u64)], orders| Activity { orders, waiting: 0, held: 0, snapshot: snapshot(changes, 5) };
        let still = activity(&[], 9);
        assert!(still.has_settled(&still));
        assert!(!still.has_settled(&activity(&[], 8)), "an order came");
        let waiting = Activity { waiting: 1, ..still.clone() };
        assert!(!waiting.has_settled(&waiting), "a purchase waits for its decision");
        assert!(!still.has_settled(&activity(&[("zk_sum_node_deleted_watch_count", 9)], 9)), "a watch fired");
        for name in ["zk_watch_count", "zk_ephemerals_count"] {
            let kept = activity(&[(name, 5)], 9);
            assert!(!kept.has_settled(&still), "{name} has changed");
            assert!(kept.has_settled(&kept), "a lock may be kept");
        }
        for name in ["seckill_requests_in_flight", "zk_outstanding_requests"] {
            let busy = activity(&[(name, 1)], 9);
            assert!(!busy.has_settled(&busy), "{name}");
        }
    }

    // C2
    #[test]
    fn an_instance_that_tells_nothing_is_not_at_rest() {
        let mut silent = Activity { orders: 9, waiting: 0, held: 0, snapshot: snapshot(&[], 5) };
        silent.snapshot.instances.push(Counters::default());
        assert!(!silent.has_settled(&silent));
    }
}
