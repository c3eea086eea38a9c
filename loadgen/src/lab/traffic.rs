//! The traffic that a lock puts on ZooKeeper: the growth of counters between two snapshots.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::as_f64;
use testbed::Counters;

use crate::lab::counters::Snapshot;

/// Traffic on one ZooKeeper server between two snapshots. An absent figure could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ServerTraffic {
    /// Its address.
    pub(crate) server: String,
    /// Watch events that it sent, by kind of event.
    pub(crate) watches_fired: WatchesFired,
    /// Packets it received, pings included.
    pub(crate) packets_received: Option<u64>,
    /// Packets it sent, answers to pings included.
    pub(crate) packets_sent: Option<u64>,
    /// Bytes it received.
    pub(crate) bytes_received: Option<u64>,
}

/// Traffic between two snapshots. An absent figure could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Traffic {
    /// Purchases that held a ZooKeeper lock and released it: every `sold`, `sold_out` and `over_limit` of a strategy whose mechanism is
    /// ZooKeeper. Absent if a buyer had no decision, because it is unknown whether that purchase held the lock.
    pub(crate) releases: Option<u64>,
    /// Each server by itself; all other figures are sums.
    pub(crate) servers: Vec<ServerTraffic>,
    /// Watch events that the servers sent, by kind of event.
    pub(crate) watches_fired: WatchesFired,
    /// Most connections that one deletion woke, if it is a new record of that server.
    pub(crate) wake_max: Option<u64>,
    /// Packets the servers received, pings included.
    pub(crate) packets_received: Option<u64>,
    /// Packets the servers sent, answers to pings included.
    pub(crate) packets_sent: Option<u64>,
    /// Bytes the servers received.
    pub(crate) bytes_received: Option<u64>,
    /// Requests that the instances' sessions made.
    pub(crate) client_requests: Option<u64>,
    /// Watch events that the instances' sessions received.
    pub(crate) client_notifications: Option<u64>,
    /// Bytes that the instances' sessions sent.
    pub(crate) client_bytes_sent: Option<u64>,
    /// Bytes that the instances' sessions received.
    pub(crate) client_bytes_received: Option<u64>,
}

/// Watch events by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WatchesFired {
    /// For created nodes.
    pub(crate) created: Option<u64>,
    /// For deleted nodes.
    pub(crate) deleted: Option<u64>,
    /// For changed data.
    pub(crate) changed: Option<u64>,
    /// For changed lists of children.
    pub(crate) children: Option<u64>,
}

impl WatchesFired {
    fn between(was: &Counters, now: &Counters) -> WatchesFired {
        WatchesFired {
            created: now.watches_fired(was, "created"),
            deleted: now.watches_fired(was, "deleted"),
            changed: now.watches_fired(was, "changed"),
            children: now.watches_fired(was, "children"),
        }
    }
}

impl WatchesFired {
    /// Adds up all kinds. `None` if one of them could not be read.
    pub(crate) fn total(&self) -> Option<u64> {
        [self.created, self.deleted, self.changed, self.children].into_iter().sum()
    }
}

impl ServerTraffic {
    fn between(before: &Snapshot, after: &Snapshot) -> Vec<ServerTraffic> {
        let (Some(before), Some(after)) = (&before.servers, &after.servers) else { return Vec::new() };
        let pairs = before.iter().zip(after);
        let traffic = pairs.map(|((server, was), (_, now))| ServerTraffic {
            server: server.clone(),
            watches_fired: WatchesFired::between(was, now),
            packets_received: now.grown(was, "zk_packets_received"),
            packets_sent: now.grown(was, "zk_packets_sent"),
            bytes_received: now.grown(was, "zk_bytes_received_count"),
        });
        traffic.collect()
    }
}

impl Traffic {
    /// Returns the traffic between two snapshots. `releases`: how often the lock was released between them, if that is known.
    pub(crate) fn between(before: &Snapshot, after: &Snapshot, releases: Option<u64>) -> Traffic {
        // Each server by itself first, because a sum would hide that one of them was restarted.
        let client = |name: &str| {
            let instances = before.instances.iter().zip(&after.instances);
            sum_of(instances.map(|(was, now)| now.grown(was, name)))
        };
        let servers = ServerTraffic::between(before, after);
        let of_servers = |figure: fn(&ServerTraffic) -> Option<u64>| sum_of(servers.iter().map(figure));
        Traffic {
            releases,
            watches_fired: WatchesFired {
                created: of_servers(|server| server.watches_fired.created),
                deleted: of_servers(|server| server.watches_fired.deleted),
                changed: of_servers(|server| server.watches_fired.changed),
                children: of_servers(|server| server.watches_fired.children),
            },
            wake_max: wake_max(before, after),
            packets_received: of_servers(|server| server.packets_received),
            packets_sent: of_servers(|server| server.packets_sent),
            bytes_received: of_servers(|server| server.bytes_received),
            servers,
            client_requests: client("zookeeper_requests_total"),
            client_notifications: client("zookeeper_notifications_total"),
            client_bytes_sent: client("zookeeper_bytes_sent_total"),
            client_bytes_received: client("zookeeper_bytes_received_total"),
        }
    }

