//! Waiting for the lock, in time, in vain, and until told to stop.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use testbed::{ProcessConfig, ZooKeeper, ZooKeeperConfig};

use crate::support::{FaultyLab, Lab, PATH, PROGRAM, Running};

/// Starts a holder that ends when the file `go` exists.
async fn holder(lab: &Lab, recipe: &str) -> Running {
    let script = "echo held; until [ -e go ]; do sleep 0.02; done";
    let mut holder = lab.start_script(&["--recipe", recipe], script);
    assert_eq!(holder.line().await, "held");
    holder
}

// Z13
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_not_granted_in_time_is_status_75_and_runs_nothing() {
    for (holding, recipe) in [
        ("mutex", "mutex"),
        ("mutex", "cohort"),
        ("cohort", "mutex"),
        ("read", "write"),
        ("write", "read"),
        ("semaphore-mutex", "semaphore=1"),
        ("naive", "naive"),
        ("leader", "leader"),
    ] {
        let lab = Lab::new().await;
        let _holder = holder(&lab, holding).await;
        let queued = lab.queue(PATH).await.len();
        for wait_ms in [0, 300] {
            let began = Instant::now();
            let timeout = format!("{wait_ms}ms");
            let finished = lab.start_script(&["--recipe", recipe, "--timeout", &timeout], "echo ran").finish().await;
            finished.assert_status(75);
            assert!(began.elapsed() >= Duration::from_millis(wait_ms));
            assert_eq!((finished.stdout.as_str(), finished.stderr.lines().count()), ("", 1), "{}", finished.stderr);
            assert!(finished.stderr.starts_with("zk-lock: did not get /locks/a"), "{}", finished.stderr);
            assert!(finished.stderr.ends_with("see `zk-lock --list /locks/a`"), "{}", finished.stderr);
            assert_eq!(lab.queue(PATH).await.len(), queued, "{recipe}: it has left the queue");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_that_shows_the_holder_can_be_pasted() {
    let lab = Lab::new().await;
    let path = "/locks/it's $HOME";
    let mut holder = lab.start(["--path", path, "sh", "-c", "echo held; exec sleep 1000"]);
    assert_eq!(holder.line().await, "held");
    let words = ["--zookeeper", &lab.connect_string, "--path", path, "--timeout", "0s", "true"].map(str::to_owned);
    let finished = lab.start_by_exec("unset ZOOKEEPER_CONNECT;", words.to_vec()).finish().await;
    finished.assert_status(75);
    let list = finished.stderr.split('`').nth(1).unwrap().strip_prefix("zk-lock ").unwrap();
    let pasted = ["-c".to_owned(), format!("unset ZOOKEEPER_CONNECT; '{PROGRAM}' {list}")].map(Into::into).to_vec();
    let shell = ProcessConfig { program: "sh".into(), args: pasted, ..lab.config([]) };
    let listed = Running::start(shell).finish().await;
    listed.assert_status(0);
    assert!(listed.stdout.contains("holder"), "{}", listed.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_command_tells_by_its_status_only_that_it_was_late() {
    let lab = Lab::new().await;
    let _holder = holder(&lab, "mutex").await;
    for timeout in ["0s", "300ms"] {
        let finished = lab.start_script(&["--quiet", "--timeout", timeout], "echo ran").finish().await;
        finished.assert_status(75);
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""));
    }
    // Anything else is said.
    let finished = lab.start(["-q", "--path", "/other", "no-such-command"]).finish().await;
    finished.assert_status(127);
    assert!(finished.stderr.contains("no-such-command"), "{}", finished.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_get_the_lock_in_the_order_of_their_arrival() {
    let lab = Lab::new().await;
    let holder = holder(&lab, "mutex").await;
    let mut waiters = Vec::new();
    for number in 1..=4 {
        waiters.push(lab.start_script(&["--timeout", "1h"], &format!("echo {number} >>order")));
        lab.until_queued(1 + number).await;
    }
    fs::write(lab.file("go"), "").unwrap();
    for running in waiters.into_iter().chain([holder]) {
        running.finish().await.assert_status(0);
    }
    assert_eq!(lab.read("order"), "1\n2\n3\n4");
}

// Z14
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_while_waiting_leaves_the_queue_and_runs_nothing() {
    for recipe in ["mutex", "semaphore=1", "leader"] {
        let lab = Lab::new().await;
        let _holder = holder(&lab, recipe).await;
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
            let waiter = lab.start_script(&["--recipe", recipe], "echo ran");
            lab.until_queued(2).await;
            waiter.signal(signal);
            let finished = waiter.finish().await;
            finished.assert_status(128 + signal as i32);
            assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""));
            assert_eq!(lab.queue(PATH).await.len(), 1, "it has left before it ended");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_for_the_command_does_not_end_the_wait() {
    let lab = Lab::new().await;
    let holder = holder(&lab, "mutex").await;
    let waiter = lab.start_script(&[], "echo ran");
    lab.until_queued(2).await;
    waiter.signal(Signal::SIGUSR1);
    waiter.signal(Signal::SIGUSR2);
    fs::write(lab.file("go"), "").unwrap();
    holder.finish().await.assert_status(0);
    let finished = waiter.finish().await;
    finished.assert_status(0);
    assert_eq!(finished.stdout, "ran\n");
}

// L39
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_with_an_expired_session_says_so() {
    let faulty = FaultyLab::new().await;
    let _holder = holder(&faulty.lab, "mutex").await;
    let waiter = faulty.start_script(&["--session-timeout", "4s"], "echo ran");
    faulty.lab.until_queued(2).await;
    faulty.proxy.blackhole();
    waiter.until_says("zk-lock: ZooKeeper does not answer; still waiting for /locks/a").await;
    waiter
        .until_says("zk-lock: ZooKeeper has not answered for long; the place in the queue of /locks/a may be lost")
        .await;
    faulty.lab.until_queued(1).await;
    faulty.proxy.deliver();
    let finished = waiter.finish().await;
    finished.assert_status(69);
    assert_eq!(finished.stdout, "");
    let expected = "zk-lock: lost the place in the queue of /locks/a: the ZooKeeper session has ended: the session expired; \
                    run zk-lock again";
    assert!(finished.stderr.contains(expected), "{}", finished.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_on_a_server_that_throttles_all_run() {
    let throttling = ZooKeeperConfig { properties: ZooKeeperConfig::THROTTLING, ..ZooKeeperConfig::default() };
    let server = ZooKeeper::start(throttling).await.unwrap();
    let lab = Lab::at(server.connect_string(), None).await;
    let commands: Vec<_> = (0..10).map(|_| lab.start_script(&[], "echo ran >> log")).collect();
    for command in commands {
        command.finish().await.assert_status(0);
    }
    assert_eq!(lab.read("log").lines().count(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_name_that_does_not_resolve_is_named() {
    let lab = Lab::new().await;
    let options = ["--zookeeper", "no.such.host.invalid", "--connect-timeout", "300ms"];
    let finished = lab.start_script(&options, "echo ran").finish().await;
    finished.assert_status(69);
    assert!(finished.stderr.contains("no.such.host.invalid does not resolve"), "{}", finished.stderr);
}
