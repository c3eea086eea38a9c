//! One connection of a session. Every lost reply is reported as `ConnectionLoss`, whatever the client library reports.

use std::sync::Arc;
use std::time::Instant;

use zk_recipes_protocol::liveness;
use zookeeper_client::{Client, Error as ClientError, MultiWriteError, StateWatcher};

use crate::session::connection::task_link::TaskLink;
use crate::session::connection::watched::WatchKinds;
use crate::session::liveness::liveness_cell::LivenessCell;
use crate::session::replies::retry_throttled_within;

/// The number that stands for any version in the protocol.
pub(crate) const ANY_VERSION: i32 = -1;

/// One connection of a session.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) task_link: Arc<TaskLink>,
    /// When its handshake started.
    pub(crate) connecting: Instant,
    pub(crate) watched: WatchKinds,
}

impl Connection {
    /// Returns a watcher of the connection's states.
    pub(crate) fn states(&self) -> StateWatcher {
        self.client.state_watcher()
    }

    /// Tells whether the chroot exists. Without a chroot, it sends nothing. If the chroot is seen at once, it sends one request.
    pub(crate) async fn has_chroot(&self) -> Result<bool, ClientError> {
        let is_there = async || Ok(self.retry_throttled(|| self.client.check_stat("/")).await?.is_some());
        if self.client.path() == "/" || is_there().await? {
            return Ok(true);
        }
        // The server may lag behind the server on which the chroot was just created.
        self.retry_throttled(|| self.client.sync("/")).await?;
        is_there().await
    }

    /// Sends a request on a new connection, and repeats it while the server throttles it. Gives up as on a silent connection, because
    /// another server may have less to do.
    async fn retry_throttled<T, F>(&self, request: impl FnMut() -> F) -> Result<T, ClientError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        retry_throttled_within(liveness::connection_timeout(self.client.session_timeout()), request).await
    }

    /// Lets the server of a new connection catch up with all commits that the session has seen. `proves`: a quorum commits the
    /// request, and the proof is noted.
    pub(crate) async fn catch_up(&self, proves: bool, liveness: &LivenessCell) -> Result<(), ClientError> {
        let caught_up = async || match proves {
            true => self.prove(liveness).await,
            false => self.reply(self.client.sync("/").await),
        };
        self.retry_throttled(caught_up).await
    }

    /// Closes the session of the connection, and waits until the connection has ended.
    pub(crate) async fn close(self) {
        let task_link = Arc::clone(&self.task_link);
        drop(self);
        task_link.parted().await;
    }

    /// Returns `ConnectionLoss` for every way in which the client library reports that no reply came.
    pub(crate) fn reply<T>(&self, reply: Result<T, ClientError>) -> Result<T, ClientError> {
        reply.map_err(|error| even_out(error, self.task_link.has_parted()))
    }

    /// Lets a quorum commit a request that changes nothing, and notes the proof.
    pub(crate) async fn prove(&self, liveness: &LivenessCell) -> Result<(), ClientError> {
        self.check("/", ANY_VERSION, liveness).await.map(drop)
    }

    /// Lets a quorum commit a check of a node's version, and notes the proof that the session lives. Returns the answer to the
    /// check.
    ///
    /// The request is a transaction of one check. It is committed even if the check fails. If it is refused because the session has
    /// ended or moved, it proves nothing.
    pub(crate) async fn check(
        &self,
        path: &str,
        version: i32,
        liveness: &LivenessCell,
    ) -> Result<Result<(), ClientError>, ClientError> {
        // Before the request is sent, because the proof counts from this time on.
        let sent = liveness.sending();
        let mut transaction = self.client.new_multi_writer();
        transaction.add_check_version(path, version)?;
        let checked = self.reply(committed(transaction.commit().await))?;
        liveness.proved(sent);
        Ok(checked)
    }
}

/// Returns the answer to the check in a transaction of one check that was committed, and an error if the transaction is no proof.
fn committed<T>(reply: Result<T, MultiWriteError>) -> Result<Result<(), ClientError>, ClientError> {
    match reply {
        Ok(_) => Ok(Ok(())),
        Err(MultiWriteError::RequestFailed { source }) => Err(source),
        Err(MultiWriteError::OperationFailed { source, .. }) => match source {
            ClientError::SessionExpired | ClientError::SessionMoved => Err(source),
            source => Ok(Err(source)),
        },
    }
}

/// Returns `ConnectionLoss` for every error that means a lost reply, and other errors unchanged.
///
/// If the connection breaks before the reply arrives, the client library reports one of three errors. It is the error of the
/// socket, a message about the silence, or a loss, depending on what it noticed first. In every case it is unknown whether the
/// request was applied. We assume that `Custom` errors mean nothing else. According to its source, version 0.11 makes them only if
/// reading or writing the socket fails, if a server is silent, and while it connects.
///
/// If the task that serves the connection `has_parted`, requests are no longer handled. The library reports this as unexpected.
///
/// `SessionMoved` means that another server has the session, because that server answered an earlier handshake late. The request
/// was not applied. The server closes the connection, and the session lives.
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

    // L37
    #[test]
    fn a_failed_check_is_a_proof_unless_the_session_has_ended() {
        let failed = |source| Err::<(), _>(MultiWriteError::OperationFailed { index: 0, source });
        assert_eq!(committed(Ok(())), Ok(Ok(())));
        assert_eq!(committed(failed(ClientError::NoAuth)), Ok(Err(ClientError::NoAuth)));
        assert_eq!(committed(failed(ClientError::SessionExpired)), Err(ClientError::SessionExpired));
        assert_eq!(committed(failed(ClientError::SessionMoved)), Err(ClientError::SessionMoved));
    }

    #[test]
    fn unexpected_errors_are_lost_replies_only_on_a_dead_connection() {
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
