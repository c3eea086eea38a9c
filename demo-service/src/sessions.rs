//! The ZooKeeper sessions of one instance: opened together, used in rotation, replaced when they end.
//!
//! All sessions are on one ensemble, because the locks of two ensembles do not exclude each other. A connect string may lead to
//! two: a server that has lost its data serves alone, or a name leads to another host by now. So each session reads the identity
//! of its ensemble before it is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::{info, warn};
use zk_recipes::{ConnectionState, EnsembleId, Session, SessionConfig, Traffic};

use crate::sale::GoodsNo;

/// The folder of all nodes of the service.
pub const ROOT: &str = "/seckill";

/// The node below [`ROOT`] with the identity of the ensemble and the chroot.
const IDENTITY: &str = "/seckill/ensemble";

/// Upper bound of the sessions that are opened or closed at the same time. More would queue up in the server's backlog.
const PARALLEL_MAX: usize = 32;

/// The first pause after a failed attempt to replace a session. The pause doubles up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// A fixed number of sessions. A session that has ended is replaced in the background.
pub struct SessionPool {
    shared: Arc<PoolShared>,
    next: AtomicUsize,
    keepers: Mutex<JoinSet<()>>,
}

/// The state that the pool shares with the tasks that replace its sessions.
struct PoolShared {
    connect_string: String,
    config: SessionConfig,
    ensemble: EnsembleId,
    sessions: RwLock<PoolSessions>,
    connecting: Semaphore,
    /// Why the last attempt to replace a session failed, until one succeeds.
    trouble: Mutex<Option<String>>,
}

/// The sessions of a pool.
struct PoolSessions {
    current: Vec<Session>,
    /// The traffic of the sessions that were replaced.
    retired: Traffic,
    /// How many have ended.
    ended: u64,
}

/// How many sessions are in each state, and how many have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// Connected to a server.
    pub connected: u32,
    /// Not connected, and possibly still alive on the servers.
    pub suspended: u32,
    /// Considered lost, or ended and not yet replaced.
    pub lost: u32,
    /// The total of those that have ended while the instance ran.
    pub ended: u64,
}

/// Why sessions could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No server gave a session.
    #[error(transparent)]
    Session(zk_recipes::Error),
    /// The identity of the ensemble could not be read or written.
    #[error(transparent)]
    Identity(zk_recipes::Error),
    /// The sessions are on two ensembles.
    #[error("the servers belong to two ZooKeeper ensembles, {} and {}, whose locks do not exclude each other", .0[0], .0[1])]
    TwoEnsembles([EnsembleId; 2]),
}

impl SessionPool {
    /// Opens `count` sessions, all on one ensemble.
    ///
    /// # Errors
    /// The first [`OpenError`]. The other sessions are closed.
    ///
    /// # Cancel safety
    /// Dropped, the sessions that were opened are closed.
    pub async fn open(connect_string: &str, config: SessionConfig, count: u16) -> Result<Self, OpenError> {
        let opened: Vec<(Session, EnsembleId)> = stream::iter(0..count)
            .map(|_| connect(connect_string, &config))
            .buffer_unordered(PARALLEL_MAX)
            .try_collect()
            .await?;
        // `--zk-sessions` is at least 1, so there is a first one.
        let ensemble = opened[0].1.clone();
        let sessions = opened.into_iter().map(|(session, theirs)| of_ensemble(session, theirs, &ensemble));
        let sessions = sessions.collect::<Result<Vec<_>, _>>()?;
        let keep = sessions.clone();
        let shared = Arc::new(PoolShared {
            connect_string: connect_string.to_owned(),
            config,
            ensemble,
            sessions: RwLock::new(PoolSessions { current: sessions, retired: Traffic::default(), ended: 0 }),
            connecting: Semaphore::new(PARALLEL_MAX),
            trouble: Mutex::default(),
        });
        let mut keepers = JoinSet::new();
        for (index, session) in keep.into_iter().enumerate() {
            keepers.spawn(Arc::clone(&shared).keep(index, session));
        }
        Ok(Self { shared, next: AtomicUsize::new(0), keepers: Mutex::new(keepers) })
    }

    /// Returns the identity of the ensemble of all sessions.
    pub fn ensemble(&self) -> &EnsembleId {
        &self.shared.ensemble
    }

