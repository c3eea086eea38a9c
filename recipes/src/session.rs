//! One ZooKeeper session: connection, state, clean-up and traffic.

pub(crate) mod acl;
pub(crate) mod backoff;
pub(crate) mod config;
pub(crate) mod connect;
pub(crate) mod ending;
pub(crate) mod hold_reports;
pub(crate) mod id;
pub(crate) mod keeper;
pub(crate) mod line;
pub(crate) mod liveness_cell;
pub(crate) mod proof;
pub(crate) mod reaper;
pub(crate) mod remote;
pub(crate) mod replies;
pub(crate) mod servers;
pub(crate) mod stages;
pub(crate) mod states;
pub(crate) mod task_link;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(not(feature = "tls"))]
#[path = "session/no_tls.rs"]
pub(crate) mod tls;
pub(crate) mod traffic;
pub(crate) mod weak_map;
pub(crate) mod wire;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::{debug, info};
use zk_recipes_protocol::liveness::{ConnectionState, Liveness, LostReason};

use crate::error::Error;
use crate::node;
use crate::session::acl::NodePolicy;
use crate::session::config::SessionConfig;
use crate::session::connect::Connector;
use crate::session::ending::Ending;
use crate::session::hold_reports::HoldName;
use crate::session::id::SessionId;
use crate::session::keeper::Keeper;
use crate::session::line::Line;
use crate::session::liveness_cell::LivenessCell;
use crate::session::reaper::{Abandoned, Leftover};
use crate::session::remote::Remote;
use crate::session::replies::retry_lost_reply;
use crate::session::states::ConnectionStates;
use crate::session::traffic::Traffic;
use crate::session::wire::Wire;

