//! The lock that a process hands over within itself.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Semaphore;
use zk_recipes_protocol::cohort::{Bounds, MemberState};
use zk_recipes_protocol::names::{Mode, Names, Naming};
use zk_recipes_protocol::session_queue::WishKind;

use crate::acquire::{AcquireSpan, Deadline, granted};
use crate::cohort::Cohort;
use crate::cohort::member::{CohortClosed, Member};
use crate::error::Error;
use crate::guard::LockGuard;
use crate::lock_queue::LockQueue;
use crate::locks::handoff::HandoffMutex;
use crate::locks::mutex::Mutex;
use crate::locks::participants::{self, Participant};
use crate::session::Session;
use crate::session::weak_map::WeakMap;

/// The cohorts of one session that are in use, by path and by the names of their nodes.
struct Cohorts {
    used: WeakMap<(String, Names, Naming), Cohort>,
    told: OnceLock<()>,
    /// One permit for each hold that may linger.
    linger_permits: Arc<Semaphore>,
}

impl Default for Cohorts {
    fn default() -> Self {
        let linger_permits = Arc::new(Semaphore::new(CohortMutex::MAX_LINGERING));
        Self { used: WeakMap::default(), told: OnceLock::default(), linger_permits }
    }
}

impl Cohorts {
    /// Returns the cohort of the contenders for this queue.
    fn at(queue: &LockQueue) -> Arc<Cohort> {
        let session = queue.session();
        let cohorts = session.extension::<Self>();
        cohorts.told.get_or_init(|| {
            let cohorts = Arc::downgrade(&cohorts);
            session.ending().add(move || cohorts.upgrade().iter().for_each(|cohorts| cohorts.close()));
        });
        let key = (queue.parent().to_owned(), queue.names(), queue.naming());
        let cohort = cohorts.used.at(key, || Cohort::new(&cohorts.linger_permits));
        if session.is_ended() {
            // The hook that closes the cohorts may not have found this one.
            cohort.close();
        }
        cohort
    }

    /// Tells all cohorts that the session has ended.
    fn close(&self) {
        self.used.used().iter().for_each(|cohort| cohort.close());
    }
}

/// A lock for many contenders in each of a few processes. The contenders of one process queue in memory behind one node, and hand
/// the lock over without a request.
///
/// The contenders of one [`Session`] at one path are a *cohort*, even if they use several `CohortMutex`es. Only one of them at a
/// time deals with ZooKeeper. It queues for the lock as a contender of a [`Mutex`] does, so it excludes `Mutex` and Apache
/// Curator's `InterProcessMutex` on the same path. A holder then hands the lock over to the next member of the cohort, first
/// come, first served.
///
/// Hand-overs are bounded by [`DEFAULT_MAX_HANDOVERS`](Self::DEFAULT_MAX_HANDOVERS) and
/// [`DEFAULT_MAX_TENURE`](Self::DEFAULT_MAX_TENURE). At a bound, the holder looks for other contenders, by two reads in one round
/// trip. If there are any, it releases the lock, and the cohort queues again, at the end. If there are none, the hand-overs go on
/// and the bounds count anew.
///
/// These points differ from a `Mutex`:
///
/// * The [fencing token](crate::FencingToken) has two parts. The storage must compare both.
/// * From outside, tasks that hold by the same node look like one holder. [`participants`](Self::participants) shows one node. A
///   [request for the lock](crate::revoke()) reaches each holder of that node in turn, until the node is deleted.
/// * A future that has begun to wait must be polled or dropped. If it is kept without being polled, its whole cohort waits once
///   it has the turn.
/// * It is not re-entrant: there are no owners, and a second acquire always waits for the first hold.
/// * If the session has no room for its node ([`SessionConfig::node_bytes_max`](crate::SessionConfig::node_bytes_max)), a contender goes
///   behind the others of its cohort.
///
/// By default, a holder releases the lock if no other member of its cohort waits. [`with_linger`](Self::with_linger) lets the
/// cohort keep it for a while, so that the next acquire of the process needs no request.
///
/// If a hold is lost but its session lives, its node stays, and the members behind wait until its holder releases. The next
/// member then acquires the lock anew. Once the session has ended, all waiting members fail at once.
///
/// Cheap to clone, and cheap to make for every use. Without contention it costs as much as a `Mutex`.
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::{CohortMutex, Session, SessionConfig};
///
/// # async fn example() -> Result<(), zk_recipes::Error> {
/// let session = Session::connect("127.0.0.1:2181", SessionConfig::default()).await?;
/// let lock = CohortMutex::new(&session, "/locks/goods-1")?.with_max_tenure(Duration::from_millis(50));
/// for _ in 0..1_000 {
///     let lock = lock.clone();
///     tokio::spawn(async move {
///         let held = lock.acquire().await?;
///         held.run(async { /* read, decide, write, fenced by held.token() */ }).await?;
///         held.release().await
///     });
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CohortMutex {
    queue: Arc<LockQueue>,
    cohort: Arc<Cohort>,
    bounds: Bounds,
}

