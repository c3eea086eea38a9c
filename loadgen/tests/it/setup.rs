//! Servers and instances that cannot start or that end early, and the errors about them.

use std::fs;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use testbed::{Postgres, PostgresConfig};

use crate::support::{Running, TestFolder, demo_service, finish, write_program};

/// Writes a program that lists the strategies like the service, and otherwise runs the script.
fn write_service(path: &Path, script: &str) {
    let real = demo_service().display();
    write_program(path, &format!("[ \"$1\" = --list-strategies ] && exec '{real}' \"$@\"\n{script}"));
}

fn assert_setup_error(folder: &TestFolder, command: &mut Command, expected: &str) {
    let finished = finish(command);
    finished.assert_error(3, expected);
    assert_eq!(finished.stdout, "");
    assert!(folder.is_clean(), "something is left");
}

#[test]
fn a_missing_service_program_names_the_command_that_builds_it() {
    let folder = TestFolder::new();
    let mut command = folder.loadgen_throwaway(["compare", "--demo-service", "/nowhere/demo-service"]);
    assert_setup_error(
        &folder,
        &mut command,
        "not found at /nowhere/demo-service; build it with `cargo build --release`",
    );
}

#[test]
fn a_zookeeper_that_does_not_answer_is_named() {
    let folder = TestFolder::new();
    let mut command = folder.throwaway_lab(["compare"]);
    command.env("ZOOKEEPER_CONNECT", "127.0.0.1:1");
    assert_setup_error(&folder, &mut command, "at 127.0.0.1:1, the server of ZOOKEEPER_CONNECT");
}

// On other systems, Java is also found in the folders of Homebrew.
#[cfg(target_os = "linux")]
#[test]
fn a_missing_java_names_the_command_that_installs_it() {
    let folder = TestFolder::new();
    let mut command = folder.throwaway_lab(["compare"]);
    command.env("PATH", "/nowhere").env_remove("JAVA_HOME");
    assert_setup_error(&folder, &mut command, "Java not found");
}

// T3
#[test]
fn variables_of_the_shell_change_nothing_that_is_measured() {
    let folder = TestFolder::new();
    let args =
        "run pg-conditional --users 3 --stock 2 --trials 1 --no-warm-up --instances 1 --no-request-log".split(' ');
    let mut command = folder.throwaway_lab(args);
    command.env("PGSSLMODE", "verify-full").env("PGOPTIONS", "-c no_such_setting=1").env("PGHOST", "nowhere.invalid");
    command.env("OFFER", "zk-mutex").env("RATE_PER_CLIENT", "none").env("ZOOKEEPER_CA", "/nowhere.pem");
    let finished = finish(&mut command);
    assert!(finished.stderr.contains("with 3 users: sold 2, oversold 0"), "{}", finished.stderr);
}

// T5
#[test]
fn a_folder_that_a_variable_names_in_vain_is_a_usage_error() {
    let folder = TestFolder::new();
    let finished = finish(folder.throwaway_lab(["compare"]).env("JAVA_HOME", folder.path("tmp")));
    finished.assert_error(64, "error: JAVA_HOME names ");
}

#[test]
fn an_instance_that_dies_at_start_shows_the_end_of_its_log() {
    let folder = TestFolder::new();
    let program = folder.path("dying-service");
    write_service(&program, "echo 'the ledger is on fire' >&2; exit 3");
    let mut command = folder.loadgen_throwaway(["compare", "--instances", "1"]);
    command.arg("--demo-service").arg(&program);
    assert_setup_error(
        &folder,
        &mut command,
        "ended while it was starting (exit status: 3); its log ends with:\nthe ledger",
    );
}

#[test]
fn the_limits_of_an_instance_follow_from_the_wait_for_the_lock() {
    let folder = TestFolder::new();
    let program = folder.path("dying-service");
    write_service(&program, "echo \"$@\" >&2; exit 3");
    let mut command = folder.loadgen_throwaway(["compare", "--instances", "1", "--lock-wait", "7s"]);
    command.arg("--demo-service").arg(&program);
    let expected = "--lock-wait 7s --zk-session-timeout 30s --db-timeout 12s --http-timeout 17s";
    assert_setup_error(&folder, &mut command, expected);
}

