//! The gate, on results as criterion and gungraun write them.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{Ended, bench_compare};

/// A folder of results.
struct Recorded(TempDir);

impl Recorded {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, folder: &str, file: &str, text: &str) {
        let folder = self.0.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file), text).unwrap();
    }

    /// The median of one measurement of a bench, with an interval of two percent to both sides.
    fn time(&self, bench: &str, baseline: &str, ns: f64) {
        let folder = format!("criterion/{bench}/{baseline}");
        let [group, function, value] = bench.split('/').collect::<Vec<_>>()[..] else { panic!("{bench}") };
        let benchmark = format!(
            r#"{{"group_id": "{group}", "function_id": "{function}", "value_str": "{value}", "throughput": null,
                 "full_id": "{bench}", "directory_name": "{bench}", "title": "{bench}"}}"#
        );
        let estimate = |ns: f64| {
            format!(
                r#"{{"confidence_interval": {{"confidence_level": 0.95, "lower_bound": {}, "upper_bound": {}}},
                     "point_estimate": {ns}, "standard_error": {}}}"#,
                ns * 0.98,
                ns * 1.02,
                ns * 0.01,
            )
        };
        // One sample that was disturbed has moved the mean.
        let estimates = format!(
            r#"{{"mean": {}, "median": {}, "median_abs_dev": {}, "slope": null, "std_dev": {}}}"#,
            estimate(ns * 5.0),
            estimate(ns),
            estimate(ns / 10.0),
            estimate(ns / 5.0),
        );
        self.write(&folder, "benchmark.json", &benchmark);
        self.write(&folder, "estimates.json", &estimates);
    }

    /// All four measurements of a bench.
    fn times(&self, bench: &str, base: [f64; 2], head: [f64; 2]) {
        for (baseline, ns) in [("base-1", base[0]), ("head-1", head[0]), ("head-2", head[1]), ("base-2", base[1])] {
            self.time(bench, baseline, ns);
        }
        // Criterion leaves the latest of all under this name.
        self.time(bench, "new", base[1]);
    }

    fn count(&self, side: &str, function: &str, id: &str, count: u64) {
        let folder = format!("instructions-{side}/bench/instructions/queues/{function}.{id}");
        let metrics = format!(r#"{{"Ir": {{"values": {{"new": {count}}}}}}}"#);
        let summary = format!(
            r#"{{"baselines": [null, null], "group": "queues", "function_name": "{function}", "id": "{id}",
                 "kind": "LibraryBenchmark", "module_path": "instructions::queues::{function}", "version": "7",
                 "profiles": [{{"tool": "Callgrind", "duration_ns": 1, "data": {{
                     "parts": [{{"metrics": {metrics}, "tool_run": {{"new": {{"command": "instructions", "pid": 1}}}}}}],
                     "total": {{"metrics": {metrics}, "regressions": []}}}}}}]}}"#
        );
        self.write(&folder, "summary.json", &summary);
    }

    fn counts(&self, function: &str, id: &str, base: u64, head: u64) {
        self.count("base", function, id, base);
        self.count("head", function, id, head);
    }

    fn judge(&self, arguments: &[&str]) -> Ended {
        judge(self.0.path(), arguments)
    }
}

fn judge(folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = bench_compare(folder);
    command.args(["--recorded", "."]).args(arguments).output().unwrap().into()
}

/// Results of two revisions that hardly differ.
fn alike() -> Recorded {
    let recorded = Recorded::new();
    recorded.times("handover/mutex/30", [400_000.0, 410_000.0], [405_000.0, 402_000.0]);
    recorded.times("handover/mutex/1500", [900_000.0, 930_000.0], [950_000.0, 910_000.0]);
    recorded.counts("verdict", "mutex_100", 10_000, 10_010);
    recorded.counts("into_order", "of_100", 50_000, 52_000);
    recorded
}

