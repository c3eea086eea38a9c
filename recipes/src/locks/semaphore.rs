//! The lock that a number of contenders share.

mod attempt;
mod leases;
mod permits;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use attempt::Attempt;
use futures_util::future::try_join;
use permits::Permits;
use tracing::warn;
use zk_recipes_protocol::leases::{LEASES, Leases, TURNS};
use zk_recipes_protocol::names::Names;
use zookeeper_client::Error as ClientError;

use crate::deadline::Deadline;
use crate::deadline::granted;
use crate::error::Error;
use crate::hold::acquire_span::AcquireSpan;
use crate::hold::guard::LockGuard;
use crate::hold::lock_queue::LockQueue;
use crate::hold::multi_guard::MultiGuard;
use crate::locks::participants::{self, Participant};
use crate::locks::shared_count::SharedCount;
use crate::node;
use crate::options;
use crate::session::Session;
use crate::session::replies::retry_lost_reply;
use crate::session::wire::Watch;

/// A fair lock of which there are several permits: as many may hold at one time. First come, first served, also when
/// the first wants more than is free: those behind it wait, so that who wants many does not starve.
///
/// Nodes and rules are those of Apache Curator's `InterProcessSemaphoreV2`, so that permits are counted over the clients
/// of both. Below the path there are two nodes: in `locks` contenders queue for their turn, as those of a
/// [`Mutex`](crate::Mutex) do, and in `leases` there is a node for each permit that is held. Only who has the turn may add
/// leases, and keeps it until they are granted. All the permits of one
/// [`acquire_many`](Self::acquire_many) are taken in one turn, so that two who each have a part of what they want never
/// wait for each other.
///
/// The number of permits is a convention between the clients, which nobody checks: give the same number everywhere, or
/// let a [`SharedCount`] tell it to all. Lowering that evicts nobody; until enough permits were given back, nobody else
/// gets one.
///
/// Cheap to clone. Every acquire is a contender of its own, and any task may release what another acquired. The
/// [token](LockGuard::token) of each permit is greater than those of the permits before it; but as several hold at once,
/// storage that refuses all but the greatest refuses holders that were not overtaken.
///
/// # Cost
///
/// Without contention an acquire is 5 requests one after the other and a release 1, in all four writes and two reads. Each
/// further permit of `acquire_many` adds one request to either, sent together, 128 at a time. A waiter that has the turn
/// watches `leases`, all others their predecessor in `locks`, so that a release wakes one. A [`SharedCount`] adds a read to
/// each listing of the leases, and one to an `acquire_many` of several, which creates no lease before there are as many
/// permits.
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::{Semaphore, Session, SessionConfig};
///
/// # async fn example() -> Result<(), zk_recipes::Error> {
/// let session = Session::connect("127.0.0.1:2181", SessionConfig::default()).await?;
/// let database = Semaphore::new(&session, "/semaphores/database", 8)?;
/// if let Some(held) = database.acquire_within(Duration::from_secs(2)).await? {
///     held.run(async { /* at most eight of these at a time */ }).await?;
///     held.release().await?;
/// }
/// // For maintenance: all of them, or none.
/// let all = database.acquire_many(8).await?;
/// all.release().await
/// # }
/// ```
#[doc(alias = "InterProcessSemaphoreV2")]
#[derive(Clone)]
pub struct Semaphore {
    /// What the log calls it.
    recipe: &'static str,
    inner: Arc<Inner>,
    node_data: Arc<[u8]>,
}

struct Inner {
    path: String,
    /// Who has it may add leases.
    turns: LockQueue,
    /// The parent of the leases.
    leases: String,
    /// Whether that has been there before, so that leases can be created at once.
    parent_seen: AtomicBool,
    permits: Permits,
    foreign_reported: AtomicBool,
    low_numbers_reported: AtomicBool,
}

impl Semaphore {
    /// The semaphore at `path`, which must be dedicated to it, with this number of permits. Missing parents are created at
    /// the first acquire, as [`SessionConfig::parents`](crate::SessionConfig::parents) says.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; nothing is sent.
    pub fn new(session: &Session, path: &str, permits: u32) -> Result<Self, Error> {
        Self::with_permits(session, path, Permits::Fixed(permits))
    }

