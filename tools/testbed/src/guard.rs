//! A child process that cannot outlive its owner: `guard.sh` and its other half.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use program::FromSystem as _;

use crate::folder::Folder;
use crate::{Error, StopSignal};

const SCRIPT: &str = include_str!("guard.sh");
/// The script is a file and not an argument of the shell, so that a process list stays readable.
const SCRIPT_NAME: &str = "guard.sh";
/// Pause between two checks whether a child has ended.
pub(crate) const POLL: Duration = Duration::from_millis(10);
/// Time for the guard beyond the child's own grace. It kills the child, and removes a folder that is still written to.
const GUARD_GRACE: Duration = Duration::from_secs(10);
/// Length of the part of a log that an error has.
const LOG_PART_BYTES: usize = 4096;

/// A program to run, and how to stop it.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) envs: Vec<(OsString, OsString)>,
    /// Whether the program has a variable of this process.
    pub(crate) knows: fn(&OsStr) -> bool,
    pub(crate) dir: Option<PathBuf>,
    pub(crate) stop_signal: StopSignal,
    /// From the stop signal to `SIGKILL`, rounded up to tenths of a second.
    pub(crate) stop_within: Duration,
    pub(crate) stdout: Output,
    /// The file for standard error; `log` in the folder when `None`.
    pub(crate) log_file: Option<PathBuf>,
}

/// The target of a child's standard output.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Output {
    Null,
    Inherit,
    Pipe,
    /// A socket, which is the child's standard input as well.
    Socket,
    Log,
}

/// A running child and its guard.
#[derive(Debug)]
pub(crate) struct Guard {
    shell: Child,
    lifeline: UnixStream,
    /// The other end of [`Output::Socket`].
    dialogue: Option<UnixStream>,
    pid: Pid,
    folder: PathBuf,
    /// Kept open, so that the log can be read after the guard has removed the folder.
    log: File,
    stop_within: Duration,
    status: Option<ExitStatus>,
}

impl Guard {
    /// Starts the child. When this returns, the program itself runs, and not only its guard.
    pub(crate) fn spawn(launch: Launch, folder: Folder) -> Result<Self, Error> {
        let name = launch.program.display().to_string();
        let failed = || Error::system(format!("start {name}"));
        let (lifeline, guard_end) = UnixStream::pair().map_err(failed())?;
        let log_path = launch.log_file.clone().unwrap_or_else(|| folder.path().join("log"));
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(&log_path)
            .map_err(Error::system(format!("open the log {}", log_path.display())))?;

        folder.write(SCRIPT_NAME, SCRIPT)?;
        let mut command = launch.command(&folder);
        command.stdin(OwnedFd::from(guard_end)).stderr(log.try_clone().map_err(failed())?);
        let mut dialogue = None;
        match launch.stdout {
            Output::Null => command.stdout(Stdio::null()),
            Output::Inherit => command.stdout(Stdio::inherit()),
            Output::Pipe => command.stdout(Stdio::piped()),
            Output::Socket => {
                let (ours, childs) = UnixStream::pair().map_err(failed())?;
                dialogue = Some(ours);
                command.stdout(OwnedFd::from(childs))
            }
            Output::Log => command.stdout(log.try_clone().map_err(failed())?),
        };
        let mut shell = command.spawn().map_err(failed())?;
        // The command still has a copy of the guard's end. With it, the read below would not end if the guard died.
        drop(command);

        let mut line = String::new();
        let read = BufReader::new(&lifeline).read_line(&mut line).map_err(failed());
        match (read, line.trim().parse()) {
            (Ok(_), Ok(pid)) => {
                let stop_within = launch.stop_within;
                let folder = folder.into_path();
                Ok(Self { shell, lifeline, dialogue, pid: Pid::from_raw(pid), folder, log, stop_within, status: None })
            }
            (read, _) => {
                // The guard ends with its lifeline. With an open one, the wait below might last for ever.
                drop(lifeline);
                let status = shell.wait().map_err(failed())?;
                read?;
                Err(Error::Ended { name, status, log: tail(&log) })
            }
        }
    }

