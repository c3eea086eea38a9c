//! Metrics for Prometheus.
//!
//! Every instance has its own recorder, so that several instances in one process do not add up. Every series exists
//! from the start, at zero.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
    with_local_recorder,
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use zk_recipes::Traffic;

use super::{LockMetrics, process};
use crate::failure;
use crate::sessions::SessionCounts;

/// Upper bounds of the histograms in seconds: from a conditional update on an idle machine to the longest request.
const BUCKETS_SECONDS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0];

/// How often samples are moved into the histograms if nobody reads the metrics.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// The label `outcome` of a purchase that sold.
pub const SOLD: &str = "sold";
/// The label of a purchase that was answered as an earlier one with the same key.
pub const REPEATED: &str = "repeated";
/// The label of a purchase that was answered with a ticket. The decision of the ticket is counted by itself.
pub const QUEUED: &str = "queued";

/// Returns the values of the label `outcome`: those of the failures that can end a purchase, and the three above.
fn outcomes() -> BTreeSet<&'static str> {
    failure::ALL.iter().filter_map(|kind| kind.outcome).chain([SOLD, REPEATED, QUEUED]).collect()
}

/// The metrics of one instance.
pub struct Metrics {
    prometheus: PrometheusHandle,
    strategies: HashMap<&'static str, (Outcomes, LockMetrics)>,
    shed: Counter,
    rate_limited: RateLimited,
    in_flight: Gauge,
    connections_in_use: Gauge,
    connections_idle: Gauge,
    history_dropped: Counter,
    redis_commands: Counter,
    requests: Counter,
    notifications: Counter,
    bytes_sent: Counter,
    bytes_received: Counter,
    connected: Gauge,
    suspended: Gauge,
    lost: Gauge,
    ended: Counter,
}

/// Values that are read when the metrics are rendered. They are not counted as they change.
#[derive(Debug, Clone, Copy, Default)]
pub struct Levels {
    /// The total traffic of the ZooKeeper sessions.
    pub traffic: Traffic,
    /// The total of the commands sent to Redis.
    pub redis_commands: u64,
    /// The ZooKeeper sessions by state.
    pub sessions: SessionCounts,
    /// How the database connections are used.
    pub pool: PoolMetrics,
    /// How many requests are being worked on.
    pub in_flight: u32,
    /// The total of the records of the history that were replaced by newer ones.
    pub history_dropped: u64,
}

/// The counters of purchases that exceeded a rate.
#[derive(Clone)]
pub struct RateLimited {
    /// The rate of their client.
    pub per_client: Counter,
    /// The rate of their idempotency key.
    pub per_key: Counter,
}

/// How the connections to the database are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolMetrics {
    /// In use.
    pub in_use: u32,
    /// Open and not in use.
    pub idle: u32,
}

/// The deductions of one strategy, by outcome and by duration.
#[derive(Clone)]
pub struct Outcomes {
    counters: HashMap<&'static str, Counter>,
    seconds: Histogram,
}

impl Metrics {
    /// Registers every series, with one label value for each of these strategies.
    #[expect(clippy::missing_panics_doc, reason = "the list of buckets is a constant, and not empty")]
    pub fn new(strategies: impl Iterator<Item = &'static str>) -> Self {
        let buckets = PrometheusBuilder::new().set_buckets(&BUCKETS_SECONDS);
        let recorder = buckets.expect("BUG: there are buckets").build_recorder();
        let prometheus = recorder.handle();
        with_local_recorder(&recorder, || {
            describe();
            let build = [
                ("version", env!("CARGO_PKG_VERSION")),
                ("revision", env!("BUILD_REVISION")),
                ("changed", env!("BUILD_CHANGED")),
                ("profile", env!("BUILD_PROFILE")),
            ];
            gauge!("seckill_build_info", &build).set(1.0);
            let session_state = |state: &'static str| gauge!("zookeeper_sessions", "state" => state);
            let rate_limited = |by: &'static str| counter!("seckill_requests_rate_limited_total", "by" => by);
            let connection_state = |state: &'static str| gauge!("postgres_connections", "state" => state);
            Self {
                prometheus,
                strategies: strategies.map(|name| (name, (Outcomes::new(name), LockMetrics::new(name)))).collect(),
                shed: counter!("seckill_requests_shed_total"),
                rate_limited: RateLimited { per_client: rate_limited("client"), per_key: rate_limited("key") },
                in_flight: gauge!("seckill_requests_in_flight"),
                connections_in_use: connection_state("in_use"),
                connections_idle: connection_state("idle"),
                history_dropped: counter!("seckill_history_dropped_total"),
                redis_commands: counter!("redis_commands_total"),
                requests: counter!("zookeeper_requests_total"),
                notifications: counter!("zookeeper_notifications_total"),
                bytes_sent: counter!("zookeeper_bytes_sent_total"),
                bytes_received: counter!("zookeeper_bytes_received_total"),
                connected: session_state("connected"),
                suspended: session_state("suspended"),
                lost: session_state("lost"),
                ended: counter!("zookeeper_sessions_ended_total"),
            }
        })
    }

