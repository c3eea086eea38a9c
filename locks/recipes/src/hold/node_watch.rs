//! The watch of a hold's own node.
//!
//! A hold that is short notices at its release that somebody deleted its node. A leader may lead for months, so its node is watched.

use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use tracing::warn;
use zookeeper_client::Error as ClientError;

use crate::hold::watch::HoldWatch;
use crate::session::Session;
use crate::session::replies::retry_lost_reply;
use crate::session::wire::{Fired, Wire};

/// Watches the node of a hold until the node is gone or the session has ended. If somebody else deleted the node, the hold is lost.
///
/// The first request is sent before this returns. The watch is not removed when the hold ends: the release fires it.
pub(crate) fn start(session: &Session, node: &str, hold: HoldWatch) {
    let mut watching = Box::pin(run(Arc::downgrade(session.remote().wire()), node.to_owned(), hold));
    if (&mut watching).now_or_never().is_none() {
        session.remote().spawn(watching);
    }
}

async fn run(wire: Weak<Wire>, node: String, hold: HoldWatch) {
    // The wire is used for one request at a time, because it keeps the connection open.
    while let Some(wire) = wire.upgrade() {
        let watched = retry_lost_reply(|| wire.watch(&node)).await;
        drop(wire);
        match watched {
            Ok((.., watch)) => match watch.fired().await {
                Fired::Deleted => return hold.note_gone(&node),
                Fired::Otherwise => {}
            },
            Err(ClientError::NoNode) => return hold.note_gone(&node),
            // The session has ended, and with it the hold.
            Err(ClientError::SessionExpired | ClientError::ClientClosed | ClientError::AuthFailed) => return,
            Err(error) => {
                return warn!(node, %error, "cannot watch the node: only the release finds it deleted");
            }
        }
    }
}
