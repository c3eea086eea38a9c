//! Deletes what cancelled acquires and dropped guards left behind, until it is gone.
//!
//! A `Drop` can neither wait nor spawn; it only puts the [`Remains`] in this queue. One task a session works it off, many
//! of them at a time, so that none waits for another that cannot be deleted now.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Semaphore, mpsc, watch};
use tracing::{debug, warn};
use zookeeper_client::Error as ClientError;

use crate::backoff::Backoff;
use crate::remains::{self, REQUESTS_MAX, Remains};
use crate::wire::Wire;

/// The pauses before a deletion that the server has refused is tried again. The reason may pass at once, as an overload
/// does, or only when somebody changes an ACL; the session may live for months.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Runs until the session is dropped or ends; either way the server deletes what is left, all of it ephemeral. What has
/// not been tried by then is tried once more: while the connection is away the session lives on without us.
pub(crate) async fn run(mut abandoned: mpsc::UnboundedReceiver<Remains>, wire: Arc<Wire>, session_id: i64) {
    // Only those that are being tried take a place, not those that pause.
    let places = Semaphore::new(REQUESTS_MAX);
    let (dropped, is_dropped) = watch::channel(false);
    let mut reaping = FuturesUnordered::new();
    loop {
        tokio::select! {
            remains = abandoned.recv() => match remains {
                Some(remains) => reaping.push(reap(remains, &wire, session_id, &places, is_dropped.clone())),
                None => break,
            },
            Some(reaped) = reaping.next(), if !reaping.is_empty() => {
                if reaped.is_break() {
                    return;
                }
            }
        }
    }
    dropped.send_replace(true);
    while let Some(ControlFlow::Continue(())) = reaping.next().await {}
}

/// Deletes the remains, however often the server refuses, unless the session has been dropped. Breaks when it has ended.
async fn reap(
    mut remains: Remains,
    wire: &Wire,
    session_id: i64,
    places: &Semaphore,
    mut is_dropped: watch::Receiver<bool>,
) -> ControlFlow<()> {
    let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
    let mut is_reported = false;
    loop {
        let removal = {
            let _place = places.acquire().await;
            remains::remove(wire, session_id, &mut remains).await
        };
        let path = remains.path();
        match removal {
            Ok(removal) => {
                debug!(path, ?removal, "reaped an abandoned node");
                return ControlFlow::Continue(());
            }
            Err(ClientError::SessionExpired | ClientError::ClientClosed | ClientError::AuthFailed) => {
                return ControlFlow::Break(());
            }
            Err(error) if is_reported => debug!(path, %error, "still cannot delete an abandoned node"),
            Err(error) => {
                warn!(path, %error, "cannot delete an abandoned node yet, and goes on trying while the session lives");
                is_reported = true;
            }
        }
        tokio::select! {
            () = backoff.pause() => {}
            _ = is_dropped.wait_for(|is_dropped| *is_dropped) => return ControlFlow::Continue(()),
        }
    }
}
