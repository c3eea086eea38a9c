//! One connection of a session, with the client library's surprises evened out.

use std::sync::Arc;
use std::time::Instant;

use zookeeper_client::{Client, Error as ClientError, MultiWriteError, StateWatcher};

use crate::session::liveness_cell::LivenessCell;
use crate::session::task_link::TaskLink;

/// Stands for every version in the protocol.
const ANY_VERSION: i32 = -1;

/// One connection of a session.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) client: Client,
    pub(crate) task_link: Arc<TaskLink>,
    /// When its handshake was begun.
    pub(crate) connecting: Instant,
}

impl Line {
    /// Follows the states of the connection.
    pub(crate) fn states(&self) -> StateWatcher {
        self.client.state_watcher()
    }

    /// Whether the chroot exists. One request, if there is a chroot and all is well.
    pub(crate) async fn has_chroot(&self) -> Result<bool, ClientError> {
        if self.client.path() == "/" || self.client.check_stat("/").await?.is_some() {
            return Ok(true);
        }
        // The server may lag behind the one that has just created it.
        self.client.sync("/").await?;
        Ok(self.client.check_stat("/").await?.is_some())
    }

    /// Lets the server catch up with what was committed before.
    pub(crate) async fn catch_up(&self) -> Result<(), ClientError> {
        self.answer(self.client.sync("/").await)
    }

    /// Returns `ConnectionLoss` for every way in which the client library reports that no reply came.
    pub(crate) fn answer<T>(&self, reply: Result<T, ClientError>) -> Result<T, ClientError> {
        reply.map_err(|error| even_out(error, self.task_link.has_parted()))
    }

    /// Has a quorum commit a request that changes nothing, and notes the proof.
    ///
    /// A transaction of one check is committed whether the check succeeds or fails. One that is refused because the session has
    /// ended proves nothing.
    pub(crate) async fn prove(&self, liveness: &LivenessCell) -> Result<(), ClientError> {
        let sent = liveness.sending();
        let mut transaction = self.client.new_multi_writer();
        transaction.add_check_version("/", ANY_VERSION)?;
        match refusal(transaction.commit().await) {
            Some(source) => self.answer(Err(source)),
            None => {
                liveness.proved(sent);
                Ok(())
            }
        }
    }
}

/// Why a transaction of one check is no proof; `None` if it is one.
fn refusal<T>(committed: Result<T, MultiWriteError>) -> Option<ClientError> {
    match committed {
        Ok(_) => None,
        Err(MultiWriteError::RequestFailed { source }) => Some(source),
        Err(MultiWriteError::OperationFailed { source, .. }) => {
            matches!(source, ClientError::SessionExpired | ClientError::SessionMoved).then_some(source)
        }
    }
}

/// The client library reports a connection that broke before the reply came as the error of the socket, as a message
/// about the silence, or as a loss, depending on which noticed it first. Whether the request was applied is unknown in
/// every case. That its `Custom` errors mean nothing else is an assumption, taken from its source: version 0.11 makes
/// them only where reading or writing the socket fails, where a server is silent, and while it connects.
///
/// If the task that serves the connection has `parted`, nobody takes requests or answers them, which the library finds
/// unexpected.
///
/// `SessionMoved` says that another server has the session by now, because it has answered an earlier handshake late. The
/// request was not applied, the server closes the connection, and the session lives.
fn even_out(error: ClientError, has_parted: bool) -> ClientError {
    use ClientError::{ConnectionLoss, Custom, SessionMoved, Timeout, UnexpectedError};
    match error {
        UnexpectedError(_) if has_parted => ConnectionLoss,
        Custom(_) | Timeout | SessionMoved => ConnectionLoss,
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_failed_is_a_proof_unless_it_failed_because_the_session_has_ended() {
        let failed = |source| Err::<(), _>(MultiWriteError::OperationFailed { index: 0, source });
        assert_eq!(refusal(Ok(())), None);
        assert_eq!(refusal(failed(ClientError::NoAuth)), None);
        assert_eq!(refusal(failed(ClientError::SessionExpired)), Some(ClientError::SessionExpired));
        assert_eq!(refusal(failed(ClientError::SessionMoved)), Some(ClientError::SessionMoved));
    }

    #[test]
    fn unexpected_errors_are_lost_replies_only_if_nobody_serves_the_connection() {
        let unexpected = || ClientError::UnexpectedError("expect error state, got SyncConnected".to_owned());
        assert_eq!(even_out(unexpected(), false), unexpected());
        assert_eq!(even_out(unexpected(), true), ClientError::ConnectionLoss);
        for has_parted in [false, true] {
            for lost in [ClientError::Timeout, ClientError::SessionMoved] {
                assert_eq!(even_out(lost, has_parted), ClientError::ConnectionLoss);
            }
            assert_eq!(even_out(ClientError::NoNode, has_parted), ClientError::NoNode);
        }
    }
}
