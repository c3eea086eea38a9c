//! Nodes in no queue that are ours to delete, or may be: claimed before `create` is sent, until their deletion is confirmed.

use futures_util::future::BoxFuture;
use zookeeper_client::{Error as ClientError, Stat};

use crate::engine::{is_ours, withdrawal};
use crate::error::Error;
use crate::hold::shared_node::Sign;
use crate::session::Session;
use crate::session::reaper::{Attempts, Leftover, Removal};
use crate::session::remote::Remote;
use crate::session::wire::retry_lost_reply;

/// Something on the server with the promise that it goes: dropped, it goes to the session's reaper.
#[derive(Debug)]
pub(crate) struct NodeClaim<L: Leftover + 'static = OwnNode> {
    session: Session,
    /// `None` once it went to the reaper.
    leftover: Option<L>,
    /// Whether there may be something to delete.
    armed: bool,
}

/// A node, and how to recognise it.
#[derive(Debug)]
pub(crate) enum OwnNode {
    /// A node whose name nobody else can have.
    Named { path: String },
    /// A node at a path that every contender uses. It is ours for certain only between the grant and the first request
    /// to delete it; otherwise only if it is recognised.
    Shared { path: String, sign: Sign, certain: bool },
}

impl<L: Leftover + 'static> NodeClaim<L> {
    /// A claim on what is about to be created, not armed yet.
    pub(crate) fn new(session: &Session, leftover: L) -> Self {
        Self { session: session.clone(), leftover: Some(leftover), armed: false }
    }

    /// A claim on what is there, or may be.
    pub(crate) fn armed(session: &Session, leftover: L) -> Self {
        let mut claim = Self::new(session, leftover);
        claim.arm();
        claim
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn path(&self) -> &str {
        self.leftover.as_ref().map_or("/", L::path)
    }

    /// To be called before `create` is sent: from now on there may be a node, whatever becomes of the reply.
    pub(crate) fn arm(&mut self) {
        self.armed = true;
    }

    /// Notes that the server has refused to create the node.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }

    /// Deletes what is there and waits for the confirmation. When this is dropped or fails, the reaper goes on.
    pub(crate) async fn remove(&mut self) -> Result<Removal, Error> {
        let Some(leftover) = self.leftover.as_mut().filter(|_| self.armed) else { return Ok(Removal::NothingThere) };
        let removal = leftover.remove(self.session.remote()).await?;
        self.armed = false;
        Ok(removal)
    }

    /// Gives up what was not granted: the node is gone when this returns `Ok`. Waits only as long as [`withdrawal`].
    pub(crate) async fn withdraw(mut self) -> Result<(), Error> {
        let (session, path) = (self.session.clone(), self.path().to_owned());
        withdrawal(&session, &path, async { self.remove().await.map(drop) }).await
    }
}

impl NodeClaim {
    /// Whether the node at the shared path is ours. It is for certain from now on.
    pub(crate) fn recognise(&mut self, data: &[u8], stat: &Stat) -> bool {
        let Some(OwnNode::Shared { sign, certain, .. }) = &mut self.leftover else { return false };
        *certain = is_ours(stat, self.session.id()) && sign.recognise(data, stat);
        *certain
    }

    /// The transaction that created the node, where the path alone does not tell it from others.
    pub(crate) fn czxid(&self) -> Option<i64> {
        match &self.leftover {
            Some(OwnNode::Shared { sign, .. }) => sign.czxid(),
            _ => None,
        }
    }
}

impl<L: Leftover + 'static> Drop for NodeClaim<L> {
    fn drop(&mut self) {
        if let Some(leftover) = self.leftover.take().filter(|_| self.armed) {
            self.session.abandon(leftover);
        }
    }
}

impl OwnNode {
    /// Asks once for the deletion.
    async fn remove_once(&mut self, remote: &Remote) -> Result<Removal, ClientError> {
        let wire = remote.wire();
        match self {
            Self::Named { path } => remote.delete(path).await,
            Self::Shared { path, certain: certain @ true, .. } => {
                // Before the request is sent: from then on it may have been applied, and the node be somebody else's.
                *certain = false;
                remote.delete(path).await
            }
            Self::Shared { path, sign, .. } => {
                retry_lost_reply(|| wire.sync(path)).await?;
                match retry_lost_reply(|| wire.data(path)).await {
                    Ok((data, stat)) if is_ours(&stat, remote.session_id()) && sign.recognise(&data, &stat) => {
                        remote.delete(path).await
                    }
                    Ok(_) | Err(ClientError::NoNode) => Ok(Removal::NothingThere),
                    Err(error) => Err(error),
                }
            }
        }
    }
}

impl Leftover for OwnNode {
    fn path(&self) -> &str {
        match self {
            Self::Named { path } | Self::Shared { path, .. } => path,
        }
    }

    fn remove<'a>(&'a mut self, remote: &'a Remote) -> BoxFuture<'a, Result<Removal, Error>> {
        Box::pin(async {
            let mut attempts = Attempts::new();
            let removed = loop {
                if let Some(removed) = attempts.end(self.remove_once(remote).await).await {
                    break removed;
                }
            };
            removed.map_err(|error| remote.explain("delete", self.path(), error))
        })
    }
}
