//! The phase of a session. It decides whether requests are sent, wait for the next connection, or fail.

use std::sync::Arc;

use tokio::sync::watch;
use zookeeper_client::Error as ClientError;

use crate::session::connection::established::Connection;

/// The phase of one session. The keeper and `Session::close` change it, and requests follow it.
#[derive(Debug)]
pub(crate) struct SessionPhases(watch::Sender<SessionPhase>);

/// What happens to a request.
#[derive(Debug)]
enum SessionPhase {
    /// It is sent.
    Connected(Arc<Connection>),
    /// It waits for the next connection.
    Disconnected,
    /// It fails: the session is being closed, or is no longer served.
    Closing,
    /// It fails: the session has ended.
    Ended,
}

impl SessionPhases {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self(watch::channel(SessionPhase::Connected(connection)).0)
    }

    /// Lets requests wait for the next connection.
    pub(crate) fn disconnect(&self) {
        self.step(|phase| matches!(phase, SessionPhase::Connected(_)).then_some(SessionPhase::Disconnected));
    }

    /// Lets requests use this connection from now on. If the session is being closed, drops the connection, which closes it.
    pub(crate) fn connect(&self, connection: Connection) {
        let mut connection = Some(Arc::new(connection));
        self.step(|phase| {
            matches!(phase, SessionPhase::Disconnected)
                .then(|| connection.take().map(SessionPhase::Connected))
                .flatten()
        });
    }

    /// Lets requests fail from now on. The session closes once all requests under way are answered or dropped.
    pub(crate) fn close(&self) {
        self.step(|phase| (!matches!(phase, SessionPhase::Ended)).then_some(SessionPhase::Closing));
    }

    /// Notes that the session has ended. Requests fail from now on.
    pub(crate) fn end(&self) {
        self.step(|_| Some(SessionPhase::Ended));
    }

    /// Waits until the session has ended.
    pub(crate) async fn ended(&self) {
        let ended = self.0.subscribe().wait_for(|phase| matches!(phase, SessionPhase::Ended)).await.map(drop);
        ended.expect("BUG: a wire that is in use was dropped");
    }

    /// Moves to the next phase, if `next` returns one. Drops the last phase only after the lock is released.
    fn step(&self, next: impl FnOnce(&SessionPhase) -> Option<SessionPhase>) {
        let mut last = None;
        self.0.send_if_modified(|phase| {
            last = next(phase).map(|next| std::mem::replace(phase, next));
            last.is_some()
        });
        drop(last);
    }

    /// Waits for the connection and returns it. Fails if the session is closing or has ended.
    ///
    /// Requests that must be sent in order use one connection. Otherwise a later request may overtake one that waits for a connection.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, ClientError> {
        if let Some(connection) = self.0.borrow().connection() {
            return connection;
        }
        let mut phases = self.0.subscribe();
        let phase = phases.wait_for(|phase| phase.connection().is_some()).await;
        let connection = phase.ok().and_then(|phase| phase.connection());
        connection.unwrap_or(Err(ClientError::ClientClosed))
    }
}

impl SessionPhase {
    /// Returns the connection for a request, or the error with which it fails. `None` while it waits.
    fn connection(&self) -> Option<Result<Arc<Connection>, ClientError>> {
        match self {
            Self::Connected(connection) => Some(Ok(Arc::clone(connection))),
            Self::Disconnected => None,
            Self::Closing | Self::Ended => Some(Err(ClientError::ClientClosed)),
        }
    }
}
