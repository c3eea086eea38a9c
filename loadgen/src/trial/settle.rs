//! When a trial has come to rest, so that its counters can be read and its books balanced.

use std::time::Duration;

use crate::error::Error;
use crate::lab::counters::Snapshot;
use crate::lab::cpu::ProcessCpu;
use crate::lab::service::Goods;
use crate::lab::stack::Stack;

/// How long a trial may take to come to rest.
const SETTLE_WITHIN: Duration = Duration::from_secs(10);
/// Two looks this far apart must be alike.
const SETTLE_POLL: Duration = Duration::from_millis(50);

/// What tells whether anything of a trial is still going on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Activity {
    /// Orders of the sale.
    orders: u64,
    /// The counters of the same moment.
    snapshot: Snapshot,
}

impl Activity {
    /// Whether the trial has settled: since `previous` no order, no notification and no watch event came, and the watches are
    /// as many as then; no request is outstanding; and no more ephemeral nodes are there than were before the trial. Watches
    /// may be more than before: a lock that an instance keeps for its next use has one.
    fn has_settled(&self, previous: &Activity, baseline: &Snapshot) -> bool {
        let notifications = |activity: &Activity| -> Vec<Option<u64>> {
            let instances = activity.snapshot.instances.iter();
            instances.map(|counters| counters.get("zookeeper_notifications_total")).collect()
        };
        let quiet = self.orders == previous.orders && notifications(self) == notifications(previous);
        let (Some(now), Some(was), Some(base)) =
            (self.snapshot.servers_total(), previous.snapshot.servers_total(), baseline.servers_total())
        else {
            return quiet;
        };
        let back_to_baseline = |name: &str| now.get(name).unwrap_or(0) <= base.get(name).unwrap_or(0);
        quiet
            && now.watches_fired_total() == was.watches_fired_total()
            && now.get("zk_outstanding_requests").unwrap_or(0) == 0
            && now.get("zk_watch_count") == was.get("zk_watch_count")
            && back_to_baseline("zk_ephemerals_count")
    }
}

/// The counters of all servers and instances, and the processor time of the instances.
///
/// # Errors
///
/// [`Error::Service`] when an instance does not answer.
///
/// # Cancel safety
///
/// Cancelling loses nothing.
pub(super) async fn snapshot_of(stack: &Stack) -> Result<(Snapshot, Vec<ProcessCpu>), Error> {
    let (metrics, servers) = tokio::join!(stack.service.metrics(), stack.zookeeper.counters());
    let metrics = metrics?;
    Ok((Snapshot { servers, instances: metrics.counters }, metrics.cpu))
}

/// Waits until the trial has come to rest, and says whether it did in time.
pub(super) async fn settle(
    stack: &Stack,
    goods_nos: &[i64],
    opened: &[Goods],
    baseline: &Snapshot,
) -> Result<bool, Error> {
    let look = async || {
        let mut orders = 0;
        for (goods_no, goods) in goods_nos.iter().zip(opened) {
            orders += stack.database.order_count(*goods_no, goods.sale).await?;
        }
        Ok::<_, Error>(Activity { orders, snapshot: snapshot_of(stack).await?.0 })
    };
    until_alike(look, baseline).await
}

/// Looks again and again until two looks in a row are alike, and says whether they were in time.
async fn until_alike(
    mut look: impl AsyncFnMut() -> Result<Activity, Error>,
    baseline: &Snapshot,
) -> Result<bool, Error> {
    let until_settled = async {
        let mut previous = look().await?;
        loop {
            // However long a look takes: two of nearly the same moment are always alike.
            tokio::time::sleep(SETTLE_POLL).await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::counters::tests::snapshot;

    #[tokio::test(start_paused = true)]
    async fn two_looks_that_must_be_alike_are_apart() {
        let start = tokio::time::Instant::now();
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

    #[test]
    fn a_trial_settles_when_it_is_quiet_and_back_at_its_baseline() {
        let baseline = snapshot(&[], 0);
        let activity = |changes: &[(&str, u64)], orders| Activity { orders, snapshot: snapshot(changes, 5) };
        let still = activity(&[], 9);
        assert!(still.has_settled(&still, &baseline));
        assert!(!still.has_settled(&activity(&[], 8), &baseline), "an order came");
        assert!(
            !still.has_settled(&activity(&[("zk_sum_node_deleted_watch_count", 9)], 9), &baseline),
            "a watch fired"
        );
        let watched = activity(&[("zk_watch_count", 5)], 9);
        assert!(!watched.has_settled(&still, &baseline), "a watch was set");
        assert!(watched.has_settled(&watched, &baseline), "a lock may be kept");
        for (name, value) in [("zk_ephemerals_count", 3), ("zk_outstanding_requests", 1)] {
            let busy = activity(&[(name, value)], 9);
            assert!(!busy.has_settled(&busy, &baseline), "{name}");
        }
    }
}
