//! The stage of a session. It decides whether requests are sent, wait for the next connection, or fail.

use std::sync::Arc;

use tokio::sync::watch;
use zookeeper_client::Error as ClientError;

use crate::session::connection::line::Line;

/// The stage of one session. The keeper and `Session::close` change it, and requests follow it.
#[derive(Debug)]
pub(crate) struct Stages(watch::Sender<Stage>);

/// What happens to a request.
#[derive(Debug)]
enum Stage {
    /// It is sent.
    Connected(Arc<Line>),
    /// It waits for the next connection.
    Disconnected,
    /// It fails: the session is being closed, or is no longer served.
    Closing,
    /// It fails: the session has ended.
    Ended,
}

impl Stages {
    pub(crate) fn new(line: Arc<Line>) -> Self {
        Self(watch::channel(Stage::Connected(line)).0)
    }

    /// Lets requests wait for the next connection.
    pub(crate) fn disconnect(&self) {
        self.step(|stage| matches!(stage, Stage::Connected(_)).then_some(Stage::Disconnected));
    }

    /// Lets requests use this connection from now on. If the session is being closed, drops the connection, which closes it.
    pub(crate) fn connect(&self, line: Line) {
        let mut line = Some(Arc::new(line));
        self.step(|stage| matches!(stage, Stage::Disconnected).then(|| line.take().map(Stage::Connected)).flatten());
    }

    /// Lets requests fail from now on. The session closes once all requests under way are answered or dropped.
    pub(crate) fn close(&self) {
        self.step(|stage| (!matches!(stage, Stage::Ended)).then_some(Stage::Closing));
    }

    /// Notes that the session has ended. Requests fail from now on.
    pub(crate) fn end(&self) {
        self.step(|_| Some(Stage::Ended));
    }

    /// Waits until the session has ended.
    pub(crate) async fn ended(&self) {
        let ended = self.0.subscribe().wait_for(|stage| matches!(stage, Stage::Ended)).await.map(drop);
        ended.expect("BUG: a wire that is in use was dropped");
    }

    /// Moves to the next stage, if `next` returns one. Drops the last stage only after the lock is released.
    fn step(&self, next: impl FnOnce(&Stage) -> Option<Stage>) {
        let mut last = None;
        self.0.send_if_modified(|stage| {
            last = next(stage).map(|next| std::mem::replace(stage, next));
            last.is_some()
        });
        drop(last);
    }

    /// Waits for the connection and returns it. Fails if the session is closing or has ended.
    ///
    /// Requests that must be sent in order use one line. Otherwise a later request may overtake one that waits for a connection.
    pub(crate) async fn line(&self) -> Result<Arc<Line>, ClientError> {
        if let Some(line) = self.0.borrow().line() {
            return line;
        }
        let mut stages = self.0.subscribe();
        let stage = stages.wait_for(|stage| stage.line().is_some()).await;
        let line = stage.ok().and_then(|stage| stage.line());
        line.unwrap_or(Err(ClientError::ClientClosed))
    }
}

impl Stage {
    /// Returns the connection for a request, or the error with which it fails. `None` while it waits.
    fn line(&self) -> Option<Result<Arc<Line>, ClientError>> {
        match self {
            Self::Connected(line) => Some(Ok(Arc::clone(line))),
            Self::Disconnected => None,
            Self::Closing | Self::Ended => Some(Err(ClientError::ClientClosed)),
        }
    }
}
