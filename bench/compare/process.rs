//! Running other programs, so that none goes on when nobody waits for it any more.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Output, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Command;

use crate::error::Error;

/// How much of what a program has said an error repeats.
const LINES_TOLD: usize = 20;

/// A process group that dies with this value.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // It may have ended by itself just now.
            killpg(leader, Signal::SIGKILL).ok();
        }
    }
}

/// Runs a program and returns what it has printed. What it has to say about a failure is told with the error.
///
/// # Errors
/// When the program cannot be started or fails.
///
/// # Cancel safety
/// Dropped, the program and its children are killed.
pub(crate) async fn output(what: &str, command: &mut Command) -> Result<String, Error> {
    text(what, finish(what, command.stdout(Stdio::piped()).stderr(Stdio::piped())).await?)
}

/// As [`output`], for a program that takes long: what it says of its progress goes to the terminal.
///
/// # Errors
/// When the program cannot be started or fails.
///
/// # Cancel safety
/// Dropped, the program and its children are killed.
pub(crate) async fn output_in_sight(what: &str, command: &mut Command) -> Result<String, Error> {
    text(what, finish(what, command.stdout(Stdio::piped()).stderr(Stdio::inherit())).await?)
}

/// Runs a program and keeps all that it says in a file. The end of that is told with an error.
///
/// # Errors
/// When the program cannot be started or fails.
///
/// # Cancel safety
/// Dropped, the program and its children are killed.
pub(crate) async fn logged(what: &str, command: &mut Command, log: &Path) -> Result<(), Error> {
    let file = File::create(log).map_err(Error::file("write", log))?;
    let same_file = file.try_clone().map_err(Error::file("write", log))?;
    let Output { status, .. } = finish(what, command.stdout(file).stderr(same_file)).await?;
    if status.success() {
        return Ok(());
    }
    let said = std::fs::read(log).map_err(Error::file("read", log))?;
    Err(failed(what, status, &said))
}

async fn finish(what: &str, command: &mut Command) -> Result<Output, Error> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let started = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => Error::NoProgram(program),
        _ => Error::system(format!("run {what}"))(source),
    };
    // In a group of its own, Ctrl-C at the terminal does not reach the program; the group is killed instead.
    let child = command.stdin(Stdio::null()).process_group(0).spawn().map_err(started)?;
    let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw));
    let output = child.wait_with_output().await.map_err(Error::system(format!("wait for {what}")))?;
    group.0 = None;
    Ok(output)
}

fn text(what: &str, output: Output) -> Result<String, Error> {
    if !output.status.success() {
        return Err(failed(what, output.status, &output.stderr));
    }
    String::from_utf8(output.stdout).map_err(|error| Error::unreadable(format!("the answer of {what}"), error))
}

fn failed(what: &str, status: std::process::ExitStatus, said: &[u8]) -> Error {
    let said = String::from_utf8_lossy(said);
    let lines: Vec<&str> = said.trim_end().lines().collect();
    let output = lines[lines.len().saturating_sub(LINES_TOLD)..].join("\n");
    Error::Failed { what: what.to_owned(), status: status.to_string(), output }
}