impl CohortMutex {
    /// Default upper bound of consecutive hand-overs, after which a holder looks for other contenders: 1000.
    /// [`with_max_handovers`](Self::with_max_handovers) changes it.
    pub const DEFAULT_MAX_HANDOVERS: u32 = Bounds::DEFAULT.max_handovers;
    /// Default upper bound of the time of consecutive hand-overs, after which a holder looks for other contenders: 100 ms.
    /// [`with_max_tenure`](Self::with_max_tenure) changes it.
    pub const DEFAULT_MAX_TENURE: Duration = Bounds::DEFAULT.max_tenure;
    /// Upper bound of the holds of one session that may [linger](Self::with_linger): 256. Beyond it, a release deletes the node as
    /// without lingering. Each costs a node and two watches on the server.
    pub const MAX_LINGERING: usize = 256;

    /// Returns the lock at `path`. The children of this node are the queue, so use it for nothing else. Missing parents are
    /// created at the first acquire, as [`SessionConfig::parents`](crate::SessionConfig::parents) says.
    ///
    /// For node data and kazoo, make the `CohortMutex` from the lock that the cohort queues for. With many processes, use a
    /// [`HandoffMutex`] as that lock.
    ///
    /// ```no_run
    /// use zk_recipes::{CohortMutex, Mutex};
    ///
    /// # fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
    /// let lock = CohortMutex::from(Mutex::new(&session, "/locks/goods-1")?.with_node_data("cart-service")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// If the node data differs within a cohort, the node has the data of the member that queues. Contenders that queue in
    /// another way are in another cohort: as a `HandoffMutex`, or with [`Mutex::with_kazoo`].
    ///
    /// # Errors
    /// [`Error::InvalidPath`]. Nothing is sent.
    pub fn new(session: &Session, path: &str) -> Result<Self, Error> {
        Mutex::new(session, path).map(Self::from)
    }

    /// Sets the upper bound of consecutive hand-overs. They are counted since the grant, or since the last look that found no
    /// other contender. At the bound, a holder looks for other contenders first. With 0, every holder does.
    ///
    /// The bounds of the holder count, not the bounds of the next member. They may differ within a cohort.
    #[must_use]
    pub fn with_max_handovers(mut self, max_handovers: u32) -> Self {
        self.bounds.max_handovers = max_handovers;
        self
    }

    /// Sets the upper bound of the time of consecutive hand-overs. It is counted since the grant, or since the last look that
    /// found no other contender. Other contenders may wait for that time and for one more holder, because nothing takes the lock
    /// from a holder.
    #[must_use]
    pub fn with_max_tenure(mut self, max_tenure: Duration) -> Self {
        self.bounds.max_tenure = max_tenure;
        self
    }

