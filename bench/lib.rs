//! What the benches share: every recipe behind one face, over sessions of a throwaway server.

use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{
    AnyLock, Error, HandoffMutex, MultiLock, Mutex, NaiveLock, RwLock, Semaphore, SemaphoreMutex, Session, SessionConfig,
};

/// How many may hold the semaphore.
const PERMITS: u32 = 3;

/// The paths of the lock of several.
const SEVERAL: [&str; 3] = ["/bench/multi/1", "/bench/multi/2", "/bench/multi/3"];

/// A recipe to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// [`NaiveLock`].
    Naive,
    /// [`Mutex`].
    Mutex,
    /// [`HandoffMutex`].
    Handoff,
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
    pub const ALL: [Self; 8] =
        [Self::Naive, Self::Mutex, Self::Handoff, Self::Read, Self::Write, Self::SemaphoreMutex, Self::Semaphore, Self::Multi];

    /// The name in the reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Mutex => "mutex",
            Self::Handoff => "handoff",
            Self::Read => "read",
            Self::Write => "write",
            Self::SemaphoreMutex => "semaphore-mutex",
            Self::Semaphore => "semaphore of 3",
            Self::Multi => "multi of 3",
        }
    }

    /// A lock of this recipe at a path of its own.
    ///
    /// # Errors
    /// As the recipe's constructor.
    pub fn lock(self, session: &Session) -> Result<Lock, Error> {
        let lock = match self {
            Self::Naive => NaiveLock::new(session, "/bench/naive")?.into(),
            Self::Mutex => Mutex::new(session, "/bench/mutex")?.into(),
            Self::Handoff => HandoffMutex::new(session, "/bench/handoff")?.into(),
            Self::Read => RwLock::new(session, "/bench/read")?.read().into(),
            Self::Write => RwLock::new(session, "/bench/write")?.write().into(),
            Self::SemaphoreMutex => SemaphoreMutex::new(session, "/bench/semaphore-mutex")?.into(),
            Self::Semaphore => Semaphore::new(session, "/bench/semaphore", PERMITS)?.into(),
            Self::Multi => return MultiLock::from_paths(session, SEVERAL).map(Lock::Several),
        };
        Ok(Lock::One(lock))
    }
}

/// What a [`Recipe`] makes.
#[derive(Clone, Debug)]
pub enum Lock {
    /// One lock.
    One(AnyLock),
    /// Several locks as one.
    Several(MultiLock),
}

impl Lock {
    /// Acquires the lock and releases it.
    ///
    /// # Errors
    /// As the recipe's `acquire` and the guard's `release`.
    ///
    /// # Cancel safety
    /// As those: nothing is left behind.
    pub async fn cycle(&self) -> Result<(), Error> {
        match self {
            Self::One(lock) => lock.acquire().await?.release().await,
            Self::Several(lock) => lock.acquire().await?.release().await,
        }
    }
}

/// A throwaway server and sessions on it.
#[derive(Debug)]
pub struct Stage {
    /// Kept for as long as the sessions are used.
    pub server: ZooKeeper,
    /// As many as were asked for.
    pub sessions: Vec<Session>,
}

impl Stage {
    /// Starts a server and opens `sessions` sessions.
    ///
    /// # Errors
    /// When the server is not installed or a session cannot be opened.
    ///
    /// # Cancel safety
    /// Dropped, it stops what it has started.
    pub async fn set(sessions: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let server = ZooKeeper::start(ZooKeeperConfig::default()).await?;
        let mut opened = Vec::with_capacity(sessions);
        for _ in 0..sessions {
            opened.push(Session::connect(&server.connect_string(), SessionConfig::default()).await?);
        }
        Ok(Self { server, sessions: opened })
    }
}
