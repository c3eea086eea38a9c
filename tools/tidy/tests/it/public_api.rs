//! The public interface of the lock library. A change of it shows as a change of `locks/recipes/public-api.txt`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::architecture::root;

/// Set to write down what is found.
const UPDATE: &str = "UPDATE_PUBLIC_API";

#[test]
fn the_interface_of_the_library_is_the_one_written_down() {
    let documented = Command::new(env!("CARGO"))
        .args(["rustdoc", "--locked", "--quiet", "--package", "zk-recipes", "--lib"])
        .args(["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"])
        .env("RUSTDOC", root().join("tools/tidy/tests/it/rustdoc.sh"))
        .current_dir(root())
        .output()
        .unwrap();
    assert!(documented.status.success(), "{}", String::from_utf8_lossy(&documented.stderr));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let interface = public_api::Builder::from_rustdoc_json(target.join("doc/zk_recipes.json"))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .unwrap();
    let found: String = interface.items().map(|item| format!("{item}\n")).collect();
    let file = root().join("locks/recipes/public-api.txt");
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&file, &found).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    let only_in = |one: &str, other: &str, sign: char| -> String {
        let has = |line: &str| other.lines().any(|there| there == line);
        one.lines().filter(|line| !has(line)).map(|line| format!("{sign} {line}\n")).collect()
    };
    let changes = only_in(&written, &found, '-') + &only_in(&found, &written, '+');
    assert!(changes.is_empty(), "set {UPDATE}=1 if that is meant, and look at the change:\n{changes}");
}
