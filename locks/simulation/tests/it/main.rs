//! `lock-weather` as its user meets it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::{Command, Output};

fn lock_weather(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lock-weather")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn it_tells_what_the_runs_of_each_kind_have_reached() {
    let output = lock_weather(&["--runs", "20", "--seed", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    for kind in ["queue", "naive", "permits", "cohort", "clocks"] {
        assert!(told.contains(&format!("{kind}: 20 runs from seed 1 on, ")), "{told}");
    }
    assert!(told.contains("  a user waits while another one holds\n"), "{told}");
}

#[test]
fn a_sight_that_was_not_reached_is_named() {
    let output = lock_weather(&["--models", "queue", "--runs", "1", "--seed", "1", "--all-sights"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("error: no run of queue has reached: "), "{}", text(&output.stderr));
}

#[test]
fn a_trace_has_each_action_and_the_state_after_it() {
    let output = lock_weather(&["--models", "naive", "--seed", "1", "--trace"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.starts_with("NaiveModel {") && told.contains("\nCome(0)\n    World {"), "{told}");
}

#[test]
fn wrong_arguments_are_refused_with_the_remedy() {
    for (args, remedy) in [
        (&["--seed", "1", "--trace"][..], "name one kind in --models"),
        (&["--trace", "--models", "queue"], "--seed"),
        (&["--models", "tides"], "possible values: queue, naive, permits, cohort, clocks"),
        (&["--runs", "0"], "0 is not in 1.."),
    ] {
        let output = lock_weather(args);
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        assert!(text(&output.stderr).contains(remedy), "{args:?}: {}", text(&output.stderr));
    }
}
