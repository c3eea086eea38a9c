//! `--revoke`: the holders of a lock are asked to give it back.

// Z8

use std::fs;

use testbed::ProcessConfig;

use crate::support::{Lab, PATH, Running};

/// Ends in its own way when it is asked to.
const OBEY: &str = "trap 'echo asked; exit 3' TERM; echo $LOCK_PATH; while :; do sleep 0.02; done";

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_asked_stops_its_command() {
    for recipe in ["mutex", "handoff", "cohort", "read", "write", "semaphore-mutex", "semaphore=2", "naive", "leader"] {
        let lab = Lab::new().await;
        let mut holder = lab.start_script(&["--recipe", recipe], OBEY);
        let node = holder.line().await;
        let asked = lab.start(["--revoke", PATH]).finish().await;
        asked.assert_status(0);
        let columns: Vec<_> = asked.stdout.split_whitespace().collect();
        assert_eq!(columns[..2], ["1", "holder"], "{recipe}");
        assert!(columns.contains(&node.rsplit('/').next().unwrap()), "{recipe}: {node}: {columns:?}");
        let finished = holder.finish().await;
        finished.assert_status(3);
        assert_eq!(finished.stdout, "asked\n", "{recipe}");
        let expected = "zk-lock: somebody asks for /locks/a, and the command is asked to stop";
        assert!(finished.stderr.contains(expected), "{recipe}: {}", finished.stderr);
        let asked = lab.start(["--revoke", PATH]).finish().await;
        asked.assert_status(0);
        assert_eq!(asked.stdout, "nobody holds /locks/a\n", "{recipe}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_is_held_until_an_asked_command_has_ended() {
    let lab = Lab::new().await;
    let end = "echo asked; until [ -e go ]; do sleep 0.02; done; exit 3";
    let mut holder = lab.start_script(&[], &format!("trap '{end}' TERM; echo ready; while :; do sleep 0.02; done"));
    assert_eq!(holder.line().await, "ready");
    lab.start(["--revoke", PATH]).finish().await.assert_status(0);
    assert_eq!(holder.line().await, "asked");
    assert_eq!(lab.queue(PATH).await.len(), 1, "it is held while the command ends");
    fs::write(lab.file("go"), "").unwrap();
    holder.finish().await.assert_status(3);
    assert!(lab.queue(PATH).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_may_run_on_after_a_request() {
    let lab = Lab::new().await;
    let script = "echo ready; until [ -e go ]; do sleep 0.02; done";
    let mut holder = lab.start_script(&["--on-revoke", "warn"], script);
    assert_eq!(holder.line().await, "ready");
    let waiter = lab.start_script(&[], "echo ran");
    lab.until_queued(2).await;
    let asked = lab.start(["--revoke", PATH]).finish().await;
    asked.assert_status(0);
    assert_eq!(asked.stdout.lines().count(), 1, "{}", asked.stdout);
    holder.until_says("zk-lock: somebody asks for /locks/a, and the command goes on").await;
    assert_eq!(lab.queue(PATH).await.len(), 2, "it holds on");
    fs::write(lab.file("go"), "").unwrap();
    holder.finish().await.assert_status(0);
    let waiter = waiter.finish().await;
    waiter.assert_status(0);
    assert_eq!((waiter.stdout.as_str(), waiter.stderr.as_str()), ("ran\n", ""), "nobody asked for its place");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_holders_is_asked_by_its_node() {
    let lab = Lab::new().await;
    for recipe in ["read", "semaphore=2"] {
        let options = ["--recipe", recipe];
        let mut one = lab.start_script(&options, OBEY);
        let mut other = lab.start_script(&options, OBEY);
        let node = one.line().await;
        other.line().await;
        let asked = lab.start(["--revoke", &node, "--json"]).finish().await;
        asked.assert_status(0);
        let rows: serde_json::Value = serde_json::from_str(&asked.stdout).unwrap();
        assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
        one.finish().await.assert_status(3);
        assert_eq!(lab.queue(PATH).await.len(), 1, "{recipe}: the other one holds");
        // Without its node, all that are left.
        lab.start(["--revoke", PATH]).finish().await.assert_status(0);
        other.finish().await.assert_status(3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_needs_the_credentials_of_the_holder() {
    let lab = Lab::new().await;
    let with = |config: ProcessConfig| Running::start(config.env("ZK_LOCK_AUTH", "shop:sesame"));
    let script = lab.script(&[], OBEY);
    let mut holder = with(lab.config(script.iter().map(String::as_str)));
    holder.line().await;
    let refused = lab.start(["--revoke", PATH]).finish().await;
    refused.assert_status(69);
    assert!(refused.stderr.contains("ZK_LOCK_AUTH"), "{}", refused.stderr);
    with(lab.config(["--revoke", PATH])).finish().await.assert_status(0);
    holder.finish().await.assert_status(3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_was_asked_is_stopped_when_it_holds() {
    let lab = Lab::new().await;
    let script = "echo ready; until [ -e go ]; do sleep 0.02; done";
    let mut holder = lab.start_script(&[], script);
    assert_eq!(holder.line().await, "ready");
    let waiter = lab.start_script(&[], "exec sleep 1000");
    lab.until_queued(2).await;
    let place = lab.queue(PATH).await.remove(1).path;
    lab.start(["--revoke", &place]).finish().await.assert_status(0);
    fs::write(lab.file("go"), "").unwrap();
    holder.finish().await.assert_status(0);
    waiter.finish().await.assert_status(143);
}
