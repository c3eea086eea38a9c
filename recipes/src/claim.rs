//! A node that is ours to delete, or may be: armed before `create` is sent, disarmed when its deletion is confirmed.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::{join_all, try_join_all};
use zookeeper_client::{CreateMode, Error as ClientError, Stat};

use crate::backoff::Backoff;
use crate::error::Error;
use crate::known::{Known, Taken};
use crate::liveness;
use crate::node;
use crate::session::Session;
use crate::shared_node::Sign;
use crate::wire::{NotingError, Wire, retry_lost_reply};

/// How many requests of one kind are under way at a time where there may be thousands to send: enough to hide the round
/// trips, few enough for a server that others use, too.
pub(crate) const REQUESTS_MAX: usize = 128;

/// What an acquire may have left on the server, and how to recognise it.
#[derive(Clone, Debug)]
pub(crate) enum Remains {
    /// A node whose name nobody else can have.
    Node { path: String, handoff: Option<Handoff> },
    /// A sequential node whose reply has not come.
    Unnamed { parent: String, mark: Mark },
    /// A node at a path that every contender uses. It is ours for certain only between the grant and the first request
    /// to delete it; otherwise only if it is recognised.
    Shared { path: String, sign: Sign, certain: bool },
    /// What an attempt to take permits has made.
    Leases(Leases),
}

/// The leases of one attempt to take permits, and the turn in which they were made. The turn goes last: who has the next
/// one could do nothing but wait for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leases {
    pub(crate) parent: String,
    /// What all of their names begin with. Only we wrote it.
    pub(crate) prefix: String,
    /// The paths of those whose names are known.
    pub(crate) named: Vec<String>,
    /// Whether there may be others, because replies have not come.
    pub(crate) unnamed: bool,
    /// The path of the turn.
    pub(crate) turn: Option<String>,
}

/// A node that was created.
#[derive(Clone, Debug)]
pub(crate) struct Created {
    /// With the number that the server appended.
    pub(crate) path: String,
    pub(crate) stat: Stat,
    /// Whether the first request has done it.
    pub(crate) at_once: bool,
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
            Self::Node { path, .. } | Self::Shared { path, .. } => path,
            Self::Unnamed { parent, .. } | Self::Leases(Leases { parent, .. }) => parent,
        }
    }

    /// Asks once for the deletion of what is there, and never for that of a node that is not ours. What was confirmed is
    /// remembered, so that whoever goes on need not begin again.
    async fn remove(&mut self, wire: &Wire, session_id: i64) -> Result<Removal, ClientError> {
        let path = match self {
            Self::Node { path, handoff } => {
                if let Some(handoff) = handoff
                    && let Some(removal) = handoff.release(wire, path).await?
                {
                    return Ok(removal);
                }
                path.clone()
            }
            Self::Unnamed { parent, mark } => match mark.find(wire, session_id, parent).await? {
                Some(Found { path, handoff, .. }) => {
                    // Its name is remembered: found by its data, it is taken, and would not be found again.
                    *self = Self::Node { path: path.clone(), handoff };
                    path
                }
                None => return Ok(Removal::NothingThere),
            },
            Self::Shared { path, certain: certain @ true, .. } => {
                // Before the request is sent: from then on it may have been applied, and the node be somebody else's.
                *certain = false;
                path.clone()
            }
            Self::Shared { path, sign, .. } => {
                retry_lost_reply(|| wire.sync(path)).await?;
                match retry_lost_reply(|| wire.data(path)).await {
                    Ok((data, stat)) if is_ours(&stat, session_id) && sign.recognise(&data, &stat) => path.clone(),
                    Ok(_) | Err(ClientError::NoNode) => return Ok(Removal::NothingThere),
                    Err(error) => return Err(error),
                }
            }
            Self::Leases(leases) => return leases.remove(wire, session_id).await,
        };
        delete(wire, &path).await
    }
}

