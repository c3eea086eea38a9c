//! Nodes in no queue that are ours to delete, or may be, until their deletion is confirmed.

use futures_util::future::BoxFuture;

use crate::engine::withdrawal;
use crate::error::Error;
use crate::session::Session;
use crate::session::liveness::hold_reports::HoldName;
use crate::session::reaper::{Leftover, until_answered};
use crate::session::remote::{Remote, Removal};

/// Something on the server with the promise that it goes: dropped, it goes to the session's reaper.
#[derive(Debug)]
pub(crate) struct NodeClaim {
    session: Session,
    /// `None` once it is gone.
    leftover: Option<Box<dyn Leftover>>,
    /// The hold, once that was dropped.
    dropped_hold: Option<HoldName>,
}

impl NodeClaim {
    /// A claim on what is there, or may be.
    pub(crate) fn new(session: &Session, leftover: impl Leftover + 'static) -> Self {
        Self { session: session.clone(), leftover: Some(Box::new(leftover)), dropped_hold: None }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn path(&self) -> &str {
        self.leftover.as_ref().map_or("/", |leftover| leftover.path())
    }

    pub(crate) fn lock(&self) -> &str {
        self.leftover.as_ref().map_or("/", |leftover| leftover.lock())
    }

    /// Notes that its hold is being dropped, and it with that.
    pub(crate) fn note_dropped(&mut self, hold: Option<HoldName>) {
        self.dropped_hold = hold;
    }

    /// Deletes what is there and waits for the confirmation. When this is dropped or fails, the reaper goes on.
    pub(crate) async fn remove(&mut self) -> Result<Removal, Error> {
        let Some(leftover) = self.leftover.as_mut() else { return Ok(Removal::NothingThere) };
        let removal = leftover.remove(self.session.remote()).await?;
        self.leftover = None;
        Ok(removal)
    }

    /// Gives up what was not granted: the node is gone when this returns `Ok`. Waits only as long as [`withdrawal`].
    pub(crate) async fn withdraw(&mut self) -> Result<(), Error> {
        let (session, path) = (self.session.clone(), self.path().to_owned());
        withdrawal(&session, &path, async { self.remove().await.map(drop) }).await
    }
}

impl Drop for NodeClaim {
    fn drop(&mut self) {
        if let Some(leftover) = self.leftover.take() {
            self.session.abandon(leftover, self.dropped_hold.take());
        }
    }
}

/// A node whose name nobody else can have.
#[derive(Debug)]
pub(crate) struct NamedNode {
    pub(crate) lock: String,
    pub(crate) path: String,
}

impl Leftover for NamedNode {
    fn path(&self) -> &str {
        &self.path
    }

    fn lock(&self) -> &str {
        &self.lock
    }

    fn remove<'a>(&'a mut self, remote: &'a Remote) -> BoxFuture<'a, Result<Removal, Error>> {
        Box::pin(async {
            let removed = until_answered(self, remote, |node, remote| Box::pin(remote.delete(&node.path))).await;
            removed.map_err(|error| remote.explain("delete", &self.path, error))
        })
    }
}
