//! The lock that a process hands over within itself.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use zk_recipes_protocol::cohort::{Bounds, State};
use zk_recipes_protocol::names::{Mode, Names, Naming};
use zk_recipes_protocol::session_queue::WishKind;

use crate::deadline::Deadline;
use crate::deadline::granted;
use crate::error::Error;
use crate::hold::acquire_span::AcquireSpan;
use crate::hold::guard::LockGuard;
use crate::hold::lock_queue::LockQueue;
use crate::hold::turn::{Cohort, Ended, Turn};
use crate::locks::handoff::HandoffMutex;
use crate::locks::mutex::Mutex;
use crate::locks::participants::{self, Participant};
use crate::session::Session;
use crate::session::weak_map::WeakMap;

/// The cohorts of one session that are in use, by path and by how their nodes are named.
#[derive(Default)]
struct Cohorts {
    used: WeakMap<(String, Names, Naming), Cohort>,
    told: OnceLock<()>,
}

impl Cohorts {
    /// The cohort of those who queue here.
    fn at(queue: &LockQueue) -> Arc<Cohort> {
        let session = queue.session();
        let cohorts = session.extension::<Self>();
        cohorts.told.get_or_init(|| {
            let cohorts = Arc::downgrade(&cohorts);
            session.ending().add(move || cohorts.upgrade().iter().for_each(|cohorts| cohorts.close()));
        });
        let key = (queue.parent().to_owned(), queue.names(), queue.naming());
        let cohort = cohorts.used.at(key, Cohort::default);
        if session.is_ended() {
            // Whoever told the others may not have found it.
            cohort.close();
        }
        cohort
    }

    /// Tells all who wait in any of them that the session has ended.
    fn close(&self) {
        self.used.used().iter().for_each(|cohort| cohort.close());
    }
}

