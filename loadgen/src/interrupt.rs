//! Ctrl-C: the first one stops the work and lets it be reported, the second one ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::error::{Error, Exit};

/// Tells every part of the program that it was asked to stop.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Handles `SIGINT`, `SIGTERM` and `SIGHUP` from here on.
    ///
    /// Goose installs a handler for `SIGINT` whenever it runs, which calls `exit(1)` the second time. It does so
    /// through the same library, where the first handler stays: this has to be called before goose runs.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the handler cannot be installed.
    pub(crate) fn install() -> Result<Interrupt, Error> {
        let (sender, receiver) = watch::channel(false);
        let stopping = AtomicBool::new(false);
        let handler = move || {
            if stopping.swap(true, Ordering::SeqCst) {
                // The guards of the children see this process go, and stop them.
                std::process::exit(i32::from(Exit::Interrupted.code()));
            }
            goose::trigger_killswitch("interrupted");
            sender.send_replace(true);
        };
        ctrlc::set_handler(handler).map_err(|error| Error::System {
            action: "install the handler for Ctrl-C".to_owned(),
            source: std::io::Error::other(error),
        })?;
        Ok(Interrupt(receiver))
    }

    /// Returns when the program is asked to stop.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn raised(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|raised| *raised).await.is_err() {
            // The handler lives as long as the process; without one nobody can ask.
            std::future::pending::<()>().await;
        }
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
        tokio::select! {
            result = future => result,
            () = self.raised() => Err(Error::Interrupted),
        }
    }
}
