//! How much traffic the lock put on ZooKeeper: counters read before and after a trial, and what the difference
//! says about each release.
//!
//! A *release* is a purchase that held a ZooKeeper lock and gave it back: every 200 and every 409 of a strategy whose
//! mechanism is `zookeeper`. What any other answer did is unknown: a waiter that gave up deletes its node and wakes its
//! successor without ever having held the lock, and a holder that was refused did hold it. A trial with such answers
//! therefore has no number of releases, and no figure for each of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::as_f64;

use crate::strategies::{Mechanism, Wakes};
use crate::trial::ByOutcome;

/// The kinds of watch event that `mntr` counts, each as a summary with `cnt`, `sum` and `max`.
const WATCH_KINDS: [&str; 4] = ["created", "deleted", "changed", "children"];

/// Named counters of one server or instance, or the sums over several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Reads an answer to ZooKeeper's `mntr`: a name, a tab and a value a line. Lines that are no counts are left out.
    pub(crate) fn from_mntr(text: &str) -> Counters {
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        Counters(lines.filter_map(|(name, value)| Some((name.to_owned(), whole(value)?))).collect())
    }

    /// Reads the Prometheus text format; series that differ in their labels alone are added up.
    pub(crate) fn from_prometheus(text: &str) -> Counters {
        let mut counters = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let name = series.split('{').next().unwrap_or(series).trim();
            if let Some(value) = whole(value) {
                *counters.entry(name.to_owned()).or_insert(0) += value;
            }
        }
        Counters(counters)
    }

    /// Adds up the counters of several servers or instances; nothing of nothing.
    pub(crate) fn sum(all: impl IntoIterator<Item = Counters>) -> Counters {
        let mut total = BTreeMap::new();
        for (name, value) in all.into_iter().flat_map(|counters| counters.0) {
            *total.entry(name).or_insert(0) += value;
        }
        Counters(total)
    }

    /// The value of a counter, if it is there.
    pub(crate) fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// How far a counter has grown since `before`; nothing if either lacks it, or if it was reset in between.
    fn grown(&self, before: &Counters, name: &str) -> Option<u64> {
        self.get(name)?.checked_sub(before.get(name)?)
    }

    /// Watch events of one kind that were sent.
    fn watches_fired(&self, before: &Counters, kind: &str) -> Option<u64> {
        self.grown(before, &format!("zk_sum_node_{kind}_watch_count"))
    }

    /// Watch events of all kinds since the server started.
    fn watches_fired_total(&self) -> Option<u64> {
        let sums = WATCH_KINDS.map(|kind| self.get(&format!("zk_sum_node_{kind}_watch_count")));
        sums.into_iter().sum()
    }
}

/// A count as a server prints it, `12` or `12.0`; nothing for a fraction, a sign or a text.
fn whole(value: &str) -> Option<u64> {
    let digits = value.split_once('.').map_or(value, |(whole, _)| whole);
    let fraction = value.split_once('.').map_or("", |(_, fraction)| fraction);
    (fraction.bytes().all(|digit| digit == b'0')).then(|| digits.parse().ok())?
}

/// The counters of every ZooKeeper server and of every instance at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Those of each server with its address; absent when a server does not answer `mntr`.
    pub(crate) servers: Option<Vec<(String, Counters)>>,
    /// Those of each instance.
    pub(crate) instances: Vec<Counters>,
}

