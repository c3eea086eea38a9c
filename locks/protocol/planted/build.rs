//! Copies the sources of the protocol, and adds the mistakes beside the right code.

#[path = "src/mistakes.rs"]
#[allow(unreachable_pub, dead_code, reason = "the library shows it")]
mod mistakes;

use std::io;

use planting::Sources;

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src/mistakes.rs");
    println!("cargo::rerun-if-changed=src/mistakes");
    Sources { folder: "../src", module: "", settings: &[] }.copy(&mistakes::all().collect::<Vec<_>>())
}
