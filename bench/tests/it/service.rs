//! `bench-service` as its user meets it, with wrk, pgbench and real servers.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::squeezed;

/// Returns the program of the service. The tests of the whole workspace build it and loadgen beside this package's programs.
fn demo_service() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_bench-service")).with_file_name("demo-service")
}

fn bench_service(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-service"));
    command.args(args).stdin(Stdio::null());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_small_run_finds_every_purchase_in_the_database() {
    let folder = tempfile::tempdir().unwrap();
    // Like /tmp: the server under an account of its own makes and removes its folder in it.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    let mut command = bench_service(&["--reps", "1", "--window", "1s", "--buyers", "2,1", "--crowds", "20"]);
    command.args(["--lookers", "4", "--users", "3"]);
    let output = command.arg("--demo-service").arg(demo_service()).env("TMPDIR", folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = squeezed(&String::from_utf8(output.stdout).unwrap());
    let figures = |beginning: &str| {
        let row = report.lines().find(|line| line.starts_with(beginning)).unwrap_or_else(|| panic!("{report}"));
        let cells = row.split('|').skip(2).map(|cell| cell.replace(char::is_whitespace, ""));
        cells.take(3).map(|cell| cell.parse().unwrap()).collect::<Vec<f64>>()
    };
    let strategies = ["pg-merge", "pg-conditional", "pg-function", "zk-owner", "zk-merge", "zk-cohort"];
    let sides = strategies.map(|strategy| format!("`{strategy}`")).into_iter();
    for side in sides.chain(["pgbench, the same batches", "HTTP path alone"].map(str::to_owned)) {
        let row = report.lines().find(|line| line.starts_with(&format!("| 20 | {side} |")));
        let per_s = row.and_then(|row| row.split('|').nth(3)?.replace(char::is_whitespace, "").parse::<f64>().ok());
        assert!(per_s.is_some_and(|per_s| per_s > 0.1), "{side} in {report}");
    }
    for beginning in ["| 1 |", "| 2 |", "| 4 |", "| 3 |"] {
        let [floor, service, ratio] = figures(beginning)[..] else { panic!("{report}") };
        assert!(floor > 0.1 && service > 0.1, "{report}");
        assert!((ratio - service / floor).abs() < 0.02 * ratio.max(1.0), "{report}");
    }
    // A second may be too short for a 99th percentile.
    for figure in ["loadgen ÷ wrk, p50, at 3 connections each", "loadgen ÷ wrk, requests per second, at 3 connections"]
    {
        let row = report.lines().find(|line| line.starts_with(&format!("| {figure} |")));
        assert!(row.is_some_and(|row| !row.contains('–')), "{figure} in {report}");
    }
    assert!(report.contains("| starts of 1500 users, ms from the first to the last | ≤ 100 | "), "{report}");
    assert!(report.contains("In each of 20 measurements of purchases what was counted was ordered"), "{report}");
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "something is left");
}

#[test]
fn a_missing_program_is_named_with_its_remedy() {
    let output = bench_service(&["--demo-service", "/no/such/program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("/no/such/program not found; build it with `cargo build"), "{}", stderr(&output));
    let output = bench_service(&["--reps", "none"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
}
