//! `loadgen torture`: faults strike real servers and instances while buyers buy.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;
use testbed::ProcessStat;

use crate::support::{Finished, PATIENCE, Running, TestFolder, eventually, finish, is_alive};

fn torture(folder: &TestFolder, args: &str) -> Finished {
    finish(&mut folder.throwaway_lab(["torture"].into_iter().chain(args.split(' '))))
}

fn read(folder: &TestFolder, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.path(name)).unwrap()).unwrap()
}

/// Tells whether a process stands still.
fn is_frozen(pid: Pid) -> bool {
    ProcessStat::of(pid.as_raw()).is_ok_and(|stat| stat.state == 'T')
}

// C58
#[test]
fn a_promise_is_kept_under_faults_and_everybody_is_served_again() {
    let folder = TestFolder::new();
    let finished = torture(&folder, "--strategies zk-mutex-fenced --seed 17 --rounds 1 --length 4s --rate 30 --pooler");
    assert_eq!(finished.code, Some(0), "{}{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains("verdict: no promise was broken in 1 round"), "{}", finished.stdout);
    let round = &read(&folder, "torture/torture.json")["rounds"][0];
    let faults = round["faults"].as_array().unwrap();
    assert!(!faults.is_empty() && faults.iter().all(|fault| fault["failed"].is_null()), "{faults:?}");
    assert!(round["answers"]["sold"].as_u64().unwrap() > 0 && round["repeated"].as_u64().unwrap() > 0);
    assert!(folder.is_clean(), "something is left");
}

// C58
#[test]
fn a_round_that_found_something_is_kept_and_judged_again() {
    let folder = TestFolder::new();
    let finished =
        torture(&folder, "--strategies unguarded --seed v4-10 --rounds 1 --length 2s --rate 200 --faults *-slow");
    assert_eq!(finished.code, Some(0), "{}{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains("round 1, unguarded, seed v4-10: hazard: "), "{}", finished.stdout);
    let kept = "torture/round-10-unguarded.json";
    let again = || finish(&mut folder.loadgen(["torture", "--judge-again", kept]));
    let told = again();
    assert_eq!((told.code, &*told.stdout), (Some(0), "1 round judged again, 0 otherwise than before\n"));
    let mut round = read(&folder, kept);
    round["evidence"]["facts"][0]["confirmed"][0][1]["quantity"] = 7.into();
    fs::write(folder.path(kept), round.to_string()).unwrap();
    let told = again();
    assert_eq!(told.code, Some(1));
    assert!(told.stdout.contains("buyers told another order than they have: 1"), "{}", told.stdout);
}

// C58
#[test]
fn an_interrupt_amid_a_fault_lifts_it_and_leaves_nothing() {
    let folder = TestFolder::new();
    let args = "torture --strategies pg-conditional --faults instance-frozen --rounds 9 --rate 5".split(' ');
    let running = Running::start(&mut folder.throwaway_lab(args));
    running.until_stderr("round 1");
    eventually("an instance stands still", PATIENCE, || folder.processes().into_iter().any(is_frozen));
    let processes = folder.processes();
    running.signal(Signal::SIGINT);
    let (status, stdout) = running.wait();
    assert_eq!(status.code(), Some(130), "{stdout}");
    assert!(stdout.contains("ended early: interrupted"), "{stdout}");
    assert!(folder.is_clean() && !processes.iter().any(|pid| is_alive(*pid)), "something is left");
}

// C58
#[test]
fn a_torture_run_that_cannot_begin_says_why() {
    let folder = TestFolder::new();
    torture(&folder, "--faults postgres-crahsed").assert_error(64, "did you mean postgres-crashed?");
    torture(&folder, "--faults redis-killed --strategies zk-mutex").assert_error(64, "needs Redis");
    torture(&folder, "--strategies zk-mutx").assert_error(64, "did you mean zk-mutex?");
    let elsewhere = finish(folder.throwaway_lab(["torture"]).env("DATABASE_URL", "postgres://localhost/shop"));
    elsewhere.assert_error(64, "unset DATABASE_URL");
    let of_version = finish(&mut folder.loadgen(["torture", "--seed", "v9-7"]));
    assert!(of_version.code == Some(64) && of_version.stderr.contains("another version"), "{}", of_version.stderr);
    fs::write(folder.path("report.json"), r#"{"schema":"seckill-report/6"}"#).unwrap();
    let judge = |name: &str| finish(&mut folder.loadgen(["torture", "--judge-again", name]));
    judge("report.json").assert_error(64, "its format is seckill-report/6, and this program reads seckill-torture/2");
    fs::write(folder.path("cut.json"), r#"{"schema":"seckill-torture/2","rounds":[{"#).unwrap();
    judge("cut.json").assert_error(64, "cut.json is no record of `loadgen torture`: EOF");
    judge("absent.json").assert_error(3, "absent.json");
    torture(&folder, "--all-sights --strategies zk-mutex").assert_error(64, "--all-sights");
}

// C58
#[test]
fn the_page_of_results_is_what_the_stored_runs_say() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let records = fs::read_dir(docs.join("torture-records")).unwrap().map(|entry| entry.unwrap().path());
    let mut records: Vec<PathBuf> = records.collect();
    records.sort_unstable();
    let bytes: u64 = records.iter().map(|record| record.metadata().unwrap().len()).sum();
    assert!(bytes < 1_000_000, "{bytes} bytes of records are too many");
    let folder = TestFolder::new();
    let arguments = ["torture", "--results"].map(PathBuf::from).into_iter().chain(records);
    let told = finish(&mut folder.loadgen(arguments));
    assert_eq!(told.code, Some(0), "a round is judged otherwise than before: {}{}", told.stdout, told.stderr);
    let page = fs::read_to_string(docs.join("torture-results.md")).unwrap();
    assert!(page == told.stdout, "the page is an old one; write it by `make torture-results`");
}
