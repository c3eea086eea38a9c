//! Deletes what cancelled acquires and dropped guards left on the server, and repeats that until it is gone.
//!
//! A `Drop` can neither wait nor spawn, so it only sends the [`Leftover`] to this queue. One task per session handles the queue, many
//! leftovers at a time. So no leftover waits for one that cannot be deleted yet.

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
use super::remote::{Remote, Removal};
use super::wire::REQUESTS_MAX;
use crate::error::Error;
use crate::session::liveness::hold_logs::HoldName;

/// Something left on the server, and how it is deleted.
pub(crate) trait Leftover: Boxed + fmt::Debug + Send + Sync + 'static {
    /// Returns the path for messages: the node's path, if it is known.
    fn path(&self) -> &str;

    /// Returns the path of the lock.
    fn lock(&self) -> &str;

    /// Gives up, because its claim is dropped. Sends nothing. Tells whether anything may be left.
    fn give_up(&mut self) -> bool {
        true
    }

    /// Finds what is left, if its name is not known. Deletes nothing. An error shows again in `remove`.
    fn find(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Deletes what is left, even if replies are lost, and never another contender's node. After an error, the next call continues
    /// where this one stopped. `hands_over`: a hold of a queue goes to the successor, if the successor belongs to the session.
    fn remove<'a>(&'a mut self, remote: &'a Remote, hands_over: bool) -> BoxFuture<'a, Result<Removal, Error>>;

    /// Pauses after a refusal. If the node was kept for another hold, waits until that hold no longer needs it. Fails once the
    /// session has ended.
    fn idle<'a>(&'a mut self, backoff: &'a mut Backoff) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async {
            backoff.pause().await;
            Ok(())
        })
    }
}

/// The conversion of a leftover of any type.
pub(crate) trait Boxed {
    fn boxed(self: Box<Self>) -> Box<dyn Leftover>;
}

impl<L: Leftover> Boxed for L {
    fn boxed(self: Box<Self>) -> Box<dyn Leftover> {
        self
    }
}

/// A leftover that was handed to the reaper.
#[derive(Debug)]
pub(crate) struct Abandoned {
    pub(crate) leftover: Box<dyn Leftover>,
    /// The dropped hold that the leftover stands for, if there was one.
    pub(crate) hold: Option<HoldName>,
}

/// Repeats a removal while its reply is lost or the server throttles it. If an earlier reply was lost and nothing is there any more, returns `Deleted`.
pub(crate) async fn until_answered<T>(
    leftover: &mut T,
    remote: &Remote,
    mut attempt: impl for<'a> FnMut(&'a mut T, &'a Remote) -> BoxFuture<'a, Result<Removal, ClientError>>,
) -> Result<Removal, ClientError> {
    let mut backoff = Backoff::to_repeat();
    let mut is_reply_lost = false;
    loop {
        match attempt(leftover, remote).await {
            Err(ClientError::ConnectionLoss) => {
                is_reply_lost = true;
                backoff.pause().await;
            }
            Err(ClientError::Throttled) => backoff.pause().await,
            // The request with the lost reply may have deleted it.
            Ok(Removal::NothingThere) if is_reply_lost => return Ok(Removal::Deleted),
            answered => return answered,
        }
    }
}

/// Deletes leftovers until the session has ended, or until it was dropped and the last attempts are done. The server deletes the
/// rest, because all nodes are ephemeral.
///
/// When the session is dropped, each leftover still gets the attempt that is under way, or its first one. The reason: while the
/// connection is away, the session and its nodes live on at the server. These attempts stop one session timeout after the drop, also
/// if some are unfinished. From then on nothing uses the session, and its keeper gives it up as
/// [`connect_anew`](super::keeper::Keeper) says.
pub(super) async fn run(mut abandoned: mpsc::UnboundedReceiver<Abandoned>, remote: Remote) {
    // Only removals under way take a permit. Pauses and searches do not.
    let permits = Semaphore::new(REQUESTS_MAX);
    let (dropped, is_dropped) = watch::channel(false);
    let mut reaping = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = remote.wire().phases().ended() => return,
            received = abandoned.recv() => match received {
                Some(abandoned) => reaping.push(reap(abandoned, &remote, &permits, is_dropped.clone())),
                // All senders are gone: the session was dropped.
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
        () = remote.wire().phases().ended() => {}
        () = async { while let Some(ControlFlow::Continue(())) = reaping.next().await {} } => {}
        () = tokio::time::sleep(remote.timeout()) => {}
    }
}

/// Deletes a leftover, even if the server refuses several times. Stops after the current attempt once the session is dropped.
/// Returns `Break` once the session has ended.
async fn reap(
    Abandoned { mut leftover, hold }: Abandoned,
    remote: &Remote,
    permits: &Semaphore,
    mut is_dropped: watch::Receiver<bool>,
) -> ControlFlow<()> {
    let mut backoff = Backoff::after_refusal();
    let mut is_reported = false;
    // Without a permit, so that leftovers of any number share one search.
    leftover.find().await;
    loop {
        let removal = {
            let _permit = permits.acquire().await;
            leftover.remove(remote, false).await
        };
        let lock = leftover.lock();
        let node = leftover.path();
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