impl Leases {
    /// As [`Remains::remove`].
    async fn remove(&mut self, wire: &Wire, session_id: i64) -> Result<Removal, ClientError> {
        if self.unnamed {
            let named = self.named.iter().map(|path| node::name(path)).collect();
            let found = find_unnamed(wire, session_id, &self.parent, &self.prefix, &named).await?;
            self.named.extend(found.into_iter().map(|(path, _)| path));
            self.unnamed = false;
        }
        let mut removal = Removal::NothingThere;
        while !self.named.is_empty() {
            let rest = self.named.len().saturating_sub(REQUESTS_MAX);
            let answers = join_all(self.named[rest..].iter().map(|path| delete(wire, path))).await;
            let mut failure = None;
            for (path, answer) in self.named.split_off(rest).into_iter().zip(answers) {
                match answer {
                    Ok(Removal::Deleted) => removal = Removal::Deleted,
                    Ok(Removal::NothingThere) => {}
                    Err(error) => {
                        self.named.push(path);
                        failure = Some(error);
                    }
                }
            }
            failure.map_or(Ok(()), Err)?;
        }
        if let Some(turn) = &self.turn {
            if delete(wire, turn).await? == Removal::Deleted {
                removal = Removal::Deleted;
            }
            self.turn = None;
        }
        Ok(removal)
    }
}

/// By what a node is found whose reply has not come.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// What its name begins with. Only we wrote that.
    Name(String),
    /// What its data begin with. Only we wrote that, but anybody may have overwritten it; then it is the node of the
    /// first claim of our session that looks for one.
    Data { mark: String, known: Arc<Known> },
}

/// A node that is a claim's.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) stat: Stat,
    pub(crate) handoff: Option<Handoff>,
}

impl Mark {
    /// Whether the node that the server has just created is the claim's: none of those that another has taken.
    pub(crate) fn take(&self, path: String, stat: Stat) -> Option<Found> {
        let handoff = match self {
            Self::Name(_) => None,
            Self::Data { known, .. } => Some(Handoff { _taken: known.take(stat.czxid)?, note: None }),
        };
        Some(Found { path, stat, handoff })
    }

    /// Finds the node of a `create` whose reply was lost, of those that this very session owns.
    pub(crate) async fn find(&self, wire: &Wire, session_id: i64, parent: &str) -> Result<Option<Found>, ClientError> {
        let Self::Data { mark, .. } = self else {
            let Self::Name(prefix) = self else { return Ok(None) };
            let found = find_unnamed(wire, session_id, parent, prefix, &HashSet::new()).await?;
            return Ok(found.into_iter().find_map(|(path, stat)| self.take(path, stat)));
        };
        retry_lost_reply(|| wire.sync(parent)).await?;
        let paths = match retry_lost_reply(|| wire.ephemerals(parent)).await {
            Ok(paths) => paths.into_iter().filter(|path| node::parent(path) == Some(parent)).collect(),
            // A server older than 3.6.
            Err(ClientError::Unimplemented) => {
                children(wire, parent).await?.iter().map(|name| node::child(parent, name)).collect::<Vec<_>>()
            }
            Err(error) => return Err(error),
        };
        let mut overwritten = None;
        for paths in paths.chunks(REQUESTS_MAX) {
            let nodes = try_join_all(paths.iter().map(|path| data(wire, path))).await?;
            for (path, (data, stat)) in paths.iter().zip(nodes).filter_map(|(path, node)| Some((path, node?))) {
                if !is_ours(&stat, session_id) {
                    continue;
                }
                if data.starts_with(mark.as_bytes()) {
                    return Ok(self.take(path.clone(), stat));
                }
                if stat.version != 0 && overwritten.is_none() {
                    overwritten = self.take(path.clone(), stat);
                }
            }
        }
        Ok(overwritten)
    }
}

/// What the node of a lock that is handed over needs beside its name.
#[derive(Clone, Debug)]
pub(crate) struct Handoff {
    /// Kept as long as anybody sees to the node, so that no other claim takes it.
    _taken: Arc<Taken>,
    /// What to leave for whoever comes next, from the grant on.
    note: Option<Note>,
}

/// What a holder leaves when it releases.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    /// The path of the lock's node, whose data it becomes.
    pub(crate) noted: String,
    pub(crate) data: Vec<u8>,
    /// The version of the data that it replaces. Other data are not ours to overwrite.
    pub(crate) version: i32,
}

