//! Mistakes are found before anything starts.

// C21

use std::fs;
use std::net::TcpListener;

use nix::sys::signal::Signal;

use crate::support::{Finished, Running, TestFolder, finish, with_open_files};

/// Runs `loadgen` with this service and fails if anything was started.
fn refused(folder: &TestFolder, args: &[&str]) -> Finished {
    let finished = finish(&mut folder.throwaway_lab(args));
    assert!(!finished.stderr.contains("starting"), "{}", finished.stderr);
    assert_eq!(finished.stdout, "");
    assert!(folder.is_clean(), "something is left");
    finished
}

fn assert_refused(args: &[&str], code: i32, expected: &str) {
    let finished = refused(&TestFolder::new(), args);
    finished.assert_error(code, expected);
}

#[test]
fn a_misspelt_strategy_is_refused_with_the_one_that_was_meant() {
    let expected = "no strategy is named \"zk-mutx\"; the service knows unguarded, local-mutex, zk-";
    assert_refused(&["compare", "--strategies", "zk-naive,zk-mutx"], 64, expected);
    assert_refused(&["run", "zk-mutx"], 64, "; did you mean zk-mutex?\n");
}

#[test]
fn a_threshold_that_cannot_be_checked_is_refused() {
    for (rule, expected) in [
        ("zk-mutx p50<1s", "is about nothing that is compared: zk-mutex, pg-conditional with 300 users; did you mean"),
        ("zk-mutex@30 p50<1s", "is about nothing that is compared"),
        ("zk-mutex p99<1s", "needs the times of 1000 sold units, and 9 trials can sell 900"),
        ("zk-* p999<1s", "needs the times of 10\u{202f}000 sold units"),
        ("pg-conditional notifications_per_release<=1", "is about a figure that pg-conditional cannot have"),
    ] {
        let args = ["compare", "--strategies", "zk-mutex,pg-conditional", "--trials", "9", "--threshold", rule];
        assert_refused(&args, 64, expected);
    }
    let args = ["compare", "--stock", "10", "--threshold", "pg-conditional p50<1s"];
    assert_refused(&args, 64, "needs the times of 20 sold units, and 1 trial can sell 10");
}

#[test]
fn arguments_that_the_service_refuses_are_refused() {
    let folder = TestFolder::new();
    fs::write(folder.path("plan.toml"), "service.args = [\"--nonsense\"]").unwrap();
    let finished = refused(&folder, &["compare", "--plan", "plan.toml"]);
    finished.assert_error(64, "demo-service refused its arguments");
    assert!(finished.stderr.contains("unexpected argument '--nonsense'"), "{}", finished.stderr);
}

#[test]
fn an_export_of_what_the_service_does_not_know_is_refused() {
    let folder = TestFolder::new();
    fs::write(folder.path("plan.toml"), "service.args = [\"--nonsense\"]").unwrap();
    for engine in ["jmeter", "k6"] {
        for (args, expected) in [
            (&["--strategies", "zk-mutx"][..], "; did you mean zk-mutex?\n"),
            (&[], "a run sells by one strategy, and none is named; write --strategies zk-mutex"),
            (&["--strategies", "zk-mutex", "--plan", "plan.toml"], "unexpected argument '--nonsense'"),
            (&["--strategies", "zk-mutex", "--threshold", "zk-mutx p99<1s"], "; did you mean zk-mutex?\n"),
        ] {
            let finished = refused(&folder, &[&["export", engine], args].concat());
            finished.assert_error(64, expected);
        }
    }
}

#[test]
fn an_export_of_all_strategies_has_a_run_of_each() {
    let folder = TestFolder::new();
    let args = ["export", "jmeter", "--strategies", "all"];
    let exported = finish(&mut folder.lab(args));
    assert_eq!(exported.code, Some(0), "{}", exported.stderr);
    for name in ["unguarded", "zk-mutex", "pg-merge"] {
        assert!(exported.stdout.contains(&format!("  -Jthreads=300 -Jstrategy={name}\n")), "{}", exported.stdout);
    }
}

#[test]
fn a_port_in_use_is_refused() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let expected = format!("port {port} is in use; choose another with --port");
    assert_refused(&["up", "--instances", "1", "--port", &port.to_string()], 3, &expected);
}

#[test]
fn too_few_open_files_for_the_users_are_refused() {
    let folder = TestFolder::new();
    let command = folder.throwaway_lab(["compare", "--users", "10000"]);
    let refused = finish(&mut with_open_files(256, &command));
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    let expected = "error: the load needs more open files than the system grants (loadgen 10064, an instance 10504, \
         ZooKeeper 10258; the limit is 256); raise it with `ulimit -n 10504`, or give fewer --users\n";
    assert_eq!(refused.stderr, expected);
    assert!(folder.is_clean(), "something is left");
}

// Not even the superuser can make a file there.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    assert_refused(&["compare", "--out", "/proc/self"], 3, "could not write into the folder /proc/self: ");
}

// C25
#[test]
fn two_comparisons_never_write_into_one_folder() {
    let folder = TestFolder::new();
    let args = |trials: &'static str| {
        let args = "compare --users 10 --stock 5 --instances 1 --no-warm-up --strategies pg-conditional --request-log log.jtl \
            --trials";
        args.split_whitespace().chain([trials])
    };
    let first = Running::start(&mut folder.throwaway_lab(args("200")));
    first.until_stderr("trial 1/200");
    let second = finish(&mut folder.throwaway_lab(args("1")));
    assert_eq!(second.code, Some(3), "{}", second.stderr);
    let expected =
        "error: another loadgen writes into report; wait until it has ended, or choose another folder with --out\n";
    assert_eq!(second.stderr, expected);
    let elsewhere = args("1").chain(["--out", "elsewhere"]);
    let third = finish(&mut folder.throwaway_lab(elsewhere));
    assert_eq!(third.code, Some(3), "{}", third.stderr);
    let expected = "error: another loadgen writes into log.jtl; wait until it has ended, or name another file with --request-log\n";
    assert!(third.stderr.ends_with(expected), "{}", third.stderr);
    // The kernel unlocks what a killed process has locked.
    first.signal(Signal::SIGKILL);
    first.wait();
    let fourth = finish(&mut folder.throwaway_lab(args("1")));
    // Its verdict does not matter here: ten buyers on a busy machine may leave it undecided.
    assert!(
        fourth.stdout.ends_with("report: report/report.html\n"),
        "{:?} {}{}",
        fourth.code,
        fourth.stdout,
        fourth.stderr
    );
    assert_eq!(folder.report()["trials"].as_array().unwrap().len(), 1);
}
