//! Being asked to stop: by Ctrl-C, `SIGTERM` or `SIGHUP`.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::Exit;

/// Tells a program that it was asked to stop.
#[derive(Clone, Debug)]
pub struct Interrupt(watch::Receiver<bool>);

/// What being asked to stop once more does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It ends the process at once, for programs whose children have guards: these see it go, and stop the children.
    Exits,
    /// Nothing, for programs that have to clean up by themselves, and do so without delay.
    Waits,
}

/// The program was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

impl Interrupt {
    /// Handles `SIGINT`, `SIGTERM` and `SIGHUP` from here on: none of them ends the process by itself any more.
    ///
    /// # Errors
    /// When the handler cannot be installed, as when there is one already.
    pub fn install(again: Again) -> io::Result<Self> {
        let (sender, receiver) = watch::channel(false);
        let is_stopping = AtomicBool::new(false);
        let handler = move || {
            if is_stopping.swap(true, Ordering::SeqCst) && again == Again::Exits {
                std::process::exit(i32::from(Exit::Interrupted.code()));
            }
            sender.send_replace(true);
        };
        ctrlc::set_handler(handler).map_err(io::Error::other)?;
        Ok(Self(receiver))
    }

    /// Runs the future, but drops it when the program is asked to stop, and does not begin it when it was before.
    ///
    /// # Errors
    /// The future's own, or what becomes of [`Interrupted`].
    ///
    /// # Cancel safety
    /// That of the future.
    pub async fn or<T, E: From<Interrupted>>(&self, future: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let mut receiver = self.0.clone();
        tokio::select! {
            biased;
            // The sender lives in the handler, as long as the process.
            _ = receiver.wait_for(|raised| *raised) => Err(Interrupted.into()),
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