    /// Returns where the deductions of a strategy are counted.
    ///
    /// # Panics
    /// When the strategy is not registered.
    pub fn outcomes(&self, strategy: &str) -> &Outcomes {
        &self.strategy(strategy).0
    }

    /// Returns where the waits and holds of a strategy are recorded.
    ///
    /// # Panics
    /// When the strategy is not registered.
    pub fn locks(&self, strategy: &str) -> &LockMetrics {
        &self.strategy(strategy).1
    }

    fn strategy(&self, name: &str) -> &(Outcomes, LockMetrics) {
        self.strategies.get(name).expect("BUG: a strategy that is not in the registry")
    }

    /// Counts a request that was refused because the service was at its limit.
    pub fn count_shed(&self) {
        self.shed.increment(1);
    }

    /// Returns where the purchases that exceeded a rate are counted.
    pub fn rate_limited(&self) -> &RateLimited {
        &self.rate_limited
    }

    /// Returns the text for Prometheus, with these levels and the metrics of the process.
    pub fn render(&self, levels: &Levels) -> String {
        let Levels { traffic, redis_commands, sessions, pool, in_flight, history_dropped } = *levels;
        self.in_flight.set(f64::from(in_flight));
        self.connections_in_use.set(f64::from(pool.in_use));
        self.connections_idle.set(f64::from(pool.idle));
        self.history_dropped.absolute(history_dropped);
        self.redis_commands.absolute(redis_commands);
        self.requests.absolute(traffic.requests);
        self.notifications.absolute(traffic.notifications);
        self.bytes_sent.absolute(traffic.bytes_sent);
        self.bytes_received.absolute(traffic.bytes_received);
        self.connected.set(f64::from(sessions.connected));
        self.suspended.set(f64::from(sessions.suspended));
        self.lost.set(f64::from(sessions.lost));
        self.ended.absolute(sessions.ended);
        self.prometheus.render() + &process::text()
    }

    /// Runs for ever: keeps the memory of the samples bounded.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn upkeep(&self) {
        let mut ticks = tokio::time::interval(UPKEEP_EVERY);
        loop {
            ticks.tick().await;
            self.prometheus.run_upkeep();
        }
    }
}

impl Outcomes {
    fn new(strategy: &'static str) -> Self {
        let counter = |outcome| counter!("seckill_deductions_total", "strategy" => strategy, "outcome" => outcome);
        Self {
            counters: outcomes().into_iter().map(|outcome| (outcome, counter(outcome))).collect(),
            seconds: histogram!("seckill_deduction_seconds", "strategy" => strategy),
        }
    }

    /// Counts a purchase that ended with this label of `outcome` after `duration`.
    ///
    /// # Panics
    /// When no series has the label.
    pub fn record(&self, outcome: &str, duration: Duration) {
        self.counters.get(outcome).expect("BUG: an outcome without a counter").increment(1);
        self.seconds.record(duration);
    }
}