    /// The semaphore at `path`, with as many permits as `count` says at the time; none when that is negative. Whoever
    /// waits hears of every change. The count may have a session of its own, which must live as long as anybody acquires.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; nothing is sent.
    pub fn with_count(session: &Session, path: &str, count: &SharedCount) -> Result<Self, Error> {
        Self::with_permits(session, path, Permits::Counted(count.clone()))
    }

    fn with_permits(session: &Session, path: &str, permits: Permits) -> Result<Self, Error> {
        node::validate_path(path)?;
        let inner = Inner {
            path: path.to_owned(),
            turns: LockQueue::new(session, &node::child(path, TURNS), Names::MUTEX, Vec::new())?,
            leases: node::child(path, LEASES),
            parent_seen: AtomicBool::new(false),
            permits,
            foreign_reported: AtomicBool::new(false),
            low_numbers_reported: AtomicBool::new(false),
        };
        Ok(Self { recipe: "semaphore", inner: Arc::new(inner), node_data: Arc::default() })
    }

    /// The same semaphore, whose leases say this of themselves from now on, to whoever looks at the
    /// [`participants`](Self::participants).
    ///
    /// # Errors
    /// [`Error::NodeDataTooLong`] or [`Error::NodeDataReserved`], as of
    /// [`LockOptions::node_data`](crate::LockOptions::node_data); nothing is sent.
    #[doc(alias = "setNodeData")]
    pub fn with_node_data(self, node_data: Vec<u8>) -> Result<Self, Error> {
        options::validate_node_data(&node_data)?;
        Ok(Self { node_data: node_data.into(), ..self })
    }

    /// Waits for one permit, for as long as it takes or the session lives.
    ///
    /// # Errors
    /// [`Error::InvalidPermits`] when there are none and never will be. [`Error::SessionEnded`],
    /// [`Error::NumbersExhausted`], [`Error::NotAuthorized`], [`Error::Refused`], or [`Error::NodeDeleted`] when somebody
    /// deleted our place in the queue; a lease that somebody deletes before it is granted is created anew. With a [`SharedCount`], [`Error::NotACount`], and [`Error::CountSessionEnded`] when
    /// that has a session of its own, which has ended: then this session lives, and so do its holds.
    ///
    /// # Cancel safety
    /// Dropped, it loses its place in the queue; the session's reaper deletes the nodes, leases before the turn, also
    /// those whose creation had not been answered yet.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.take(1, Deadline::never()).await.map(|guards| only(granted(guards)))
    }

    /// Takes one permit if there is one and nobody is in the way. When there is none, or somebody waits for one, it has
    /// only read.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::NoAnswer`] when the server did not answer within half the session
    /// timeout. [`Error::Unconfirmed`] when somebody was quicker and the server did not confirm that our nodes are gone.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing behind: the session's reaper sees to that.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        self.try_take(1).await.map(|guards| guards.map(only))
    }

    /// Waits for one permit, for at most `wait` in all. `None` when it was not had by then, and then our nodes are gone.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::Unconfirmed`] when the server did not confirm in time that our nodes
    /// are gone; the answer then comes a quarter of the session timeout after `wait` at the latest.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.take(1, Deadline::after(wait)).await.map(|guards| guards.map(only))
    }

    /// Waits for `permits` permits, all of them or none, for as long as it takes or the session lives.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::InvalidPermits`] at once when none are asked for, or more than there will
    /// ever be; with a [`SharedCount`] it waits for the count to be raised.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, permits: u32) -> Result<MultiGuard, Error> {
        self.take(permits, Deadline::never()).await.map(|guards| MultiGuard::new(granted(guards)))
    }

    /// Takes `permits` permits if they are there and nobody is in the way. When they are not, or somebody waits, it has
    /// only read.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire) and [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<MultiGuard>, Error> {
        self.try_take(permits).await.map(|guards| guards.map(MultiGuard::new))
    }

    /// Waits for `permits` permits, all of them or none, for at most `wait` in all. `None` when they were not had by then,
    /// and then our nodes are gone.
    ///
    /// # Errors
    /// As [`acquire_within`](Self::acquire_within) and [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many_within(&self, permits: u32, wait: Duration) -> Result<Option<MultiGuard>, Error> {
        self.take(permits, Deadline::after(wait)).await.map(|guards| guards.map(MultiGuard::new))
    }

    /// The leases, in the order in which they were created: those that hold a permit and those of the contender that has
    /// the turn and waits for room. Who still queues for the turn has no lease, and neither has who has it and wants more
    /// permits than a [`SharedCount`] says that there are; see [`participants`](crate::participants()) of the node `locks`
    /// below the path.
    ///
    /// # Errors
    /// As [`participants`](crate::participants()), and with a [`SharedCount`] as [`SharedCount::get`].
    ///
    /// # Cancel safety
    /// It only reads.
    #[doc(alias = "getParticipantNodes")]
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        let permits = self.inner.permits.now(self.session()).await?;
        participants::of_semaphore(self.session(), self.path(), permits).await
    }

    /// The path of the semaphore.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    /// The session of the semaphore.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.inner.turns.session()
    }

    async fn take(&self, wanted: u32, deadline: Deadline) -> Result<Option<Vec<LockGuard>>, Error> {
        let wanted = self.inner.check(wanted)?;
        self.acquire_span().run(async { Attempt::new(self, wanted, None).take(deadline).await }).await
    }

    async fn try_take(&self, wanted: u32) -> Result<Option<Vec<LockGuard>>, Error> {
        let wanted = self.inner.check(wanted)?;
        let within = self.inner.turns.answer_within();
        let acquire = async { Attempt::new(self, wanted, Some(within)).take(Deadline::after(within)).await };
        self.acquire_span().run(acquire).await
    }

    fn acquire_span(&self) -> AcquireSpan {
        AcquireSpan::new(self.recipe, self.path(), Some(self.session()))
    }

    /// The same semaphore, under another name in the log.
    pub(crate) fn named(self, recipe: &'static str) -> Self {
        Self { recipe, ..self }
    }

    /// Writes the `Debug` text of a lock.
    pub(crate) fn describe(&self, lock: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(lock)
            .field("path", &self.path())
            .field("permits", &self.inner.permits)
            .field("node_data", &format_args!("{} bytes", self.node_data.len()))
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe("Semaphore", f)
    }
}

