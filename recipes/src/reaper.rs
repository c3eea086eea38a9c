//! Deletes what cancelled acquires and dropped guards left behind, until it is gone.
//!
//! A `Drop` can neither wait nor spawn; it only puts the [`Remains`] in this queue. One task a session works it off.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{debug, warn};
use zookeeper_client::Error as ClientError;

use crate::claim::{self, Remains};
use crate::wire::Wire;

/// How often, and how far apart, a deletion is tried that the server refuses for a reason that may pass, such as an
/// overload.
const ATTEMPTS_MAX: u32 = 10;
const PAUSE: Duration = Duration::from_millis(200);

/// Runs until the session is dropped or ends; either way the server deletes what is left, all of it ephemeral.
pub(crate) async fn run(mut abandoned: mpsc::UnboundedReceiver<Remains>, wire: Arc<Wire>, session_id: i64) {
    while let Some(remains) = abandoned.recv().await {
        for attempt in 1..=ATTEMPTS_MAX {
            let path = remains.path();
            match claim::remove(&wire, session_id, remains.clone()).await {
                Ok(removal) => {
                    debug!(path, ?removal, "reaped an abandoned node");
                    break;
                }
                Err(
                    ClientError::SessionExpired
                    | ClientError::SessionMoved
                    | ClientError::ClientClosed
                    | ClientError::AuthFailed,
                ) => return,
                Err(error) => warn!(path, attempt, %error, "could not delete an abandoned node"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