    /// Returns the watch events of all kinds, by the counters of the servers, or else of the instances.
    pub(crate) fn notifications(&self) -> Option<u64> {
        self.watches_fired.total().or(self.client_notifications)
    }

    /// Returns [`Traffic::notifications`] per release. `None` for a strategy that releases no ZooKeeper lock, or if the
    /// releases are unknown.
    pub(crate) fn notifications_per_release(&self) -> Option<f64> {
        Some(as_f64(self.notifications()?) / as_f64(positive(self.releases?)?))
    }

    /// Returns the watch events that the instances' sessions received, per release.
    pub(crate) fn client_notifications_per_release(&self) -> Option<f64> {
        Some(as_f64(self.client_notifications?) / as_f64(positive(self.releases?)?))
    }

    /// Bytes to and from ZooKeeper.
    pub(crate) fn client_bytes(&self) -> Option<u64> {
        self.client_bytes_sent?.checked_add(self.client_bytes_received?)
    }
}

/// Adds up figures. `None` if there is none, or if one of them is not known.
fn sum_of(figures: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let figures: Option<Vec<u64>> = figures.collect();
    figures.filter(|figures| !figures.is_empty()).map(|figures| figures.iter().sum())
}

/// Returns the most connections that one deletion woke, if a server has a new record.
fn wake_max(before: &Snapshot, after: &Snapshot) -> Option<u64> {
    let max = |counters: &Counters| counters.get("zk_max_node_deleted_watch_count");
    let servers = before.servers.as_ref()?.iter().zip(after.servers.as_ref()?);
    let records =
        servers.filter_map(|((_, was), (_, now))| max(now).filter(|now| max(was).is_some_and(|was| was < *now)));
    records.max()
}

fn positive(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::counters::tests::snapshot;

    #[test]
    fn traffic_is_the_growth_between_two_snapshots() {
        let before = snapshot(&[], 10);
        let after = snapshot(
            &[
                ("zk_sum_node_deleted_watch_count", 55),
                ("zk_max_node_deleted_watch_count", 9),
                ("zk_packets_sent", 190),
            ],
            55,
        );
        let traffic = Traffic::between(&before, &after, Some(10));
        assert_eq!(traffic.watches_fired.deleted, Some(45));
        assert_eq!(traffic.notifications(), Some(45));
        assert_eq!(traffic.notifications_per_release(), Some(4.5));
        assert_eq!((traffic.wake_max, traffic.packets_sent), (Some(9), Some(100)));
        assert_eq!(traffic.client_notifications_per_release(), Some(4.5));
        assert_eq!((traffic.client_requests, traffic.client_bytes()), (Some(135), Some(1350)));
    }

    #[test]
    fn every_server_counts_for_itself_and_the_sums_are_those_of_all() {
        let of_two = |first: u64, second: u64| {
            let [mut one, other] = [first, second].map(|sum| snapshot(&[("zk_sum_node_deleted_watch_count", sum)], 0));
            let mut second = other.servers.unwrap();
            second[0].0 = "zk-2:2181".to_owned();
            one.servers.as_mut().unwrap().extend(second);
            one
        };
        let traffic = Traffic::between(&of_two(10, 20), &of_two(13, 40), Some(23));
        let by_server: Vec<_> =
            traffic.servers.iter().map(|server| (server.server.as_str(), server.watches_fired.deleted)).collect();
        assert_eq!(by_server, [("zk-1:2181", Some(3)), ("zk-2:2181", Some(20))]);
        assert_eq!(traffic.notifications_per_release(), Some(1.0));
        let of_restarted = Traffic::between(&of_two(10, 20), &of_two(0, 400), Some(23));
        assert_eq!(of_restarted.watches_fired.deleted, None, "one that began anew must not hide in the sum");
    }

    #[test]
    fn the_largest_wake_is_of_one_server() {
        let of_two = |maxima: [u64; 2]| {
            let [mut one, other] = maxima.map(|max| snapshot(&[("zk_max_node_deleted_watch_count", max)], 0));
            one.servers.as_mut().unwrap().extend(other.servers.unwrap());
            one
        };
        assert_eq!(Traffic::between(&of_two([500, 10]), &of_two([500, 20]), Some(1)).wake_max, Some(20));
    }

    #[test]
    fn a_largest_wake_of_an_earlier_trial_is_not_claimed() {
        assert_eq!(Traffic::between(&snapshot(&[], 0), &snapshot(&[], 0), Some(1)).wake_max, None);
    }

    #[test]
    fn a_counter_that_was_reset_gives_no_figure() {
        let after = snapshot(&[("zk_packets_sent", 3)], 0);
        assert_eq!(Traffic::between(&snapshot(&[], 0), &after, Some(1)).packets_sent, None);
    }

    #[test]
    fn without_mntr_the_instances_count_the_notifications() {
        let [mut before, mut after] = [10, 30].map(|notifications| snapshot(&[], notifications));
        before.servers = None;
        after.servers = None;
        let traffic = Traffic::between(&before, &after, Some(10));
        assert_eq!(traffic.watches_fired.deleted, None);
        assert_eq!(traffic.notifications_per_release(), Some(2.0));
    }
}
