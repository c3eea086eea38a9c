//! The counters of ZooKeeper's servers and of the service's instances at one moment.

use testbed::Counters;

/// The counters of every ZooKeeper server and of every instance at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Counters of each server with its address; absent if a server does not answer `mntr`.
    pub(crate) servers: Option<Vec<(String, Counters)>>,
    /// Counters of each instance.
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

    const SERVER: [(&str, u64); 11] = [
        ("zk_watch_count", 4),
        ("zk_ephemerals_count", 2),
        ("zk_outstanding_requests", 0),
        ("zk_packets_received", 100),
        ("zk_packets_sent", 90),
        ("zk_bytes_received_count", 4000),
        ("zk_max_node_deleted_watch_count", 7),
        ("zk_sum_node_deleted_watch_count", 10),
        ("zk_sum_node_created_watch_count", 0),
        ("zk_sum_node_changed_watch_count", 1),
        ("zk_sum_node_children_watch_count", 2),
    ];

    fn counters(values: impl IntoIterator<Item = (&'static str, u64)>) -> Counters {
        Counters::from_mntr(&values.into_iter().map(|(name, value)| format!("{name}\t{value}\n")).collect::<String>())
    }

    pub(crate) fn snapshot(changes: &[(&str, u64)], notifications: u64) -> Snapshot {
        let changed = |name: &str| changes.iter().find(|(changed, _)| *changed == name).map(|(_, value)| *value);
        let server = counters(SERVER.map(|(name, value)| (name, changed(name).unwrap_or(value))));
        let instance = counters([
            ("zookeeper_requests_total", 3 * notifications),
            ("zookeeper_notifications_total", notifications),
            ("zookeeper_bytes_sent_total", 10 * notifications),
            ("zookeeper_bytes_received_total", 20 * notifications),
            ("seckill_requests_in_flight", changed("seckill_requests_in_flight").unwrap_or(0)),
        ]);
        Snapshot { servers: Some(vec![("zk-1:2181".to_owned(), server)]), instances: vec![instance] }
    }
}
