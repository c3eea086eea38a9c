//! Looks for inputs with libFuzzer.

use std::panic::RefUnwindSafe;
use std::{env, thread};

use bolero::{DefaultEngine, TargetLocation, TestTarget};

/// If it is set, a target prints its name and its test instead of running.
const LIST: &str = "FUZZ_LIST";

#[allow(clippy::print_stdout, reason = "scripts/fuzz.sh reads it")]
pub(crate) fn target(target: &str, property: impl Fn(&[u8]) + RefUnwindSafe) {
    // The harness names the thread of a test after it.
    let test = thread::current().name().unwrap_or_default().to_owned();
    if env::var_os(LIST).is_some() {
        println!("\nfuzz target {target} {test}");
        return;
    }
    // Other engines of bolero read the location.
    let location = TargetLocation {
        package_name: "fuzz",
        manifest_dir: env!("CARGO_MANIFEST_DIR"),
        module_path: module_path!(),
        file: file!(),
        line: line!(),
        item_path: module_path!(),
        test_name: Some(target.to_owned()),
    };
    TestTarget::new(DefaultEngine::new(location)).for_each(property);
}
