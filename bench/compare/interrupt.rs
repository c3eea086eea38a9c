//! Being told to stop.

use tokio::signal::unix::{SignalKind, signal};

use crate::error::Error;

/// Returns at the first Ctrl-C, `SIGTERM` or `SIGHUP`. None of them ends the process any more from then on.
///
/// # Errors
/// When the handlers cannot be installed.
///
/// # Cancel safety
/// Nothing is lost.
pub(crate) async fn interrupted() -> Result<(), Error> {
    let handle = |kind| {
        signal(kind).map_err(|source| Error::System { action: "install the handler for Ctrl-C".to_owned(), source })
    };
    let mut interrupt = handle(SignalKind::interrupt())?;
    let mut terminate = handle(SignalKind::terminate())?;
    let mut hangup = handle(SignalKind::hangup())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    Ok(())
}