impl Handoff {
    /// Deletes the node and leaves the note. `None` when there is no note to be left.
    async fn release(&mut self, wire: &Wire, path: &str) -> Result<Option<Removal>, ClientError> {
        let Some(Note { noted, data, version }) = &self.note else { return Ok(None) };
        match wire.delete_noting(path, noted, data, *version).await {
            Ok(()) => Ok(Some(Removal::Deleted)),
            Err(NotingError::Delete(error)) => removal(Err(error)).map(Some),
            // Whoever comes next has to look for itself.
            Err(NotingError::Note) => {
                self.note = None;
                Ok(None)
            }
        }
    }
}

async fn delete(wire: &Wire, path: &str) -> Result<Removal, ClientError> {
    removal(wire.delete(path).await)
}

fn removal(deleted: Result<(), ClientError>) -> Result<Removal, ClientError> {
    match deleted {
        Ok(()) => Ok(Removal::Deleted),
        Err(ClientError::NoNode) => Ok(Removal::NothingThere),
        Err(error) => Err(error),
    }
}

/// Deletes the remains, however often replies are lost.
pub(crate) async fn remove(wire: &Wire, session_id: i64, remains: &mut Remains) -> Result<Removal, ClientError> {
    let mut doubtful = false;
    let mut backoff = Backoff::after_lost_reply();
    loop {
        match remains.remove(wire, session_id).await {
            Err(ClientError::ConnectionLoss) => {
                doubtful = true;
                backoff.pause().await;
            }
            // The request whose reply was lost has done it.
            Ok(Removal::NothingThere) if doubtful => return Ok(Removal::Deleted),
            answered => return answered,
        }
    }
}

/// Finds the nodes of `create`s whose replies were lost: by the prefix that only we wrote, and only those that this very
/// session owns and whose names are not `known`. `sync` first, as a server that lags behind the leader may not show them
/// yet.
pub(crate) async fn find_unnamed(
    wire: &Wire,
    session_id: i64,
    parent: &str,
    prefix: &str,
    known: &HashSet<&str>,
) -> Result<Vec<(String, Stat)>, ClientError> {
    retry_lost_reply(|| wire.sync(parent)).await?;
    let children = children(wire, parent).await?;
    let unnamed = node::find_protected(&children, prefix).filter(|name| !known.contains(name));
    let paths: Vec<String> = unnamed.map(|name| node::child(parent, name)).collect();
    let mut found = Vec::with_capacity(paths.len());
    for paths in paths.chunks(REQUESTS_MAX) {
        let stats = try_join_all(paths.iter().map(|path| retry_lost_reply(|| wire.stat(path)))).await?;
        let there = paths.iter().zip(stats).filter_map(|(path, stat)| Some((path.clone(), stat?)));
        found.extend(there.filter(|(_, stat)| is_ours(stat, session_id)));
    }
    Ok(found)
}

/// The names of the children of a node; none of a node that is missing.
async fn children(wire: &Wire, parent: &str) -> Result<Vec<String>, ClientError> {
    match retry_lost_reply(|| wire.children(parent)).await {
        Err(ClientError::NoNode) => Ok(Vec::new()),
        answered => answered,
    }
}

