//! COMMAND and all processes that it starts.
//!
//! Without a terminal, COMMAND leads a process group of its own. This process passes each signal on, so COMMAND gets it
//! exactly once, also when it was sent to our whole group. A pipeline or a script can be stopped as a whole.
//!
//! With a terminal (standard input, output or error is one) it stays in ours, as with `flock`, `nice` or
//! `timeout --foreground`. In a group of its own it would be in the terminal's background, and be halted as soon as it
//! reads from there. So the terminal's signals (Ctrl-C, Ctrl-\, Ctrl-Z, hanging up) reach both of us, and are not
//! passed on: COMMAND decides what they mean, as with `system(3)`.

use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::process::ExitStatus;
use std::time::Duration;

#[cfg(not(target_os = "linux"))]
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::time::{Instant, sleep};
use zk_recipes::LockGuard;

use crate::error::Error;
#[cfg(target_os = "linux")]
use crate::processes::{self, Family};
use crate::server::AUTH_VARIABLE;

/// Time limit for a killed process to be gone. It takes longer if it hangs inside the kernel, or cannot be found or killed.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// Pause between two checks whether all processes are gone.
const POLL: Duration = Duration::from_millis(5);

/// Which process group COMMAND is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// One that it leads.
    Own,
    /// The group of this process.
    Ours,
}

impl Group {
    fn choose() -> Self {
        let at_terminal = io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
        if at_terminal { Self::Ours } else { Self::Own }
    }
}

/// Returns whether the signals of job control must be passed on to COMMAND.
pub(crate) fn needs_job_control() -> bool {
    Group::choose() == Group::Own
}

/// COMMAND, running.
#[derive(Debug)]
pub(crate) struct Job {
    child: Child,
    pid: Pid,
    group: Group,
    #[cfg(target_os = "linux")]
    family: Family,
    /// Tells of the end of any child, adopted ones included.
    children: unix::Signal,
}

impl Job {
    /// Starts COMMAND for a hold. Must run on the main thread: Linux ends COMMAND with the thread that starts it.
    pub(crate) fn start(words: &[OsString], held: &LockGuard) -> Result<Self, Error> {
        let (program, arguments) = words.split_first().expect("BUG: clap lets no empty command through");
        // Before the start, so the end of a short COMMAND is not missed.
        let children = signal(SignalKind::child()).map_err(Error::system("listen for the end of the command"))?;
        let group = Group::choose();
        let mut command = std::process::Command::new(program);
        command
            .args(arguments)
            .env("LOCK_TOKEN", held.token().to_string())
            .env("LOCK_PATH", held.node_path())
            // The credentials are ours alone. Every process that COMMAND starts could read them there.
            .env_remove(AUTH_VARIABLE);
        if group == Group::Own {
            command.process_group(0);
        }
        #[cfg(target_os = "linux")]
        crate::os::die_with_parent(&mut command);
        #[cfg(target_os = "linux")]
        let family = Family::adopt().map_err(|errno| Error::system("adopt orphans")(errno.into()))?;
        let mut command = Command::from(command);
        // If anything below fails, COMMAND must not run on without a watch over its hold.
        command.kill_on_drop(true);
        let child = command.spawn().map_err(|source| not_started(words, source))?;
        let pid = child.id().expect("BUG: a child that was not waited for has its id");
        let pid = Pid::from_raw(i32::try_from(pid).expect("BUG: a process id beyond pid_t"));
        Ok(Self {
            child,
            pid,
            group,
            #[cfg(target_os = "linux")]
            family,
            children,
        })
    }

