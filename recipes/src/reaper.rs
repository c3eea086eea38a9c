//! Deletes what cancelled acquires and dropped guards left behind, until it is gone.
//!
//! A `Drop` can neither wait nor spawn; it only puts the [`Remains`] in this queue. One task a session works it off, many
//! of them at a time, so that none waits for another that cannot be deleted now.

use std::ops::ControlFlow;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Semaphore, mpsc, watch};
use tracing::{debug, warn};

use crate::backoff::Backoff;
use crate::engine::Removal;
use crate::error::Error;
use crate::remains::{self, Remains};
use crate::remote::Remote;
use crate::wire::REQUESTS_MAX;

/// Runs until the session is dropped or ends; either way the server deletes what is left, all of it ephemeral. What has
/// not been tried by then is tried once more: while the connection is away the session lives on without us.
pub(crate) async fn run(mut abandoned: mpsc::UnboundedReceiver<Remains>, remote: Remote) {
    // Only those that are being tried take a place, not those that pause.
    let places = Semaphore::new(REQUESTS_MAX);
    let (dropped, is_dropped) = watch::channel(false);
    let mut reaping = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = remote.wire().ended() => return,
            remains = abandoned.recv() => match remains {
                Some(remains) => reaping.push(reap(remains, &remote, &places, is_dropped.clone())),
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
    tokio::select! {
        () = remote.wire().ended() => {}
        () = async { while let Some(ControlFlow::Continue(())) = reaping.next().await {} } => {}
    }
}

/// Deletes the remains, however often the server refuses, unless the session has been dropped. Breaks when it has ended.
async fn reap(
    mut remains: Remains,
    remote: &Remote,
    places: &Semaphore,
    mut is_dropped: watch::Receiver<bool>,
) -> ControlFlow<()> {
    let mut backoff = Backoff::after_refusal();
    let mut is_reported = false;
    loop {
        let removal = {
            let _place = places.acquire().await;
            remains::remove(remote, &mut remains).await
        };
        let path = remains.path();
        match removal {
            Ok(Removal::Kept) => {}
            Ok(removal) => {
                debug!(path, ?removal, "reaped an abandoned node");
                return ControlFlow::Continue(());
            }
            Err(Error::SessionEnded { .. }) => return ControlFlow::Break(()),
            Err(error) if is_reported => debug!(path, %error, "still cannot delete an abandoned node"),
            Err(error) => {
                warn!(path, %error, "cannot delete an abandoned node yet, and goes on trying while the session lives");
                is_reported = true;
            }
        }
        let idle = remains.idle(&mut backoff);
        tokio::select! {
            biased;
            waited = idle => if waited.is_err() { return ControlFlow::Break(()) },
            _ = is_dropped.wait_for(|is_dropped| *is_dropped) => return ControlFlow::Continue(()),
        }
    }
}
