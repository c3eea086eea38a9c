//! Deletes what cancelled acquires and dropped guards left behind, until it is gone.
//!
//! A `Drop` can neither wait nor spawn; it only puts the [`Leftover`] in this queue. One task a session works it off, many
//! of them at a time, so that none waits for another that cannot be deleted now.

use std::fmt;
use std::ops::ControlFlow;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Semaphore, mpsc, watch};
use tracing::{debug, warn};
use zk_recipes_protocol::liveness::LostReason;
use zookeeper_client::Error as ClientError;

use super::backoff::Backoff;
use super::hold_reports::HoldName;
use super::remote::{Remote, Removal};
use super::wire::REQUESTS_MAX;
use crate::error::Error;

/// What somebody has left on the server, and how it is deleted.
pub(crate) trait Leftover: fmt::Debug + Send + Sync {
    /// The path to name in messages: that of the node, if there is one.
    fn path(&self) -> &str;

    /// The path of the lock.
    fn lock(&self) -> &str;

    /// Deletes what is there, however often replies are lost, and never a node of others. After an error it goes on from where it
    /// was.
    fn remove<'a>(&'a mut self, remote: &'a Remote) -> BoxFuture<'a, Result<Removal, Error>>;

    /// Pauses after a refusal, and for as long as what is there stands for another's hold. Fails once the session has ended.
    fn idle<'a>(&'a mut self, backoff: &'a mut Backoff) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async {
            backoff.pause().await;
            Ok(())
        })
    }
}

/// Something that was left to the reaper.
#[derive(Debug)]
pub(crate) struct Abandoned {
    pub(crate) leftover: Box<dyn Leftover>,
    /// The hold that it stands for, if that was dropped.
    pub(crate) hold: Option<HoldName>,
}

/// Makes attempts at a removal until the reply to one is not lost.
pub(crate) async fn until_answered<T>(
    leftover: &mut T,
    remote: &Remote,
    mut attempt: impl for<'a> FnMut(&'a mut T, &'a Remote) -> BoxFuture<'a, Result<Removal, ClientError>>,
) -> Result<Removal, ClientError> {
    let mut backoff = Backoff::after_lost_reply();
    let mut is_reply_lost = false;
    loop {
        match attempt(leftover, remote).await {
            Err(ClientError::ConnectionLoss) => {
                is_reply_lost = true;
                backoff.pause().await;
            }
            // The request whose reply was lost may have done it.
            Ok(Removal::NothingThere) if is_reply_lost => return Ok(Removal::Deleted),
            answered => return answered,
        }
    }
}

/// Runs until the session is dropped or ends; either way the server deletes what is left, all of it ephemeral. What has
/// not been tried by then is tried once more: while the connection is away the session lives on without us.
pub(super) async fn run(mut abandoned: mpsc::UnboundedReceiver<Abandoned>, remote: Remote) {
    // Only those that are being tried take a place, not those that pause.
    let places = Semaphore::new(REQUESTS_MAX);
    let (dropped, is_dropped) = watch::channel(false);
    let mut reaping = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = remote.wire().stages().ended() => return,
            received = abandoned.recv() => match received {
                Some(abandoned) => reaping.push(reap(abandoned, &remote, &places, is_dropped.clone())),
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
        () = remote.wire().stages().ended() => {}
        () = async { while let Some(ControlFlow::Continue(())) = reaping.next().await {} } => {}
    }
}

/// Deletes what was left, however often the server refuses, unless the session has been dropped. Breaks when it has ended.
async fn reap(
    Abandoned { mut leftover, hold }: Abandoned,
    remote: &Remote,
    places: &Semaphore,
    mut is_dropped: watch::Receiver<bool>,
) -> ControlFlow<()> {
    let mut backoff = Backoff::after_refusal();
    let mut is_reported = false;
    loop {
        let removal = {
            let _place = places.acquire().await;
            leftover.remove(remote).await
        };
        let (lock, node) = (leftover.lock(), leftover.path());
        match removal {
            Ok(Removal::Kept) => {}
            Ok(removal) => {
                debug!(lock, node, ?removal, "reaped an abandoned node");
                if let (Removal::NothingThere, Some(hold)) = (removal, hold) {
                    hold.warn_lost(LostReason::NodeDeleted);
                }
                return ControlFlow::Continue(());
            }
            Err(Error::SessionEnded { .. }) => return ControlFlow::Break(()),
            Err(error) if is_reported => {
                debug!(lock, node, error = crate::error::chain(&error), "still cannot delete an abandoned node")
            }
            Err(error) => {
                warn!(
                    lock,
                    node,
                    error = crate::error::chain(&error),
                    "cannot delete an abandoned node yet, and goes on trying while the session lives"
                );
                is_reported = true;
            }
        }
        tokio::select! {
            biased;
            waited = leftover.idle(&mut backoff) => if waited.is_err() { return ControlFlow::Break(()) },
            _ = is_dropped.wait_for(|is_dropped| *is_dropped) => return ControlFlow::Continue(()),
        }
    }
}
