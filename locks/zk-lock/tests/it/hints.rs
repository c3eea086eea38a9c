//! Command lines of `flock`, `consul lock` and `etcdctl lock`: the refusal says what to write instead.

// Z10

use crate::support::{Lab, PATH, PROGRAM, Running};

/// Asserts that the words behind the name of the program are refused with a tip.
async fn assert_tip(lab: &Lab, words: &[&str], expected: &str) {
    let finished = lab.start(words.iter().copied()).finish().await;
    finished.assert_status(64);
    assert_eq!(finished.stdout, "", "{words:?}");
    let tip = finished.stderr.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    assert!(tip.is_some_and(|tip| tip.contains(expected)), "{words:?}: {}", finished.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_other_lock_commands_are_answered_with_ours() {
    let lab = Lab::new().await;
    for (words, expected) in [
        (&["-n"][..], "--timeout 0s"),
        (&["-n", "3"], "--recipe semaphore=N"),
        (&["-n=3"], "--recipe semaphore=N"),
        (&["--nonblock"], "--timeout 0s"),
        (&["-w", "5"], "--timeout 5s"),
        (&["-w0.5"], "--timeout 5s"),
        (&["--wait=5"], "--timeout 5s"),
        (&["-timeout=5s"], "--timeout 5s"),
        (&["-s"], "--recipe read"),
        (&["-xn"], "exclusive without an option"),
        (&["-nw", "3"], "--timeout 0s"),
        (&["-x"], "exclusive without an option"),
        (&["-c", "echo ran"], "-- sh -c 'LINE'"),
        (&["-E", "7"], "75"),
        (&["-child-exit-code"], "the status is COMMAND's"),
        (&["-verbose"], "--verbose"),
        (&["-o"], "leave it out"),
        (&["--ttl", "10"], "--session-timeout 10s"),
        (&["--endpoints", "zk:2181"], "--zookeeper"),
    ] {
        assert_tip(&lab, &[&["--path", PATH], words, &["echo", "ran"]].concat(), expected).await;
    }
    // Options behind COMMAND are COMMAND's.
    let finished = lab.start(["--path", PATH, "echo", "-n"]).finish().await;
    finished.assert_status(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_named_first_is_led_to_its_option() {
    let lab = Lab::new().await;
    assert_tip(&lab, &[PATH, "echo", "ran"], "before COMMAND: --path /locks/NAME").await;
    assert_tip(&lab, &["--path", PATH], "-- sleep infinity").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_in_one_word_is_led_to_a_shell() {
    let lab = Lab::new().await;
    for line in ["echo ran", "echo ran; exit 0", "echo 'ran'", "echo>/dev/null&&echo ran"] {
        let finished = lab.start(["--path", PATH, "--", line]).finish().await;
        finished.assert_status(127);
        let (_, tip) = finished.stderr.split_once("write: ").unwrap_or_else(|| panic!("{}", finished.stderr));
        // The line of the tip works.
        let script = format!("exec '{PROGRAM}' --path {PATH} {tip}");
        let finished = Running::start(testbed::ProcessConfig { program: "sh".into(), ..lab.config(["-c", &script]) })
            .finish()
            .await;
        finished.assert_status(0);
        assert_eq!(finished.stdout, "ran\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_no_variable_names_are_asked_for() {
    let lab = Lab::new().await;
    let words = || ["--path", PATH, "echo", "ran"].map(str::to_owned).to_vec();
    let finished = lab.start_by_exec("unset ZOOKEEPER_CONNECT;", words()).finish().await;
    finished.assert_status(64);
    let expected = "ZOOKEEPER_CONNECT names the servers, too; it is not set here";
    assert!(finished.stderr.contains(expected), "{}", finished.stderr);
    // An option overrides the variable.
    let servers = ["--zookeeper".to_owned(), lab.connect_string.clone()];
    let words = servers.into_iter().chain(words()).collect();
    let finished = lab.start_by_exec("export ZOOKEEPER_CONNECT=nowhere:1;", words).finish().await;
    finished.assert_status(0);
    assert_eq!(finished.stdout, "ran\n");
}
