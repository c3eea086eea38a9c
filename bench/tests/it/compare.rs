//! `bench-compare`: what it makes of results, and how it comes to them.

mod judging;
mod measuring;

use std::path::Path;
use std::process::{Command, Output};

/// The program, in a folder. What the environment says of target folders is for this build, not for those of the tests.
fn bench_compare(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-compare"));
    command.current_dir(folder).env_remove("CARGO_TARGET_DIR").env_remove("CARGO_BUILD_TARGET_DIR");
    command
}

/// How a program ended, and what it has said.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Ended {
    /// Asserts an exit code, and that a sentence of the error or the result has all of these in it.
    #[track_caller]
    fn assert(&self, code: i32, said: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        let place = if code <= 1 { &self.stdout } else { &self.stderr };
        for words in said {
            assert!(place.contains(words), "{words:?} is not said in:\n{place}");
        }
    }
}
