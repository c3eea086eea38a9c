//! Locks whose nodes are in each other's way.

use std::collections::HashMap;

use zk_recipes_protocol::leases::{LEASE_LOCK, LEASES};
use zk_recipes_protocol::names::Names;

use crate::error::Error;
use crate::locks::any_lock::AnyLock;
use crate::node;

/// Refuses two locks of one session that meet.
///
/// Contenders of a lock are children of its queues. So two locks meet if they have a queue in common, or if one of them lies in
/// a queue of the other and has the name of a contender. A lock also meets a [`NaiveLock`](crate::NaiveLock) above it, whose node
/// cannot have children.
pub(super) fn refuse(locks: &[AnyLock]) -> Result<(), Error> {
    let mut queues = HashMap::new();
    for lock in locks {
        for queue in queues_of(lock) {
            if let Some(other) = queues.insert((lock.session().id(), queue), lock) {
                return Err(meet(lock, other, "their contenders would wait in one queue"));
            }
        }
    }
    for ((session, queue), lock) in &queues {
        for (end, _) in queue.match_indices('/').skip(1) {
            let above = &queue[..end];
            let below = &queue[end + 1..];
            let name = below.split('/').next().unwrap_or(below);
            let is_contender = Names::ANY.parse(name).or_else(|| Names::LEASES.parse(name)).is_some();
            match queues.get(&(*session, above.to_owned())) {
                Some(other @ AnyLock::Naive(_)) => {
                    return Err(meet(lock, other, "the node of a naive lock has no children"));
                }
                Some(other) if is_contender => {
                    return Err(meet(lock, other, "one has the name of a contender of the other"));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Returns the nodes whose children are contenders. For a naive lock, this is the node of its holder.
fn queues_of(lock: &AnyLock) -> Vec<String> {
    match lock {
        AnyLock::Semaphore(_) | AnyLock::SemaphoreMutex(_) => {
            vec![node::child(lock.path(), LEASE_LOCK), node::child(lock.path(), LEASES)]
        }
        lock => vec![lock.path().to_owned()],
    }
}

fn meet(lock: &AnyLock, other: &AnyLock, reason: &'static str) -> Error {
    Error::LocksMeet { path: lock.path().to_owned(), other: other.path().to_owned(), reason }
}
