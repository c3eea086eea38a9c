//! The lock that a number of contenders share.

mod attempt;
mod limit;
mod nodes;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::try_join;
use tracing::warn;
use zk_recipes_protocol::leases::{LEASE_LOCK, LEASES, LeaseListing};
use zk_recipes_protocol::names::{Mode, Names};
use zookeeper_client::Error as ClientError;

use self::limit::{Number, PermitLimit};
use crate::acquire::{AcquireSpan, Deadline, granted};
use crate::error::Error;
use crate::guard::LockGuard;
use crate::guard::multi::MultiGuard;
use crate::lock_queue::LockQueue;
use crate::locks::participants::{self, Participant};
use crate::locks::shared_count::SharedCount;
use crate::node;
use crate::node_data;
use crate::session::Session;
use crate::session::replies::retry_lost_reply;
use crate::session::wire::Watch;

/// A fair lock with a number of permits: at most that number of holders at a time. First come, first served. A contender that
/// wants more permits than are free keeps the contenders behind it waiting, so it does not starve.
///
/// Nodes and rules are the same as in Apache Curator's `InterProcessSemaphoreV2`, so the clients of both share the permits. The path
/// has two child nodes. In `locks`, contenders queue for the lease lock, as the contenders of a [`Mutex`](crate::Mutex) do. In
/// `leases`, there is one node for each permit that is held. Only the contender that has the lease lock may add leases, and it keeps
/// the lease lock until they are granted. It takes all the permits of one [`acquire_many`](Self::acquire_many) under one lease lock. So two
/// contenders that each have a part of their permits never wait for each other.
///
/// The number of permits is a convention between the clients, and nothing checks it. Give the same number everywhere, or use a
/// [`SharedCount`]. If the number is lowered, no holder is evicted. No contender gets a permit until enough permits were given
/// back. The number counts at the moment of a grant: an acquire that returns after [`SharedCount::set`] has returned was granted by
/// the number that was set, or before. A server that lags does not change that.
///
/// Cheap to clone. Every acquire is a contender of its own, and any task may release a permit that another task acquired. The
/// [token](LockGuard::token) of each permit is greater than the tokens of the permits before it. But several holders hold at
/// once. So storage that accepts only the greatest token also refuses holders that still hold.
///
/// # Cost
///
/// Without contention, an acquire is 5 requests in 4 round trips, and a release is 1 request. From the third acquire in a row of
/// one session on, an acquire is 4 requests. Each further permit of `acquire_many` adds one request to the acquire and one to the
/// release. These are sent together, up to 128 at a time in an acquire.
///
/// The waiter that has the lease lock watches `leases`, and all others watch their predecessor in `locks`, so a release wakes one
/// waiter. A [`SharedCount`] adds a read to each listing of the leases. It adds a request and a round trip to each acquire: when the
/// permits are free, a quorum commits that the count has not been set since it was read. If it has been set, the acquire looks
/// again. A `try_acquire` that finds no free permit sends no such request. The count adds one more read to an `acquire_many` of
/// several permits, which creates no lease before there are enough permits.
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
    /// The name of the recipe in the log.
    recipe: &'static str,
    inner: Arc<SemaphoreInner>,
    node_data: Arc<[u8]>,
}

struct SemaphoreInner {
    path: String,
    /// The queue for the lock under which leases are added.
    lease_lock: LockQueue,
    /// The parent of the leases.
    leases: String,
    /// Whether the parent of the leases existed before, so that several leases can be created at once.
    parent_seen: AtomicBool,
    permits: PermitLimit,
    foreign_reported: AtomicBool,
    low_numbers_reported: AtomicBool,
}

impl Semaphore {
    /// Returns the semaphore at `path` with this number of permits. Use this path for nothing else. Missing parents are
    /// created at the first acquire, as [`SessionConfig::parents`](crate::SessionConfig::parents) says.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]. Nothing is sent.
    pub fn new(session: &Session, path: &str, permits: u32) -> Result<Self, Error> {
        Self::with_permits(session, path, PermitLimit::Fixed(permits))
    }

    /// Returns the semaphore at `path`, with the number of permits that `count` has at the time. A negative count means no
    /// permits. The contender that has the lease lock is notified of every change. The count may have its own session, which must live
    /// as long as the semaphore is in use. If the node of the count is deleted, every acquire fails until somebody sets the count: see
    /// [`SharedCount`].
    ///
    /// # Errors
    /// [`Error::InvalidPath`]. Nothing is sent.
    pub fn from_count(session: &Session, path: &str, count: &SharedCount) -> Result<Self, Error> {
        Self::with_permits(session, path, PermitLimit::Counted(count.clone()))
    }

