//! `bench-peers` as its user meets it, with Curator, kazoo and a real server.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// A folder for everything that a run and its children write.
struct Lab(TempDir);

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Like /tmp: the server under an account of its own makes and removes its folder in it.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        let lab = Self(folder);
        fs::create_dir(lab.path("tmp")).unwrap();
        fs::set_permissions(lab.path("tmp"), Permissions::from_mode(0o1777)).unwrap();
        lab
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

    /// Whether no temporary folder of a server or a worker is left.
    fn is_clean(&self) -> bool {
        fs::read_dir(self.path("tmp")).unwrap().next().is_none()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_small_run_measures_every_peer_and_writes_the_table_the_data_and_the_chart() {
    let lab = Lab::new();
    let args = "--reps 1 --contenders 1,2 --window 200ms --only raw,mutex,curator,kazoo,zookeeper-client --waiters 50";
    let output = lab.bench_peers(args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(lab.is_clean(), "something is left");

    let rows: Value = serde_json::from_str(&fs::read_to_string(lab.path("out/bench-peers.json")).unwrap()).unwrap();
    let rows = rows.as_array().unwrap();
    let names = ["curator", "kazoo", "zookeeper-client", "raw", "mutex"];
    let expected: Vec<_> = names.iter().flat_map(|name| [(*name, 1_u64), (*name, 2)]).collect();
    let found: Vec<_> =
        rows.iter().map(|row| (row["impl"].as_str().unwrap(), row["contenders"].as_u64().unwrap())).collect();
    assert_eq!(found, expected);
    for row in rows {
        let figure = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"));
        assert_eq!(row["sessions"], row["contenders"]);
        assert!(figure("ops_per_s") > 1.0, "{row}");
        let (ops, p50_s) = (figure("ops_per_s"), figure("p50_us") / 1e6);
        let busy = ops * p50_s / figure("contenders");
        assert!((0.2..5.0).contains(&busy), "each contender is always in a cycle: {row}");
        // A create and a delete at the least, and at most what is needed to look around; pings come on top.
        assert!((1.8..20.0).contains(&figure("requests_per_handoff")), "{row}");
        assert!((100.0..5_000.0).contains(&figure("bytes_per_handoff")), "{row}");
        let wakes = figure("notifications_per_release");
        assert!(if row["impl"] == "raw" { wakes == 0.0 } else { (0.0..1.5).contains(&wakes) }, "{row}");
    }

    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(table, fs::read_to_string(lab.path("out/bench-peers.md")).unwrap());
    for text in ["| `kazoo` | 2 |", "÷ raw, p50 uncontended | ≤ 1.15 |", "50 of 50 waiters of one"] {
        assert!(table.contains(text), "{text} is not in\n{table}");
    }
    let chart = fs::read_to_string(lab.path("out/bench-peers.svg")).unwrap();
    assert!(names.iter().all(|name| chart.contains(name)), "{chart}");
}

#[test]
fn an_interrupted_run_stops_everything_and_reports_nothing() {
    let lab = Lab::new();
    let mut child = lab
        .bench_peers("--only raw,curator,kazoo --contenders 2 --window 100ms --reps 1000 --waiters 0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // Every worker has had its turn in the warm-up.
    lines.map(Result::unwrap).find(|line| line.starts_with("4/")).expect("a line for each measurement");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(130), &b""[..]));
    assert!(lab.is_clean(), "something is left");
    assert!(!lab.path("out/bench-peers.json").exists());
}

#[test]
fn a_missing_peer_names_what_installs_it_and_leaves_nothing() {
    let lab = Lab::new();
    let output = lab.bench_peers("--only curator --waiters 0").env("CURATOR_CLASSPATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("error: curator cannot be measured"), "{}", stderr(&output));
    assert!(stderr(&output).contains("`make deps-test` installs what it needs"), "{}", stderr(&output));
    assert!(lab.is_clean(), "something is left");
}

#[test]
fn an_unknown_implementation_is_a_usage_error_that_lists_the_known_ones() {
    let output = Lab::new().bench_peers("--only redis").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("possible values: curator, kazoo"), "{}", stderr(&output));
}
