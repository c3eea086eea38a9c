//! Guarded processes: how they start, speak, stop and end.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::{Error, Process, ProcessConfig, Stdout, StopSignal};

use crate::support::{DEADLINE, eventually, group_of, is_gone, is_group_gone};

fn shell(script: &str) -> ProcessConfig {
    ProcessConfig { stdout: Stdout::Lines, ..ProcessConfig::new("sh").args(["-c", script]) }
}

async fn line(process: &mut Process) -> String {
    process.line(DEADLINE).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_dropped_process_is_gone_with_its_whole_group() {
    let process = Process::spawn(ProcessConfig::new("sleep").args(["600"])).unwrap();
    let pid = process.pid();
    let group = group_of(pid);
    assert!(!is_gone(pid));
    drop(process);
    assert!(is_gone(pid));
    eventually("the group is empty", || is_group_gone(group));
}

#[tokio::test]
async fn a_process_gets_arguments_environment_and_an_empty_input() {
    let config = shell(r#"cat; echo "$1|$2|$GREETING""#).args(["sh", "two words", "$x"]).env("GREETING", "hello world");
    let mut process = Process::spawn(config).unwrap();
    assert_eq!(line(&mut process).await, "two words|$x|hello world");
    assert_eq!(process.line(DEADLINE).await.unwrap(), None, "the output has ended");
}

#[tokio::test]
async fn a_frozen_process_goes_on_when_it_is_resumed() {
    let config = shell("while read -r line; do echo \"$line\"; done");
    let mut process = Process::spawn(ProcessConfig { stdout: Stdout::Dialogue, ..config }).unwrap();
    process.pause().unwrap();
    process.say("word").unwrap();
    assert!(process.line(Duration::from_millis(100)).await.is_err());
    process.resume().unwrap();
    assert_eq!(line(&mut process).await, "word");
}

#[tokio::test]
async fn a_dialogue_is_the_programs_input_and_output() {
    let config = shell("while read -r line; do echo \"not $line\"; done; echo bye");
    let mut process = Process::spawn(ProcessConfig { stdout: Stdout::Dialogue, ..config }).unwrap();
    for word in ["so", "yet"] {
        process.say(word).unwrap();
        assert_eq!(line(&mut process).await, format!("not {word}"));
    }
}

#[tokio::test]
async fn the_end_of_a_program_is_the_end_of_its_dialogue() {
    let config = shell("read -r line; echo \"$line\"");
    let mut process = Process::spawn(ProcessConfig { stdout: Stdout::Dialogue, ..config }).unwrap();
    process.say("last words").unwrap();
    assert_eq!(line(&mut process).await, "last words");
    assert_eq!(process.line(DEADLINE).await.unwrap(), None);
    assert!(process.say("anybody there?").is_err());
}

#[tokio::test]
async fn a_process_without_a_dialogue_cannot_be_spoken_to() {
    let error = Process::spawn(shell("exec sleep 600")).unwrap().say("hello").unwrap_err();
    assert!(error.to_string().contains("say \"hello\" to sh"), "{error}");
}

#[tokio::test]
async fn the_process_id_is_the_programs_own() {
    let mut process = Process::spawn(shell("echo $$; exec sleep 600")).unwrap();
    assert_eq!(line(&mut process).await, process.pid().to_string());
}

#[tokio::test]
async fn a_process_that_ends_by_itself_tells_its_exit_code() {
    let mut process = Process::spawn(shell("exit 7")).unwrap();
    assert_eq!(process.wait().await.unwrap().code(), Some(7));
    assert_eq!(process.try_wait().unwrap().unwrap().code(), Some(7), "the status stays");
}

#[tokio::test]
async fn a_process_that_is_killed_tells_the_signal() {
    let mut process = Process::spawn(ProcessConfig::new("sleep").args(["600"])).unwrap();
    assert_eq!(process.try_wait().unwrap(), None);
    kill(Pid::from_raw(process.pid()), Signal::SIGKILL).unwrap();
    assert_eq!(process.wait().await.unwrap().signal(), Some(Signal::SIGKILL as i32));
}

#[tokio::test]
async fn a_stopped_process_may_finish_its_work() {
    for (stop_signal, name) in [(StopSignal::Terminate, "TERM"), (StopSignal::Interrupt, "INT")] {
        let script = format!("trap 'echo finished; exit 5' {name}; echo ready; while :; do sleep 0.01; done");
        let mut process = Process::spawn(ProcessConfig { stop_signal, ..shell(&script) }).unwrap();
        assert_eq!(line(&mut process).await, "ready");
        process.request_stop();
        assert_eq!(line(&mut process).await, "finished");
        assert_eq!(process.stop().await.unwrap().code(), Some(5));
    }
}

#[tokio::test]
async fn both_stop_signals_end_a_program_that_does_not_handle_them() {
    for (stop_signal, number) in [(StopSignal::Terminate, Signal::SIGTERM), (StopSignal::Interrupt, Signal::SIGINT)] {
        let config = ProcessConfig { stop_signal, ..ProcessConfig::new("sleep").args(["600"]) };
        let status = Process::spawn(config).unwrap().stop().await.unwrap();
        assert_eq!(status.signal(), Some(number as i32));
    }
}

#[tokio::test]
async fn a_process_that_ignores_the_stop_signal_is_killed() {
    let config =
        ProcessConfig { stop_within: Duration::from_millis(200), ..shell("trap '' TERM; echo ready; exec sleep 600") };
    let mut process = Process::spawn(config).unwrap();
    assert_eq!(line(&mut process).await, "ready");
    let status = process.stop().await.unwrap();
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
}

#[tokio::test]
async fn a_suspended_process_still_stops_by_the_stop_signal() {
    let process = Process::spawn(ProcessConfig::new("sleep").args(["600"])).unwrap();
    kill(Pid::from_raw(process.pid()), Signal::SIGSTOP).unwrap();
    let status = process.stop().await.unwrap();
    assert_eq!(status.signal(), Some(Signal::SIGTERM as i32), "not SIGKILL, after the whole time to stop");
}

#[tokio::test]
async fn standard_error_is_kept_after_the_process_has_ended() {
    let mut process = Process::spawn(shell("echo it broke >&2; exit 1")).unwrap();
    process.wait().await.unwrap();
    assert_eq!(process.log_tail(), "it broke");
}

#[tokio::test]
async fn both_ends_of_a_long_log_are_kept() {
    let mut process = Process::spawn(shell("echo it broke here >&2; seq 10000 >&2; echo and ended there >&2")).unwrap();
    process.wait().await.unwrap();
    assert!(process.log_head().starts_with("it broke here\n1\n2\n"), "{}", process.log_head());
    assert!(process.log_tail().ends_with("\n10000\nand ended there"), "{}", process.log_tail());
}

#[tokio::test]
async fn a_log_file_of_ones_own_stays_and_is_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let log_file = folder.path().join("instance.log");
    for word in ["one", "two"] {
        let config = ProcessConfig {
            stdout: Stdout::Log,
            log_file: Some(log_file.clone()),
            ..ProcessConfig::new("echo").args([word])
        };
        Process::spawn(config).unwrap().wait().await.unwrap();
    }
    assert_eq!(fs::read_to_string(log_file).unwrap(), "one\ntwo\n");
}

#[tokio::test]
async fn a_line_that_does_not_come_is_an_error_with_the_log() {
    let mut process = Process::spawn(shell("echo waiting for godot >&2; exec sleep 600")).unwrap();
    eventually("the program has written to its log", || !process.log_tail().is_empty());
    let error = process.line(Duration::from_millis(1)).await.unwrap_err();
    assert!(error.to_string().contains("waiting for godot"), "{error}");
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_an_error() {
    let error = Process::spawn(ProcessConfig::new("no-such-program-anywhere")).unwrap_err();
    assert!(matches!(error, Error::NoSuchProgram { .. }), "{error}");
}
