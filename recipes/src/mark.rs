//! How a node is found whose creation was not answered, and what is known of one that was created.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::try_join_all;
use zk_recipes_protocol::names;
use zk_recipes_protocol::release_note::Note;
use zookeeper_client::{Error as ClientError, Stat};

use crate::node;
use crate::remains::REQUESTS_MAX;
use crate::taken::{Taken, TakenNodes};
use crate::wire::{Wire, retry_lost_reply};

/// How to find our node after the reply to `create` was lost.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// Its name begins with this, which only we wrote.
    Name(String),
    /// Its name is the marker and a number, and its data begin with `mark`, which only we wrote. If somebody has
    /// overwritten the data, the node goes to the first claim of our session that looks for one.
    Data { marker: &'static str, mark: String, taken: Arc<TakenNodes> },
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
            Self::Data { taken, .. } => Some(Handoff { taken: taken.take(stat.czxid)?, asks: true, note: None }),
        };
        Some(Found { path, stat, handoff })
    }

    /// Finds the node of a `create` whose reply was lost, of those that this very session owns.
    pub(crate) async fn find(&self, wire: &Wire, session_id: i64, parent: &str) -> Result<Option<Found>, ClientError> {
        match self {
            Self::Name(prefix) => {
                let found = find_unnamed(wire, session_id, parent, prefix, &HashSet::new()).await?;
                Ok(found.into_iter().find_map(|(path, stat)| self.take(path, stat)))
            }
            Self::Data { marker, mark, taken } => loop {
                let adoptions = taken.adoptions();
                let found = self.find_by_data(wire, session_id, parent, marker, mark).await?;
                if found.is_some() || taken.adoptions() == adoptions {
                    return Ok(found);
                }
            },
        }
    }

    async fn find_by_data(
        &self,
        wire: &Wire,
        session_id: i64,
        parent: &str,
        marker: &str,
        mark: &str,
    ) -> Result<Option<Found>, ClientError> {
        retry_lost_reply(|| wire.sync(parent)).await?;
        let mut paths = match retry_lost_reply(|| wire.ephemerals(parent)).await {
            Ok(paths) => paths.into_iter().filter(|path| node::parent(path) == Some(parent)).collect(),
            // A server older than 3.6.
            Err(ClientError::Unimplemented) => {
                children(wire, parent).await?.iter().map(|name| node::child(parent, name)).collect::<Vec<_>>()
            }
            Err(error) => return Err(error),
        };
        // Any other name is that of another recipe's node, whose data may be overwritten as well.
        paths.retain(|path| names::is_numbered(node::name(path), marker));
        let mut overwritten = Vec::new();
        for paths in paths.chunks(REQUESTS_MAX) {
            let nodes = try_join_all(paths.iter().map(|path| data(wire, path))).await?;
            for (path, (data, stat)) in paths.iter().zip(nodes).filter_map(|(path, node)| Some((path, node?))) {
                if !is_ours(&stat, session_id) {
                    continue;
                }
                if data.starts_with(mark.as_bytes()) {
                    return Ok(self.take(path.clone(), stat));
                }
                if stat.version != 0 {
                    overwritten.push((path.clone(), stat));
                }
            }
        }
        // No node has our mark. If the request has made one, its data were overwritten.
        for (path, stat) in overwritten {
            if let Some(adopted) = self.adopt(wire, path, stat).await? {
                return Ok(Some(adopted));
            }
        }
        Ok(None)
    }

    /// Takes an overwritten node for the claim, unless it is gone or another claim has taken it.
    async fn adopt(&self, wire: &Wire, path: String, stat: Stat) -> Result<Option<Found>, ClientError> {
        let Some(found) = self.take(path, stat) else { return Ok(None) };
        if let Self::Data { taken, .. } = self {
            taken.note_adoption();
        }
        // Another claim may have deleted it and let it go after we read it.
        let now = retry_lost_reply(|| wire.stat(&found.path)).await?;
        let found = now.filter(|now| now.czxid == found.stat.czxid).map(|_| found);
        found.iter().filter_map(|found| found.handoff.as_ref()).for_each(|handoff| handoff.taken.keep());
        Ok(found)
    }
}

/// What the node of a lock that is handed over needs beside its name.
#[derive(Clone, Debug)]
pub(crate) struct Handoff {
    /// Kept as long as anybody sees to the node, so that no other claim takes it.
    taken: Arc<Taken>,
    /// Whether to ask for the node before it is deleted, as the name may be another node's by now: numbers begin anew when the
    /// lock's node is deleted and created again. Not from the grant, which has shown the node, until the first request.
    asks: bool,
    /// What to leave for whoever comes next, from the grant on.
    note: Option<Note>,
}

impl Handoff {
    /// Notes what to leave on release.
    pub(crate) fn will_leave(&mut self, note: Note) {
        self.note = Some(note);
    }

    /// Whether the node may still be there. Asks, unless this is the first time since the grant.
    pub(crate) async fn may_be_there(&mut self, wire: &Wire, path: &str) -> Result<bool, ClientError> {
        if !std::mem::replace(&mut self.asks, true) {
            return Ok(true);
        }
        retry_lost_reply(|| wire.sync(path)).await?;
        let stat = retry_lost_reply(|| wire.stat(path)).await?;
        Ok(stat.is_some_and(|stat| stat.czxid == self.czxid()))
    }

    /// Notes that the node was found to be gone.
    pub(crate) fn note_gone(&mut self) {
        self.asks = true;
    }

    /// Notes that the node was there when its contender was granted the lock.
    pub(crate) fn note_granted(&mut self) {
        self.asks = false;
    }

    /// The transaction that created the node.
    pub(crate) fn czxid(&self) -> i64 {
        self.taken.czxid()
    }

    /// What to leave on release.
    pub(crate) fn note(&self) -> Option<&Note> {
        self.note.as_ref()
    }

    /// Notes that nothing is to be left: whoever comes next has to look for itself.
    pub(crate) fn forget_note(&mut self) {
        self.note = None;
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
    let unnamed = names::find_protected(&children, prefix).filter(|name| !known.contains(name));
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

/// Whether this very session created the node, and not an earlier one whose nodes are not deleted yet.
pub(crate) fn is_ours(stat: &Stat, session_id: i64) -> bool {
    stat.ephemeral_owner == session_id
}