    /// Returns the process id of the program itself, not of its guard.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.shell.stdout.take()
    }

    pub(crate) fn take_dialogue(&mut self) -> Option<UnixStream> {
        self.dialogue.take()
    }

    /// Returns the end of the child's log, also after the child has ended.
    pub(crate) fn log_tail(&self) -> String {
        tail(&self.log)
    }

    /// Returns the beginning of the child's log, also after the child has ended.
    pub(crate) fn log_head(&self) -> String {
        part(&self.log, 0)
    }

    /// Returns how the child ended. `None` while the child or its folder still exists.
    pub(crate) fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        if self.status.is_none() {
            let status = self.shell.try_wait().map_err(Error::system("ask for the status of a child process"))?;
            self.status = status.map(child_status);
        }
        Ok(self.status)
    }

    /// Waits until the child has ended and its folder is gone.
    pub(crate) async fn wait(&mut self) -> Result<ExitStatus, Error> {
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            // Polled, because the child belongs to no runtime that could tell of its end.
            tokio::time::sleep(POLL).await;
        }
    }

    /// Asks the child to stop, without waiting for it.
    pub(crate) fn request_stop(&self) {
        // This fails only if the guard is gone. Then there is nobody left to ask.
        let _ = self.lifeline.shutdown(Shutdown::Write);
    }
}

impl Output {
    /// Returns the input of the child, as `guard.sh` names it.
    fn as_input(self) -> &'static str {
        if matches!(self, Self::Socket) { "output" } else { "empty" }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.request_stop();
        let deadline = Instant::now() + self.stop_within + GUARD_GRACE;
        while matches!(self.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                // The guard itself hangs. Kill the whole group, including the guard.
                let _ = killpg(group_of(&self.shell), Signal::SIGKILL);
                let _ = self.shell.wait();
                break;
            }
            thread::sleep(POLL);
        }
        // The guard has removed the folder, unless it was killed or may not write to the parent of the folder.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Launch {
    fn command(&self, folder: &Folder) -> Command {
        let polls = self.stop_within.as_millis().div_ceil(100);
        let mut command = Command::new("/bin/sh");
        command
            .arg(folder.path().join(SCRIPT_NAME))
            .args([self.stop_signal.name(), &polls.to_string(), self.stdout.as_input()])
            .arg(folder.path())
            .arg(&self.program)
            .args(&self.args)
            .process_group(0);
        command.env_clear().envs(env::vars_os().filter(|(name, _)| (self.knows)(name)));
        command.envs(self.envs.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        if let Some(account) = folder.account() {
            command.uid(account.uid.as_raw()).gid(account.gid.as_raw());
        }
        command
    }
}

fn group_of(shell: &Child) -> Pid {
    // The guard leads its own group, so its process id is the id of the group.
    Pid::from_raw(i32::try_from(shell.id()).expect("BUG: a process id beyond pid_t"))
}

/// Turns a shell's 128 + n back into "ended by signal n".
fn child_status(shell: ExitStatus) -> ExitStatus {
    match shell.code() {
        Some(code) if (129..=192).contains(&code) => ExitStatus::from_raw(code - 128),
        _ => shell,
    }
}

fn tail(log: &File) -> String {
    let len = log.metadata().map_or(0, |metadata| metadata.len());
    part(log, len.saturating_sub(LOG_PART_BYTES as u64))
}

fn part(log: &File, offset: u64) -> String {
    let mut buffer = vec![0; LOG_PART_BYTES];
    let read = log.read_at(&mut buffer, offset).unwrap_or(0);
    buffer.truncate(read);
    String::from_utf8_lossy(&buffer).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_above_128_is_the_signal_that_ended_the_child() {
        let shell = |code: i32| ExitStatus::from_raw(code << 8);
        assert_eq!(child_status(shell(0)).code(), Some(0));
        assert_eq!(child_status(shell(127)).code(), Some(127));
        assert_eq!(child_status(shell(128 + 9)).signal(), Some(9));
        assert_eq!(child_status(shell(255)).code(), Some(255));
    }
}
