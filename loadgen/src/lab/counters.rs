//! Counters of ZooKeeper's servers and of the service's instances, as they print them.

use std::collections::BTreeMap;

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
    pub(crate) fn grown(&self, before: &Counters, name: &str) -> Option<u64> {
        self.get(name)?.checked_sub(before.get(name)?)
    }

    /// Watch events of one kind that were sent.
    pub(crate) fn watches_fired(&self, before: &Counters, kind: &str) -> Option<u64> {
        self.grown(before, &format!("zk_sum_node_{kind}_watch_count"))
    }

    /// Watch events of all kinds since the server started.
    pub(crate) fn watches_fired_total(&self) -> Option<u64> {
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
    pub(crate) fn servers_total(&self) -> Option<Counters> {
        let servers = self.servers.as_ref()?;
        Some(Counters::sum(servers.iter().map(|(_, counters)| counters.clone())))
    }
}

#[cfg(test)]
pub(crate) mod tests {
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

    pub(crate) fn snapshot(changes: &[(&str, u64)], notifications: u64) -> Snapshot {
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
}
