//! How a node is found whose creation was not answered.

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

/// Finds what a `create` may have made whose reply was lost.
pub(super) async fn find(remote: &Remote, parent: &str, mark: &Mark) -> Result<Found, ClientError> {
    if mark.is_in_data() {
        return find_by_data(remote, parent, mark).await;
    }
    let found = find_unnamed(remote, parent, &mark.text, &HashSet::new()).await?;
    let marked = found.first().map(|(path, stat)| made(remote, path, stat));
    Ok(Found { marked, overwritten: Vec::new() })
}

/// Finds nodes whose names are nothing but a number: by the mark in their data, or because somebody has overwritten those.
async fn find_by_data(remote: &Remote, parent: &str, mark: &Mark) -> Result<Found, ClientError> {
    let wire = remote.wire();
    retry_lost_reply(|| wire.sync(parent)).await?;
    let mut paths = match retry_lost_reply(|| wire.ephemerals(parent)).await {
        Ok(paths) => paths.into_iter().filter(|path| node::parent(path) == Some(parent)).collect(),
        // A server older than 3.6.
        Err(ClientError::Unimplemented) => {
            remote.list(parent).await?.iter().map(|name| node::child(parent, name)).collect::<Vec<_>>()
        }
        Err(error) => return Err(error),
    };
    // Any other name is that of another recipe's node, whose data may be overwritten as well.
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

/// A node, as the queue knows it.
pub(crate) fn made(remote: &Remote, path: &str, stat: &Stat) -> Made {
    let is_ours = is_ours(stat, remote.session_id());
    Made { name: node::name(path).to_owned(), czxid: stat.czxid, is_ours }
}

/// Finds the nodes of `create`s whose replies were lost: by the prefix that only we wrote, and only those that this very
/// session owns and whose names are not `known`. `sync` first, as a server that lags behind the leader may not show them
/// yet.
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