/// A node's data and stat, `None` of one that is missing.
async fn data(wire: &Wire, path: &str) -> Result<Option<(Vec<u8>, Stat)>, ClientError> {
    match retry_lost_reply(|| wire.data(path)).await {
        Ok(node) => Ok(Some(node)),
        Err(ClientError::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the answer to a `create` says for certain that it has made no node.
pub(crate) fn is_refusal(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::NoNode
            | ClientError::NodeExists
            | ClientError::NoAuth
            | ClientError::InvalidAcl
            | ClientError::BadArguments(_)
            | ClientError::NoChildrenForEphemerals
            | ClientError::QuotaExceeded
            | ClientError::NotReadOnly
            | ClientError::Throttled
            | ClientError::MarshallingError
            | ClientError::Unimplemented
    )
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

    /// A claim on what is there, or may be.
    pub(crate) fn armed(session: &Session, remains: Remains) -> Self {
        Self { session: session.clone(), remains, armed: true }
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

    /// The path of the node, for whoever sees to its deletion from now on.
    pub(crate) fn hand_over(mut self) -> Option<String> {
        std::mem::take(&mut self.armed).then(|| self.path().to_owned())
    }

    /// Creates the sequential node at `path`, or the one of that very name, and its parent where it is missing, whatever
    /// replies are lost on the way.
    pub(crate) async fn create(&mut self, path: &str, data: &[u8], mode: CreateMode) -> Result<Created, Error> {
        let session = self.session.clone();
        let (wire, parent) = (session.wire(), node::parent(path).unwrap_or("/"));
        let Remains::Unnamed { mark, .. } = self.remains.clone() else {
            unreachable!("BUG: a claim on a node that has a name creates another")
        };
        self.arm();
        let mut backoff = Backoff::after_lost_reply();
        let (mut at_once, mut is_reply_lost) = (true, false);
        let Found { path, stat, handoff } = loop {
            let (error, refused) = match wire.create(path, data, mode).await {
                // Otherwise it was found and taken for that of another claim, whose reply had been lost.
                Ok((path, stat)) => match mark.take(path, stat) {
                    Some(created) => break created,
                    None => continue,
                },
                Err(ClientError::NoNode) => {
                    at_once = false;
                    match wire.create_parents(parent).await {
                        Ok(()) => continue,
                        Err(error) => (session.explain("create", parent, error), true),
                    }
                }
                Err(ClientError::ConnectionLoss) => {
                    (at_once, is_reply_lost) = (false, true);
                    backoff.pause().await;
                    match mark.find(wire, session.id(), parent).await {
                        Ok(Some(ours)) => break ours,
                        Ok(None) => continue,
                        Err(error) => (session.explain("list", parent, error), false),
                    }
                }
                Err(error) => {
                    let refused = is_refusal(&error);
                    (session.explain("create", path, error), refused)
                }
            };
            if refused && !is_reply_lost {
                self.disarm();
            }
            return Err(error);
        };
        self.name(path.clone(), handoff);
        if !is_ours(&stat, session.id()) {
            // The server answers for the node that it has just made, so this would be a proxy's or a server's fault; a
            // grant from such a node could be taken from us at any time.
            return Err(Error::NodeDeleted { path });
        }
        Ok(Created { path, stat, at_once })
    }

    /// Notes the name that the server gave to the node.
    pub(crate) fn name(&mut self, path: String, handoff: Option<Handoff>) {
        self.remains = Remains::Node { path, handoff };
    }

    /// Notes what to leave for whoever comes next when the lock is given back.
    pub(crate) fn will_note(&mut self, note: Note) {
        if let Remains::Node { handoff: Some(handoff), .. } = &mut self.remains {
            handoff.note = Some(note);
        }
    }

    /// By what the node is found if the reply to its creation is lost.
    pub(crate) fn mark(&self) -> Option<&Mark> {
        match &self.remains {
            Remains::Unnamed { mark, .. } => Some(mark),
            _ => None,
        }
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
        let removal = remove(self.session.wire(), self.session.id(), &mut self.remains).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_rules_out_a_node_is_a_refusal() {
        for refusal in [
            ClientError::NoNode,
            ClientError::NodeExists,
            ClientError::NoAuth,
            ClientError::InvalidAcl,
            ClientError::BadArguments(&"path"),
            ClientError::NoChildrenForEphemerals,
            ClientError::QuotaExceeded,
            ClientError::NotReadOnly,
            ClientError::Throttled,
        ] {
            assert!(is_refusal(&refusal), "{refusal:?}");
        }
        for uncertain in [
            ClientError::ConnectionLoss,
            ClientError::Timeout,
            ClientError::SessionExpired,
            ClientError::SessionMoved,
            ClientError::ClientClosed,
            ClientError::UnexpectedErrorCode(-7),
            ClientError::UnexpectedError("a reply that makes no sense".to_owned()),
        ] {
            assert!(!is_refusal(&uncertain), "{uncertain:?}");
        }
    }
}