    /// Returns the next connected session in rotation, or `None` if no session is connected.
    pub fn pick(&self) -> Option<Session> {
        self.pick_from(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns a session, connected or not.
    pub fn any(&self) -> Session {
        self.pick().unwrap_or_else(|| self.shared.sessions.read().current[0].clone())
    }

    /// Acquires a lock that protects nothing, and releases it. Success shows that the chroot exists and is writable. If
    /// another instance holds the lock, that shows it, too.
    ///
    /// # Errors
    /// The error of the recipe.
    ///
    /// # Cancel safety
    /// Dropped, the lock is released in the background.
    pub async fn probe(&self) -> Result<(), zk_recipes::Error> {
        match zk_recipes::Mutex::new(&self.any(), &format!("{ROOT}/probe"))?.try_acquire().await? {
            Some(held) => held.release().await,
            None => Ok(()),
        }
    }

    /// Returns the session for a SKU, or `None` if no session is connected. All buyers of a SKU get the same session,
    /// as long as it is connected.
    pub fn pick_for(&self, goods_no: GoodsNo) -> Option<Session> {
        self.pick_from(usize::try_from(goods_no.get()).unwrap_or_default())
    }

    fn pick_from(&self, first: usize) -> Option<Session> {
        let current = &self.shared.sessions.read().current;
        (0..current.len())
            .map(|offset| &current[first.wrapping_add(offset) % current.len()])
            .find(|session| session.state() == ConnectionState::Connected)
            .cloned()
    }

    /// Returns the traffic of all sessions with ZooKeeper. It includes sessions that were replaced.
    pub fn traffic(&self) -> Traffic {
        let sessions = self.shared.sessions.read();
        let mut total = sessions.retired;
        for session in &sessions.current {
            total += session.traffic();
        }
        total
    }

    /// Returns why sessions that have ended cannot be replaced. `None` if they can.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble.lock().clone()
    }

    /// Returns how many sessions are in each state, and how many have ended.
    pub fn counts(&self) -> SessionCounts {
        let sessions = self.shared.sessions.read();
        let mut counts = SessionCounts { ended: sessions.ended, ..SessionCounts::default() };
        for session in &sessions.current {
            match session.state() {
                ConnectionState::Connected => counts.connected += 1,
                ConnectionState::Suspended => counts.suspended += 1,
                ConnectionState::Lost(_) => counts.lost += 1,
            }
        }
        counts
    }

    /// Closes all sessions on the server, which frees their locks, and replaces no session any more. A session that
    /// cannot be reached takes at most its session timeout; the server then expires it.
    ///
    /// # Cancel safety
    /// Dropped, the remaining sessions close when their last user is gone.
    pub async fn close(&self) {
        // The keepers end first. Otherwise they would replace the sessions that are closed here.
        let mut keepers = std::mem::take(&mut *self.keepers.lock());
        keepers.shutdown().await;
        let sessions = self.shared.sessions.read().current.clone();
        stream::iter(sessions)
            .for_each_concurrent(PARALLEL_MAX, |session| async move {
                if let Err(error) = session.close().await {
                    let session = format_args!("{:#x}", session.id());
                    warn!(
                        session,
                        error = program::chain(&error),
                        "a ZooKeeper session could not be closed, the server will expire it"
                    );
                }
            })
            .await;
    }
}

impl PoolShared {
    /// Replaces one of the sessions each time it has ended. Runs for ever.
    async fn keep(self: Arc<Self>, index: usize, mut session: Session) {
        loop {
            let mut states = session.states();
            // `changed` returns `None` only once the session has ended.
            while states.changed().await.is_some() {}
            self.sessions.write().ended += 1;
            warn!(
                index,
                session = format_args!("{:#x}", session.id()),
                "a ZooKeeper session has ended, opening another"
            );
            session = self.connect(index).await;
            info!(index, session = format_args!("{:#x}", session.id()), "a ZooKeeper session was replaced");
            self.replace(index, session.clone());
        }
    }

    async fn connect(&self, index: usize) -> Session {
        let mut backoff = BACKOFF_MIN;
        loop {
            let permit = self.connecting.acquire().await;
            let opened = connect(&self.connect_string, &self.config).await;
            let opened = opened.and_then(|(session, theirs)| of_ensemble(session, theirs, &self.ensemble));
            *self.trouble.lock() = opened.as_ref().err().map(|error| program::chain(error));
            match opened {
                Ok(session) => return session,
                Err(error @ OpenError::TwoEnsembles(_)) => warn!(
                    index,
                    %error,
                    "a ZooKeeper session was closed and is not used, trying again; let --zookeeper (ZOOKEEPER_CONNECT) name the \
                     servers of one ensemble only, and look whether a server has lost its data"
                ),
                Err(error) => warn!(
                    index,
                    error = program::chain(&error),
                    "a ZooKeeper session could not be replaced, trying again"
                ),
            }
            // The pause must not keep the permit from the other sessions.
            drop(permit);
            // Random, because sessions that have ended together would try again together.
            tokio::time::sleep(rand::random_range(backoff / 2..=backoff)).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// Swaps the session and adds its traffic under one lock, so that the totals never decrease.
    fn replace(&self, index: usize, session: Session) {
        let mut sessions = self.sessions.write();
        let ended = std::mem::replace(&mut sessions.current[index], session);
        sessions.retired += ended.traffic();
    }
}

/// Opens a session, and reads the identity of its ensemble.
async fn connect(connect_string: &str, config: &SessionConfig) -> Result<(Session, EnsembleId), OpenError> {
    let session = Session::connect(connect_string, config.clone()).await.map_err(OpenError::Session)?;
    let ensemble = session.ensemble_id(IDENTITY).await.map_err(OpenError::Identity)?;
    Ok((session, ensemble))
}

/// Returns a session if it is on our ensemble. Any other session is dropped, which closes it.
fn of_ensemble(session: Session, theirs: EnsembleId, ours: &EnsembleId) -> Result<Session, OpenError> {
    if theirs == *ours { Ok(session) } else { Err(OpenError::TwoEnsembles([ours.clone(), theirs])) }
}
