//! Ctrl-C: the first one stops the work, the second one ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::error::{Error, Exit};

/// Tells that the program was asked to stop.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Handles `SIGINT`, `SIGTERM` and `SIGHUP` from here on.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the handler cannot be installed.
    pub(crate) fn install() -> Result<Self, Error> {
        let (sender, receiver) = watch::channel(false);
        let is_stopping = AtomicBool::new(false);
        let handler = move || {
            if is_stopping.swap(true, Ordering::SeqCst) {
                // The guards of the children see this process go, and stop them.
                std::process::exit(i32::from(Exit::Interrupted.code()));
            }
            sender.send_replace(true);
        };
        ctrlc::set_handler(handler).map_err(|error| Error::System {
            action: "install the handler for Ctrl-C".to_owned(),
            source: std::io::Error::other(error),
        })?;
        Ok(Self(receiver))
    }

    /// Runs the future, but drops it when the program is asked to stop.
    ///
    /// # Errors
    ///
    /// The future's own, or [`Error::Interrupted`].
    ///
    /// # Cancel safety
    ///
    /// That of the future.
    pub(crate) async fn or<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let mut receiver = self.0.clone();
        tokio::select! {
            result = future => result,
            // The sender lives in the handler, as long as the process.
            _ = receiver.wait_for(|raised| *raised) => Err(Error::Interrupted),
        }
    }
}
