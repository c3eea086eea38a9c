//! The program of `make verdicts`: whether it counts false verdicts. Each check is real.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Finished, TestFolder, finish, write_program};

/// Checks a shop of `tests/shops` twice, with the `loadgen` of a folder.
fn count(folder: &TestFolder, programs: &Path, shop: &str) -> Finished {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shops/verdicts.py");
    let mut command = Command::new("python3");
    command
        .arg(program)
        .args(["--runs", "2", shop])
        .arg("--programs")
        .arg(programs)
        .arg("--target")
        .arg(folder.path("shops"));
    finish(command.env("TMPDIR", folder.path("tmp")).current_dir(folder.path("")))
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_loadgen")).parent().unwrap().to_owned()
}

#[test]
fn right_verdicts_are_counted() {
    let folder = TestFolder::new();
    let finished = count(&folder, &programs(), "node");
    assert_eq!(finished.code, Some(0), "{}{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains("| node | right | 2 | 2 | 0 | "), "{}", finished.stdout);
    let log = fs::read_to_string(folder.path("shops/reports/node/2.log")).unwrap();
    let command = log.lines().next().unwrap();
    assert!(command.starts_with("$ ") && command.contains("/loadgen check "), "{log}");
    assert!(!folder.path("shops/reports/node/2").exists(), "only the reports of false verdicts are kept");
}

// A check that is right by chance would hide a mistake of the count. So the status is turned around after a real check.
#[test]
fn a_false_verdict_ends_the_count_with_1() {
    let folder = TestFolder::new();
    let wrong = folder.path("programs");
    fs::create_dir(&wrong).unwrap();
    write_program(&wrong.join("loadgen"), &format!("'{}' \"$@\"\nexit 2", env!("CARGO_BIN_EXE_loadgen")));
    let finished = count(&folder, &wrong, "node");
    assert_eq!(finished.code, Some(1), "{}{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains("| node | right | 2 | 0 | 2 | 2 (2 times) | 0 | "), "{}", finished.stdout);
    assert!(
        finished.stderr.contains("node ended with status 2, and status 0 was expected; see "),
        "{}",
        finished.stderr
    );
    assert!(folder.path("shops/reports/node/1/report.json").exists());
    let unknown = count(&folder, &wrong, "nodes");
    unknown.assert_error(64, "shops: no shop is named nodes; name some of flask-sqlite, ");
}
