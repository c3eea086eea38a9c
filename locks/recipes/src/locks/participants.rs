//! The holders and waiters of a lock, as its nodes show them.

use std::fmt;

use futures_util::{StreamExt, TryStreamExt, stream};
use zk_recipes_protocol::leases;
use zk_recipes_protocol::names::{Mode, Names};
use zk_recipes_protocol::queue::Queue;
use zookeeper_client::{Error as ClientError, Stat};

use crate::error::Error;
use crate::node;
use crate::session::Session;
use crate::session::id::SessionId;
use crate::session::replies::retry_lost_reply;
use crate::session::wire::Fired;
use crate::token::FencingToken;

/// Upper bound of the reads that are under way at the same time.
const READS_MAX: usize = 64;

/// A contender of a lock, as its node shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Participant {
    /// The path of its node.
    pub path: String,
    /// What it wants.
    pub kind: ParticipantKind,
    /// Whether it held at the moment of the listing.
    pub is_holder: bool,
    /// The session that owns its node.
    pub session: SessionId,
    /// The fencing token that its hold has or will have. There are two exceptions. A reader that was a writer before keeps the
    /// writer's token. In a [`CohortMutex`](crate::CohortMutex), each hand-over within the process raises the second part of the
    /// token.
    pub token: FencingToken,
    /// The data of its node, as [`with_node_data`](crate::Mutex::with_node_data) sets it, or the id of a participant of a
    /// [`LeaderLatch`](crate::LeaderLatch). The clients of Curator's locks write the address of their host.
    pub data: Vec<u8>,
}

/// What a [`Participant`] wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParticipantKind {
    /// The lock alone: any contender of a mutex, a writer of a read/write lock, or a participant of an election.
    Exclusive,
    /// The lock together with other readers.
    Shared,
    /// A permit of a semaphore.
    Lease,
}

impl fmt::Display for ParticipantKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
            Self::Lease => "lease",
        })
    }
}

/// Returns the holders and the waiters of the lock at `path`, in the order of the queue. Returns an empty list if the node is missing.
///
/// The lock may be of any recipe of this library, of Curator or of kazoo. Two recipes differ:
///
/// * A [`NaiveLock`](crate::NaiveLock) has no queue: only its holder is returned.
/// * For a semaphore, its leases are returned. They include the leases of the contender that has the lease lock and waits for free
///   permits. This function does not know the number of permits, so a contender counts as waiting as long as it has that lock.
///   [`Semaphore::participants`](crate::Semaphore::participants) knows the number.
///
/// It lists the nodes, and then reads each of them. Nodes that are deleted in between are left out.
///
/// # Errors
/// [`Error::InvalidPath`], [`Error::SessionEnded`], [`Error::NotAuthorized`] or [`Error::Refused`].
///
/// # Cancel safety
/// It only reads.
#[doc(alias = "getParticipantNodes")]
pub async fn participants(session: &Session, path: &str) -> Result<Vec<Participant>, Error> {
    node::validate_path(path)?;
    let contenders = of_queue(session, path, Names::ANY).await?;
    if !contenders.is_empty() {
        return Ok(contenders);
    }
    match retry_lost_reply(|| session.wire().data(path)).await {
        Ok((data, stat)) if is_ephemeral(stat.ephemeral_owner) => {
            Ok(vec![Participant::new(path.to_owned(), ParticipantKind::Exclusive, true, data, &stat)])
        }
        Ok(_) => of_semaphore(session, path, 0).await,
        Err(ClientError::NoNode) => Ok(Vec::new()),
        Err(error) => Err(session.remote().explain("read", path, error)),
    }
}

/// Returns the contenders below `parent`.
pub(crate) async fn of_queue(session: &Session, parent: &str, names: Names) -> Result<Vec<Participant>, Error> {
    let listed = list_queue(session, parent, names).await?;
    read(session, listed).await
}