/// The guard of an acquire of one permit.
fn only(mut guards: Vec<LockGuard>) -> LockGuard {
    guards.pop().unwrap_or_else(|| unreachable!("BUG: one permit was granted without a guard"))
}

/// Watches on whatever may make room.
struct Room {
    /// None when the node to watch is missing, and with it our leases.
    leases: Option<Watch>,
    count: Option<Watch>,
}

impl Room {
    /// Waits until the leases or the count change.
    async fn changed(self) {
        let fired = async |watch: Option<Watch>| match watch {
            Some(watch) => watch.fired().await,
            None => std::future::pending().await,
        };
        tokio::select! {
            _ = fired(self.leases) => {}
            _ = fired(self.count) => {}
        }
    }
}

impl Inner {
    fn session(&self) -> &Session {
        self.turns.session()
    }

    fn check(&self, wanted: u32) -> Result<usize, Error> {
        let at_most = self.permits.at_most();
        if (1..=at_most).contains(&wanted) {
            Ok(wanted as usize)
        } else {
            Err(Error::InvalidPermits { path: self.path.clone(), wanted, at_most })
        }
    }

    /// The leases, and how many permits there are.
    async fn list(&self) -> Result<(Vec<String>, usize), Error> {
        let remote = self.session().remote();
        let children = async {
            let children = remote.list(&self.leases).await;
            children.map_err(|error| remote.explain("list", &self.leases, error))
        };
        let (permits, children) = try_join(self.permits.now(self.session()), children).await?;
        self.report_foreign(&children);
        Ok((children, permits))
    }

    /// As [`list`](Self::list), with watches on both.
    async fn list_and_watch(&self) -> Result<(Vec<String>, usize, Room), Error> {
        let wire = self.session().wire();
        let leases = async {
            match retry_lost_reply(|| wire.watch_children(&self.leases)).await {
                Ok((children, watch)) => Ok((children, Some(watch))),
                Err(ClientError::NoNode) => Ok((Vec::new(), None)),
                Err(error) => Err(self.session().remote().explain("watch", &self.leases, error)),
            }
        };
        let ((permits, count), (children, leases)) = try_join(self.permits.watch(self.session()), leases).await?;
        Ok((children, permits, Room { leases, count }))
    }

    fn report_foreign(&self, children: &[String]) {
        if let Some(child) = Leases::from_children(children).foreign()
            && !self.foreign_reported.swap(true, Ordering::Relaxed)
        {
            let lock = &self.path;
            warn!(lock, child, "ignoring a child that is no lease; Apache Curator clients would count it as one");
        }
    }
}
