//! Our own locks.

use std::time::Duration;

use parking_lot::Mutex as Cell;
use zk_recipes::{
    AnyLock, CohortMutex, Error, HandoffMutex, HoldState, LeaderLatch, LockGuard, MultiLock, Mutex, Owner, RwLock,
    Semaphore, SemaphoreMutex, Session, SessionConfig,
};

use super::{HeldLock, Life, LockLibrary, Wanted, say};
use crate::lines::{LockKind, Said, Token};

/// How long a process keeps a lock after its last holder.
const LINGER: Duration = Duration::from_millis(50);

/// The library, and the session of the moment.
pub(super) struct OurLocks {
    connect_string: String,
    timeout: Duration,
    session: Cell<Session>,
    /// Opens one session at a time.
    opening: tokio::sync::Mutex<()>,
}

/// What is held, and how its owner acquires it again.
pub(super) struct HeldByUs {
    guards: Vec<LockGuard>,
    owner: Option<(Owned, Owner)>,
}

/// A lock whose holds have owners.
#[derive(Clone)]
enum Owned {
    Mutex(Mutex),
    Handoff(HandoffMutex),
}

impl OurLocks {
    pub(super) async fn open(connect_string: &str, timeout: Duration) -> Result<Self, String> {
        let session = connect(connect_string, timeout).await.map_err(text)?;
        Ok(Self {
            connect_string: connect_string.to_owned(),
            timeout,
            session: Cell::new(session),
            opening: tokio::sync::Mutex::new(()),
        })
    }

    /// Returns a session that lives, as far as anybody knows.
    async fn session(&self) -> Result<Session, Error> {
        let _one_at_a_time = self.opening.lock().await;
        let session = self.session.lock().clone();
        if !session.is_ended() {
            return Ok(session);
        }
        let session = connect(&self.connect_string, self.timeout).await?;
        *self.session.lock() = session.clone();
        Ok(session)
    }

    async fn granted(&self, wanted: &Wanted) -> Result<Option<HeldByUs>, Error> {
        let Wanted { lock, paths, within, permits } = wanted;
        let session = &self.session().await?;
        let path = paths.first().map_or("", String::as_str);
        let any: AnyLock = match lock {
            LockKind::Mutex => return owned(Owned::Mutex(Mutex::new(session, path)?), *within).await,
            LockKind::Handoff => return owned(Owned::Handoff(HandoffMutex::new(session, path)?), *within).await,
            LockKind::Multi => {
                let locks = MultiLock::from_paths(session, paths)?.in_canonical_order();
                let granted =
                    if within.is_zero() { locks.try_acquire().await? } else { locks.acquire_within(*within).await? };
                return Ok(granted.map(|guards| HeldByUs { guards: guards.into_guards(), owner: None }));
            }
            LockKind::Semaphore => {
                let (of, take) = permits.unwrap_or((1, 1));
                let semaphore = Semaphore::new(session, path, of)?;
                let granted = if within.is_zero() {
                    semaphore.try_acquire_many(take).await?
                } else {
                    semaphore.acquire_many_within(take, *within).await?
                };
                return Ok(granted.map(|guards| HeldByUs { guards: guards.into_guards(), owner: None }));
            }
            LockKind::Cohort => CohortMutex::new(session, path)?.with_max_handovers(3).into(),
            LockKind::LingeringCohort => CohortMutex::new(session, path)?.with_linger(LINGER).into(),
            LockKind::Read => RwLock::new(session, path)?.read_lock().into(),
            LockKind::Write => RwLock::new(session, path)?.write_lock().into(),
            LockKind::SemaphoreMutex => SemaphoreMutex::new(session, path)?.into(),
            LockKind::Leader => LeaderLatch::new(session, path)?.into(),
        };
        let granted = if within.is_zero() { any.try_acquire().await? } else { any.acquire_within(*within).await? };
        Ok(granted.map(|guard| HeldByUs { guards: vec![guard], owner: None }))
    }
}

impl LockLibrary for OurLocks {
    type Held = HeldByUs;

    fn ready(&self) -> Said {
        use LockKind::{
            Cohort, Handoff, Leader, LingeringCohort, Multi, Mutex, Read, Semaphore, SemaphoreMutex, Write,
        };
        let locks =
            vec![Mutex, Handoff, Cohort, LingeringCohort, Multi, Read, Write, Semaphore, SemaphoreMutex, Leader];
        Said::Ready { locks, version: Some(env!("CARGO_PKG_VERSION").to_owned()), reenters: true, cancels: true }
    }

    async fn acquire(&self, wanted: &Wanted) -> Result<Option<HeldByUs>, String> {
        self.granted(wanted).await.map_err(text)
    }
}

impl HeldLock for HeldByUs {
    fn tokens(&self) -> Vec<Token> {
        self.guards.iter().map(|guard| (guard.token().czxid(), guard.token().handover())).collect()
    }

    fn life(&self) -> Life {
        // In both states nobody else holds, as the library promises.
        let is_lost = |guard: &LockGuard| matches!(guard.state(), HoldState::Lost(_));
        if self.guards.iter().any(is_lost) { Life::Lost } else { Life::Held }
    }

    async fn again(&self) -> Result<Self, String> {
        let Some((lock, owner)) = &self.owner else { return Err("this lock has no owners".to_owned()) };
        let guard = lock.acquire(owner).await.map_err(text)?;
        Ok(Self { guards: vec![guard], owner: None })
    }

    async fn release(self) -> Result<(), String> {
        let mut released = Ok(());
        for guard in self.guards {
            released = released.and(guard.release().await.map_err(text));
        }
        released
    }
}

impl Owned {
    async fn acquire(&self, owner: &Owner) -> Result<LockGuard, Error> {
        match self {
            Self::Mutex(mutex) => mutex.acquire_as(owner).await,
            Self::Handoff(mutex) => mutex.acquire_as(owner).await,
        }
    }
}

async fn owned(lock: Owned, within: Duration) -> Result<Option<HeldByUs>, Error> {
    let owner = Owner::new();
    let granted = match (&lock, within.is_zero()) {
        (Owned::Mutex(mutex), true) => mutex.try_acquire_as(&owner).await?,
        (Owned::Mutex(mutex), false) => mutex.acquire_within_as(&owner, within).await?,
        (Owned::Handoff(mutex), true) => mutex.try_acquire_as(&owner).await?,
        (Owned::Handoff(mutex), false) => mutex.acquire_within_as(&owner, within).await?,
    };
    Ok(granted.map(|guard| HeldByUs { guards: vec![guard], owner: Some((lock, owner)) }))
}

async fn connect(connect_string: &str, timeout: Duration) -> Result<Session, Error> {
    let session = Session::connect(connect_string, SessionConfig::default().with_timeout(timeout)).await?;
    say(&Said::Session { session: Some(session.id().get()) });
    Ok(session)
}

fn text(error: Error) -> String {
    program::chain(&error)
}