/// Returns the first contender below `parent`, which holds. `None` if there are no contenders.
pub(crate) async fn first_of_queue(
    session: &Session,
    parent: &str,
    names: Names,
) -> Result<Option<Participant>, Error> {
    loop {
        let mut listed = list_queue(session, parent, names).await?;
        listed.truncate(1);
        let is_empty = listed.is_empty();
        let first = read(session, listed).await?.pop();
        // The first contender may have gone since the listing.
        if is_empty || first.is_some() {
            return Ok(first);
        }
    }
}

/// Waits until a contender is gone: its node was deleted, with or without its session.
pub(crate) async fn until_gone(session: &Session, contender: &Participant) -> Result<(), Error> {
    let path = &contender.path;
    loop {
        match retry_lost_reply(|| session.wire().watch(path)).await {
            Ok((_, stat, watch)) if stat.czxid == contender.token.czxid() => {
                if watch.fired().await == Fired::Deleted {
                    return Ok(());
                }
            }
            // Another node has the name by now.
            Ok(_) | Err(ClientError::NoNode) => return Ok(()),
            Err(error) => return Err(session.remote().explain("watch", path, error)),
        }
    }
}

async fn list_queue(session: &Session, parent: &str, names: Names) -> Result<Vec<ListedContender>, Error> {
    let children = list(session, parent).await?;
    let order = Queue::from_children(children, names).into_order();
    let listed = order.into_iter().map(|(contender, is_holder)| {
        let kind = match contender.mode {
            Mode::Exclusive => ParticipantKind::Exclusive,
            Mode::Shared => ParticipantKind::Shared,
        };
        ListedContender { path: node::child(parent, &contender.name), kind, is_holder }
    });
    Ok(listed.collect())
}

/// Returns the leases of the semaphore at `path`. The first `permits` of them certainly hold.
pub(crate) async fn of_semaphore(session: &Session, path: &str, permits: usize) -> Result<Vec<Participant>, Error> {
    let mut leases = of_leases(session, &node::child(path, leases::LEASES), permits).await?;
    if leases.iter().any(|lease| !lease.is_holder) {
        // The other leases belong to a waiter, or to holders, because a lowered count evicts no holder. The lease lock is read after the
        // leases. Otherwise a holder that has just given it back would count as a waiter.
        let holder = lease_lock_holder(session, &node::child(path, leases::LEASE_LOCK)).await?;
        let waiting = holder.and_then(|holder| holder.prefix_of_its(&leases)).map(str::to_owned);
        for lease in leases.iter_mut().filter(|lease| !lease.is_holder) {
            lease.is_holder = !waiting.as_ref().is_some_and(|prefix| lease.path.starts_with(prefix));
        }
    }
    Ok(leases)
}

/// Returns the leases below `parent`. The first `permits` of them count as holders.
async fn of_leases(session: &Session, parent: &str, permits: usize) -> Result<Vec<Participant>, Error> {
    let children = list(session, parent).await?;
    let order = Queue::from_children(children, Names::LEASES).into_order();
    let order = order.into_iter().enumerate().map(|(i, (lease, _))| {
        let path = node::child(parent, &lease.name);
        ListedContender { path, kind: ParticipantKind::Lease, is_holder: i < permits }
    });
    read(session, order.collect()).await
}

/// The node of the contender that has the lease lock.
struct LeaseLockHolder {
    session: SessionId,
    token: FencingToken,
}

impl LeaseLockHolder {
    /// Returns the beginning of the names of the leases that were created under this lock. These leases wait for free permits,
    /// because a holder has given its lease lock back.
    ///
    /// They are the newest leases of its session. Other leases of the session may also be newer than the lock's node: contenders
    /// that had the lock before created them after this one had queued.
    fn prefix_of_its<'a>(&self, leases: &'a [Participant]) -> Option<&'a str> {
        let newest = leases.iter().rev().find(|lease| lease.session == self.session && lease.token > self.token)?;
        newest.path.rsplit_once(Names::LEASES.marker(Mode::Shared)).map(|(prefix, _)| prefix)
    }
}

