//! A node that is ours to delete, or may be: armed before `create` is sent, disarmed when its deletion is confirmed.

use std::future::Future;

use zookeeper_client::{Error as ClientError, Stat};

use crate::error::Error;
use crate::liveness;
use crate::node;
use crate::session::Session;
use crate::wire::{Wire, retry_lost_reply};

/// What an acquire may have left on the server, and how to recognise it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remains {
    /// A node whose name nobody else can have.
    Node { path: String },
    /// A sequential node whose reply has not come. Only we wrote this prefix.
    Unnamed { parent: String, prefix: String },
    /// A node at a path that every contender uses. It is ours for certain only between the grant and the first request
    /// to delete it; otherwise only if it is recognised.
    Shared { path: String, sign: Sign, certain: bool },
}

/// By what a node at a shared path is recognised as ours, beside its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Its data, which only we wrote. Others may overwrite it later.
    Data(Vec<u8>),
    /// The transaction that created it.
    Czxid(i64),
}

impl Sign {
    fn is_of(&self, data: &[u8], stat: &Stat) -> bool {
        match self {
            Self::Data(ours) => data == ours,
            Self::Czxid(ours) => stat.czxid == *ours,
        }
    }
}

/// Whether there was anything to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Deleted,
    NothingThere,
}

impl Remains {
    /// The path to name in messages.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Node { path } | Self::Shared { path, .. } => path,
            Self::Unnamed { parent, .. } => parent,
        }
    }

    /// From now on a request to delete may have been applied, so that the node may be somebody else's.
    fn doubt(&mut self) {
        if let Self::Shared { certain, .. } = self {
            *certain = false;
        }
    }

    /// Asks once for the deletion of what is there, and never for that of a node that is not ours.
    async fn remove(&self, wire: &Wire, session_id: i64) -> Result<Removal, ClientError> {
        let path = match self {
            Self::Node { path } | Self::Shared { path, certain: true, .. } => path.clone(),
            Self::Unnamed { parent, prefix } => match find_unnamed(wire, session_id, parent, prefix).await? {
                Some((path, _)) => path,
                None => return Ok(Removal::NothingThere),
            },
            Self::Shared { path, sign, certain: false } => {
                retry_lost_reply(|| wire.sync(path)).await?;
                match retry_lost_reply(|| wire.data(path)).await {
                    Ok((data, stat)) if is_ours(&stat, session_id) && sign.is_of(&data, &stat) => path.clone(),
                    Ok(_) | Err(ClientError::NoNode) => return Ok(Removal::NothingThere),
                    Err(error) => return Err(error),
                }
            }
        };
        match wire.delete(&path).await {
            Ok(()) => Ok(Removal::Deleted),
            Err(ClientError::NoNode) => Ok(Removal::NothingThere),
            Err(error) => Err(error),
        }
    }
}

/// Deletes the remains, however often replies are lost.
pub(crate) async fn remove(wire: &Wire, session_id: i64, mut remains: Remains) -> Result<Removal, ClientError> {
    let mut doubtful = false;
    loop {
        match remains.remove(wire, session_id).await {
            Err(ClientError::ConnectionLoss) => {
                doubtful = true;
                remains.doubt();
            }
            // The request whose reply was lost has done it.
            Ok(Removal::NothingThere) if doubtful => return Ok(Removal::Deleted),
            answered => return answered,
        }
    }
}

/// Finds the node of a `create` whose reply was lost: by the prefix that only we wrote, and only if this very session
/// owns it. `sync` first, as a server that lags behind the leader may not show it yet.
pub(crate) async fn find_unnamed(
    wire: &Wire,
    session_id: i64,
    parent: &str,
    prefix: &str,
) -> Result<Option<(String, Stat)>, ClientError> {
    retry_lost_reply(|| wire.sync(parent)).await?;
    let children = match retry_lost_reply(|| wire.children(parent)).await {
        Ok(children) => children,
        Err(ClientError::NoNode) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(name) = node::find_protected(&children, prefix) else {
        return Ok(None);
    };
    let path = node::child(parent, name);
    match retry_lost_reply(|| wire.data(&path)).await {
        Ok((_, stat)) => Ok(is_ours(&stat, session_id).then_some((path, stat))),
        Err(ClientError::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether this very session created the node, and not an earlier one whose nodes are not deleted yet.
pub(crate) fn is_ours(stat: &Stat, session_id: i64) -> bool {
    stat.ephemeral_owner == session_id
}

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

    /// Notes the name that the server gave to the node.
    pub(crate) fn name(&mut self, path: String) {
        self.remains = Remains::Node { path };
    }

    /// Notes that the node at the shared path is ours, by the transaction that created it.
    pub(crate) fn make_certain(&mut self, czxid: i64) {
        if let Remains::Shared { sign, certain, .. } = &mut self.remains {
            (*sign, *certain) = (Sign::Czxid(czxid), true);
        }
    }

    /// Deletes the node and waits for the confirmation. When this is dropped or fails, the reaper goes on.
    pub(crate) async fn remove(&mut self) -> Result<Removal, Error> {
        if !self.armed {
            return Ok(Removal::NothingThere);
        }
        let certain = self.remains.clone();
        // Before the request is sent: if this is dropped while it is under way, the reaper must not trust the path.
        self.remains.doubt();
        let removal = remove(self.session.wire(), self.session.id(), certain).await;
        if removal.is_ok() {
            self.armed = false;
        }
        removal.map_err(|error| self.session.explain("delete", self.path(), error))
    }

    /// Gives up a place in the queue: the node is gone when this returns `Ok`. Waits only as long as [`withdrawal`].
    pub(crate) async fn withdraw(mut self) -> Result<(), Error> {
        let (session, path) = (self.session.clone(), self.path().to_owned());
        withdrawal(&session, &path, async { self.remove().await.map(drop) }).await
    }
}

/// Waits for the removal of what is given up under `path`. For at most as long as the client waits for a silent connection,
/// a quarter of the session timeout, so that a caller whose deadline has passed is not kept by a server that does not
/// answer.
pub(crate) async fn withdrawal(
    session: &Session,
    path: &str,
    removal: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let within = liveness::connection_timeout(session.timeout());
    match tokio::time::timeout(within, removal).await {
        Ok(removed) => removed,
        Err(_) => Err(Error::Unconfirmed { path: path.to_owned(), within }),
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.armed {
            self.session.abandon(self.remains.clone());
        }
    }
}
