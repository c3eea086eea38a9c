//! A randomized stress test: sessions behind faulty proxies, a server that is killed and restarted, nodes that are
//! deleted and overwritten by hand, acquires that are dropped anywhere. No two holds that exclude each other may overlap,
//! and after the faults every lock must be had again.
//!
//! `STRESS_SECONDS` says how long the load lasts, `STRESS_SEED` which random choices are made. The same seed makes the same
//! choices, but no run repeats another: what meets what depends on the machine.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod checker;
mod contended;
mod contended_paths;
mod contenders;
mod crowd;
mod nemesis;
mod record;
mod stress_run;

use std::env;
use std::fmt::Write;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::time::timeout;
use zookeeper_client::Client;

use crate::contended_paths::CONTENDED_PATHS;
use crate::contenders::ContenderTask;
use crate::record::{Record, Subject};
use crate::stress_run::StressRun;

/// Contenders of each session.
const CONTENDERS: usize = 5;
/// How long the load lasts without `STRESS_SECONDS`.
const SECONDS: u64 = 30;
/// How long anything that must happen after the faults may take on a busy machine. Never waited for unless the test fails.
const SOON: Duration = Duration::from_secs(120);

// L1
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_two_hold_together_and_no_queue_stands_still() {
    let seed = setting("STRESS_SEED").unwrap_or_else(rand::random);
    let seconds = setting("STRESS_SECONDS").unwrap_or(SECONDS);
    println!("STRESS_SEED={seed} STRESS_SECONDS={seconds}");
    let (run, server) = StressRun::start(seed).await;
    let record = Arc::clone(&run.record);
    let supervisors: Vec<_> = (0..run.sessions.len())
        .map(|session_number| tokio::spawn(Arc::clone(&run).supervise(session_number)))
        .collect();

    let mut faults: Vec<_> = (0..run.sessions.len())
        .map(|session_number| tokio::spawn(nemesis::disturb(Arc::clone(&run), session_number)))
        .collect();
    faults.push(tokio::spawn(nemesis::nodes::meddle(Arc::clone(&run))));
    let mut load = vec![tokio::spawn(crowd::gather(Arc::clone(&run)))];
    for session_number in 0..run.sessions.len() {
        load.extend((0..CONTENDERS).map(|number| tokio::spawn(ContenderTask::new(&run, session_number, number).run())));
    }

    let time = async {
        record.pause(Duration::from_secs(seconds)).await;
        record.stop();
    };
    let (server, ()) = join(nemesis::restart(&run, server), time).await;
    let healed = timeout(SOON, join_all(faults)).await.expect("the faults end");
    healed.into_iter().for_each(|fault| fault.unwrap());
    let phase = |what: &str| println!("{:>9.1}  {what}", record.now().as_secs_f64());
    phase("seconds: the faults are over");
    record.note(Subject::Server, "everything is healed");
    let raw = run.raw().await;
    match timeout(SOON, join_all(load)).await {
        Ok(ended) => ended.into_iter().for_each(|ended| ended.unwrap()),
        Err(_) => record.fail(format!("contenders still wait {SOON:?} after the faults\n{}", queues(&raw).await)),
    }
    phase("seconds: all contenders have ended");
    if record.failures().is_empty() {
        every_lock_is_had_again(&run, &raw).await;
        phase("seconds: every lock was had again");
        every_queue_empties(&record, &raw, "its contenders have let go").await;
        phase("seconds: every queue is empty");
        supervisors.into_iter().for_each(|supervisor| supervisor.abort());
        for session in &run.sessions {
            let _ = session.session().close().await;
        }
        every_queue_empties(&record, &raw, "its sessions have ended").await;
    }
    drop(server);

    phase("seconds in all");
    println!("{}", record.totals());
    let failures = record.failures().join("\n");
    assert!(failures.is_empty(), "with STRESS_SEED={seed} and STRESS_SECONDS={seconds}:\n{failures}");
    for kind in CONTENDED_PATHS.iter().flat_map(|contended| contended.kinds) {
        assert!(record.total(&format!("grants of {kind:?}")) > 0, "{kind:?} was never granted");
    }
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    let value = env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is to be a number, not {value:?}")))
}

/// Acquires a lock of each kind at each path from each session.
async fn every_lock_is_had_again(run: &Arc<StressRun>, raw: &Client) {
    let mut contenders = Vec::new();
    for session_number in 0..run.sessions.len() {
        for (number, (contended, kind)) in CONTENDED_PATHS
            .iter()
            .flat_map(|contended| contended.kinds.iter().map(move |kind| (contended, *kind)))
            .enumerate()
        {
            let mut contender = ContenderTask::new(run, session_number, 500 + number);
            contenders.push(async move { contender.acquire_at_last(contended, kind).await });
        }
    }
    if timeout(SOON, join_all(contenders)).await.is_err() {
        run.record.fail(format!("locks are not had within {SOON:?} after the faults\n{}", queues(raw).await));
    }
}

/// Waits until no contender's node is below any path.
async fn every_queue_empties(record: &Record, raw: &Client, when: &str) {
    let deadline = record.now() + SOON;
    loop {
        let left = queues(raw).await;
        if left.is_empty() {
            return;
        }
        if record.now() > deadline {
            return record.fail(format!("nodes are left {SOON:?} after {when}\n{left}"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the contenders' nodes below all paths, one a line.
async fn queues(raw: &Client) -> String {
    let mut text = String::new();
    for contended in &CONTENDED_PATHS {
        for path in [contended.path, contended.queue, &format!("{}/locks", contended.path)] {
            let children = raw.list_children(path).await.unwrap_or_default();
            for (_, name) in contended_paths::contenders(children) {
                let _ = writeln!(text, "  {path}/{name}");
            }
        }
    }
    text
}
