//! Requests to stop: Ctrl-C, `SIGTERM` or `SIGHUP`.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::Exit;
use crate::hangup::{ignore_hangup, is_hangup_ignored};

/// Tells every part of a program that it was asked to stop.
#[derive(Clone, Debug)]
pub struct Interrupt(watch::Receiver<bool>);

/// The program was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

impl Interrupt {
    /// Handles `SIGINT`, `SIGTERM` and `SIGHUP` from here on. The first of them asks the program to stop. The second ends the
    /// process at once, and then the guards of its children stop these. A `SIGHUP` that was ignored before, as under `nohup`,
    /// stays ignored.
    ///
    /// # Errors
    ///
    /// The handler cannot be installed, for example because there is one already.
    pub fn install() -> io::Result<Self> {
        Self::install_with(|| {})
    }

    /// Handles the signals, and calls `on_first` at the first of them.
    ///
    /// # Errors
    ///
    /// As for [`install`](Self::install).
    pub fn install_with(on_first: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = watch::channel(false);
        let is_stopping = AtomicBool::new(false);
        let handler = move || {
            if !is_stopping.swap(true, Ordering::SeqCst) {
                // A shell and the kernel each send `SIGHUP` when a terminal closes: that is one request.
                ignore_hangup();
                on_first();
                sender.send_replace(true);
            } else {
                std::process::exit(i32::from(Exit::Interrupted.code()));
            }
        };
        // Asked before the handler is set, because the handler replaces what was set for `SIGHUP`.
        let was_ignored = is_hangup_ignored();
        ctrlc::set_handler(handler).map_err(io::Error::other)?;
        if was_ignored {
            ignore_hangup();
        }
        Ok(Self(receiver))
    }

    /// Waits until the program is asked to stop.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn raised(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|raised| *raised).await.is_err() {
            // The sender lives in the handler, as long as the process. Without a handler nobody can ask.
            std::future::pending::<()>().await;
        }
    }

    /// Runs a future, and drops it if the program is asked to stop. If it was asked before, the future does not begin.
    ///
    /// # Errors
    ///
    /// The future's own, or [`Interrupted`].
    ///
    /// # Cancel safety
    ///
    /// The future's own.
    pub async fn or<T, E: From<Interrupted>>(&self, future: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        tokio::select! {
            biased;
            () = self.raised() => Err(Interrupted.into()),
            result = future => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupt(is_raised: bool) -> (watch::Sender<bool>, Interrupt) {
        let (sender, receiver) = watch::channel(is_raised);
        (sender, Interrupt(receiver))
    }

    #[tokio::test]
    async fn nothing_begins_once_the_program_was_asked_to_stop() {
        let (_sender, interrupt) = interrupt(true);
        let mut has_begun = false;
        let work = async {
            has_begun = true;
            Ok::<_, Interrupted>(())
        };
        assert_eq!(interrupt.or(work).await, Err(Interrupted));
        assert!(!has_begun);
    }

    #[tokio::test]
    async fn work_is_dropped_when_the_program_is_asked_to_stop() {
        let (sender, interrupt) = interrupt(false);
        assert_eq!(interrupt.or(async { Ok::<_, Interrupted>(7) }).await, Ok(7));
        let asked = async {
            sender.send_replace(true);
            std::future::pending::<Result<(), Interrupted>>().await
        };
        assert_eq!(interrupt.or(asked).await, Err(Interrupted));
    }
}