impl Snapshot {
    /// Sums over the servers.
    fn servers_total(&self) -> Option<Counters> {
        let servers = self.servers.as_ref()?;
        Some(Counters::sum(servers.iter().map(|(_, counters)| counters.clone())))
    }
}

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Traffic {
    /// Purchases that held a ZooKeeper lock and gave it back: every `sold` and `sold_out` of a strategy whose mechanism
    /// is ZooKeeper. Absent when buyers had no decision, as what those did is unknown.
    pub(crate) releases: Option<u64>,
    /// Each server by itself; the figures below are the sums.
    pub(crate) servers: Vec<ServerTraffic>,
    /// Watch events that the servers sent, by kind of event.
    pub(crate) watches_fired: WatchesFired,
    /// Most connections that one deletion woke, if this trial woke more than any before it on that server.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// What happened between two snapshots, in which the lock was released so many times.
    pub(crate) fn between(before: &Snapshot, after: &Snapshot, releases: Option<u64>) -> Traffic {
        // Each by itself first: a sum would hide that one of them began anew meanwhile.
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

    /// Watch events of every kind: as the servers count them, or else as the instances do.
    pub(crate) fn notifications(&self) -> Option<u64> {
        let WatchesFired { created, deleted, changed, children } = self.watches_fired;
        let servers: Option<u64> = [created, deleted, changed, children].into_iter().sum();
        servers.or(self.client_notifications)
    }

    /// [`Traffic::notifications`] a release; nothing for a strategy that releases no ZooKeeper lock,
    /// or when the releases are unknown.
    pub(crate) fn notifications_per_release(&self) -> Option<f64> {
        Some(as_f64(self.notifications()?) / as_f64(positive(self.releases?)?))
    }

    /// Watch events that the instances' sessions received a release.
    pub(crate) fn client_notifications_per_release(&self) -> Option<f64> {
        Some(as_f64(self.client_notifications?) / as_f64(positive(self.releases?)?))
    }

    /// Bytes to and from ZooKeeper.
    pub(crate) fn client_bytes(&self) -> Option<u64> {
        self.client_bytes_sent?.checked_add(self.client_bytes_received?)
    }
}

/// Nothing of nothing, or if one of them is not known.
fn sum_of(figures: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let figures: Option<Vec<u64>> = figures.collect();
    figures.filter(|figures| !figures.is_empty()).map(|figures| figures.iter().sum())
}

/// Most connections that one deletion woke, where a server has a new record.
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

/// How many releases the purchases of a strategy were; unknown when one of them had no decision.
pub(crate) fn releases(mechanism: Mechanism, answers: &ByOutcome<u64>) -> Option<u64> {
    match mechanism {
        Mechanism::Zookeeper => (answers.undecided() == 0).then_some(answers.sold + answers.sold_out),
        Mechanism::None | Mechanism::Process | Mechanism::Postgres => Some(0),
    }
}

/// Watch events to be expected of `contenders` that all wait before the first of them releases.
///
/// With `Wakes::One` each release but the last wakes its successor: N − 1. With `Wakes::All` each release wakes all
/// that still wait: N(N − 1)/2. A server notifies a connection once however many contenders share it, so with fewer
/// `sessions` than waiters a release wakes the sessions instead.
pub(crate) fn notifications_expected(wakes: Wakes, contenders: u64, sessions: Option<u64>) -> u64 {
    let sessions = sessions.unwrap_or(u64::MAX);
    match wakes {
        Wakes::None => 0,
        Wakes::One => contenders.saturating_sub(1),
        Wakes::All => (0..contenders).map(|waiting| waiting.min(sessions)).sum(),
    }
}

/// What tells whether anything of a trial is still going on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Activity {
    /// Orders of the sale.
    pub(crate) orders: u64,
    /// The counters of the same moment.
    pub(crate) snapshot: Snapshot,
}

