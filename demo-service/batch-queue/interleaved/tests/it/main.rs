//! `interleaved` as its user meets it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::{Command, Output};

fn interleaved(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_interleaved")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn it_tells_what_the_schedules_of_each_scene_have_reached() {
    let output = interleaved(&["--runs", "20", "--seed", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    for scene in ["one", "several"] {
        assert!(told.contains(&format!("{scene}: 20 runs from seed 1 on, ")), "{told}");
    }
    assert!(told.contains("  a batch serves several buyers\n"), "{told}");
}

#[test]
fn a_trace_has_what_each_buyer_is_told() {
    let output = interleaved(&["several", "--seed", "1", "--trace"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.starts_with("Plan {") && told.contains("\nbuyer 0 is told "), "{told}");
}
