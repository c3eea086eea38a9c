//! The example does what it says.

use std::process::Command;

#[test]
fn a_paused_holder_is_fenced_off() {
    // As its documentation says to run it. It was not built with the tests, but all that it depends on was.
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--locked", "--offline", "--package", "zk-recipes", "--example", "fenced_off"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        said.contains("refused") && said.ends_with("stock: 10 before, 9 now; sold by B: true, by A: false\n"),
        "{said}"
    );
}
