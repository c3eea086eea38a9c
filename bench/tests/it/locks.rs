//! `bench-peers` as its user meets it, with Curator, kazoo and a real server.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::squeezed;

/// A folder for everything that a run and its children write.
struct TestFolder(TempDir);

impl TestFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Like /tmp: the server under an account of its own makes and removes its folder in it.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        let folder = Self(folder);
        fs::create_dir(folder.path("tmp")).unwrap();
        fs::set_permissions(folder.path("tmp"), Permissions::from_mode(0o1777)).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn bench_peers(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench-peers"));
        command.args(args.split_whitespace()).arg("--out").arg(self.path("out"));
        command.env("TMPDIR", self.path("tmp")).stdin(Stdio::null());
        command
    }

    /// Returns the child whose command line contains a name. Its guard has written its id.
    fn process(&self, name: &str) -> Pid {
        let folders = fs::read_dir(self.path("tmp")).unwrap().flatten();
        let pids = folders.filter_map(|folder| fs::read_to_string(folder.path().join("pid")).ok());
        let is_it = |pid: &String| {
            let ps = Command::new("ps").args(["-o", "args=", "-p", pid.trim()]).output().unwrap();
            String::from_utf8_lossy(&ps.stdout).contains(name)
        };
        let pid = pids.into_iter().find(is_it).expect("it runs");
        Pid::from_raw(pid.trim().parse().unwrap())
    }

    /// Returns whether the temporary folders of all servers and workers are gone.
    fn is_clean(&self) -> bool {
        fs::read_dir(self.path("tmp")).unwrap().next().is_none()
    }
}

/// Starts a command in the background. Returns when it has written a line to standard error that begins with `beginning`.
fn until(command: &mut Command, beginning: &str) -> Child {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut seen = Vec::new();
    while !seen.last().is_some_and(|line: &String| line.starts_with(beginning)) {
        seen.push(lines.next().unwrap_or_else(|| panic!("no line begins with {beginning:?}: {seen:#?}")).unwrap());
    }
    // A full pipe would block the program, so the rest is read as well.
    thread::spawn(move || lines.for_each(drop));
    child
}

