//! Wrong command lines and missing servers: a status, and one line that names the failure and the remedy.

use std::process::Command;

use crate::support::{Lab, PATH, PROGRAM, Running};

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_command_line_is_status_64_and_runs_nothing() {
    let lab = Lab::new().await;
    for (args, expected) in [
        (&["--path", PATH][..], "<COMMAND>"),
        (&["true"], "--path <PATH>"),
        (&["--path", PATH, "--no-such-option", "true"], "--no-such-option"),
        (
            &["--path", PATH, "--recipe", "hand-off", "true"],
            "known are mutex, handoff, cohort, read, write, semaphore-mutex, semaphore=N, naive, leader",
        ),
        (&["--path", PATH, "--recipe", "semaphore=0", "true"], "as in semaphore=4"),
        (&["--path", PATH, "--timeout", "soon", "true"], "write a time such as"),
        (&["--path", "locks/a", "true"], "must start with /"),
        (&["--path", "/", "true"], "the root cannot be a lock"),
        (&["--list", "locks"], "must start with /"),
        (&["--auth-file", "/no/such/file", "--path", PATH, "true"], "/no/such/file"),
        (&["--ca", "/no/such/ca.pem", "--path", PATH, "true"], "cannot read /no/such/ca.pem"),
        (&["--ca", "/dev/null", "--path", PATH, "true"], "cannot use the authority for TLS"),
    ] {
        let finished = lab.start(args.iter().copied()).finish().await;
        finished.assert_status(64);
        assert_eq!(finished.stdout, "");
        assert!(finished.stderr.contains(expected), "{args:?}: {}", finished.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_path_is_refused_without_a_server() {
    let lab = Lab::new().await;
    for task in [&["--path", "/locks/", "echo", "ran"][..], &["--list", "/zookeeper"]] {
        let place = ["--zookeeper", "127.0.0.1:1", "--connect-timeout", "1h"];
        let finished = lab.start(place.iter().chain(task).copied()).finish().await;
        finished.assert_status(64);
        assert!(finished.stderr.starts_with("zk-lock: invalid lock path "), "{}", finished.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connect_string_that_cannot_be_read_is_a_wrong_command_line() {
    let lab = Lab::new().await;
    for servers in ["127.0.0.1:99999", ""] {
        let config = lab.config(["--path", PATH, "true"]).env("ZOOKEEPER_CONNECT", servers);
        let finished = Running::start(config).finish().await;
        finished.assert_status(64);
        let expected = format!("zk-lock: cannot read the connect string \"{servers}\"");
        assert!(finished.stderr.starts_with(&expected), "{}", finished.stderr);
        assert!(finished.stderr.ends_with("; correct --zookeeper (ZOOKEEPER_CONNECT)"), "{}", finished.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_are_none_are_refused_and_not_shown() {
    let lab = Lab::new().await;
    let finished = Running::start(lab.config(["--path", PATH, "true"]).env("ZK_LOCK_AUTH", "sesame")).finish().await;
    finished.assert_status(64);
    assert_eq!(
        finished.stderr,
        "zk-lock: the credentials in ZK_LOCK_AUTH must be USER:PASSWORD, in UTF-8, on one line"
    );
}

// Z16
#[tokio::test(flavor = "multi_thread")]
async fn a_password_file_that_is_not_utf_8_is_refused() {
    let lab = Lab::new().await;
    std::fs::write(lab.file("auth"), b"shop:s\xe9same\n").unwrap();
    let file = lab.file("auth").display().to_string();
    let finished = lab.start(["--auth-file", &file, "--path", PATH, "true"]).finish().await;
    finished.assert_status(64);
    assert!(finished.stderr.ends_with("must be USER:PASSWORD, in UTF-8, on one line"), "{}", finished.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_named_with_the_option_to_check() {
    let lab = Lab::new().await;
    let place = ["--zookeeper", "127.0.0.1:1", "--connect-timeout", "300ms"];
    for task in [&["--path", PATH, "echo", "ran"][..], &["--list", PATH]] {
        let finished = lab.start(place.iter().chain(task).copied()).finish().await;
        finished.assert_status(69);
        assert_eq!((finished.stdout.as_str(), finished.stderr.lines().count()), ("", 1), "{}", finished.stderr);
        for part in ["zk-lock: cannot open a ZooKeeper session", "--zookeeper", "127.0.0.1:1", "300ms"] {
            assert!(finished.stderr.contains(part), "{}", finished.stderr);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chroot_that_does_not_exist_is_pointed_out() {
    let lab = Lab::new().await;
    let nowhere = format!("{}/nowhere", lab.connect_string);
    let finished = lab.start(["--zookeeper", &nowhere, "--path", PATH, "true"]).finish().await;
    finished.assert_status(69);
    for part in ["check --zookeeper", "there is no node", "/nowhere", "create the chroot first"] {
        assert!(finished.stderr.contains(part), "{}", finished.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn help_shows_statuses_and_version_shows_the_version() {
    let lab = Lab::new().await;
    let help = lab.start(["--help"]).finish().await;
    help.assert_status(0);
    for part in ["Exit status:", "   75  ", "LOCK_TOKEN", "Examples:", "[env: ZOOKEEPER_CONNECT"] {
        assert!(help.stdout.contains(part), "{part} in {}", help.stdout);
    }
    let summary = lab.start(["-h"]).finish().await;
    assert!(summary.stdout.contains("Exit status:") && summary.stdout.len() < help.stdout.len());
    let version = lab.start(["--version"]).finish().await;
    version.assert_status(0);
    assert_eq!(version.stdout, format!("zk-lock {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_and_the_manual_page_need_no_server() {
    for (args, part) in [("--completions bash", "--session-timeout"), ("--man", "\n.SH \"EXIT STATUS\"\n")] {
        for servers in [None, Some(""), Some("127.0.0.1:1")] {
            let server = servers.map(|servers| ("ZOOKEEPER_CONNECT", servers));
            let mut command = Command::new(PROGRAM);
            let output = command.args(args.split(' ')).env_remove("ZOOKEEPER_CONNECT").envs(server).output().unwrap();
            assert!(output.status.success(), "{args}: {output:?}");
            assert!(String::from_utf8_lossy(&output.stdout).contains(part), "{args}: {output:?}");
        }
    }
}