// C22
#[test]
fn an_instance_that_dies_in_mid_run_is_named() {
    let folder = TestFolder::new();
    let program = folder.noting_service();
    let args = "compare --users 30 --stock 20 --trials 200 --instances 2 --strategies zk-mutex".split(' ');
    let running = Running::start(folder.loadgen_throwaway(args).arg("--demo-service").arg(&program));
    running.until_stderr("trial 1/201");
    kill(folder.first_instance(), Signal::SIGKILL).unwrap();
    running.until_stderr("error: instance ");
    let (status, stdout) = running.wait();
    assert_eq!(status.code(), Some(3));
    // Earlier measurements are kept, with the reason for the end.
    assert!(stdout.contains("verdict: ended before every trial was run: instance "), "{stdout}");
    let report = folder.report();
    assert!(!report["trials"].as_array().unwrap().is_empty());
    assert_eq!(report["ended_early"]["exit_code"], 3, "{:#}", report["ended_early"]);
    assert!(folder.is_clean(), "something is left");
}

#[test]
fn a_service_that_lists_no_strategies_shows_what_it_wrote() {
    let folder = TestFolder::new();
    let program = folder.path("dying-service");
    write_program(&program, "echo 'the ledger is on fire' >&2; exit 3");
    let mut command = folder.loadgen_throwaway(["strategies"]);
    command.arg("--demo-service").arg(&program);
    let expected = "did not list its strategies: it ended (exit status: 3) and wrote:\nthe ledger is on fire";
    assert_setup_error(&folder, &mut command, expected);
}

#[test]
fn a_comparison_that_fails_leaves_no_earlier_report() {
    let folder = TestFolder::new();
    fs::create_dir(folder.path("report")).unwrap();
    let reports = ["report/report.json", "report/report.md"].map(|name| folder.path(name));
    for report in &reports {
        fs::write(report, "of yesterday").unwrap();
    }
    let wrong = finish(&mut folder.loadgen_throwaway(["compare", "--trials", "0"]));
    assert_eq!(wrong.code, Some(64), "{}", wrong.stderr);
    assert!(reports.iter().all(|report| report.is_file()), "nothing has begun yet");
    let mut command = folder.loadgen_throwaway(["compare", "--demo-service", "/nowhere/demo-service"]);
    assert_setup_error(&folder, &mut command, "not found at /nowhere/demo-service");
    assert!(!reports.iter().any(|report| report.exists()));
}

#[test]
fn a_silent_database_of_a_target_is_named_without_password() {
    let folder = TestFolder::new();
    let mut command =
        folder.loadgen_throwaway(["compare", "--target", "http://127.0.0.1:1", "--zookeeper", "127.0.0.1:1"]);
    command.env("DATABASE_URL", "postgres://buyer:s3cret@127.0.0.1:1/seckill").env("ADMIN_TOKEN", "token");
    assert_setup_error(&folder, &mut command, "could not connect to postgres at 127.0.0.1:1: ");
    let finished = finish(&mut command);
    assert!(finished.stderr.contains("refused") && !finished.stderr.contains("s3cret"), "{}", finished.stderr);
}

// C21
#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_without_room_for_the_instances_is_refused() {
    let postgres = Postgres::start(PostgresConfig { connections_max: 60, ..PostgresConfig::default() }).await.unwrap();
    let folder = TestFolder::new();
    let mut command = folder.throwaway_lab(["compare", "--instances", "5", "--users", "10", "--trials", "1"]);
    command.env("DATABASE_URL", postgres.url("postgres"));
    let expected = "the instances and this program may open 113; raise max_connections";
    assert_setup_error(&folder, &mut command, expected);
}

#[test]
fn several_hosts_in_a_database_url_are_refused() {
    let folder = TestFolder::new();
    let target = ["compare", "--target", "http://127.0.0.1:1", "--zookeeper", "127.0.0.1:1"];
    let mut command = folder.loadgen_throwaway(target);
    command.env("DATABASE_URL", "postgres://a.example,b.example/seckill").env("ADMIN_TOKEN", "token");
    let finished = finish(&mut command);
    finished.assert_error(64, "several hosts; name the primary");
}

#[test]
fn a_silent_server_is_named_with_its_variable() {
    let folder = TestFolder::new();
    let mut command = folder.loadgen_throwaway(["compare"]);
    command.env("DATABASE_URL", "postgres://buyer:s3cret@127.0.0.1:1/seckill");
    assert_setup_error(&folder, &mut command, "at 127.0.0.1:1, the server of DATABASE_URL: ");
    let finished = finish(&mut command);
    assert!(!finished.stderr.contains("s3cret"), "{}", finished.stderr);
    // The output names only servers that were started.
    assert!(finished.stderr.starts_with("starting ZooKeeper and 3 instances\n"), "{}", finished.stderr);
}

#[test]
fn an_impossible_report_folder_is_found_before_the_start() {
    let folder = TestFolder::new();
    fs::write(folder.path("report"), "a file").unwrap();
    let mut command = folder.loadgen_throwaway(["compare"]);
    assert_setup_error(&folder, &mut command, "could not make the folder report");
}
