//! Programs that start with the signals of a terminal, however the tests were started.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// A program inherits that its starter ignores signals. This restores their default actions.
const DEFAULT: &str = "--default-signal=HUP,INT,QUIT";

/// Whether `env` can do this. Those of macOS and BusyBox cannot.
static IS_KNOWN: LazyLock<bool> = LazyLock::new(|| {
    let known = Command::new("/usr/bin/env").args([DEFAULT, "true"]).stderr(Stdio::null()).status();
    known.is_ok_and(|status| status.success())
});

/// Returns a command whose program starts with the default actions of `SIGHUP`, `SIGINT` and `SIGQUIT`.
///
/// `nohup` ignores the first, and a job that a script starts in the background ignores the others. So a test that sends one
/// of them passes there as well. Where `env` cannot restore the actions, the program inherits what this process ignores.
pub fn with_default_signals(program: impl AsRef<OsStr>) -> Command {
    if *IS_KNOWN {
        let mut command = Command::new("/usr/bin/env");
        command.args([OsStr::new(DEFAULT), program.as_ref()]);
        command
    } else {
        Command::new(program)
    }
}
