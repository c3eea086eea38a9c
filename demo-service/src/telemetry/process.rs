//! The metrics of the process, all instances in it together, under the standard names of Prometheus.

use metrics_process::collector::collect;

/// Returns the metrics as text for Prometheus. A metric that the system does not provide is left out.
///
/// The metrics library cannot write them: its counters are whole numbers. Whole seconds of processor time are too
/// coarse for a load of a few seconds.
pub(super) fn text() -> String {
    let now = collect();
    let whole = |number: Option<u64>| number.map(|number| number.to_string());
    let cpu_seconds = now.cpu_seconds_total.map(|seconds| seconds.to_string());
    let figures = [
        ("cpu_seconds_total", "counter", "user and system CPU time of the process", cpu_seconds),
        ("open_fds", "gauge", "open file descriptors of the process", whole(now.open_fds)),
        ("max_fds", "gauge", "most file descriptors that the process may open, 0 without a limit", whole(now.max_fds)),
        ("resident_memory_bytes", "gauge", "resident memory of the process", whole(now.resident_memory_bytes)),
        ("virtual_memory_bytes", "gauge", "virtual memory of the process", whole(now.virtual_memory_bytes)),
        ("start_time_seconds", "gauge", "start of the process since the Unix epoch", whole(now.start_time_seconds)),
        ("threads", "gauge", "threads of the process", whole(now.threads)),
    ];
    let lines = figures.into_iter().filter_map(|(name, kind, meaning, value)| {
        let value = value?;
        Some(format!("# HELP process_{name} {meaning}\n# TYPE process_{name} {kind}\nprocess_{name} {value}\n\n"))
    });
    lines.collect()
}
