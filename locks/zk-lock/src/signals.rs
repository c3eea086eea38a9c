//! The signals that the program takes: to stop waiting, or to pass on to COMMAND.

use std::future::poll_fn;
use std::process::ExitCode;
use std::task::Poll;

use nix::sys::signal::{Signal, raise};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::error::Error;
use crate::os;

/// The signals that end the waiting.
const ENDING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// The signals that mean something to COMMAND only.
const MESSAGES: [Signal; 2] = [Signal::SIGUSR1, Signal::SIGUSR2];

/// The signals that stop COMMAND for a while, and let it go on.
const JOB_CONTROL: [Signal; 2] = [Signal::SIGTSTP, Signal::SIGCONT];

/// The signals that were caught.
#[derive(Debug)]
pub(crate) struct Signals {
    caught: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Catches the signals from here on, except those that were ignored at the start. These stay ignored, also for
    /// COMMAND, as `nohup` intends.
    pub(crate) fn catch() -> Result<Self, Error> {
        let mut signals = Self { caught: Vec::new() };
        signals.add(&ENDING)?;
        signals.add(&MESSAGES)?;
        Ok(signals)
    }

    /// Catches the signals of job control as well. From here on they stop and continue COMMAND, and this process keeps
    /// the session alive.
    pub(crate) fn catch_job_control(&mut self) -> Result<(), Error> {
        self.add(&JOB_CONTROL)
    }

    fn add(&mut self, signals: &[Signal]) -> Result<(), Error> {
        for &caught in signals.iter().filter(|signal| !os::is_ignored(**signal)) {
            let kind = SignalKind::from_raw(caught as i32);
            self.caught.push((caught, signal(kind).map_err(Error::system("listen for signals"))?));
        }
        Ok(())
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            let arrived = self.caught.iter_mut().find_map(|(signal, stream)| {
                let is_ready = stream.poll_recv(cx).is_ready();
                is_ready.then_some(*signal)
            });
            arrived.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits for the next signal that ends a program, and drops others.
    pub(crate) async fn next_ending(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if is_ending(signal) {
                return signal;
            }
        }
    }
}

/// Returns whether a signal ends a program.
pub(crate) fn is_ending(signal: Signal) -> bool {
    ENDING.contains(&signal)
}

/// Ends the program as a shell reports a signal: with 128 and its number. `SIGINT` really ends the program, with the same
/// status in the shell. Otherwise a script that is interrupted would go on, as a program that exits has dealt with the
/// signal.
pub(crate) fn end_by(signal: Signal) -> ExitCode {
    if signal == Signal::SIGINT {
        os::restore_default(signal);
        // This returns only if the signal is blocked.
        let _ = raise(signal);
    }
    ExitCode::from(status_of(signal as i32))
}

/// Returns the exit status that stands for a signal.
pub(crate) fn status_of(signal: i32) -> u8 {
    // The highest signal of any system is well below 128.
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
