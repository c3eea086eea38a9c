//! The program `loadgen`.

use std::process::ExitCode;

fn main() -> ExitCode {
    loadgen::main()
}