/// A lock for many contenders in each of a few processes: those of one process queue in memory behind one node, and hand
/// the lock over without a request.
///
/// The contenders of one [`Session`] at one path are a *cohort*, however many `CohortMutex`es are made for them. Only one
/// of them at a time deals with ZooKeeper. It queues for the lock like a contender of a [`Mutex`], and so excludes those
/// and Apache Curator's `InterProcessMutex` on the same path; whoever holds then passes the lock to the next of the
/// cohort, first come, first served. After [`DEFAULT_MAX_HANDOVERS`](Self::DEFAULT_MAX_HANDOVERS) hand-overs, or once
/// [`DEFAULT_MAX_TENURE`](Self::DEFAULT_MAX_TENURE) has passed, it asks whether somebody else waits, two reads in one round trip: if so it
/// releases the lock and the cohort queues again, at the end; if not it goes on and counts from the beginning.
///
/// What differs from a `Mutex`:
///
/// * The [fencing token](crate::FencingToken) has two parts, both of which the storage must compare.
/// * Tasks that hold by one node look like one holder from outside: to [`participants`](Self::participants), and to
///   whoever [asks for the lock back](crate::revoke()), who reaches one holder after the other until the node goes.
/// * Who has begun to wait must be polled or dropped. A future that is kept and not polled keeps its whole cohort waiting
///   once its turn has come.
/// * It is not re-entrant: there are no owners, and a second acquire always waits for the first hold.
///
/// A holder whose hold was lost, but not its session, still has its node, and keeps those behind it waiting until it lets
/// go; the next of them then acquires the lock anew. Once the session has ended, all who wait are told at once.
///
/// Cheap to clone, and to make for every use. Without contention it costs what the `Mutex` does.
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
    /// How often the lock is handed over, unless [said otherwise](Self::with_max_handovers), before a cohort asks whether
    /// others wait.
    pub const DEFAULT_MAX_HANDOVERS: u32 = Bounds::DEFAULT.max_handovers;
    /// For how long the lock is handed over, unless [said otherwise](Self::with_max_tenure), before a cohort asks whether
    /// others wait.
    pub const DEFAULT_MAX_TENURE: Duration = Bounds::DEFAULT.max_tenure;

    /// The lock at `path`, which must be dedicated to it: its children are the queue. Missing parents are created at the
    /// first acquire, as [`SessionConfig::parents`](crate::SessionConfig::parents) says.
    ///
    /// For other options, or to queue as a [`HandoffMutex`] where there are many processes, make it from the lock that the
    /// cohort is to queue for:
    ///
    /// ```no_run
    /// use zk_recipes::{CohortMutex, LockOptions, Mutex};
    ///
    /// # fn example(session: zk_recipes::Session) -> Result<(), zk_recipes::Error> {
    /// let options = LockOptions::default().with_node_data(b"cart-service".to_vec());
    /// let lock = CohortMutex::from(Mutex::with_options(&session, "/locks/goods-1", options)?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Where the data differ within a cohort, those of whoever queues count. Who queues in another way, as a `HandoffMutex`
    /// or with [`LockOptions::kazoo`](crate::LockOptions::kazoo), is in another cohort.
    ///
    /// # Errors
    /// [`Error::InvalidPath`]; nothing is sent.
    pub fn new(session: &Session, path: &str) -> Result<Self, Error> {
        Mutex::new(session, path).map(Self::from)
    }

    /// The same lock, of whose holders each hands it over only if there were less than `max_handovers` since others were
    /// last known not to wait. With 0 each asks first.
    ///
    /// The bounds of the holder count, not those of the next: within a cohort they may differ.
    #[must_use]
    pub fn with_max_handovers(mut self, max_handovers: u32) -> Self {
        self.bounds.max_handovers = max_handovers;
        self
    }

    /// The same lock, of whose holders each hands it over only if less than `max_tenure` has passed since others were last
    /// known not to wait. They may wait that long, and for one holder more, as nothing takes the lock from a holder.
    #[must_use]
    pub fn with_max_tenure(mut self, max_tenure: Duration) -> Self {
        self.bounds.max_tenure = max_tenure;
        self
    }

    /// Waits for the lock, for as long as it takes or the session lives.
    ///
    /// # Errors
    /// [`Error::SessionEnded`], [`Error::NodeDeleted`] when somebody deleted the cohort's place in the queue,
    /// [`Error::NumbersExhausted`], [`Error::NotAuthorized`] or [`Error::Refused`].
    ///
    /// # Cancel safety
    /// Dropped, it loses its place in the cohort. What it has on the server goes to the next of the cohort. If there is none,
    /// the session's reaper deletes it.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.acquire_until(Deadline::never()).await.map(granted)
    }

    /// Takes the lock if nobody is in the way, of this cohort or another. When somebody is, it has only read.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::NoAnswer`] when the server did not answer within half the session
    /// timeout. [`Error::Unconfirmed`] when somebody was quicker and the server did not confirm that our node is gone.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing behind: the session's reaper sees to that.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        let acquire = async {
            let turn = self.cohort.enter_at_once(self.bounds).map_err(|Ended| self.ended())?;
            let Some(mut turn) = turn else { return Ok(None) };
            let Some(hold) = self.queue.try_queue(Mode::Exclusive).await? else { return Ok(None) };
            turn.hold_by(hold);
            Ok(Some(LockGuard::in_turn(turn)))
        };
        self.acquire_span().run(acquire).await
    }

    /// Waits for the lock, for at most `wait` in all. `None` when it was not had by then, and then our node is gone, unless
    /// others of the cohort go on with it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`Error::Unconfirmed`] when the server did not confirm in time that our node is
    /// gone; the answer then comes a quarter of the session timeout after `wait` at the latest.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, wait: Duration) -> Result<Option<LockGuard>, Error> {
        self.acquire_until(Deadline::after(wait)).await
    }

    /// Who holds the lock and who waits for it, in the order of the queue: one for each cohort, and others that contend
    /// at the path. Their tokens are those of the first holder.
    ///
    /// # Errors
    /// As [`participants`](crate::participants()).
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants::of_queue(self.queue.session(), self.queue.parent(), self.queue.names()).await
    }

    /// The path of the lock: its children are the queue.
    #[must_use]
    pub fn path(&self) -> &str {
        self.queue.parent()
    }

    /// The session of the lock.
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
            // Out here, so that what is had when the time is up can be given up in order.
            let mut turn = self.cohort.enter(self.bounds);
            match deadline.bound(self.hold(&mut turn)).await {
                Some(Ok(())) => Ok(Some(LockGuard::in_turn(turn))),
                // The next begins anew.
                Some(Err(error)) => Err(turn.fail(error)),
                None => turn.give_up().await.map(|()| None),
            }
        };
        self.acquire_span().run(acquire).await
    }

    fn acquire_span(&self) -> AcquireSpan {
        AcquireSpan::new("cohort", self.path(), Some(self.session()))
    }

    /// Waits for the turn, and makes a hold of whatever comes with it.
    async fn hold(&self, turn: &mut Turn) -> Result<(), Error> {
        loop {
            match turn.state().await {
                State::Begins => turn.queue(self.queue.enter(Mode::Exclusive, WishKind::Wait)),
                State::Queues => turn.wait_for_grant().await?,
                State::Takes => turn.take().await,
                State::Holds { .. } => return Ok(()),
                State::Closed => return Err(self.ended()),
                state @ (State::Waits | State::LetsGo) => unreachable!("BUG: a turn that has come is at {state:?}"),
            }
        }
    }

    fn ended(&self) -> Error {
        self.session().remote().ended()
    }
}

impl From<Mutex> for CohortMutex {
    /// A cohort that queues for this lock.
    fn from(mutex: Mutex) -> Self {
        Self::of(mutex.into_queue())
    }
}

impl From<HandoffMutex> for CohortMutex {
    /// A cohort that queues for this lock.
    fn from(mutex: HandoffMutex) -> Self {
        Self::of(mutex.into_queue())
    }
}

impl fmt::Debug for CohortMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.describe("CohortMutex", f)
    }
}
