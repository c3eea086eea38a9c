//! The campaign on real servers: libraries in processes of their own, and faults.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_lock-torture");
/// Time limit for anything that must happen on a busy machine. Only a failing test waits for so long.
const SOON: Duration = Duration::from_secs(180);

/// An adapter whose lock excludes nobody: it grants at once.
const GRANTS_ALL: &str = r#"#!/usr/bin/env python3
import json, sys, threading, time

saying = threading.Lock()

def say(**answer):
    with saying:
        print(json.dumps(answer), flush=True)

def hold(number, over):
    while not over.is_set():
        say(**{"is": "holding", "id": number, "at": time.monotonic_ns()})
        over.wait(0.002)
    say(**{"is": "released", "id": number, "at": time.monotonic_ns()})

say(**{"is": "ready", "locks": ["mutex"]})
holds = {}
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "acquire":
        over = holds[request["id"]] = threading.Event()
        say(**{"is": "acquired", "id": request["id"], "at": time.monotonic_ns()})
        threading.Thread(target=hold, args=(request["id"], over), daemon=True).start()
    elif request["do"] == "release":
        holds.pop(request["id"]).set()
"#;

fn torture(folder: &TempDir, args: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder).args(args.split(' ')).stdin(Stdio::null());
    command
}

fn with_an_adapter_that_grants_all() -> TempDir {
    with_an_adapter(GRANTS_ALL)
}

fn with_an_adapter(script: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let adapter = folder.path().join("adapter");
    fs::write(&adapter, script).unwrap();
    fs::set_permissions(&adapter, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

// L92
#[test]
fn our_locks_exclude_each_other_and_curator_s_under_faults() {
    let folder = tempfile::tempdir().unwrap();
    let args = "storms --libraries zk-recipes,zk-recipes,curator --seed 11 --length 4s";
    let (code, said, errors) = texts(&torture(&folder, args).output().unwrap());
    assert_eq!(code, Some(0), "{said}{errors}");
    assert!(said.starts_with("1 round, "), "{said}");
    assert!(!folder.path().join("lock-torture").exists(), "a round without findings is not kept");
}

// L92
#[test]
fn an_adapter_whose_lock_excludes_nobody_is_found() {
    let folder = with_an_adapter_that_grants_all();
    let args = "storms --libraries open=./adapter,open=./adapter --faults contender-killed --seed 3 --length 2s";
    let (code, said, errors) = texts(&torture(&folder, args).output().unwrap());
    assert_eq!(code, Some(2), "{said}{errors}");
    assert!(said.contains("BROKEN: seed 3: /torture/queue: Mutex "), "{said}");

    let round = folder.path().join("lock-torture/round-3.json");
    let judge = || texts(&torture(&folder, "judge lock-torture/round-3.json").output().unwrap());
    assert_eq!(judge().0, Some(2));
    fs::write(&round, r#"{"schema": "another"}"#).unwrap();
    let (code, _, errors) = judge();
    assert_eq!(code, Some(3));
    assert!(errors.contains("round-3.json is no round or table of this program"), "{errors}");
}

// L92
#[test]
fn the_table_knows_the_holder_that_a_kill_met() {
    let folder = with_an_adapter_that_grants_all();
    let args = "table --libraries open=./adapter --faults contender-killed,redis-killed";
    let (code, said, errors) = texts(&torture(&folder, args).output().unwrap());
    assert_eq!(code, Some(0), "{said}{errors}");
    assert!(said.starts_with("## Seconds with two holders, worst of 1 round\n\n| fault | open |\n"), "{said}");
    let rows: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("| `contender-killed` | ")).collect();
    assert_eq!(rows.len(), 4, "{said}");
    assert!(rows[0] > "0.00 |", "{said}");
    assert!(!said.contains("met no holder") && !said.contains("redis"), "{said}");

    let twice = "results lock-torture/table.json lock-torture/table.json";
    let (code, merged, errors) = texts(&torture(&folder, twice).output().unwrap());
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        merged.contains("`v4-1` |") && merged.ends_with(&said.replace("worst of 1 round", "worst of 2 rounds")),
        "{merged}"
    );
}

// L92
#[test]
fn an_adapter_that_says_nonsense_leaves_the_table_unchecked() {
    let folder = with_an_adapter(&GRANTS_ALL.replace("holds = {}", "holds = {}\nsay(what=\"nothing\")"));
    let args = "table --libraries open=./adapter --faults contender-killed";
    let (code, said, errors) = texts(&torture(&folder, args).output().unwrap());
    assert_eq!(code, Some(3), "{said}{errors}");
    assert!(said.contains("\nunchecked: contender-killed, open, seed 1: "), "{said}");
}

// L92
#[test]
fn locks_of_two_servers_are_not_mixed() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, errors) = texts(&torture(&folder, "storms --libraries zk-recipes,redis-py").output().unwrap());
    assert_eq!(code, Some(64));
    assert!(errors.contains("exclude nobody from each other"), "{errors}");
}

