//! What becomes of a session's requests: they are sent, wait for the next connection, or fail.

use std::sync::Arc;

use tokio::sync::watch;
use zookeeper_client::Error as ClientError;

use crate::session::line::Line;

/// The stage of one session, for its keeper, which changes it, and its requests, which follow it.
#[derive(Debug)]
pub(crate) struct Stages(watch::Sender<Stage>);

/// What becomes of a request.
#[derive(Debug)]
enum Stage {
    /// It is sent.
    Connected(Arc<Line>),
    /// It waits for the next connection.
    Disconnected,
    /// It fails: the session is being closed, or nobody serves it any more.
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

    /// Sends requests over this connection from now on. If the session is being closed, this closes it.
    pub(crate) fn connect(&self, line: Line) {
        let mut line = Some(Arc::new(line));
        self.step(|stage| matches!(stage, Stage::Disconnected).then(|| line.take().map(Stage::Connected)).flatten());
    }

    /// Fails requests from now on. The session closes once the requests under way are answered or dropped.
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

    /// Goes to the next stage, if there is one, and drops the last where nothing is locked.
    fn step(&self, next: impl FnOnce(&Stage) -> Option<Stage>) {
        let mut last = None;
        self.0.send_if_modified(|stage| {
            last = next(stage).map(|next| std::mem::replace(stage, next));
            last.is_some()
        });
        drop(last);
    }

    /// The connection, once there is one. Requests that must be sent in order are sent over one line: another request may
    /// overtake one that waits for a connection.
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
    /// The connection for a request, or why it fails; `None` while it waits.
    fn line(&self) -> Option<Result<Arc<Line>, ClientError>> {
        match self {
            Self::Connected(line) => Some(Ok(Arc::clone(line))),
            Self::Disconnected => None,
            Self::Closing | Self::Ended => Some(Err(ClientError::ClientClosed)),
        }
    }
}
