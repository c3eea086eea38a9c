//! Counters of servers, as the servers print them.

use std::collections::BTreeMap;

/// The kinds of watch event that `mntr` counts, each as a summary with `cnt`, `sum` and `max`.
const WATCH_KINDS: [&str; 4] = ["created", "deleted", "changed", "children"];

/// Named counters of one server or instance, or the sums over several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Reads ZooKeeper's answer to `mntr`: a name, a tab and a value per line. Leaves out what is no count.
    #[must_use]
    pub fn from_mntr(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        Self(lines.filter_map(|(name, value)| Some((name.to_owned(), whole(value)?))).collect())
    }

    /// Reads the answer of Redis to `INFO`: a name, a colon and a value per line. The value of `cmdstat_set` is the number of
    /// calls of `SET`. Leaves out what is no count.
    #[must_use]
    pub fn from_info(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let count =
            |value: &str| whole(value.strip_prefix("calls=").and_then(|rest| rest.split(',').next()).unwrap_or(value));
        Self(lines.filter_map(|(name, value)| Some((name.to_owned(), count(value)?))).collect())
    }

    /// Reads the text format of Prometheus. Adds up series that differ in their labels alone.
    #[must_use]
    pub fn from_prometheus(text: &str) -> Self {
        let mut counters = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let name = series.split('{').next().unwrap_or(series).trim();
            if let Some(value) = whole(value) {
                add(counters.entry(name.to_owned()).or_insert(0), value);
            }
        }
        Self(counters)
    }

    /// Adds up the counters of several servers or instances.
    #[must_use]
    pub fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        let mut total = BTreeMap::new();
        for (name, value) in all.into_iter().flat_map(|counters| counters.0) {
            add(total.entry(name).or_insert(0), value);
        }
        Self(total)
    }

    /// Returns the value of a counter. `None` if it is not listed.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Returns how far a counter has grown since `before`. `None` if either lacks it, or if it was reset in between.
    #[must_use]
    pub fn grown(&self, before: &Self, name: &str) -> Option<u64> {
        self.get(name)?.checked_sub(before.get(name)?)
    }

    /// Returns the number of watch events of one kind that a ZooKeeper server has sent since `before`. The kinds are
    /// `created`, `deleted`, `changed` and `children`.
    #[must_use]
    pub fn watches_fired(&self, before: &Self, kind: &str) -> Option<u64> {
        self.grown(before, &watch_counter(kind))
    }

    /// Returns the number of watch events of all kinds that a ZooKeeper server has sent since it started. `None` if it
    /// does not count them.
    #[must_use]
    pub fn watches_fired_total(&self) -> Option<u64> {
        let mut total = 0;
        for kind in WATCH_KINDS {
            add(&mut total, self.get(&watch_counter(kind))?);
        }
        Some(total)
    }
}

/// Adds to a count. A server may print any number.
fn add(total: &mut u64, value: u64) {
    *total = total.saturating_add(value);
}

fn watch_counter(kind: &str) -> String {
    format!("zk_sum_node_{kind}_watch_count")
}

/// Reads a count as a server prints it: `12` or `12.0`. Returns `None` for a fraction, a sign or a text.
fn whole(value: &str) -> Option<u64> {
    let (digits, fraction) = value.trim().split_once('.').unwrap_or((value.trim(), "0"));
    let are_zeros = !fraction.is_empty() && fraction.bytes().all(|digit| digit == b'0');
    // `parse` would accept a sign.
    let are_digits = digits.bytes().all(|digit| digit.is_ascii_digit());
    (are_digits && are_zeros).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    const MNTR: &str = "zk_version\t3.8.0-1, built on 2024-12-29\nzk_packets_received\t100\n\
        zk_avg_node_deleted_watch_count\t1.5\nzk_sum_node_deleted_watch_count\t10\nzk_sum_node_created_watch_count\t0\n\
        zk_sum_node_changed_watch_count\t1\nzk_sum_node_children_watch_count\t2\n";

    #[test]
    fn mntr_counts_are_read_and_everything_else_is_left_out() {
        let counters = Counters::from_mntr(MNTR);
        assert_eq!(counters.get("zk_packets_received"), Some(100));
        assert_eq!(counters.get("zk_version"), None);
        assert_eq!(counters.get("zk_avg_node_deleted_watch_count"), None);
    }

    #[test]
    fn counts_of_info_are_read_and_everything_else_is_left_out() {
        let info = "# Server\r\nredis_version:7.0.15\r\nprocess_id:12\r\n\r\n# Stats\r\ntotal_commands_processed:34\r\n\
            instantaneous_input_kbps:0.25\r\ndb0:keys=1,expires=0,avg_ttl=0\r\ncmdstat_set:calls=5,usec=6\r\n";
        let counters = Counters::from_info(info);
        assert_eq!((counters.get("process_id"), counters.get("total_commands_processed")), (Some(12), Some(34)));
        assert_eq!(counters.get("cmdstat_set"), Some(5));
        for name in ["redis_version", "instantaneous_input_kbps", "db0", "no_such_count"] {
            assert_eq!(counters.get(name), None, "{name}");
        }
    }

    #[test]
    fn watch_events_of_every_kind_count() {
        assert_eq!(Counters::from_mntr(MNTR).watches_fired_total(), Some(13));
        let without_a_kind = Counters::from_mntr(&MNTR.replace("_children_", "_other_"));
        assert_eq!(without_a_kind.watches_fired_total(), None);
    }

    #[test]
    fn a_counter_that_was_reset_has_not_grown() {
        let counters = |packets| Counters::from_mntr(&format!("zk_packets_received\t{packets}\n"));
        assert_eq!(counters(7).grown(&counters(4), "zk_packets_received"), Some(3));
        assert_eq!(counters(3).grown(&counters(4), "zk_packets_received"), None);
        assert_eq!(counters(3).grown(&counters(3), "zk_packets_sent"), None);
    }

    #[test]
    fn the_counters_of_several_servers_are_added_up() {
        let both = Counters::sum([MNTR, "zk_packets_received\t1\nzk_packets_sent\t2\n"].map(Counters::from_mntr));
        assert_eq!((both.get("zk_packets_received"), both.get("zk_packets_sent")), (Some(101), Some(2)));
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