fn describe() {
    describe_gauge!("seckill_build_info", "1, with the code that runs: empty labels are unknown, as in a debug build");
    describe_counter!("seckill_deductions_total", "deductions by strategy and outcome");
    describe_histogram!("seckill_deduction_seconds", "time of a deduction, including the wait for its lock");
    describe_histogram!("seckill_lock_wait_seconds", "time from the request for a lock to its grant or to giving up");
    describe_histogram!("seckill_lock_hold_seconds", "time from the grant of a lock to its release");
    describe_counter!("seckill_lock_lost_total", "holds lost before their release, by reason");
    describe_gauge!("seckill_queue_depth", "deductions that wait for a lock or a batch at this instance");
    describe_gauge!(
        "seckill_gate_backlog",
        "orders that the gates of the shop have promised and not settled, as this instance last saw it; NaN without a gate, or if \
         Redis does not tell"
    );
    describe_counter!("seckill_retries_total", "attempts of deductions repeated after a conflict");
    describe_counter!("seckill_requests_shed_total", "requests refused because too many were in progress");
    describe_counter!(
        "seckill_requests_rate_limited_total",
        "purchases refused because of a rate, by what exceeded it"
    );
    describe_gauge!("seckill_requests_in_flight", "requests in progress, including those whose client has left");
    describe_counter!("seckill_history_dropped_total", "records of critical sections that newer ones replaced");
    describe_gauge!("postgres_connections", "connections of the pool by state");
    describe_counter!("redis_commands_total", "commands sent to Redis by this instance");
    describe_counter!("zookeeper_requests_total", "requests sent to ZooKeeper by this instance");
    describe_counter!("zookeeper_notifications_total", "watch notifications received from ZooKeeper");
    describe_counter!("zookeeper_bytes_sent_total", "bytes of the requests sent to ZooKeeper");
    describe_counter!("zookeeper_bytes_received_total", "bytes of replies and notifications from ZooKeeper");
    describe_gauge!("zookeeper_sessions", "ZooKeeper sessions by state");
    describe_counter!("zookeeper_sessions_ended_total", "ZooKeeper sessions that have ended and are replaced");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> Metrics {
        Metrics::new(["zk-mutex", "unguarded"].into_iter())
    }

    #[test]
    fn every_outcome_has_a_counter_of_its_own() {
        let metrics = metrics();
        for outcome in outcomes() {
            metrics.outcomes("zk-mutex").record(outcome, Duration::from_millis(2));
        }
        let rendered = metrics.render(&Levels::default());
        for outcome in outcomes() {
            let line = |strategy, count| {
                format!(r#"seckill_deductions_total{{strategy="{strategy}",outcome="{outcome}"}} {count}"#)
            };
            assert!(rendered.contains(&line("zk-mutex", 1)), "{outcome} in {rendered}");
            assert!(rendered.contains(&line("unguarded", 0)), "{outcome} in {rendered}");
        }
        let all =
            format!(r#"seckill_deduction_seconds_bucket{{strategy="zk-mutex",le="0.0025"}} {}"#, outcomes().len());
        assert!(rendered.contains(&all), "{all} in {rendered}");
    }

    /// Returns the rows of the table of metrics, without those of the process: the system says which of them there are.
    fn rows(rendered: &str) -> Vec<String> {
        let marked = |mark| rendered.lines().filter_map(move |line| line.strip_prefix(mark)?.split_once(' '));
        let kinds: HashMap<_, _> = marked("# TYPE ").collect();
        let row = |(name, meaning): (&str, &str)| {
            let kind = kinds[name];
            let series = if kind == "histogram" { format!("{name}_count{{") } else { format!("{name}{{") };
            let labels = rendered.lines().find_map(|line| line.strip_prefix(&series)?.split('}').next());
            let names = labels.iter().flat_map(|labels| labels.split(',')).filter_map(|label| label.split_once('='));
            let names: Vec<_> = names.map(|(name, _)| format!("`{name}` ")).collect();
            format!("| `{name}` | {kind} | {}| {meaning} |", names.concat().replace("` `", "`, `"))
        };
        let mut rows: Vec<_> = marked("# HELP ").filter(|(name, _)| !name.starts_with("process_")).map(row).collect();
        rows.sort();
        rows
    }

    #[test]
    fn each_metric_is_a_row_of_the_table() {
        let document = include_str!("../../../docs/service.md");
        let (_, table) = document.split_once("\n## Metrics\n").unwrap();
        let table = table.split("\n## ").next().unwrap();
        let documented: Vec<_> = table.lines().filter(|line| line.starts_with("| `")).collect();
        let found = rows(&metrics().render(&Levels::default()));
        assert_eq!(documented, found, "docs/service.md is stale: {}", found.join("\n"));
    }

    #[test]
    fn instances_count_apart() {
        let first = metrics();
        let second = metrics();
        first.count_shed();
        let render = |metrics: &Metrics| metrics.render(&Levels::default());
        assert!(render(&first).contains("seckill_requests_shed_total 1"));
        assert!(render(&second).contains("seckill_requests_shed_total 0"));
    }
}