    /// Waits until COMMAND has ended.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        loop {
            tokio::select! {
                status = self.child.wait() => return status,
                _ = self.children.recv() => self.reap_orphans(),
            }
        }
    }

    /// Passes on a signal that this process was sent.
    pub(crate) fn forward(&self, signal: Signal) {
        // After COMMAND has been waited for, another process may have its number.
        if self.child.id().is_none() {
            return;
        }
        // This fails only if COMMAND has just ended, or has taken other credentials.
        let _ = match (self.group, signal) {
            // The terminal has sent it to COMMAND as well.
            (Group::Ours, Signal::SIGINT | Signal::SIGQUIT | Signal::SIGHUP) => Ok(()),
            // Their meaning is COMMAND's own. They would end the other processes of its group.
            (_, Signal::SIGUSR1 | Signal::SIGUSR2) | (Group::Ours, _) => kill(self.pid, signal),
            (Group::Own, Signal::SIGTSTP | Signal::SIGCONT) => killpg(self.pid, signal),
            // A halted process does nothing about a signal.
            (Group::Own, _) => killpg(self.pid, signal).and_then(|()| killpg(self.pid, Signal::SIGCONT)),
        };
    }

    /// Ends COMMAND and all that it has started: asks by `SIGTERM`, and kills what is still there after the grace.
    /// Returns whether all of it is gone.
    pub(crate) async fn stop(&mut self, grace: Duration) -> bool {
        self.signal_all(Signal::SIGTERM);
        // A halted process does not act on SIGTERM before it continues.
        self.signal_all(Signal::SIGCONT);
        let asked = Instant::now();
        while !self.is_gone() {
            let asked_for = asked.elapsed();
            if asked_for >= grace.saturating_add(GONE_WITHIN) {
                return false;
            }
            if asked_for >= grace {
                // The kill is repeated, because a process that is forked at this moment escapes it.
                self.signal_all(Signal::SIGKILL);
            }
            // No longer than the rest of the grace, so that the kill is not late.
            sleep(POLL.min(grace.saturating_sub(asked_for)).max(Duration::from_millis(1))).await;
        }
        true
    }

    /// Sends a signal to all processes that are left of COMMAND and its descendants. Only on Linux can those be found
    /// that have left the process group.
    fn signal_all(&self, signal: Signal) {
        let is_sent = match self.group {
            // The whole group at once, so that no process sees another one end before it is asked itself.
            Group::Own => self.has_group() && killpg(self.pid, signal).is_ok(),
            Group::Ours => self.child.id().is_some() && kill(self.pid, signal).is_ok(),
        };
        #[cfg(target_os = "linux")]
        for process in self.family.listed().unwrap_or_default() {
            let id = if self.group == Group::Own { process.group } else { process.pid };
            if !(is_sent && id == self.pid.as_raw()) {
                let _ = kill(Pid::from_raw(process.pid), signal);
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = is_sent;
    }

    /// Returns whether the process group that COMMAND leads still exists and is its own.
    #[cfg(target_os = "linux")]
    fn has_group(&self) -> bool {
        processes::has_child_in(self.pid)
    }

    #[cfg(not(target_os = "linux"))]
    fn has_group(&self) -> bool {
        killpg(self.pid, None) != Err(Errno::ESRCH)
    }

    fn is_gone(&mut self) -> bool {
        // An error means that there is nothing to wait for.
        let has_ended = !matches!(self.child.try_wait(), Ok(None));
        #[cfg(target_os = "linux")]
        return has_ended && self.family.is_gone();
        #[cfg(not(target_os = "linux"))]
        return has_ended && (self.group == Group::Ours || !self.has_group());
    }

    /// Returns whether the processes that COMMAND has started can be found.
    pub(crate) fn is_listed(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.family.listed().is_some();
        #[cfg(not(target_os = "linux"))]
        return true;
    }

    fn reap_orphans(&self) {
        #[cfg(target_os = "linux")]
        processes::reap_orphans(self.pid);
    }
}

fn not_started(words: &[OsString], source: io::Error) -> Error {
    let command = words[0].to_string_lossy().into_owned();
    match source.kind() {
        ErrorKind::NotFound if words.len() == 1 && is_line(&command) => Error::Line { line: command },
        ErrorKind::NotFound => Error::NotFound { command },
        _ => Error::NotExecutable { command, source },
    }
}

/// Returns whether a word that names no program looks like a line for a shell, as `flock -c` and `consul lock` take it.
fn is_line(word: &str) -> bool {
    word.contains(|letter: char| letter.is_whitespace() || ";&|<>$".contains(letter))
}