    fn with_permits(session: &Session, path: &str, permits: PermitLimit) -> Result<Self, Error> {
        node::validate_path(path)?;
        let inner = SemaphoreInner {
            path: path.to_owned(),
            lease_lock: LockQueue::new(session, &node::child(path, LEASE_LOCK), Names::MUTEX)?,
            leases: node::child(path, LEASES),
            parent_seen: AtomicBool::new(false),
            permits,
            foreign_reported: AtomicBool::new(false),
            low_numbers_reported: AtomicBool::new(false),
        };
        Ok(Self { recipe: "semaphore", inner: Arc::new(inner), node_data: Arc::default() })
    }

    /// Sets the data of its leases, which is empty by default. [`participants`](Self::participants) shows it. Earlier clones keep
    /// their data.
    ///
    /// # Errors
    /// [`Error::NodeDataTooLong`] or [`Error::NodeDataReserved`], as [`Mutex::with_node_data`](crate::Mutex::with_node_data).
    /// Nothing is sent.
    #[doc(alias = "setNodeData")]
    pub fn with_node_data(self, node_data: impl Into<Vec<u8>>) -> Result<Self, Error> {
        let node_data = node_data.into();
        node_data::validate(&node_data)?;
        Ok(Self { node_data: node_data.into(), ..self })
    }

    /// Waits for one permit, without a deadline.
    ///
    /// # Errors
    /// * [`Error::InvalidPermits`] if the semaphore has no permits and never will.
    /// * [`Error::NodeDeleted`] if somebody deleted our place in the queue. If somebody deletes our lease before the grant, it is
    ///   created again.
    /// * [`Error::SessionEnded`], [`Error::NumbersExhausted`], [`Error::NotAuthorized`] or [`Error::Refused`].
    /// * With a [`SharedCount`], [`Error::NotACount`] or [`Error::CountDeleted`]. [`Error::CountSessionEnded`] if the count has its
    ///   own session, which has ended. The session of the semaphore and its holds live on.
    ///
    /// # Cancel safety
    /// If the future is dropped, it loses its place in the queue. The session's reaper deletes the nodes, leases before the lease lock,
    /// even if the reply to a `create` has not arrived yet.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.take(1, Deadline::never()).await.map(|guards| only(granted(guards)))
    }

    /// Takes one permit if one is free and no contender waits. Otherwise returns `None` after reads only. If another contender
    /// comes in between, deletes our nodes again and returns `None`.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::NoAnswer`] if the server did not answer within half the session timeout.
    /// [`Error::NoRoom`] if the session has no room for the node now.
    /// [`Error::Unconfirmed`] if another contender came in between and the server did not confirm that our nodes are gone.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is left behind: the session's reaper deletes our nodes.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        self.try_take(1).await.map(|guards| guards.map(only))
    }

    /// Waits for one permit for at most `wait`, over all its requests. At the deadline, deletes our nodes, which takes at most a
    /// quarter of the session timeout. When it returns `None`, our nodes are gone.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::Unconfirmed`] if the server did not confirm in time that our nodes are gone.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.take(1, Deadline::after(wait)).await.map(|guards| guards.map(only))
    }

    /// Waits for `permits` permits, all or none, without a deadline.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::InvalidPermits`] at once if `permits` is 0, or more than the semaphore can ever
    /// have. With a [`SharedCount`], the call waits until the count is raised. [`Error::NoRoom`] at once if the nodes never
    /// fit into [`SessionConfig::node_bytes_max`](crate::SessionConfig::node_bytes_max).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, permits: u32) -> Result<MultiGuard, Error> {
        self.take(permits, Deadline::never()).await.map(|guards| MultiGuard::new(granted(guards)))
    }

    /// Takes `permits` permits, all or none, if they are free and no contender waits. Otherwise returns `None`, as
    /// [`try_acquire`](Self::try_acquire) does.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire) and [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<MultiGuard>, Error> {
        self.try_take(permits).await.map(|guards| guards.map(MultiGuard::new))
    }

    /// Waits for `permits` permits, all or none, for at most `wait`. At the deadline, deletes our nodes, as
    /// [`acquire_within`](Self::acquire_within) does. When it returns `None`, our nodes are gone.
    ///
    /// # Errors
    /// As [`acquire_within`](Self::acquire_within) and [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many_within(&self, permits: u32, wait: Duration) -> Result<Option<MultiGuard>, Error> {
        self.take(permits, Deadline::after(wait)).await.map(|guards| guards.map(MultiGuard::new))
    }

    /// Returns the leases, in the order of their creation. A lease holds a permit, or belongs to the contender that has the lease lock
    /// and waits for free permits.
    ///
    /// Two kinds of contenders have no lease. The first kind queues for the lease lock. The second has the lease lock, and wants more permits
    /// than a [`SharedCount`] has. To see both, call [`participants`](crate::participants()) with the node `locks` below the
    /// path.
    ///
    /// # Errors
    /// As [`participants`](crate::participants()). With a [`SharedCount`], also as [`SharedCount::get`].
    ///
    /// # Cancel safety
    /// It only reads.
    #[doc(alias = "getParticipantNodes")]
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        let number = self.inner.permits.now(self.session()).await?;
        participants::of_semaphore(self.session(), self.path(), number.permits()).await
    }

    /// Returns the path of the semaphore.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.inner.path
    }

    /// Returns the session of the semaphore.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.inner.lease_lock.session()
    }

    /// Returns the room that one permit takes.
    pub(crate) fn room(&self) -> usize {
        self.inner.room(1)
    }

    async fn take(&self, wanted: u32, deadline: Deadline) -> Result<Option<Vec<LockGuard>>, Error> {
        let wanted = self.inner.check(wanted)?;
        self.acquire_span().run(attempt::take(self, wanted, None, deadline)).await
    }

    async fn try_take(&self, wanted: u32) -> Result<Option<Vec<LockGuard>>, Error> {
        let wanted = self.inner.check(wanted)?;
        let within = self.inner.lease_lock.answer_within();
        self.acquire_span().run(attempt::take(self, wanted, Some(within), Deadline::after(within))).await
    }

    fn acquire_span(&self) -> AcquireSpan {
        AcquireSpan::new(self.recipe, self.path(), Some(self.session().id()))
    }

    /// Sets the name of the recipe in the log.
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