/// Returns a table of the report for programs.
fn json_rows(folder: &TestFolder, table: &str) -> Vec<Value> {
    let report: Value =
        serde_json::from_str(&fs::read_to_string(folder.path("out/bench-peers.json")).unwrap()).unwrap();
    report[table].as_array().unwrap().clone()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_small_run_measures_every_rival_and_writes_each_report() {
    let folder = TestFolder::new();
    let args = "--reps 1 --contenders 1,2 --window 200ms --only raw,mutex,curator,kazoo,zookeeper-client --waiters 50 \
                --rates 0";
    let output = folder.bench_peers(args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(folder.is_clean(), "something is left");

    let rows = json_rows(&folder, "closed_loop");
    assert_eq!(json_rows(&folder, "open_load"), Vec::<Value>::new());
    let names = ["curator", "kazoo", "zookeeper-client", "raw", "mutex"];
    let expected: Vec<_> = names.iter().flat_map(|name| [(*name, 1_u64), (*name, 2)]).collect();
    let found: Vec<_> =
        rows.iter().map(|row| (row["impl"].as_str().unwrap(), row["contenders"].as_u64().unwrap())).collect();
    assert_eq!(found, expected);
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(table, fs::read_to_string(folder.path("out/bench-peers.md")).unwrap());
    let is_measured = |row: &&Value| {
        let remark = format!("\n`{}` at {}: not measured: ", row["impl"].as_str().unwrap(), row["contenders"]);
        !table.contains(&remark)
    };
    // On a machine that is busy with other tests, a window may pass without a cycle. The report must then say so.
    let measured: Vec<_> = rows.iter().filter(is_measured).collect();
    assert!(measured.len() > rows.len() / 2, "{table}");
    for row in measured {
        assert_eq!(row["sessions"], row["contenders"]);
        let figure = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"));
        assert!(figure("cycles_per_s") > 1.0, "{row}");
        assert!(row["p50_ms"].as_f64().is_none_or(|p50_ms| p50_ms > 0.01), "{row}");
        // A create and a delete at the least, and at most what is needed to look around; pings come on top.
        assert!((1.0..20.0).contains(&figure("requests_per_release")), "{row}");
        // The bytes are counted in a window of their own.
        assert!(row["bytes_per_release"].as_f64().is_none_or(|bytes| (100.0..5_000.0).contains(&bytes)), "{row}");
        let wakes = figure("notifications_per_release");
        assert!(if row["impl"] == "raw" { wakes == 0.0 } else { (0.0..3.0).contains(&wakes) }, "{row}");
    }
    assert!(rows.iter().any(|row| row["bytes_per_release"].is_number()), "{table}");
    for text in ["| `kazoo` | 2 |", "÷ raw, p50 uncontended | ≤ 1.15 |", "50 of 50 waiters of one"] {
        assert!(squeezed(&table).contains(text), "{text} is not in\n{table}");
    }
    let chart = fs::read_to_string(folder.path("out/bench-peers.svg")).unwrap();
    assert!(names.iter().all(|name| chart.contains(name)), "{chart}");
}

#[test]
fn the_waits_of_acquires_at_a_rate_are_reported() {
    let folder = TestFolder::new();
    let args = "--reps 1 --contenders 1 --window 200ms --only raw,mutex,cohort,curator,zookeeper-client --waiters 0 \
                --rates 200,50";
    let output = folder.bench_peers(args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = json_rows(&folder, "open_load");
    let names = ["curator", "zookeeper-client", "mutex", "cohort"];
    let expected: Vec<_> = [50_u64, 200].into_iter().flat_map(|rate| names.map(|name| (name, rate))).collect();
    let found: Vec<_> =
        rows.iter().map(|row| (row["impl"].as_str().unwrap(), row["rate_per_s"].as_u64().unwrap())).collect();
    assert_eq!(found, expected);
    for row in &rows {
        // All acquires that arrive within the window at the highest rate.
        assert_eq!((&row["arrived"], &row["granted"], &row["dropped"]), (&json!(40), &json!(40), &json!(0)), "{row}");
        assert!(row["p50_ms"].as_f64().unwrap() > 0.01, "{row}");
        assert_eq!(row["p50_by_curator"].is_null(), row["impl"] == "curator", "{row}");
        assert!(row["p99_ms"].is_null(), "so few carry no p99: {row}");
    }
    let table = squeezed(&String::from_utf8(output.stdout).unwrap());
    assert!(table.contains("| `cohort` | 200 | 40 | 40 | "), "{table}");
}

#[test]
fn acquires_beyond_the_bound_are_dropped_and_reported() {
    let folder = TestFolder::new();
    let args = "--reps 1 --contenders 1 --window 200ms --only mutex --waiters 0 --rates 20000";
    let output = folder.bench_peers(args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = json_rows(&folder, "open_load");
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    let number = |name: &str| row[name].as_u64().unwrap();
    assert_eq!(number("arrived"), 4000);
    assert!(number("dropped") > 0 && number("granted") + number("dropped") <= 4000, "{row}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("\n`mutex` at 20\u{202f}000/s: "), "{table}");
    assert!(table.contains(" acquires were dropped, and "), "{table}");
}

#[test]
fn an_interrupted_run_stops_everything_and_reports_nothing() {
    let folder = TestFolder::new();
    let args = "--only raw,curator,kazoo --contenders 2 --window 100ms --reps 1000 --waiters 0 --rates 0";
    // Every worker has had its turn in the warm-up.
    let child = until(&mut folder.bench_peers(args), "step 4/");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(130), &b""[..]));
    assert!(folder.is_clean(), "something is left");
    assert!(!folder.path("out/bench-peers.json").exists());
}

#[test]
fn a_worker_that_dies_is_replaced_and_its_row_says_so() {
    let folder = TestFolder::new();
    // After the warm-up with one contender, of two measurements.
    let args = "--only raw,kazoo --contenders 1,2 --window 100ms --reps 1 --waiters 0";
    let child = until(&mut folder.bench_peers(args), "step 2/");
    let worker = folder.process("kazoo_rival.py");
    kill(worker, Signal::SIGKILL).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let table = squeezed(&String::from_utf8(output.stdout).unwrap());
    // Whatever it was doing has failed, and the new worker has done the rest.
    let has_failed = |contenders| table.contains(&format!("\n`kazoo` at {contenders}: failed: the worker ended at "));
    let has_figures = |contenders| {
        let row = format!("| `kazoo` | {contenders} | ");
        table.lines().any(|line| line.strip_prefix(&row).is_some_and(|rest| !rest.starts_with('–')))
    };
    let failed: Vec<_> = [1, 2].into_iter().filter(|contenders| has_failed(*contenders)).collect();
    assert_eq!(failed.len(), 1, "{table}");
    assert!(has_figures(3 - failed[0]), "{table}");
    assert!(folder.is_clean(), "something is left");
}

#[test]
fn a_missing_rival_is_told_with_its_remedy_and_leaves_nothing() {
    let folder = TestFolder::new();
    let output =
        folder.bench_peers("--only curator --waiters 0").env("CURATOR_CLASSPATH", "/nowhere").output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let [told] = said.lines().skip_while(|line| !line.starts_with("error: ")).collect::<Vec<_>>()[..] else {
        panic!("{said}")
    };
    assert!(told.starts_with("error: could not measure curator: its worker ended"), "{told}");
    // The first error of the compiler, and none that follows from it.
    let remedy = "error: package org.apache.curator.framework does not exist; let CURATOR_CLASSPATH, which is /nowhere, \
                  name the jars";
    assert!(told.contains(remedy), "{told}");
    assert!(told.ends_with("unset it and run `make deps-test`, or leave it out with --only"), "{told}");
    assert!(folder.is_clean(), "something is left");
}

#[test]
fn an_unwritable_folder_is_refused_before_any_measurement() {
    let folder = TestFolder::new();
    fs::write(folder.path("out"), "a file").unwrap();
    let output = folder.bench_peers("").output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &b""[..]));
    let told = format!("error: could not write the report into {}: ", folder.path("out").display());
    assert!(stderr(&output).starts_with(&told), "{}", stderr(&output));
    assert!(stderr(&output).ends_with("; name another folder with --out\n"), "{}", stderr(&output));
    assert!(folder.is_clean(), "something is left");
}

#[test]
fn an_unknown_implementation_is_answered_with_the_known_ones() {
    let output = TestFolder::new().bench_peers("--only redis").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("possible values: curator, kazoo"), "{}", stderr(&output));
}
