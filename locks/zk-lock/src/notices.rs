//! The lines on standard error, where COMMAND may be writing at the same time.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use humantime::{FormattedDuration, format_duration};

/// Upper bound of the delay of the program's end by a standard error that takes nothing.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

/// The way to standard error. It writes on a thread of its own. So a halted terminal or a full pipe does not keep the program
/// from noticing that a hold was lost.
#[derive(Debug)]
pub(crate) struct Notices {
    lines: Sender<String>,
    written: Receiver<()>,
    is_verbose: bool,
}

impl Notices {
    pub(crate) fn start(is_verbose: bool) -> Self {
        let (lines, received) = mpsc::channel::<String>();
        let (all_written, written) = mpsc::channel();
        let write = move || {
            for line in received {
                // If standard error is closed, nobody can be told.
                let _ = std::io::stderr().write_all(line.as_bytes());
            }
            drop(all_written);
        };
        // Without the thread, the program says nothing, but works.
        let _ = thread::Builder::new().name("zk-lock-notices".to_owned()).spawn(write);
        Self { lines, written, is_verbose }
    }

    /// Says something in one line.
    pub(crate) fn say(&self, text: impl Display) {
        // This fails only without the thread.
        let _ = self.lines.send(format!("zk-lock: {text}\n"));
    }

    /// Says something with `--verbose` only.
    pub(crate) fn detail(&self, text: impl Display) {
        if self.is_verbose {
            self.say(text);
        }
    }

    /// Waits until everything is written, within reason.
    pub(crate) fn finish(self) {
        drop(self.lines);
        // An error either way: it has ended, or it takes too long.
        let _ = self.written.recv_timeout(WRITTEN_WITHIN);
    }
}

/// Rounds a time to the millisecond.
pub(crate) fn rounded(time: Duration) -> FormattedDuration {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    format_duration(Duration::from_millis(ms))
}
