//! The example does what it says.

use std::process::Command;

#[test]
fn a_paused_holder_is_fenced_off() {
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().and_then(|deps| deps.parent()).unwrap().join("examples/fenced_off");
    let output = Command::new(&example)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}; `cargo test` without `--test` builds it", example.display()));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        said.contains("refused") && said.ends_with("stock: 10 before, 9 now; sold by B: true, by A: false\n"),
        "{said}"
    );
}
