//! The common parts of the benches: one interface to every recipe, sessions of a throwaway server, and the closed loop
//! of the contenders. The reports of this package share tables and figures with goals.

mod closed_loop;
mod error;
pub mod markdown;
mod ratio;

// `make fuzz` builds the lib of each crate that has targets. This one has none, and `fuzz` has the runtime that its test is linked with.
#[cfg(all(test, fuzzing))]
use fuzz as _;
use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{
    AnyLock, CohortMutex, HandoffMutex, MultiLock, Mutex, NaiveLock, RwLock, Semaphore, SemaphoreMutex, Session,
    SessionConfig,
};

pub use closed_loop::ClosedLoop;
pub use error::Error;
pub use ratio::{Goal, Ratio, Spread};

/// Number of permits of the semaphore.
const PERMITS: u32 = 3;

/// Number of locks of a `MultiLock`.
const MULTI_LOCKS: u32 = 3;

/// A recipe to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// [`NaiveLock`].
    Naive,
    /// [`Mutex`].
    Mutex,
    /// [`HandoffMutex`].
    Handoff,
    /// [`CohortMutex`].
    Cohort,
    /// The shared side of [`RwLock`].
    Read,
    /// The exclusive side of [`RwLock`].
    Write,
    /// [`SemaphoreMutex`].
    SemaphoreMutex,
    /// [`Semaphore`] with three permits, of which each contender takes one.
    Semaphore,
    /// [`MultiLock`] of three mutexes.
    Multi,
}

impl Recipe {
    /// All of them, in the order of the reports.
    pub const ALL: [Self; 9] = [
        Self::Naive,
        Self::Mutex,
        Self::Handoff,
        Self::Cohort,
        Self::Read,
        Self::Write,
        Self::SemaphoreMutex,
        Self::Semaphore,
        Self::Multi,
    ];

    /// Returns the name in the reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Mutex => "mutex",
            Self::Handoff => "handoff",
            Self::Cohort => "cohort",
            Self::Read => "read",
            Self::Write => "write",
            Self::SemaphoreMutex => "semaphore-mutex",
            Self::Semaphore => "semaphore of 3",
            Self::Multi => "multi of 3",
        }
    }

    /// Returns whether one lock lets one contender hold at a time, so that it can be compared with the mutexes of rivals.
    #[must_use]
    pub fn is_mutex(self) -> bool {
        !matches!(self, Self::Read | Self::Semaphore | Self::Multi)
    }

    /// Makes a lock of this recipe at a path that belongs to the recipe.
    ///
    /// # Errors
    /// As the recipe's constructor.
    pub fn lock(self, session: &Session) -> Result<BenchLock, Error> {
        self.lock_at(session, &format!("/bench/{}", self.name().replace(' ', "-")))
    }

    /// Makes a lock of this recipe at `path`.
    ///
    /// # Errors
    /// As the recipe's constructor.
    pub fn lock_at(self, session: &Session, path: &str) -> Result<BenchLock, Error> {
        let lock = match self {
            Self::Naive => NaiveLock::new(session, path)?.into(),
            Self::Mutex => Mutex::new(session, path)?.into(),
            Self::Handoff => HandoffMutex::new(session, path)?.into(),
            Self::Cohort => CohortMutex::new(session, path)?.into(),
            Self::Read => RwLock::new(session, path)?.read_lock().into(),
            Self::Write => RwLock::new(session, path)?.write_lock().into(),
            Self::SemaphoreMutex => SemaphoreMutex::new(session, path)?.into(),
            Self::Semaphore => Semaphore::new(session, path, PERMITS)?.into(),
            Self::Multi => {
                let paths = (1..=MULTI_LOCKS).map(|i| format!("{path}/{i}"));
                return Ok(BenchLock::Several(MultiLock::from_paths(session, paths)?));
            }
        };
        Ok(BenchLock::One(lock))
    }
}

/// The lock that a [`Recipe`] makes.
#[derive(Clone, Debug)]
pub enum BenchLock {
    /// One lock.
    One(AnyLock),
    /// Several locks as one.
    Several(MultiLock),
}

impl BenchLock {
    /// Acquires the lock and releases it.
    ///
    /// # Errors
    /// As the recipe's `acquire` and the guard's `release`.
    ///
    /// # Cancel safety
    /// As those: nothing is left behind.
    pub async fn cycle(&self) -> Result<(), Error> {
        match self {
            Self::One(lock) => lock.acquire().await?.release().await?,
            Self::Several(lock) => lock.acquire().await?.release().await?,
        }
        Ok(())
    }
}

/// A throwaway server and sessions on it.
#[derive(Debug)]
pub struct LockServer {
    /// Kept for as long as the sessions are used.
    pub server: ZooKeeper,
    /// The sessions that were asked for.
    pub sessions: Vec<Session>,
}

impl LockServer {
    /// Starts a server and opens `sessions` sessions.
    ///
    /// # Errors
    /// When the server is not installed or a session cannot be opened.
    ///
    /// # Cancel safety
    /// Dropped, it stops what it has started.
    pub async fn start(sessions: usize) -> Result<Self, Error> {
        let server = ZooKeeper::start(ZooKeeperConfig::default()).await?;
        let sessions = open_sessions(&server, sessions).await?;
        Ok(Self { server, sessions })
    }
}

/// Opens `count` sessions on a server.
///
/// # Errors
/// When one cannot be opened.
///
/// # Cancel safety
/// Dropped, those that were opened are closed.
pub async fn open_sessions(server: &ZooKeeper, count: usize) -> Result<Vec<Session>, Error> {
    let mut sessions = Vec::with_capacity(count);
    for _ in 0..count {
        sessions.push(Session::connect(&server.connect_string(), SessionConfig::default()).await?);
    }
    Ok(sessions)
}