impl Activity {
    /// Whether the trial has settled: since `previous` no order, no notification and no watch event came, and the watches are
    /// as many as then; no request is outstanding; and no more ephemeral nodes are there than were before the trial. Watches
    /// may be more than before: a lock that an instance keeps for its next use has one.
    pub(crate) fn has_settled(&self, previous: &Activity, baseline: &Snapshot) -> bool {
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

/// The `host:port` of every server of a ZooKeeper connect string, its chroot left off.
pub(crate) fn servers_of(connect_string: &str) -> Vec<String> {
    let hosts = connect_string.split('/').next().unwrap_or_default();
    let with_port = |host: &str| match host.rsplit_once(':') {
        Some((_, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host.to_owned(),
        _ => format!("{host}:2181"),
    };
    hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).map(with_port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MNTR: &str = "zk_version\t3.8.0-1, built on 2024-12-29\nzk_watch_count\t4\nzk_ephemerals_count\t2\n\
        zk_outstanding_requests\t0\nzk_packets_received\t100\nzk_packets_sent\t90\nzk_bytes_received_count\t4000\n\
        zk_avg_node_deleted_watch_count\t1.5\nzk_max_node_deleted_watch_count\t7\nzk_cnt_node_deleted_watch_count\t3\n\
        zk_sum_node_deleted_watch_count\t10\nzk_sum_node_created_watch_count\t0\nzk_sum_node_changed_watch_count\t1\n\
        zk_sum_node_children_watch_count\t2\n";

    fn servers(changes: &[(&str, u64)]) -> Counters {
        let mut counters = Counters::from_mntr(MNTR);
        for (name, value) in changes {
            counters.0.insert((*name).to_owned(), *value);
        }
        counters
    }

    fn snapshot(changes: &[(&str, u64)], notifications: u64) -> Snapshot {
        let instances = [
            ("zookeeper_requests_total", 3 * notifications),
            ("zookeeper_notifications_total", notifications),
            ("zookeeper_bytes_sent_total", 10 * notifications),
            ("zookeeper_bytes_received_total", 20 * notifications),
        ];
        Snapshot {
            servers: Some(vec![("zk-1:2181".to_owned(), servers(changes))]),
            instances: vec![Counters(instances.map(|(name, value)| (name.to_owned(), value)).into())],
        }
    }

    #[test]
    fn mntr_counts_are_read_and_everything_else_is_left_out() {
        let counters = Counters::from_mntr(MNTR);
        assert_eq!(counters.get("zk_sum_node_deleted_watch_count"), Some(10));
        assert_eq!(counters.get("zk_version"), None);
        assert_eq!(counters.get("zk_avg_node_deleted_watch_count"), None);
    }

    #[test]
    fn prometheus_series_of_one_name_are_added_up() {
        let text = "# TYPE zookeeper_sessions gauge\nzookeeper_sessions{state=\"connected\"} 3\n\
            zookeeper_sessions{state=\"lost\"} 1\n\nzookeeper_requests_total 12\nlatency_sum 0.25\n";
        let counters = Counters::from_prometheus(text);
        assert_eq!(counters.get("zookeeper_sessions"), Some(4));
        assert_eq!(counters.get("zookeeper_requests_total"), Some(12));
        assert_eq!(counters.get("latency_sum"), None);
    }

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
    fn the_largest_wake_is_that_of_one_server() {
        let of_two = |maxima: [u64; 2]| {
            let [mut one, other] = maxima.map(|max| snapshot(&[("zk_max_node_deleted_watch_count", max)], 0));
            one.servers.as_mut().unwrap().extend(other.servers.unwrap());
            one
        };
        assert_eq!(Traffic::between(&of_two([500, 10]), &of_two([500, 20]), Some(1)).wake_max, Some(20));
    }

    #[test]
    fn releases_are_known_only_when_every_buyer_had_a_decision() {
        let decided = ByOutcome { sold: 3, sold_out: 4, ..ByOutcome::default() };
        assert_eq!(releases(Mechanism::Zookeeper, &decided), Some(7));
        for undecided in [
            ByOutcome { refused: 1, ..decided },
            ByOutcome { error: 1, ..decided },
            ByOutcome { timeout: 1, ..decided },
        ] {
            assert_eq!(releases(Mechanism::Zookeeper, &undecided), None);
            assert_eq!(releases(Mechanism::Postgres, &undecided), Some(0));
        }
        let traffic = Traffic::between(&snapshot(&[], 0), &snapshot(&[], 30), None);
        assert_eq!((traffic.notifications_per_release(), traffic.client_notifications), (None, Some(30)));
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
        let (mut before, mut after) = (snapshot(&[], 10), snapshot(&[], 30));
        before.servers = None;
        after.servers = None;
        let traffic = Traffic::between(&before, &after, Some(10));
        assert_eq!(traffic.watches_fired.deleted, None);
        assert_eq!(traffic.notifications_per_release(), Some(2.0));
    }

    #[test]
    fn expected_notifications_follow_from_who_is_woken() {
        assert_eq!(notifications_expected(Wakes::None, 1500, None), 0);
        assert_eq!(notifications_expected(Wakes::One, 1500, None), 1499);
        assert_eq!(notifications_expected(Wakes::All, 1500, None), 1_124_250);
        assert_eq!(notifications_expected(Wakes::All, 1500, Some(1500)), 1_124_250);
        assert_eq!(notifications_expected(Wakes::All, 4, Some(1)), 3);
        assert_eq!(notifications_expected(Wakes::All, 0, Some(1)), 0);
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

    #[test]
    fn the_servers_of_a_connect_string_have_ports_and_no_chroot() {
        assert_eq!(servers_of("127.0.0.1:2181"), ["127.0.0.1:2181"]);
        assert_eq!(servers_of("a:1,b:2,[::1]:3/seckill/x"), ["a:1", "b:2", "[::1]:3"]);
        assert_eq!(servers_of("a, b/x"), ["a:2181", "b:2181"]);
    }
}
