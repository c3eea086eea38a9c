//! `--at-least`: a lock that is kept after its command has ended.

// Z7

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use zookeeper_client::Client;

use crate::support::{FaultyLab, Lab, PATH, Running};

/// What is said with `--verbose` as soon as the command has ended.
const KEPT: &str = "zk-lock: the command has ended, and /locks/a is kept for another ";

/// Starts a `zk-lock` that keeps its lock after its command has ended with 3.
async fn kept(lab: &Lab, options: &[&str]) -> Running {
    let running = lab.start_script(&[&["-v", "--at-least", "1h"][..], options].concat(), "exit 3");
    running.until_says(KEPT).await;
    running
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_whose_clocks_differ_run_a_short_job_once() {
    let lab = Lab::new().await;
    let job = ["-v", "--timeout", "0s", "--at-least", "1h"];
    let early = lab.start_script(&job, "echo ran >>log");
    early.until_says(KEPT).await;
    // A host whose clock is late.
    lab.start_script(&job, "echo ran >>log").finish().await.assert_status(75);
    assert_eq!(lab.read("log"), "ran");
    early.signal(Signal::SIGTERM);
    early.finish().await.assert_status(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_kept_until_its_time_is_over() {
    let lab = Lab::new().await;
    for (script, status) in [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137)] {
        let began = Instant::now();
        let finished = lab.start_script(&["--at-least", "300ms"], script).finish().await;
        assert!(began.elapsed() >= Duration::from_millis(300));
        finished.assert_status(status);
        assert_eq!(finished.stderr, "");
        assert!(lab.queue(PATH).await.is_empty(), "it is free when zk-lock has ended");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_longer_command_is_followed_by_no_wait() {
    let lab = Lab::new().await;
    let finished = lab.start_script(&["-v", "--at-least", "1ms"], "sleep 0.1").finish().await;
    finished.assert_status(0);
    assert!(!finished.stderr.contains("kept"), "{}", finished.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_frees_a_kept_lock() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        let lab = Lab::new().await;
        let running = kept(&lab, &[]).await;
        running.signal(signal);
        let finished = running.finish().await;
        finished.assert_status(3);
        let expected = format!("zk-lock: {signal}: /locks/a is free before --at-least is over");
        assert!(finished.stderr.contains(&expected), "{}", finished.stderr);
        assert!(lab.queue(PATH).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_a_signal_ends_keeps_no_lock() {
    let lab = Lab::new().await;
    let mut running = lab.start_script(&["--at-least", "1h"], "echo ready; exec sleep 1000");
    assert_eq!(running.line().await, "ready");
    running.signal(Signal::SIGTERM);
    running.finish().await.assert_status(143);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_cannot_be_run_keeps_no_lock() {
    let lab = Lab::new().await;
    lab.start(["--at-least", "1h", "--path", PATH, "no-such-command"]).finish().await.assert_status(127);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_frees_a_kept_lock() {
    let lab = Lab::new().await;
    let running = kept(&lab, &["--on-revoke", "warn"]).await;
    lab.start(["--revoke", PATH]).finish().await.assert_status(0);
    let finished = running.finish().await;
    finished.assert_status(3);
    assert!(finished.stderr.contains("somebody asks for /locks/a"), "{}", finished.stderr);
    assert!(lab.queue(PATH).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loss_of_a_kept_lock_is_told() {
    let faulty = FaultyLab::new().await;
    let options = ["-v", "--at-least", "1h", "--session-timeout", "4s"];
    let running = faulty.start_script(&options, "exit 0");
    running.until_says(KEPT).await;
    faulty.proxy.blackhole();
    let finished = running.finish().await;
    // The command had ended before.
    finished.assert_status(0);
    let expected = "the hold of /locks/a was lost before --at-least was over: no server answered for too long";
    assert!(finished.stderr.contains(expected), "{}", finished.stderr);
}

// A server does not tell since when a node is gone.
#[tokio::test(flavor = "multi_thread")]
async fn the_deletion_of_a_kept_node_is_no_success() {
    let lab = Lab::new().await;
    let running = lab.start_script(&["-v", "--at-least", "1h"], "exit 0");
    running.until_says(KEPT).await;
    let client = Client::connect(&lab.connect_string).await.unwrap();
    client.delete(&lab.queue(PATH).await[0].path, None).await.unwrap();
    let finished = running.finish().await;
    finished.assert_status(76);
    assert!(
        finished.stderr.contains("was lost before --at-least was over: its node was deleted"),
        "{}",
        finished.stderr
    );
}
