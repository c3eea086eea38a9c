//! One ZooKeeper session: connection, state, clean-up and traffic.

pub(crate) mod acl;
pub(crate) mod backoff;
pub(crate) mod connection;
pub(crate) mod ending;
pub(crate) mod ensemble_id;
pub(crate) mod id;
pub(crate) mod keeper;
pub(crate) mod liveness;
pub(crate) mod reaper;
pub(crate) mod remote;
pub(crate) mod replies;
pub(crate) mod rooms;
pub(crate) mod traffic;
pub(crate) mod weak_map;
pub(crate) mod wire;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tracing::{debug, info};
use zk_recipes_protocol::liveness::{ConnectionState, Liveness, LostReason};
use zk_recipes_protocol::wire_size;

use crate::acquire::Deadline;
use crate::error::Error;
use crate::node;
use crate::session::acl::NodePolicy;
use crate::session::connection::config::SessionConfig;
use crate::session::connection::connect::Connector;
use crate::session::connection::established::Connection;
use crate::session::ending::Ending;
use crate::session::id::SessionId;
use crate::session::keeper::Keeper;
use crate::session::liveness::hold_logs::HoldName;
use crate::session::liveness::liveness_cell::LivenessCell;
use crate::session::liveness::states::ConnectionStates;
use crate::session::reaper::{Abandoned, Leftover};
use crate::session::remote::Remote;
use crate::session::replies::retry_lost_reply;
use crate::session::rooms::{Room, Rooms};
use crate::session::traffic::Traffic;
use crate::session::wire::Wire;

/// One ZooKeeper session. Cheap to clone: all clones are the same session.
///
/// Its clones, and the recipes, guards, waiters and [`Revocation`](crate::Revocation)s made from them, keep it open. The session
/// closes when the last of them is dropped.
///
/// The session lives on the Tokio runtime in which it was connected, and ends with that runtime. Its locks can be used from
/// other runtimes and executors.
///
/// An expired session stays expired. It is never silently replaced, because a lock holder would not notice. When
/// [`is_ended`](Self::is_ended) returns `true`, open another session, as `examples/leader.rs` does.
///
/// While no server answers, nobody knows whether the session lives. Its holds are lost in time, and everything else waits: the session
/// tries all servers until one of them answers, however long that takes. Then it goes on with its nodes, or it has expired.
/// [`state`](Self::state) tells that no server answers. To give up, use the forms of acquire with a deadline, drop the future, or
/// [`close`](Self::close) the session. A session that is dropped meanwhile gives up after two session timeouts, or after three if it
/// leaves nodes to delete, and after at most two more rounds of attempts to connect. Its end is then left to the servers.
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
    inner: Arc<SessionInner>,
}

struct SessionInner {
    remote: Remote,
    rooms: Rooms,
    abandoned: mpsc::UnboundedSender<Abandoned>,
    ending: Arc<Ending>,
    /// The values that the users of the session share, by type.
    extensions: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Session {
    /// Opens a session with one of the servers of `connect_string`: `host:port,host:port/chroot`. The chroot is optional. If it is
    /// given, it must exist.
    ///
    /// # Errors
    /// [`Error::Connect`] if no attempt succeeded within [`SessionConfig::connect_within`], or if no name of the connect string has
    /// resolved after a quarter of that time. It says what each server does instead.
    ///
    /// Some errors are returned without another attempt, because none could succeed:
    /// * before the first request: [`Error::InvalidConnectString`], [`Error::InvalidTls`], and [`Error::InvalidPath`] if a key of
    ///   [`SessionConfig::acl_of`] is no valid path;
    /// * after the answer of a server: [`Error::TlsRefused`], [`Error::CredentialsRefused`], [`Error::CredentialsMissing`],
    ///   [`Error::NoChroot`] and [`Error::TimeoutTooShort`].
    ///
    /// # Panics
    /// If called outside of a Tokio runtime.
    ///
    /// # Cancel safety
    /// If the future is dropped, at most an unused session remains on the server until it expires.
    pub async fn connect(connect_string: &str, config: SessionConfig) -> Result<Self, Error> {
        config.acl_of.keys().try_for_each(|path| node::validate_path(path))?;
        let connector = Connector::new(connect_string, &config)?;
        let connection = connector.connect(&config).await?;
        let SessionConfig { acl, acl_of, parents, node_bytes_max, .. } = config;
        Ok(Self::start(connector, connection, NodePolicy { acl, acl_of, parents }, node_bytes_max))
    }

    fn start(connector: Connector, connection: Connection, policy: NodePolicy, node_bytes_max: u32) -> Self {
        let session = connection.client.session().clone();
        let timeout = connection.client.session_timeout();
        let task_link = Arc::clone(&connection.task_link);
        let states = connection.states();
        let id = session.id().0;
        let unauthenticated = connector.unauthenticated();
        let liveness = Arc::new(LivenessCell::new(connector.margins(timeout), connection.connecting));
        let wire = Arc::new(Wire::new(connection, Arc::clone(&liveness), policy));
        let (abandoned, reapable) = mpsc::unbounded_channel();
        let ending = Arc::new(Ending::default());
        tokio::spawn(Keeper::new(connector, session, &wire, &liveness, &ending).run(task_link, states));
        let remote = Remote::new(id, wire, liveness, Handle::current(), unauthenticated);
        tokio::spawn(reaper::run(reapable, remote.clone()));
        info!(session = format_args!("{id:#x}"), timeout_ms = timeout.as_millis(), "session established");
        let rooms = Rooms::new(id, node_bytes_max);
        let inner = SessionInner { remote, rooms, abandoned, ending, extensions: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the id that the server gave to the session.
    #[must_use]
    pub fn id(&self) -> SessionId {
        SessionId::new(self.remote().session_id())
    }

    /// Returns the session timeout: the shortest that a server has granted so far. The server of a new connection may grant a
    /// shorter one.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.remote().timeout()
    }

    /// Returns the current state of the connection.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        self.remote().liveness_cell().state()
    }

    /// Returns the states of the connection from now on.
    #[must_use]
    pub fn states(&self) -> ConnectionStates {
        ConnectionStates::of(self.remote().liveness_cell())
    }

    /// Tells whether the session has ended. A session that has ended fails every request from then on.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.liveness().ended().is_some()
    }

