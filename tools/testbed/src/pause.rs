//! Signals to a server, and waiting until a frozen one stands still.

use std::fs;
use std::io;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use program::FromSystem as _;

use crate::Error;
use crate::guard::Guard;
use crate::stat::ProcessStat;

/// Time limit for a process to stand still.
const PAUSED_WITHIN: Duration = Duration::from_secs(10);

/// Stops every thread of the server called `name`, and blocks until they stand still. The signal alone lets a running thread
/// finish what it does.
pub(crate) fn pause(name: &str, running: Option<&Guard>) -> Result<(), Error> {
    signal(name, running, Signal::SIGSTOP)?;
    let Some(guard) = running else { return Ok(()) };
    let deadline = Instant::now() + PAUSED_WITHIN;
    while !is_stopped(guard.pid()).map_err(Error::system(format!("see whether {name} stands still")))? {
        if Instant::now() >= deadline {
            return Err(Error::system(format!("pause {name}"))(io::ErrorKind::TimedOut.into()));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Lets a frozen server go on.
pub(crate) fn resume(name: &str, running: Option<&Guard>) -> Result<(), Error> {
    signal(name, running, Signal::SIGCONT)
}

/// Sends a signal to the server itself, and not to its guard. It is an error if the server does not run.
pub(crate) fn signal(name: &str, running: Option<&Guard>, signal: Signal) -> Result<(), Error> {
    let sent = running.ok_or(Errno::ESRCH).and_then(|guard| kill(guard.pid(), signal));
    sent.map_err(|errno| Error::system(format!("send {signal} to {name}"))(errno.into()))
}

/// Returns whether no thread of a process runs.
fn is_stopped(process: Pid) -> io::Result<bool> {
    if fs::exists("/proc/self/task")? {
        return ProcessStat::is_frozen(process.as_raw());
    }
    // Other systems than Linux tell the state of a process as a whole.
    let state = Command::new("ps").args(["-o", "state=", "-p", &process.to_string()]).output()?;
    Ok(state.stdout.starts_with(b"T"))
}
