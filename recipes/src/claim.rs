//! A node that is ours to delete, or may be: armed before `create` is sent, disarmed when its deletion is confirmed.

use zookeeper_client::Stat;

use crate::engine::{Removal, is_ours, withdrawal};
use crate::error::Error;
use crate::remains::{self, Remains};
use crate::session::Session;

/// [`Remains`] with the promise that they go: dropped, it hands them to the session's reaper.
#[derive(Debug)]
pub(crate) struct Claim {
    session: Session,
    remains: Remains,
    /// Whether there may be something to delete.
    armed: bool,
}

impl Claim {
    /// A claim on what is about to be created, not armed yet.
    pub(crate) fn new(session: &Session, remains: Remains) -> Self {
        Self { session: session.clone(), remains, armed: false }
    }

    /// A claim on what is there, or may be.
    pub(crate) fn armed(session: &Session, remains: Remains) -> Self {
        let mut claim = Self::new(session, remains);
        claim.arm();
        claim
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn path(&self) -> &str {
        self.remains.path()
    }

    /// To be called before `create` is sent: from now on there may be a node, whatever becomes of the reply.
    pub(crate) fn arm(&mut self) {
        self.armed = true;
    }

    /// Notes that the server has refused to create the node.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }

    /// Whether the node at the shared path is ours. It is for certain from now on.
    pub(crate) fn recognise(&mut self, data: &[u8], stat: &Stat) -> bool {
        let Remains::Shared { sign, certain, .. } = &mut self.remains else { return false };
        *certain = is_ours(stat, self.session.id()) && sign.recognise(data, stat);
        *certain
    }

    /// The transaction that created the node, where the path alone does not tell it from others.
    pub(crate) fn czxid(&self) -> Option<i64> {
        match &self.remains {
            Remains::Shared { sign, .. } => sign.czxid(),
            _ => None,
        }
    }

    /// Deletes the node and waits for the confirmation. When this is dropped or fails, the reaper goes on.
    pub(crate) async fn remove(&mut self) -> Result<Removal, Error> {
        if !self.armed {
            return Ok(Removal::NothingThere);
        }
        let remote = self.session.remote();
        let removal = remains::remove(remote, &mut self.remains).await?;
        self.armed = false;
        Ok(removal)
    }

    /// Gives up what was not granted: the node is gone when this returns `Ok`. Waits only as long as [`withdrawal`].
    pub(crate) async fn withdraw(mut self) -> Result<(), Error> {
        let (session, path) = (self.session.clone(), self.path().to_owned());
        withdrawal(&session, &path, async { self.remove().await.map(drop) }).await
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.armed {
            self.session.abandon(std::mem::take(&mut self.remains));
        }
    }
}
