//! Deletes what cancelled acquires and dropped guards left behind, until it is gone.
//!
//! A `Drop` can neither wait nor spawn; it only puts the [`Remains`] in this queue. One task a session works it off.

use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::{debug, warn};
use zookeeper_client::Error as ClientError;

use crate::claim::{self, Remains};
use crate::wire::Wire;

/// Runs until the session is dropped or ends; either way the server deletes what is left, all of it ephemeral.
pub(crate) async fn run(mut abandoned: mpsc::UnboundedReceiver<Remains>, wire: Arc<Wire>, session_id: i64) {
    while let Some(remains) = abandoned.recv().await {
        let path = remains.path().to_owned();
        match claim::remove(&wire, session_id, remains).await {
            Ok(removal) => debug!(path, ?removal, "reaped an abandoned node"),
            Err(ClientError::SessionExpired | ClientError::ClientClosed) => return,
            Err(error) => warn!(path, %error, "could not delete an abandoned node"),
        }
    }
}
