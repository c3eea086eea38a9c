//! Signals that `zk-lock` is sent while the command runs.

use std::fs;

use nix::sys::signal::{Signal, kill};
use testbed::ProcessConfig;

use crate::support::{Lab, PATH, PROGRAM, Running, is_gone, is_in_state, until};

/// Names each signal that it gets, and ends by SIGTERM, in its own way.
const TELL: &str = "for s in INT HUP QUIT USR1 USR2; do trap \"echo got $s\" $s; done; trap 'exit 5' TERM; \
                    echo $$ >pid; echo ready; while :; do sleep 0.02; done";

#[tokio::test(flavor = "multi_thread")]
async fn signals_are_passed_on_to_the_command_once() {
    let lab = Lab::new().await;
    let mut running = lab.start_script(&[], TELL);
    assert_eq!(running.line().await, "ready");
    for signal in [Signal::SIGUSR1, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR2, Signal::SIGQUIT] {
        running.signal(signal);
        assert_eq!(running.line().await, format!("got {}", &signal.as_str()[3..]));
    }
    running.signal(Signal::SIGTERM);
    let finished = running.finish().await;
    finished.assert_status(5);
    assert_eq!(finished.stdout, "", "each came once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ended_by_a_signal_has_the_status_of_a_shell() {
    let lab = Lab::new().await;
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut running = lab.start_script(&[], "echo ready; exec sleep 1000");
        assert_eq!(running.line().await, "ready");
        running.signal(signal);
        running.finish().await.assert_status(128 + signal as i32);
        lab.until_queued(0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_reaches_the_whole_pipeline_that_the_command_is() {
    let lab = Lab::new().await;
    // The shell is asked to end and waits for both ends of its pipeline, which only the signal ends.
    let end = |name: &str| format!("sh -c 'echo $$ >{name}; exec sleep 1000'");
    let script = format!("trap 'echo asked' TERM; {} | {}; exit 3", end("left"), end("right"));
    let running = lab.start_script(&[], &script);
    let left = lab.pid_in("left").await;
    let right = lab.pid_in("right").await;
    running.signal(Signal::SIGTERM);
    let finished = running.finish().await;
    finished.assert_status(3);
    assert_eq!(finished.stdout, "asked\n");
    assert!(is_gone(left) && is_gone(right));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_is_interrupted_with_the_program_stops() {
    let lab = Lab::new().await;
    // At a terminal both get the signal; bash ends only when it sees that the program was ended by it.
    let script = format!("'{PROGRAM}' --path {PATH} -- sh -c 'echo ready; exec sleep 1000'; echo went on");
    let bash = ProcessConfig { program: "bash".into(), ..lab.config(["-c", &script]) };
    let mut running = Running::start(bash);
    assert_eq!(running.line().await, "ready");
    let zk_lock = lab.holder_pid().await;
    running.signal(Signal::SIGINT);
    kill(zk_lock, Signal::SIGINT).unwrap();
    let finished = running.finish().await;
    finished.assert_status(130);
    assert_eq!(finished.stdout, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ignored_at_the_start_stays_ignored_for_both() {
    let lab = Lab::new().await;
    let script = lab.script(
        &[],
        "trap 'echo got USR1' USR1; trap 'exit 5' TERM; echo $$ >pid; echo ready; \
                                  while :; do sleep 0.02; done",
    );
    let mut running = lab.start_by_exec("trap '' HUP;", script);
    assert_eq!(running.line().await, "ready");
    running.signal(Signal::SIGHUP);
    kill(lab.pid_in("pid").await, Signal::SIGHUP).unwrap();
    running.signal(Signal::SIGUSR1);
    assert_eq!(running.line().await, "got USR1");
    running.signal(Signal::SIGTERM);
    running.finish().await.assert_status(5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halted_command_keeps_its_lock_and_can_be_continued() {
    let lab = Lab::new().await;
    // Nothing is started in the loop: a shell whose child is halted between vfork and exec waits, but is not halted.
    let mut running = lab.start_script(&[], "echo $$ >pid; echo ready; until [ -e go ]; do :; done; echo done");
    assert_eq!(running.line().await, "ready");
    let command = lab.pid_in("pid").await;
    running.signal(Signal::SIGTSTP);
    until("the command is halted", async || is_in_state(command, 'T')).await;
    fs::write(lab.file("go"), "").unwrap();
    lab.start_script(&["--timeout", "0s"], "true").finish().await.assert_status(75);
    running.signal(Signal::SIGCONT);
    assert_eq!(running.line().await, "done");
    running.finish().await.assert_status(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halted_command_can_be_ended() {
    let lab = Lab::new().await;
    let running = lab.start_script(&[], "echo $$ >pid; exec sleep 1000");
    let command = lab.pid_in("pid").await;
    running.signal(Signal::SIGTSTP);
    until("the command is halted", async || is_in_state(command, 'T')).await;
    running.signal(Signal::SIGTERM);
    running.finish().await.assert_status(143);
}

// Only Linux ends a process with its parent.
// Z15
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_command_does_not_outlive_a_killed_program() {
    let lab = Lab::new().await;
    let running = lab.start_script(&[], "trap '' TERM; echo $$ >pid; while :; do sleep 0.02; done");
    let command = lab.pid_in("pid").await;
    running.signal(Signal::SIGKILL);
    running.finish().await.assert_status(137);
    until("the command is gone", async || is_gone(command)).await;
}
