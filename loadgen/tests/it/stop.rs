//! Nothing that `loadgen` started outlives it, in any kind of end.

use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::support::{PATIENCE, Running, TestFolder, eventually, is_alive, under_nohup};

/// Upper bound of the time for the clean-up after a killed `loadgen`.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Starts a comparison, and waits until it is in its second trial or later. Returns it with the processes behind it.
fn in_mid_run(folder: &TestFolder) -> (Running, Vec<Pid>) {
    let args =
        "compare --users 30 --stock 20 --trials 200 --instances 2 --strategies zk-naive --goose-report md".split(' ');
    let running = Running::start(&mut folder.throwaway_lab(args));
    running.until_stderr("trial 1/201");
    let processes = folder.processes();
    // Postgres, ZooKeeper, the keepers of their data, and two instances.
    assert_eq!(processes.len(), 6);
    (running, processes)
}

// C23
#[test]
fn nothing_outlives_a_killed_comparison() {
    let folder = TestFolder::new();
    let (running, processes) = in_mid_run(&folder);
    running.signal(Signal::SIGKILL);
    running.wait();
    eventually("every process is gone", GONE_WITHIN, || !processes.iter().any(|pid| is_alive(*pid)));
    eventually("every folder is gone", GONE_WITHIN, || folder.is_clean());
}

// C22, C23
#[test]
fn an_interrupted_comparison_reports_and_leaves_nothing() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let folder = TestFolder::new();
        let (running, processes) = in_mid_run(&folder);
        running.signal(signal);
        let (status, stdout) = running.wait();
        assert_eq!(status.code(), Some(130));
        assert!(stdout.contains("verdict: ended before every trial was run: interrupted"), "{stdout}");
        let report = folder.report();
        assert_eq!((&report["ended_early"]["exit_code"], &report["verdict"]["exit_code"]), (&130.into(), &130.into()));
        let trials = report["trials"].as_array().unwrap().len();
        assert!((1..201).contains(&trials), "{trials}");
        assert_eq!(report["results"][0]["trials"], trials);
        let of_goose = std::fs::read_dir(folder.path("report/goose")).unwrap();
        assert_eq!(of_goose.count(), trials, "none is of the trial that was under way");
        assert!(folder.is_clean() && !processes.iter().any(|pid| is_alive(*pid)), "something is left");
    }
}

#[test]
fn a_second_interrupt_ends_the_program_at_once() {
    let folder = TestFolder::new();
    let (running, processes) = in_mid_run(&folder);
    running.signal(Signal::SIGINT);
    running.signal(Signal::SIGTERM);
    let (status, _) = running.wait();
    assert_eq!(status.code(), Some(130));
    eventually("every process is gone", GONE_WITHIN, || !processes.iter().any(|pid| is_alive(*pid)));
    eventually("every folder is gone", GONE_WITHIN, || folder.is_clean());
}

#[test]
fn a_comparison_under_nohup_outlives_its_terminal() {
    let folder = TestFolder::new();
    let args = "compare --users 10 --stock 5 --trials 3 --instances 1 --strategies pg-conditional".split(' ');
    let running = Running::start(&mut under_nohup(&folder.throwaway_lab(args)));
    running.until_stderr("trial 1/4");
    running.signal(Signal::SIGHUP);
    let (status, stdout) = running.wait();
    assert_eq!(status.code(), Some(0), "{stdout}");
}

#[test]
fn an_interrupt_during_the_start_leaves_nothing() {
    let folder = TestFolder::new();
    let running = Running::start(&mut folder.throwaway_lab(["compare"]));
    eventually("a server is being started", PATIENCE, || !folder.processes().is_empty());
    running.signal(Signal::SIGINT);
    let (status, stdout) = running.wait();
    assert_eq!((status.code(), stdout.as_str()), (Some(130), ""));
    assert!(folder.is_clean(), "something is left");
}
