//! `lock-weather` as its user meets it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

fn lock_weather(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lock-weather")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn it_tells_what_the_walks_of_each_machine_have_reached() {
    let output = lock_weather(&["--runs", "20", "--seed", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    for machine in ["queue", "naive", "permits", "cohort", "clocks"] {
        assert!(told.contains(&format!("{machine}: 20 runs from seed 1 on, ")), "{told}");
    }
    assert!(told.contains("  a user waits while another one holds\n"), "{told}");
}

#[test]
fn a_sight_that_was_not_reached_is_named() {
    let output = lock_weather(&["queue", "--runs", "1", "--seed", "1", "--all-sights"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("error: no run of queue has reached: "), "{}", text(&output.stderr));
}

#[test]
fn a_trace_has_each_action_and_the_state_after_it() {
    let output = lock_weather(&["naive", "--seed", "1", "--trace"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.starts_with("NaiveModel {") && told.contains("\nCome(0)\n    World {"), "{told}");
}

#[test]
fn an_interrupted_run_tells_what_it_has_reached_so_far() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock-weather"));
    command.args(["--seed", "1", "--time", "10m"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut started = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut started).unwrap();
    assert_eq!(started, "running from seed 1 on\n");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let mut told = String::new();
    child.stdout.as_mut().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{told}");
    assert!(told.starts_with("queue: ") && told.contains(" runs from seed 1 on, "), "{told}");
    assert!(!told.contains("naive: "), "{told}");
}

#[test]
fn wrong_arguments_are_refused_with_the_remedy() {
    for (args, remedy) in [
        (&["--seed", "1", "--trace"][..], "name one of: queue, naive, permits"),
        (&["--trace", "queue"], "--seed"),
        (&["tides"], "possible values: queue, naive, permits, cohort, clocks"),
        (&["--runs", "0"], "0 is not in 1.."),
        (&["--runs", "18446744073709551615"], "is not in 1.."),
        (&["--time", "soon"], "--time"),
        (&["--time", "0s"], "it must be more than 0"),
    ] {
        let output = lock_weather(args);
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        assert!(text(&output.stderr).contains(remedy), "{args:?}: {}", text(&output.stderr));
    }
}