#[test]
fn revisions_that_hardly_differ_pass() {
    let ended = alike().judge(&[]);
    ended.assert(
        0,
        &[
            "handover/mutex/1500",
            "4 benches: 0 faster, 3 the same, 1 slower, 0 regressed, 0 cannot tell; 0 new, 0 deleted",
        ],
    );
    assert_eq!(ended.stderr, "");
}

#[test]
fn a_planted_slowdown_of_the_clock_closes_the_gate() {
    let recorded = alike();
    recorded.times("handover/mutex/2", [200_000.0, 205_000.0], [300_000.0, 290_000.0]);
    recorded.judge(&[]).assert(1, &["regressed: handover/mutex/2: takes 1.46 times as long", "1 regressed"]);
}

#[test]
fn a_slowdown_in_one_half_only_does_not_close_the_gate() {
    let recorded = alike();
    recorded.times("handover/mutex/2", [200_000.0, 205_000.0], [600_000.0, 205_000.0]);
    recorded.judge(&[]).assert(0, &["0 regressed, 1 cannot tell"]);
}

#[test]
fn a_slowdown_that_the_noise_of_base_explains_does_not_close_the_gate() {
    let recorded = alike();
    recorded.times("handover/mutex/2", [300_000.0, 200_000.0], [450_000.0, 300_000.0]);
    let cannot_tell = "cannot tell: handover/mutex/2: the noise allows that it takes 2.50 times as long";
    recorded.judge(&[]).assert(0, &["± 50\u{202f}%", "0 regressed, 1 cannot tell", cannot_tell]);
}

#[test]
fn noise_that_would_hide_a_slowdown_is_not_called_the_same() {
    let recorded = alike();
    recorded.times("handover/mutex/2", [200_000.0, 300_000.0], [200_000.0, 300_000.0]);
    recorded.judge(&[]).assert(0, &["5 benches: 0 faster, 3 the same, 1 slower, 0 regressed, 1 cannot tell"]);
}

#[test]
fn a_planted_slowdown_of_pure_code_closes_the_gate() {
    let recorded = alike();
    recorded.counts("verdict", "mutex_1000", 100_000, 105_001);
    recorded.judge(&[]).assert(1, &["regressed: queues/verdict/mutex_1000: 1.05 times the instructions"]);
    recorded.counts("verdict", "mutex_1000", 100_000, 105_000);
    recorded.judge(&[]).assert(0, &["0 regressed"]);
}

#[test]
fn a_bench_that_one_revision_lacks_is_listed() {
    let recorded = alike();
    for baseline in ["head-1", "head-2"] {
        recorded.time("handover/handoff/1500", baseline, 300_000.0);
    }
    recorded.count("base", "parse_name", "any", 321);
    let deleted = "deleted: queues/parse_name/any: only base has it, so nothing was compared";
    recorded.judge(&[]).assert(0, &["1 new, 1 deleted", deleted]);
}

#[test]
fn a_filter_judges_only_what_it_names() {
    let recorded = alike();
    recorded.counts("verdict", "mutex_1000", 100_000, 200_000);
    recorded.judge(&["handover"]).assert(0, &["2 benches: "]);
    recorded.judge(&["verdict"]).assert(1, &["2 benches: "]);
    recorded.judge(&["shell"]).assert(64, &["no bench has a name with \"shell\" in it"]);
}

#[test]
fn results_that_cannot_be_read_are_named() {
    let recorded = alike();
    recorded.time("handover/mutex/2", "base-1", 200_000.0);
    recorded.judge(&[]).assert(3, &["the times of handover/mutex/2: one of the halves was not measured"]);

    let recorded = alike();
    recorded.write("instructions-head/bench/instructions/queues/verdict.mutex_100", "summary.json", "{");
    recorded.judge(&[]).assert(3, &["verdict.mutex_100/summary.json: EOF while parsing"]);
}

#[test]
fn a_folder_without_results_is_an_error() {
    Recorded::new().judge(&[]).assert(3, &["there are no results in ."]);
}