/// Returns the contender at the head of the queue below `parent`.
async fn lease_lock_holder(session: &Session, parent: &str) -> Result<Option<LeaseLockHolder>, Error> {
    let children = list(session, parent).await?;
    let Some((first, _)) = Queue::from_children(children, Names::MUTEX).into_order().into_iter().next() else {
        return Ok(None);
    };
    let path = node::child(parent, &first.name);
    match retry_lost_reply(|| session.wire().data(&path)).await {
        Ok((_, stat)) => Ok(Some(LeaseLockHolder {
            session: SessionId::new(stat.ephemeral_owner),
            token: FencingToken::new(stat.czxid),
        })),
        Err(ClientError::NoNode) => Ok(None),
        Err(error) => Err(session.remote().explain("read", &path, error)),
    }
}

/// A contender, as the listing shows it.
struct ListedContender {
    path: String,
    kind: ParticipantKind,
    is_holder: bool,
}

/// Reads the nodes. The reads own their paths, because otherwise the compiler cannot tell that this future is `Send`.
async fn read(session: &Session, listed: Vec<ListedContender>) -> Result<Vec<Participant>, Error> {
    let reads = listed.into_iter().map(|ListedContender { path, kind, is_holder }| async move {
        match retry_lost_reply(|| session.wire().data(&path)).await {
            Ok((data, stat)) => Ok(Some(Participant::new(path, kind, is_holder, data, &stat))),
            Err(ClientError::NoNode) => Ok(None),
            Err(error) => Err(session.remote().explain("read", &path, error)),
        }
    });
    let found: Vec<Option<Participant>> = stream::iter(reads).buffered(READS_MAX).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

impl Participant {
    fn new(path: String, kind: ParticipantKind, is_holder: bool, data: Vec<u8>, stat: &Stat) -> Self {
        let session = SessionId::new(stat.ephemeral_owner);
        let token = FencingToken::new(stat.czxid);
        let data = node::without_mark(node::name(&path), data);
        Self { path, kind, is_holder, session, token, data }
    }
}

/// Tells whether the owner of a node is a session. The server also gives owners to containers and to nodes with a time to live.
/// No session can have such an owner as its id.
fn is_ephemeral(owner: i64) -> bool {
    let has_ttl = owner.to_be_bytes()[0] == 0xff;
    owner != 0 && owner != i64::MIN && !has_ttl
}

async fn list(session: &Session, parent: &str) -> Result<Vec<String>, Error> {
    session.remote().list(parent).await.map_err(|error| session.remote().explain("list", parent, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_made_under_the_present_lease_lock_wait() {
        let lease = |name: &str, session, token| Participant {
            path: format!("/a/leases/{name}-lease-{token:010}"),
            kind: ParticipantKind::Lease,
            is_holder: false,
            session: SessionId::new(session),
            token: FencingToken::new(token),
            data: Vec::new(),
        };
        let leases = [lease("one", 1, 9), lease("two", 2, 12), lease("three", 1, 13), lease("three", 1, 14)];
        let waiting = |session, token| {
            let holder = LeaseLockHolder { session: SessionId::new(session), token: FencingToken::new(token) };
            holder.prefix_of_its(&leases)
        };
        assert_eq!(waiting(1, 8), Some("/a/leases/three-"), "the one was made under an earlier lock");
        assert_eq!(waiting(2, 11), Some("/a/leases/two-"));
        assert_eq!(waiting(1, 15), None, "it has none yet");
        assert_eq!(waiting(3, 1), None);
    }

    #[test]
    fn containers_and_nodes_with_a_time_to_live_are_not_ephemeral() {
        for session in [1, 0x0100_0000_0000_0000, i64::MIN + 1, i64::MAX] {
            assert!(is_ephemeral(session), "{session:#x}");
        }
        for other in [0, i64::MIN, -1, -0x00ff_ffff_ffff_ffff] {
            assert!(!is_ephemeral(other), "{other:#x}");
        }
    }
}