    /// Waits until the session has ended. Returns the reason. The end is final.
    ///
    /// # Cancel safety
    /// Nothing is lost: call it again.
    pub async fn ended(&self) -> LostReason {
        // Made before the look at the end, so an end in between is not missed.
        let mut states = self.states();
        loop {
            if let Some(reason) = self.liveness().ended() {
                return reason;
            }
            states.changed().await;
        }
    }

    /// Returns the totals of what the session has exchanged with the servers so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.wire().counters().totals()
    }

    /// Sends one request and waits for its answer. If the reply is lost, sends it again.
    ///
    /// The answer shows that the servers answer requests. It says nothing about holds: use
    /// [`LockGuard::state`](crate::LockGuard::state) for them.
    ///
    /// # Errors
    /// [`Error::NoAnswer`] if no answer came in time. [`Error::SessionEnded`] if the session has ended. [`Error::Refused`] if the
    /// server refused the request.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn ping(&self, within: Duration) -> Result<(), Error> {
        match Deadline::after(within).bound(retry_lost_reply(|| self.wire().sync("/"))).await {
            Some(answer) => answer.map_err(|error| self.remote().explain("sync", "/", error)),
            None => Err(Error::NoAnswer { within }),
        }
    }

    /// Closes the session for all its clones. The server deletes the session's ephemeral nodes. Every hold counts as lost before
    /// the request is sent.
    ///
    /// # Errors
    /// [`Error::NoAnswer`] if the server did not confirm within the session timeout. The session still ends: it closes once every
    /// request under way has been answered or dropped, and it expires once this process is gone.
    ///
    /// # Cancel safety
    /// The session is closing from the first poll on. If the future is dropped, only the confirmation is missed.
    pub async fn close(&self) -> Result<(), Error> {
        // Before the server can grant the locks to another session.
        self.remote().liveness_cell().end(LostReason::Closed);
        self.inner.ending.tell();
        self.wire().phases().close();
        let within = self.timeout();
        Deadline::after(within).bound(self.wire().phases().ended()).await.ok_or(Error::NoAnswer { within })
    }

    pub(crate) fn remote(&self) -> &Remote {
        &self.inner.remote
    }

    pub(crate) fn wire(&self) -> &Wire {
        self.remote().wire()
    }

    /// Returns the room that a node takes.
    pub(crate) fn room_of(&self, path_len: usize) -> usize {
        wire_size::string(self.wire().chroot_len() + path_len)
    }

    /// Returns room for the nodes of one acquire: see [`Rooms::room`]. Fails once the session has ended.
    pub(crate) async fn room(&self, path: &str, bytes: usize, is_try: bool) -> Result<Room, Error> {
        tokio::select! {
            biased;
            room = self.inner.rooms.room(path, bytes, is_try) => match (room, self.liveness().ended()) {
                // The nodes of a session that has ended may keep all of its room.
                (Err(_), Some(reason)) => Err(Error::SessionEnded { reason }),
                (room, _) => room,
            },
            reason = self.ended() => Err(Error::SessionEnded { reason }),
        }
    }

    pub(crate) fn liveness(&self) -> Liveness {
        self.remote().liveness()
    }

    /// Returns the value of this type that the users of the session share. Creates it at the first call.
    pub(crate) fn extension<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut extensions = self.inner.extensions.lock();
        let shared = extensions.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        let shared = Arc::downcast(Arc::clone(shared));
        shared.unwrap_or_else(|_| unreachable!("BUG: an extension is not of its type"))
    }

    pub(crate) fn ending(&self) -> &Ending {
        &self.inner.ending
    }

    /// Hands a leftover to the reaper. `hold`: the dropped hold that the leftover stands for, if there was one.
    pub(crate) fn abandon(&self, leftover: Box<dyn Leftover>, hold: Option<HoldName>) {
        // This fails only after the reaper has seen the end of the session. Then the server deletes every leftover.
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
