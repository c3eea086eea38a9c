//! The search for a node after the reply to `create` was lost.

use std::collections::HashSet;

use futures_util::future::try_join_all;
use zk_recipes_protocol::names::{self, PROTECTION};
use zk_recipes_protocol::session_queue::{Found, Made};
use zookeeper_client::{Error as ClientError, Stat};

use crate::node::{self, Mark};
use crate::session::remote::{Remote, is_ours, made};
use crate::session::replies::retry_lost_reply;
use crate::session::wire::{REQUESTS_MAX, Wire};

/// The nodes of the session whose names are only a marker and a number.
#[derive(Debug, Default)]
pub(super) struct Numbered {
    /// Sorted by data.
    nodes: Vec<(Vec<u8>, Made)>,
    /// The nodes among them whose data was overwritten, in the order of the listing.
    overwritten: Vec<Made>,
}

/// Finds the node of a contender in a listing, by its name. Reads its stat, because an earlier session may have left nodes.
pub(super) async fn find_by_name(
    remote: &Remote,
    parent: &str,
    names: &[String],
    mark: &Mark,
) -> Result<Found, ClientError> {
    // The names are sorted.
    let first = names.get(names.partition_point(|name| *name < mark.text));
    let Some(name) = first.filter(|name| name.starts_with(&mark.text)) else { return Ok(Found::default()) };
    let path = node::child(parent, name);
    let stat = retry_lost_reply(|| remote.wire().stat(&path)).await?;
    let ours = stat.filter(|stat| is_ours(stat, remote.session_id()));
    Ok(Found { marked: ours.map(|stat| made(remote, &path, &stat)), overwritten: Vec::new() })
}

impl Numbered {
    /// Finds the node with the mark. Without it, returns the nodes that were overwritten. Other names belong to nodes of other
    /// recipes, whose data may be overwritten, too.
    pub(super) fn find(&self, mark: &Mark) -> Found {
        let is_named = |made: &&Made| names::is_numbered(&made.name, mark.marker);
        let first = self.nodes.partition_point(|(data, _)| data.as_slice() < mark.text.as_bytes());
        let marked = self.nodes.get(first).filter(|(data, _)| data.starts_with(mark.text.as_bytes()));
        match marked.map(|(_, made)| made).filter(is_named) {
            Some(made) => Found { marked: Some(made.clone()), overwritten: Vec::new() },
            None => Found { marked: None, overwritten: self.overwritten.iter().filter(is_named).cloned().collect() },
        }
    }
}

/// Lists the children of the lock's node, sorted.
pub(super) async fn sorted_names(remote: &Remote, parent: &str) -> Result<Vec<String>, ClientError> {
    retry_lost_reply(|| remote.wire().sync(parent)).await?;
    let mut names = remote.list(parent).await?;
    names.sort_unstable();
    Ok(names)
}

/// Reads the nodes of the session whose names have no protection.
pub(super) async fn numbered(remote: &Remote, parent: &str) -> Result<Numbered, ClientError> {
    let wire = remote.wire();
    retry_lost_reply(|| wire.sync(parent)).await?;
    let mut paths = match retry_lost_reply(|| wire.ephemerals(parent)).await {
        // The server compares the beginnings of paths, so it also returns nodes beside the parent and further below it.
        Ok(paths) => paths.into_iter().filter(|path| node::parent(path) == Some(parent)).collect(),
        // The server is older than 3.6.
        Err(ClientError::Unimplemented) => {
            remote.list(parent).await?.iter().map(|name| node::child(parent, name)).collect::<Vec<_>>()
        }
        Err(error) => return Err(error),
    };
    // Nodes with a protected name are found by the name, so their data need no read.
    paths.retain(|path| !node::name(path).starts_with(PROTECTION));
    let mut found = Numbered::default();
    for paths in paths.chunks(REQUESTS_MAX) {
        let nodes = try_join_all(paths.iter().map(|path| data(wire, path))).await?;
        for (path, (data, stat)) in paths.iter().zip(nodes).filter_map(|(path, node)| Some((path, node?))) {
            if !is_ours(&stat, remote.session_id()) {
                continue;
            }
            let made = made(remote, path, &stat);
            if stat.version != 0 {
                found.overwritten.push(made.clone());
            }
            found.nodes.push((data, made));
        }
    }
    found.nodes.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found)
}

/// Finds the nodes of `create`s with lost replies. They begin with a `prefix` that only we write, belong to this session, and are
/// not `known`. Sends a `sync` first, because a server that lags behind the leader may not show them yet.
pub(crate) async fn find_unnamed(
    remote: &Remote,
    parent: &str,
    prefix: &str,
    known: &HashSet<&str>,
) -> Result<Vec<(String, Stat)>, ClientError> {
    let wire = remote.wire();
    retry_lost_reply(|| wire.sync(parent)).await?;
    let children = remote.list(parent).await?;
    let unnamed = names::find_protected(&children, prefix).filter(|name| !known.contains(name));
    let paths: Vec<String> = unnamed.map(|name| node::child(parent, name)).collect();
    let mut found = Vec::with_capacity(paths.len());
    for paths in paths.chunks(REQUESTS_MAX) {
        let stats = try_join_all(paths.iter().map(|path| retry_lost_reply(|| wire.stat(path)))).await?;
        let there = paths.iter().zip(stats).filter_map(|(path, stat)| Some((path.clone(), stat?)));
        found.extend(there.filter(|(_, stat)| is_ours(stat, remote.session_id())));
    }
    Ok(found)
}

/// Returns the data and the stat of a node. `None` if the node is missing.
async fn data(wire: &Wire, path: &str) -> Result<Option<(Vec<u8>, Stat)>, ClientError> {
    match retry_lost_reply(|| wire.data(path)).await {
        Ok(node) => Ok(Some(node)),
        Err(ClientError::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}