    /// Sets the upper bound of the time for which the cohort keeps the lock after a release, while no member wants it. Zero, the
    /// default, switches this off.
    ///
    /// A hold that lingers is an ordinary hold whose guard is missing. The next [`acquire`](Self::acquire) or
    /// [`try_acquire`](Self::try_acquire) of the cohort takes it without a request. That counts as a hand-over: the node is the
    /// same, and the token is greater. A process that alone uses a lock then sends two requests after every
    /// [`with_max_handovers`](Self::with_max_handovers) hand-overs, and otherwise none. The session proves that it lives, as
    /// during any hold.
    ///
    /// The first release after a grant watches the queue and the node, by two requests in place of the deletion. They take one
    /// round trip. If another contender is there, the release then deletes the node, by a second round trip. The watch takes the
    /// place of [`with_max_tenure`](Self::with_max_tenure) until it fires. From then on, the session does not watch the lock's node,
    /// so an acquire that queues at the path looks at the queue each time, in the round trip of its `create`.
    ///
    /// The hold ends, and the session's reaper deletes its node, as soon as one of these happens:
    ///
    /// * A child is created or deleted at the path, for example by another contender. A plain `Mutex` of the same session is one.
    /// * The data of the node changes, for example by a [request for the lock](crate::revoke()).
    /// * The connection ends.
    /// * The time is over. It counts from the last release. If the times differ within a cohort, the time of the last holder
    ///   counts.
    /// * The last `CohortMutex` or guard of the cohort is dropped, or the session is closed. So keep a `CohortMutex` for as long
    ///   as its hold is to linger.
    ///
    /// From then until the node is deleted, a `try_acquire` of the cohort fails.
    ///
    /// A guard that is dropped without [`release`](LockGuard::release) leaves no hold that lingers. Neither does a
    /// [`MultiLock`](crate::MultiLock) that gives a lock back because it did not get another one. Neither does a release while
    /// [`MAX_LINGERING`](Self::MAX_LINGERING) holds of the session linger or may do so again, or while the session uses the path for
    /// something else that watches it.
    ///
    /// A hold that lingers has the room of its node
    /// ([`SessionConfig::node_bytes_max`](crate::SessionConfig::node_bytes_max)) until the node is given up. A contender that waits
    /// for room does not end the lingering.
    ///
    /// The price is paid by other processes:
    ///
    /// * A contender that queues waits until this process has heard of it and has deleted its node. If this process is paused or
    ///   has died, that takes up to a session timeout, although nobody uses the lock.
    /// * Their `try_acquire` fails while the hold lingers. It does not queue, so it does not end the lingering either.
    /// * [`participants`](Self::participants) shows the hold.
    ///
    /// A hold that is lost while it lingers is never taken: the next acquire queues anew. Its loss is not logged, because nothing
    /// relies on it. If somebody deletes its node, the watch reports that. An acquire that comes before the notification takes the
    /// hold, as after any hand-over. Its release reports the loss if the notification has arrived by then.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zk_recipes::{CohortMutex, Error, Session};
    /// # fn example(session: &Session) -> Result<CohortMutex, Error> {
    /// Ok(CohortMutex::new(session, "/locks/goods-1")?.with_linger(Duration::from_secs(1)))
    /// # }
    /// ```
    #[must_use]
    pub fn with_linger(mut self, linger: Duration) -> Self {
        self.bounds.linger = linger;
        self
    }