/// Returns the guard of an acquire of one permit.
fn only(mut guards: Vec<LockGuard>) -> LockGuard {
    guards.pop().unwrap_or_else(|| unreachable!("BUG: one permit was granted without a guard"))
}

/// Watches that fire when permits may have become free.
struct FreePermits {
    /// `None` if the node to watch is missing, and with it our leases.
    leases: Option<Watch>,
    count: Option<Watch>,
}

impl FreePermits {
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

impl SemaphoreInner {
    fn session(&self) -> &Session {
        self.lease_lock.session()
    }

    fn check(&self, wanted: u32) -> Result<usize, Error> {
        let at_most = self.permits.at_most();
        if (1..=at_most).contains(&wanted) {
            Ok(wanted as usize)
        } else {
            Err(Error::InvalidPermits { path: self.path.clone(), wanted, at_most })
        }
    }

    /// Returns the room that a lease takes.
    fn lease_room(&self) -> usize {
        let name_len = node::name_len(Names::LEASES.marker(Mode::Shared), true);
        self.session().room_of(self.leases.len() + 1 + name_len)
    }

    /// Returns the room that an acquire takes: the lease lock and its leases.
    fn room(&self, wanted: usize) -> usize {
        self.lease_lock.node_room(Mode::Exclusive) + wanted * self.lease_room()
    }

    /// Lists the leases, and reads the number of permits.
    async fn list(&self) -> Result<(Vec<String>, Number), Error> {
        let remote = self.session().remote();
        let children = async {
            let children = remote.list(&self.leases).await;
            children.map_err(|error| remote.explain("list", &self.leases, error))
        };
        let (number, children) = try_join(self.permits.now(self.session()), children).await?;
        self.report_foreign(&children);
        Ok((children, number))
    }

    /// As [`list`](Self::list), with watches on both.
    async fn list_and_watch(&self) -> Result<(Vec<String>, Number, FreePermits), Error> {
        let wire = self.session().wire();
        let leases = async {
            match retry_lost_reply(|| wire.watch_children(&self.leases)).await {
                Ok((children, watch)) => Ok((children, Some(watch))),
                Err(ClientError::NoNode) => Ok((Vec::new(), None)),
                Err(error) => Err(self.session().remote().explain("watch", &self.leases, error)),
            }
        };
        let ((number, count), (children, leases)) = try_join(self.permits.watch(self.session()), leases).await?;
        Ok((children, number, FreePermits { leases, count }))
    }

    fn report_foreign(&self, children: &[String]) {
        if let Some(child) = LeaseListing::from_children(children).foreign()
            && !self.foreign_reported.swap(true, Ordering::Relaxed)
        {
            let lock = &self.path;
            warn!(lock, child, "ignoring a child that is no lease; Apache Curator clients would count it as one");
        }
    }
}
