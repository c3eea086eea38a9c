//! What the benches share: every recipe behind one face, over sessions of a throwaway server.

use testbed::{ZooKeeper, ZooKeeperConfig};
use zk_recipes::{Error, LockGuard, Mutex, NaiveLock, Session, SessionConfig};

/// A recipe to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// [`NaiveLock`].
    Naive,
    /// [`Mutex`].
    Mutex,
}

impl Recipe {
    /// All of them, in the order of the reports.
    pub const ALL: [Self; 2] = [Self::Naive, Self::Mutex];

    /// The name in the reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Mutex => "mutex",
        }
    }

    /// A lock of this recipe at a path of its own.
    ///
    /// # Errors
    /// As the recipe's constructor.
    pub fn lock(self, session: &Session) -> Result<Lock, Error> {
        Ok(match self {
            Self::Naive => Lock::Naive(NaiveLock::new(session, "/bench/naive")?),
            Self::Mutex => Lock::Mutex(Mutex::new(session, "/bench/mutex")?),
        })
    }
}

/// A lock made from a [`Recipe`].
#[derive(Clone, Debug)]
pub enum Lock {
    /// See [`Recipe::Naive`].
    Naive(NaiveLock),
    /// See [`Recipe::Mutex`].
    Mutex(Mutex),
}

impl Lock {
    /// Waits for the lock.
    ///
    /// # Errors
    /// As the recipe's `acquire`.
    ///
    /// # Cancel safety
    /// As the recipe's `acquire`.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        match self {
            Self::Naive(lock) => lock.acquire().await,
            Self::Mutex(lock) => lock.acquire().await,
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
