//! The `testbed` binary, and what is left of it after each kind of end.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::ProcessStat;

use crate::support::{Outside, address_of, eventually, is_gone, is_listening};

/// Runs until its input ends.
const PRINT_AND_WAIT: &str = "echo $DATABASE_URL $ZOOKEEPER_CONNECT; exec cat";

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_testbed")).args(args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Reads the two addresses that the command prints.
fn addresses(testbed: &mut Outside) -> (String, String) {
    let mut line = String::new();
    BufReader::new(testbed.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let (url, zookeeper) = line.trim().split_once(' ').unwrap();
    assert!(url.ends_with("/seckill?sslmode=disable"), "{url}");
    (address_of(url).to_owned(), zookeeper.to_owned())
}

#[test]
fn a_command_runs_with_both_servers_and_its_status_is_passed_on() {
    let mut testbed =
        Outside::testbed(&["--tick-time", "500ms", "--", "sh", "-c", "echo $DATABASE_URL $ZOOKEEPER_CONNECT; exit 7"]);
    let (postgres, zookeeper) = addresses(&mut testbed);
    assert_eq!(testbed.child.wait().unwrap().code(), Some(7));
    assert!(!is_listening(&postgres) && !is_listening(&zookeeper));
    assert_eq!(testbed.folders(), Vec::<std::path::PathBuf>::new());
}

// T1
#[test]
fn a_killed_testbed_leaves_no_server_no_port_and_no_folder() {
    let mut testbed = Outside::testbed(&["--", "sh", "-c", PRINT_AND_WAIT]);
    let (postgres, zookeeper) = addresses(&mut testbed);
    let servers = testbed.servers();
    assert!(is_listening(&postgres) && is_listening(&zookeeper));
    testbed.signal(Signal::SIGKILL);
    assert_eq!(testbed.child.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
    testbed.assert_nothing_is_left(&servers);
    eventually("the ports are closed", || !is_listening(&postgres) && !is_listening(&zookeeper));
}

// T1
#[test]
fn a_killed_testbed_leaves_no_frozen_server() {
    let mut testbed = Outside::testbed(&["--", "sh", "-c", PRINT_AND_WAIT]);
    addresses(&mut testbed);
    let servers = testbed.servers();
    let freeze = |pid: i32| kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    let mut children = Vec::new();
    for server in &servers {
        // A frozen server starts no further child.
        freeze(server.pid);
        children.extend(ProcessStat::children_of(server.pid).unwrap());
    }
    children.iter().copied().for_each(freeze);
    let is_frozen = |pid: &i32| ProcessStat::is_frozen(*pid).unwrap();
    eventually("everything stands still", || {
        children.iter().chain(servers.iter().map(|server| &server.pid)).all(is_frozen)
    });
    assert!(children.len() > 3, "Postgres has processes of its own: {children:?}");
    testbed.signal(Signal::SIGKILL);
    testbed.child.wait().unwrap();
    testbed.assert_nothing_is_left(&servers);
    eventually("the processes of Postgres are gone", || children.iter().all(|pid| is_gone(*pid)));
}

#[test]
fn a_redis_is_started_only_if_it_is_asked_for() {
    for (flags, pattern) in [(&[][..], ""), (&["--redis"], "redis://127.0.0.1:")] {
        let args = [flags, &["--", "sh", "-c", "echo $REDIS_URL"]].concat();
        let output = Command::new(env!("CARGO_BIN_EXE_testbed")).args(args).env_remove("REDIS_URL").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let url = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(url.starts_with(pattern) && url.is_empty() == pattern.is_empty(), "{url}");
    }
}

// T1
#[test]
fn a_killed_testbed_leaves_no_redis() {
    let mut testbed = Outside::testbed(&["--redis", "--", "sh", "-c", "echo $REDIS_URL; exec cat"]);
    let mut url = String::new();
    BufReader::new(testbed.child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    let address = url.trim().trim_start_matches("redis://").trim_end_matches('/');
    // Two of them are Redis and the keeper of its data.
    let servers = testbed.children(6);
    assert!(is_listening(address));
    testbed.signal(Signal::SIGKILL);
    assert_eq!(testbed.child.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
    testbed.assert_nothing_is_left(&servers);
    eventually("the port is closed", || !is_listening(address));
}

// T1
#[test]
fn a_testbed_killed_during_its_start_leaves_nothing() {
    let mut testbed = Outside::testbed(&["--", "cat"]);
    let servers = testbed.servers();
    testbed.signal(Signal::SIGKILL);
    testbed.child.wait().unwrap();
    testbed.assert_nothing_is_left(&servers);
}

#[test]
fn signals_are_forwarded_to_the_command() {
    for (signal, name, code) in
        [(Signal::SIGTERM, "TERM", 21), (Signal::SIGINT, "INT", 22), (Signal::SIGHUP, "HUP", 23)]
    {
        let script = format!("trap 'exit {code}' {name}; echo ready; while :; do sleep 0.01; done");
        let mut testbed = Outside::testbed(&["--", "sh", "-c", &script]);
        let mut ready = [0; 6];
        testbed.child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        testbed.signal(signal);
        assert_eq!(testbed.child.wait().unwrap().code(), Some(code));
        assert_eq!(testbed.folders(), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn a_command_that_a_signal_ends_gives_the_status_of_a_shell() {
    let output = run(&["--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(output.status.code(), Some(128 + 9), "{}", stderr(&output));
}

#[test]
fn a_signal_during_the_start_ends_it() {
    let mut testbed = Outside::testbed(&["--", "cat"]);
    let servers = testbed.servers();
    testbed.signal(Signal::SIGTERM);
    assert_eq!(testbed.child.wait().unwrap().code(), Some(128 + 15));
    testbed.assert_nothing_is_left(&servers);
}

#[test]
fn usage_errors_exit_64_and_help_exits_0() {
    for args in
        [&[][..], &["--"], &["true"], &["--tick-time", "soon", "--", "true"], &["--connections-max", "0", "--", "true"]]
    {
        let output = run(args);
        assert_eq!(output.status.code(), Some(64), "{args:?}: {}", stderr(&output));
    }
    let output = run(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    for part in ["DATABASE_URL", "--redis", "REDIS_URL"] {
        assert!(String::from_utf8_lossy(&output.stdout).contains(part), "{part}");
    }
}

#[test]
fn a_command_that_does_not_exist_exits_3() {
    let output = run(&["--", "no-such-program-anywhere"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("no-such-program-anywhere"), "{}", stderr(&output));
}

// T3
#[test]
fn variables_for_other_servers_do_not_reach_throwaway_ones() {
    let output = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["--", "sh", "-c", "env | grep ^PG"])
        .env("PGSSLMODE", "verify-full")
        .env("PGOPTIONS", "-c no_such_setting=1")
        .env("PGHOST", "nowhere.invalid")
        .env("PGDATA", "/nowhere")
        .env("JAVA_TOOL_OPTIONS", "-XX:NoSuchFlag")
        .output()
        .unwrap();
    // The status of `grep`, which finds none.
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), ""));
    assert_eq!(output.stdout, b"");
}

// T5
#[test]
fn a_folder_that_a_variable_names_in_vain_is_a_usage_error() {
    let empty = tempfile::tempdir().unwrap();
    for variable in ["POSTGRES_BIN", "ZOOKEEPER_HOME", "JAVA_HOME", "REDIS_BIN"] {
        let testbed = Command::new(env!("CARGO_BIN_EXE_testbed"))
            .args(["--redis", "--", "true"])
            .env(variable, empty.path())
            .output()
            .unwrap();
        let message = stderr(&testbed);
        assert_eq!(testbed.status.code(), Some(64), "{variable}: {message}");
        let expected = format!("error: {variable} names {}, but there is no ", empty.path().display());
        assert!(message.starts_with(&expected), "{message}");
    }
}

// T4
#[test]
fn a_temporary_folder_may_have_any_letters() {
    let parent = tempfile::tempdir().unwrap();
    fs::set_permissions(parent.path(), Permissions::from_mode(0o755)).unwrap();
    let folder = parent.path().join("käse und 茶 \\ #=!");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o1777)).unwrap();
    for locale in ["C", "C.UTF-8"] {
        let output = Command::new(env!("CARGO_BIN_EXE_testbed"))
            .args(["--redis", "--", "true"])
            .env("TMPDIR", &folder)
            .env("LC_ALL", locale)
            .output()
            .unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    }
}

// T2
#[test]
fn a_missing_server_is_named_with_how_to_install_it() {
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["--", "true"])
        .env("PATH", empty.path())
        .env_remove("JAVA_HOME")
        .output()
        .unwrap();
    let message = stderr(&output);
    // Java is only looked for in the environment here, while Postgres may still be found in its usual folders.
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("not found") && message.contains("make deps"), "{message}");
}
