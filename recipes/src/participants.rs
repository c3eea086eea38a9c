//! Who holds a lock and who waits for it.

use futures_util::{StreamExt, TryStreamExt, stream};
use zookeeper_client::Error as ClientError;

use crate::acquire;
use crate::error::Error;
use crate::node::{self, Mode, Names};
use crate::queue::Queue;
use crate::session::Session;
use crate::token::FencingToken;
use crate::wire::retry_lost_reply;

/// How many nodes are asked about at a time.
const READS_MAX: usize = 64;

/// A contender of a lock, as its node tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// The path of its node.
    pub path: String,
    /// What it wants.
    pub kind: ParticipantKind,
    /// Whether it holds, at the moment of the listing.
    pub is_holder: bool,
    /// The session that it lives in.
    pub session: i64,
    /// The fencing token of its hold, had or to come. (Not of a reader that was a writer before: that one keeps the
    /// writer's.)
    pub token: FencingToken,
    /// What it says of itself: [`LockOptions::node_data`](crate::LockOptions::node_data), with Curator's clients the
    /// address of the host.
    pub data: Vec<u8>,
}

/// What a [`Participant`] wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParticipantKind {
    /// The lock alone: any contender of a mutex, the writers of a read/write lock.
    Exclusive,
    /// The lock together with other readers.
    Shared,
    /// A permit of a semaphore.
    Lease,
}

/// Who holds the lock at `path` and who waits for it, in the order of the queue, whatever recipe of ours, of Curator or
/// of kazoo it is. Of a semaphore, the leases; the last of them may still be waiting for room, which only who knows the
/// number of permits can tell: [`Semaphore::participants`](crate::Semaphore::participants). Empty when there is no such
/// node.
///
/// It lists, and then reads every node; those that have gone meanwhile are left out.
///
/// # Errors
/// [`Error::InvalidPath`], [`Error::SessionEnded`] or [`Error::Refused`].
///
/// # Cancel safety
/// It only reads.
#[doc(alias = "getParticipantNodes")]
pub async fn participants(session: &Session, path: &str) -> Result<Vec<Participant>, Error> {
    node::validate_path(path)?;
    let contenders = of_queue(session, path, Names::ANY).await?;
    if contenders.is_empty() {
        of_leases(session, &node::child(path, "leases"), usize::MAX).await
    } else {
        Ok(contenders)
    }
}

/// The contenders below `parent`.
pub(crate) async fn of_queue(session: &Session, parent: &str, names: Names) -> Result<Vec<Participant>, Error> {
    let children = acquire::list(session, parent).await?;
    let order = Queue::from_children(&children, names).into_order();
    let order = order.into_iter().map(|(contender, holds)| {
        let kind = match contender.mode {
            Mode::Exclusive => ParticipantKind::Exclusive,
            Mode::Shared => ParticipantKind::Shared,
        };
        (contender.name, kind, holds)
    });
    read(session, parent, order).await
}

/// The leases below `parent`, of which the first `permits` hold.
pub(crate) async fn of_leases(session: &Session, parent: &str, permits: usize) -> Result<Vec<Participant>, Error> {
    let children = acquire::list(session, parent).await?;
    let order = Queue::from_children(&children, Names::LEASES).into_order();
    let order = order.into_iter().enumerate().map(|(i, (lease, _))| (lease.name, ParticipantKind::Lease, i < permits));
    read(session, parent, order).await
}

async fn read(
    session: &Session,
    parent: &str,
    order: impl Iterator<Item = (&str, ParticipantKind, bool)>,
) -> Result<Vec<Participant>, Error> {
    let reads = order.map(|(name, kind, is_holder)| async move {
        let path = if name.is_empty() { parent.to_owned() } else { node::child(parent, name) };
        match retry_lost_reply(|| session.wire().data(&path)).await {
            Ok((data, stat)) => {
                let (session, token) = (stat.ephemeral_owner, FencingToken::new(stat.czxid));
                Ok(Some(Participant { path, kind, is_holder, session, token, data }))
            }
            Err(ClientError::NoNode) => Ok(None),
            Err(error) => Err(session.explain("read", &path, error)),
        }
    });
    stream::iter(reads).buffered(READS_MAX).try_filter_map(async |participant| Ok(participant)).try_collect().await
}
