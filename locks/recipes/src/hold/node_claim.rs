//! Claims on nodes that are in no queue: each node is deleted in the end.

use futures_util::future::BoxFuture;

use crate::engine::withdrawal;
use crate::error::Error;
use crate::session::Session;
use crate::session::liveness::hold_reports::HoldName;
use crate::session::reaper::{Leftover, until_answered};
use crate::session::remote::{Remote, Removal};
use crate::session::rooms::Room;

/// A claim on something that exists on the server, or may exist. If the claim is dropped, the session's reaper deletes it.
#[derive(Debug)]
pub(crate) struct NodeClaim {
    session: Session,
    /// `None` once it is deleted.
    leftover: Option<Box<dyn Leftover>>,
    /// The name of the hold, once the hold was dropped.
    dropped_hold: Option<HoldName>,
}

impl NodeClaim {
    /// Returns a claim on something that exists, or may exist.
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

    /// Notes that the hold is being dropped. The claim is dropped next.
    pub(crate) fn note_dropped(&mut self, hold: Option<HoldName>) {
        self.dropped_hold = hold;
    }

    /// Deletes it and waits for the confirmation. If this fails or is dropped, the reaper continues once the claim is dropped.
    pub(crate) async fn remove(&mut self) -> Result<Removal, Error> {
        let Some(leftover) = self.leftover.as_mut() else { return Ok(Removal::NothingThere) };
        let removal = leftover.remove(self.session.remote()).await?;
        self.leftover = None;
        Ok(removal)
    }

    /// Deletes something that nothing relies on. When this returns `Ok`, it is gone. Waits at most as long as [`withdrawal`].
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

/// A node with a name that no other contender can have.
#[derive(Debug)]
pub(crate) struct NamedNode {
    pub(crate) lock: String,
    pub(crate) path: String,
    /// Its room.
    pub(crate) _room: Option<Room>,
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