    /// Waits for the lock, without a deadline.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NumbersExhausted`], [`Error::NotAuthorized`] or [`Error::Refused`].
    /// [`Error::NodeDeleted`] if somebody deleted the cohort's place in the queue.
    ///
    /// # Cancel safety
    /// If the future is dropped, it loses its place in the cohort. If it has a node, the next member of the cohort gets it. If
    /// there is no next member, the session's reaper deletes the node.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.acquire_until(Deadline::never()).await.map(granted)
    }

    /// Takes the lock if no other contender holds or waits. Takes a hold of this cohort that [lingers](Self::with_linger). If a
    /// contender of this cohort holds or waits, returns `None` without a request. If only other contenders do, returns `None` after
    /// one read. If another contender comes in between, deletes our node again and returns `None`.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::NoAnswer`] if the server did not answer within half the session timeout.
    /// [`Error::NoRoom`] if the session has no room for the node now.
    /// [`Error::Unconfirmed`] if another contender came in between and the server did not confirm that our node is gone.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is left behind: the session's reaper deletes our node.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        let acquire = async {
            let member = Member::enter_at_once(&self.cohort, self.bounds).map_err(|CohortClosed| self.ended())?;
            let Some(mut member) = member else { return Ok(None) };
            if member.state().await == MemberState::Takes {
                let within = self.queue.answer_within();
                Deadline::after(within).bound(member.take()).await.ok_or(Error::NoAnswer { within })?;
            }
            if member.state().await == MemberState::Begins {
                let Some(hold) = self.queue.try_acquire_hold(Mode::Exclusive).await? else { return Ok(None) };
                member.note_hold(hold);
            }
            Ok(Some(LockGuard::of_member(member)))
        };
        self.acquire_span().run(acquire).await
    }

    /// Waits for the lock for at most `wait`, over all its requests. At the deadline, leaves our node to the next member of the
    /// cohort. If there is none, deletes the node, which takes at most a quarter of the session timeout. When it returns `None`,
    /// our node is gone or belongs to another member.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). [`Error::Unconfirmed`] if the server did not confirm in time that our node is gone.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.acquire_until(Deadline::after(wait)).await
    }

    /// Returns the holder and the waiters, in the order of the queue: one for each cohort, and the other contenders at the path.
    /// The token of a cohort is the token of the first holder by its node.
    ///
    /// # Errors
    /// As [`participants`](crate::participants()).
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants::of_queue(self.queue.session(), self.queue.parent(), self.queue.names()).await
    }

    /// Returns the path of the lock. The children of this node are the queue.
    #[must_use]
    pub fn path(&self) -> &str {
        self.queue.parent()
    }

    /// Returns the room that an acquire takes.
    pub(crate) fn room(&self) -> usize {
        self.queue.node_room(Mode::Exclusive)
    }

    /// Returns the session of the lock.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.queue.session()
    }

    fn of(queue: Arc<LockQueue>) -> Self {
        let cohort = Cohorts::at(&queue);
        Self { queue, cohort, bounds: Bounds::DEFAULT }
    }

    async fn acquire_until(&self, deadline: Deadline) -> Result<Option<LockGuard>, Error> {
        let acquire = async {
            // Outside of the bounded future, so that a place or hold is given up in order at the deadline.
            let mut member = Member::enter(&self.cohort, self.bounds);
            match deadline.bound(self.until_granted(&mut member)).await {
                Some(Ok(())) => Ok(Some(LockGuard::of_member(member))),
                // The next member begins anew.
                Some(Err(error)) => Err(member.fail(error)),
                None => member.give_up().await.map(|()| None),
            }
        };
        self.acquire_span().run(acquire).await
    }

    fn acquire_span(&self) -> AcquireSpan {
        AcquireSpan::new("cohort", self.path(), Some(self.session().id()))
    }

    /// Waits for the turn, and makes a hold of what comes with it.
    async fn until_granted(&self, member: &mut Member) -> Result<(), Error> {
        let mut room = None;
        loop {
            match member.state().await {
                MemberState::Begins => {
                    if room.is_none() {
                        room = self.queue.try_room(Mode::Exclusive).await?;
                    }
                    if room.is_some() {
                        member.queue(self.queue.enter(Mode::Exclusive, WishKind::Wait, room.take()));
                        continue;
                    }
                    // A member that has room may wait for this turn, so nobody waits for room with the turn.
                    member.pass_on();
                    room = Some(self.queue.room(Mode::Exclusive, false).await?);
                    *member = Member::enter(&self.cohort, self.bounds);
                }
                MemberState::Queues => member.wait_for_grant().await?,
                MemberState::Takes => member.take().await,
                MemberState::Holds { .. } => return Ok(()),
                MemberState::Closed => return Err(self.ended()),
                state @ (MemberState::Waits | MemberState::LetsGo) => {
                    unreachable!("BUG: a turn that has come is at {state:?}")
                }
            }
        }
    }

    fn ended(&self) -> Error {
        self.session().remote().ended()
    }
}

impl From<Mutex> for CohortMutex {
    /// Returns a cohort that queues for this lock.
    fn from(mutex: Mutex) -> Self {
        Self::of(mutex.into_queue())
    }
}

impl From<HandoffMutex> for CohortMutex {
    /// Returns a cohort that queues for this lock.
    fn from(mutex: HandoffMutex) -> Self {
        Self::of(mutex.into_queue())
    }
}

impl fmt::Debug for CohortMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.describe("CohortMutex", f)
    }
}
