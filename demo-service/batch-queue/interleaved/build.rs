//! Copies the sources of the queue, and adds the mistakes beside the right code.

#[path = "src/mistakes.rs"]
#[allow(unreachable_pub, dead_code, reason = "the library shows it")]
mod mistakes;

use std::io;

use planting::{Sources, change};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src/mistakes.rs");
    // Few buyers fill a batch.
    let smaller = [change("queue.rs", "BATCH_MAX: usize = 1000;", "BATCH_MAX: usize = 3;")];
    Sources { folder: "../src", module: "batch_queue::", settings: &smaller }.copy(&mistakes::all().collect::<Vec<_>>())
}
