//! The search for a node after the reply to `create` was lost.

use std::collections::HashSet;

use futures_util::future::try_join_all;
use zk_recipes_protocol::names;
use zk_recipes_protocol::session_queue::{Found, Made};
use zookeeper_client::{Error as ClientError, Stat};

use super::mark::Mark;
use crate::node;
use crate::session::remote::Remote;
use crate::session::replies::retry_lost_reply;
use crate::session::wire::{REQUESTS_MAX, Wire};

/// Finds the node that a `create` with a lost reply may have made.
pub(super) async fn find(remote: &Remote, parent: &str, mark: &Mark) -> Result<Found, ClientError> {
    if mark.is_in_data() {
        return find_by_data(remote, parent, mark).await;
    }
    let found = find_unnamed(remote, parent, &mark.text, &HashSet::new()).await?;
    let marked = found.first().map(|(path, stat)| made(remote, path, stat));
    Ok(Found { marked, overwritten: Vec::new() })
}

/// Finds nodes whose names are only the marker and a number. Looks for the mark in their data. Without the mark, returns the nodes
/// of the session whose data was overwritten.
async fn find_by_data(remote: &Remote, parent: &str, mark: &Mark) -> Result<Found, ClientError> {
    let wire = remote.wire();
    retry_lost_reply(|| wire.sync(parent)).await?;
    let mut paths = match retry_lost_reply(|| wire.ephemerals(parent)).await {
        Ok(paths) => paths.into_iter().filter(|path| node::parent(path) == Some(parent)).collect(),
        // The server is older than 3.6.
        Err(ClientError::Unimplemented) => {
            remote.list(parent).await?.iter().map(|name| node::child(parent, name)).collect::<Vec<_>>()
        }
        Err(error) => return Err(error),
    };
    // Other names belong to nodes of other recipes. Their data may be overwritten, too.
    paths.retain(|path| names::is_numbered(node::name(path), mark.marker));
    let mut found = Found::default();
    for paths in paths.chunks(REQUESTS_MAX) {
        let nodes = try_join_all(paths.iter().map(|path| data(wire, path))).await?;
        for (path, (data, stat)) in paths.iter().zip(nodes).filter_map(|(path, node)| Some((path, node?))) {
            if !is_ours(&stat, remote.session_id()) {
                continue;
            }
            if data.starts_with(mark.text.as_bytes()) {
                found.marked = Some(made(remote, path, &stat));
                return Ok(found);
            }
            if stat.version != 0 {
                found.overwritten.push(made(remote, path, &stat));
            }
        }
    }
    Ok(found)
}

/// Returns a node in the form that the queue uses.
pub(crate) fn made(remote: &Remote, path: &str, stat: &Stat) -> Made {
    let is_ours = is_ours(stat, remote.session_id());
    Made { name: node::name(path).to_owned(), czxid: stat.czxid, is_ours }
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

/// Tells whether this session owns the node. An earlier session may have left nodes that are not deleted yet.
pub(crate) fn is_ours(stat: &Stat, session_id: i64) -> bool {
    stat.ephemeral_owner == session_id
}
