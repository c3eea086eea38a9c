//! The program `demo-service`.

use std::process::ExitCode;

fn main() -> ExitCode {
    demo_service::main()
}