// L92
#[test]
fn stored_rounds_are_judged_as_before() {
    let folder = tempfile::tempdir().unwrap();
    for (round, status, found) in [
        ("ours", 0, None),
        ("kazoo-frozen", 0, Some("hazard: /torture/queue: Mutex 1 of kazoo in process 0 held for ")),
        ("curator-frozen", 0, Some("hazard: /torture/queue: Mutex 1 of curator in process 0 held for ")),
        ("excludes-nobody", 2, Some("BROKEN: /torture/queue: Mutex 1 of open in process 1 held for ")),
    ] {
        let args = format!("judge {}/tests/histories/{round}.json", env!("CARGO_MANIFEST_DIR"));
        let (code, said, errors) = texts(&torture(&folder, &args).output().unwrap());
        assert_eq!(code, Some(status), "{round}: {said}{errors}");
        let (judged, lines) = said.split_once('\n').unwrap();
        assert!(judged.ends_with(" acquires, judged as before"), "{judged}");
        assert_eq!(lines.lines().next().is_none(), found.is_none(), "{round}: {lines}");
        assert!(found.is_none_or(|found| lines.contains(found)), "{round}: {lines}");
    }
}

// L92
#[test]
fn what_cannot_be_run_is_named_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    for (args, status, told) in [
        ("storms --libraries zk-recipe", 64, "did you mean zk-recipes?"),
        ("storms --faults zookeeper-kiled", 64, "did you mean zookeeper-killed?"),
        ("storms --faults postgres-frozen", 64, "there is no fault"),
        ("storms --seed v1-7", 64, "another version"),
        ("judge missing.json", 3, "could not read or write missing.json"),
    ] {
        let (code, _, errors) = texts(&torture(&folder, args).output().unwrap());
        assert_eq!(code, Some(status), "{args}: {errors}");
        assert!(errors.contains(told), "{args}: {errors}");
    }
}

// L92
#[test]
fn an_interrupt_amid_a_fault_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    // The processes of a run have this folder, in which nothing else runs.
    let args = "storms --libraries zk-recipes,zk-recipes --faults contender-frozen --seed 1 --length 60s";
    let mut run = torture(&folder, args).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let own = i32::try_from(run.id()).unwrap();
    let here = fs::canonicalize(folder.path()).unwrap();
    let children = || {
        let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_here = |pid: &i32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&here));
        pids.filter(is_here).filter(|pid| *pid != own).collect::<Vec<i32>>()
    };
    let is_frozen = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    until("a contender stands still", || children().iter().any(is_frozen));
    kill(Pid::from_raw(own), Signal::SIGINT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    until("all processes have ended", || children().is_empty());
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

// L92
#[test]
fn the_page_of_results_is_what_the_stored_tables_say() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tables = fs::read_dir(here.join("records")).unwrap().map(|entry| entry.unwrap().path());
    let mut tables: Vec<PathBuf> = tables.collect();
    tables.sort_unstable();
    let told = Command::new(PROGRAM).arg("results").args(tables).output().unwrap();
    let (code, page, errors) = texts(&told);
    assert_eq!(code, Some(0), "{errors}");
    let stored = fs::read_to_string(here.join("../TORTURE-RESULTS.md")).unwrap();
    assert!(stored == page, "the page is an old one; write it by `make torture-results`");
}