/// One ZooKeeper session. Cheap to clone; all clones are the same session, which closes when the last of them, and of
/// the recipes, guards, waiters and [`Revocation`](crate::Revocation)s made from them, is gone.
///
/// It lives on the Tokio runtime that it was connected in, and ends with it. Its locks may be used from other runtimes,
/// which need their timers enabled.
///
/// A session that has expired stays expired: it is never replaced behind the back of a lock holder. When
/// [`is_ended`](Self::is_ended) says so, open another.
///
/// ```no_run
/// use zk_recipes::{Mutex, Session, SessionConfig};
///
/// # async fn example() -> Result<(), zk_recipes::Error> {
/// let session = Session::connect("127.0.0.1:2181/shop", SessionConfig::default()).await?;
/// let held = Mutex::new(&session, "/locks/goods-1")?.acquire().await?;
/// println!("session {} holds with token {}", session.id(), held.token());
/// held.release().await?;
/// session.close().await
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    remote: Remote,
    abandoned: mpsc::UnboundedSender<Abandoned>,
    ending: Arc<Ending>,
    /// What those share who use the session, by type.
    extensions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Session {
    /// Opens a session with one of the servers of `connect_string`: `host:port,host:port/chroot`. The chroot, if there
    /// is one, must exist.
    ///
    /// # Errors
    /// [`Error::Connect`] when none of them answered within [`SessionConfig::connect_within`]. At once:
    /// [`Error::InvalidConnectString`], [`Error::InvalidTls`], [`Error::TlsRefused`], [`Error::CredentialsRefused`],
    /// [`Error::NoChroot`], [`Error::TimeoutTooShort`], and [`Error::InvalidPath`] when a key of [`SessionConfig::acl_of`] can be no
    /// path of a node.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    ///
    /// # Cancel safety
    /// Dropped, it leaves at most a session that nobody uses, which the server expires.
    pub async fn connect(connect_string: &str, config: SessionConfig) -> Result<Self, Error> {
        config.acl_of.keys().try_for_each(|path| node::validate_path(path))?;
        let connector = Connector::new(connect_string, &config)?;
        let line = connector.connect(&config).await?;
        let SessionConfig { acl, acl_of, parents, .. } = config;
        Ok(Self::start(connector, line, NodePolicy { acl, acl_of, parents }))
    }

    fn start(connector: Connector, line: Line, policy: NodePolicy) -> Self {
        let (session, timeout) = (line.client.session().clone(), line.client.session_timeout());
        let (task_link, states) = (Arc::clone(&line.task_link), line.states());
        let id = session.id().0;
        let liveness = Arc::new(LivenessCell::new(connector.margins(timeout), line.connecting));
        let wire = Arc::new(Wire::new(line, Arc::clone(&liveness), policy));
        let (abandoned, reapable) = mpsc::unbounded_channel();
        let ending = Arc::new(Ending::default());
        tokio::spawn(Keeper::new(connector, session, &wire, &liveness, &ending).run(task_link, states));
        let remote = Remote::new(id, wire, liveness);
        tokio::spawn(reaper::run(reapable, remote.clone()));
        info!(session = format_args!("{id:#x}"), timeout_ms = timeout.as_millis(), "session established");
        let inner = Inner { remote, abandoned, ending, extensions: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// The id that the server gave to the session.
    #[must_use]
    pub fn id(&self) -> SessionId {
        SessionId::new(self.remote().session_id())
    }

    /// The session timeout as the servers granted it: the shortest of those granted so far, as the server of a new connection
    /// may grant less.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.remote().timeout()
    }

    /// What is known of the connection at this moment.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        self.remote().liveness_cell().state()
    }

    /// Follows the state of the connection from now on.
    #[must_use]
    pub fn states(&self) -> ConnectionStates {
        ConnectionStates::of(self.remote().liveness_cell())
    }

    /// Whether the session has expired or was closed: nothing on it will ever work again.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.liveness().ended().is_some()
    }

    /// Waits until the session has ended, which is final, and tells why.
    ///
    /// # Cancel safety
    /// Nothing is lost: call it again.
    pub async fn ended(&self) -> LostReason {
        let mut states = self.states();
        loop {
            if let Some(reason) = self.liveness().ended() {
                return reason;
            }
            states.changed().await;
        }
    }

    /// What the session has exchanged with the server so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.wire().counters().totals()
    }

    /// Asks the server for a sign of life: one request. It says that requests are answered, and nothing of holds, for which
    /// [`LockGuard::state`](crate::LockGuard::state) is there.
    ///
    /// # Errors
    /// [`Error::NoAnswer`] when none came in time, [`Error::SessionEnded`] when none can come.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn ping(&self, within: Duration) -> Result<(), Error> {
        match tokio::time::timeout(within, retry_lost_reply(|| self.wire().sync("/"))).await {
            Ok(answer) => answer.map_err(|error| self.remote().explain("sync", "/", error)),
            Err(_) => Err(Error::NoAnswer { within }),
        }
    }

    /// Ends the session on the server, for all its clones: every node that it created goes. Every hold is lost before
    /// the request is sent.
    ///
    /// # Errors
    /// [`Error::NoAnswer`] when the server did not confirm within the session timeout. It expires the session by itself
    /// once this process is gone or every request that is under way has been answered or dropped.
    ///
    /// # Cancel safety
    /// The session is closing from the first poll on; dropped, only the confirmation is missed.
    pub async fn close(&self) -> Result<(), Error> {
        // Before the server can grant to another.
        self.remote().liveness_cell().end(LostReason::Closed);
        self.inner.ending.tell();
        self.wire().stages().close();
        let within = self.timeout();
        tokio::time::timeout(within, self.wire().stages().ended()).await.map_err(|_| Error::NoAnswer { within })
    }

    pub(crate) fn remote(&self) -> &Remote {
        &self.inner.remote
    }

    pub(crate) fn wire(&self) -> &Wire {
        self.remote().wire()
    }

    pub(crate) fn liveness(&self) -> Liveness {
        self.remote().liveness()
    }

    /// What those share who use the session, one value of each type.
    pub(crate) fn extension<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut extensions = self.inner.extensions.lock();
        let shared = extensions.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        let shared = Arc::downcast(Arc::clone(shared));
        shared.unwrap_or_else(|_| unreachable!("BUG: an extension is not of its type"))
    }

    pub(crate) fn ending(&self) -> &Ending {
        &self.inner.ending
    }

    /// Leaves something to the reaper. `hold`: the hold that it stands for, if that was dropped.
    pub(crate) fn abandon(&self, leftover: Box<dyn Leftover>, hold: Option<HoldName>) {
        // It fails only once the reaper has seen the session end, and then the server has deleted everything.
        if self.inner.abandoned.send(Abandoned { leftover, hold }).is_err() {
            debug!("the session has ended, the server deletes what it left");
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &format_args!("{:#x}", self.id()))
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
