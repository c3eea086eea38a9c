//! One ZooKeeper session: connection, state, clean-up and traffic.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tracing::{debug, info};
use zookeeper_client::{Error as ClientError, SessionState, StateWatcher};

use crate::acl::{Acl, Auth, NodePolicy, Parents};
use crate::acquire::LockQueue;
use crate::cohort::{self, Cohort, Cohorts};
use crate::connect::Line;
use crate::error::Error;
use crate::kept_watch::{KeptWatches, Room};
use crate::known::Known;
use crate::liveness::{self, ConnectionState, Event, Liveness, LostReason};
use crate::node::{self, Names};
use crate::pulse::Pulse;
use crate::reaper;
use crate::registry::Registry;
use crate::remains::Remains;
use crate::shared_node::SharedNode;
use crate::taken::TakenNodes;
use crate::tls::Tls;
use crate::traffic::Traffic;
use crate::wire::{Wire, retry_lost_reply};

/// How to open a [`Session`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// After how much silence the server expires the session and deletes its nodes. The server may grant another
    /// value, see [`Session::timeout`]. A holder that dies blocks the others for this long.
    pub timeout: Duration,
    /// How long to go on trying to connect.
    pub connect_within: Duration,
    /// How to speak TLS with the servers; without it nothing is encrypted.
    pub tls: Option<Tls>,
    /// Who the session is; nobody in particular when empty.
    pub auth: Vec<Auth>,
    /// Who may do what with the nodes that the session creates: those of its locks and their missing parents.
    pub acl: Acl,
    /// Other ACLs for the nodes of these paths, such as that of a parent under which others may create locks but not
    /// delete them. The paths are those of nodes whose names are known before: parents, the node of a
    /// [`NaiveLock`](crate::NaiveLock), a [`SharedCount`](crate::SharedCount). The server ends the names of all
    /// contenders with a number, so theirs cannot be given, and they always get [`acl`](Self::acl).
    pub acl_of: BTreeMap<String, Acl>,
    /// How missing parents of locks are created.
    pub parents: Parents,
}

impl Default for SessionConfig {
    /// A timeout of 10 s, 15 s to connect, no TLS, no credentials, nodes that are open to anyone, containers as parents.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            connect_within: Duration::from_secs(15),
            tls: None,
            auth: Vec::new(),
            acl: Acl::open(),
            acl_of: BTreeMap::new(),
            parents: Parents::default(),
        }
    }
}

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
/// println!("session {:#x} holds with token {}", session.id(), held.token());
/// held.release().await?;
/// session.close().await
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    id: i64,
    timeout: Duration,
    wire: Arc<Wire>,
    pulse: Arc<Pulse>,
    abandoned: mpsc::UnboundedSender<Remains>,
    shared_nodes: Registry<String, SharedNode>,
    known: Registry<(String, Names), Known>,
    taken: Registry<String, TakenNodes>,
    kept_watches: KeptWatches,
    cohorts: Arc<Cohorts>,
}

impl Session {
    /// Opens a session with one of the servers of `connect_string`: `host:port,host:port/chroot`. The chroot, if there
    /// is one, must exist.
    ///
    /// # Errors
    /// [`Error::Connect`] when none of them answered within [`SessionConfig::connect_within`]. At once:
    /// [`Error::InvalidConnectString`], [`Error::InvalidTls`], [`Error::TlsRefused`], [`Error::CredentialsRefused`], [`Error::NoChroot`], and [`Error::InvalidPath`]
    /// when a key of [`SessionConfig::acl_of`] can be no path of a node.
    ///
    /// # Cancel safety
    /// Dropped, it leaves at most a session that nobody uses, which the server expires.
    pub async fn connect(connect_string: &str, config: SessionConfig) -> Result<Self, Error> {
        config.acl_of.keys().try_for_each(|path| node::validate_path(path))?;
        let line = Line::connect(connect_string, &config).await?;
        let SessionConfig { acl, acl_of, parents, .. } = config;
        Ok(Self::start(line, NodePolicy { acl, acl_of, parents }))
    }

    fn start(line: Line, policy: NodePolicy) -> Self {
        let Line { client, tether, connecting } = line;
        let (id, timeout, states) = (client.session_id().0, client.session_timeout(), client.state_watcher());
        let pulse = Arc::new(Pulse::new(timeout, connecting));
        let wire = Arc::new(Wire::new(client, tether, Arc::clone(&pulse), policy));
        let (abandoned, reapable) = mpsc::unbounded_channel();
        let cohorts = Arc::new(Cohorts::default());
        let ends = EndsWithTheRuntime { pulse: Arc::clone(&pulse), cohorts: Arc::clone(&cohorts) };
        tokio::spawn(monitor(states, ends, Arc::downgrade(&wire), timeout));
        tokio::spawn(reaper::run(reapable, Arc::clone(&wire), id));
        info!(session = format_args!("{id:#x}"), timeout_ms = timeout.as_millis(), "session established");
        let (shared_nodes, known, taken) = (Registry::default(), Registry::default(), Registry::default());
        let kept_watches = KeptWatches::default();
        let inner = Inner { id, timeout, wire, pulse, abandoned, shared_nodes, known, taken, kept_watches, cohorts };
        Self { inner: Arc::new(inner) }
    }

    /// The id that the server gave to the session.
    #[must_use]
    pub fn id(&self) -> i64 {
        self.inner.id
    }

    /// The session timeout as the server granted it.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    /// What is known of the connection at this moment.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        self.liveness().state()
    }

    /// Follows the state of the connection from now on.
    #[must_use]
    pub fn states(&self) -> ConnectionStates {
        ConnectionStates {
            seen: self.state(),
            changes: self.inner.pulse.subscribe(),
            pulse: Arc::clone(&self.inner.pulse),
        }
    }

    /// Whether the session has expired or was closed: nothing on it will ever work again.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.liveness().ended().is_some()
    }

    /// What the session has exchanged with the server so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.inner.wire.counters().totals()
    }

    /// Asks the server for a sign of life: one request.
    ///
    /// # Errors
    /// [`Error::NoAnswer`] when none came in time, [`Error::SessionEnded`] when none can come.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn check(&self, within: Duration) -> Result<(), Error> {
        match tokio::time::timeout(within, retry_lost_reply(|| self.inner.wire.sync("/"))).await {
            Ok(answer) => answer.map_err(|error| self.explain("sync", "/", error)),
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
        self.inner.pulse.end(LostReason::Closed);
        cohort::close(&self.inner.cohorts);
        let mut states = self.inner.wire.close();
        let within = self.inner.timeout;
        let closed = async {
            if let Some(states) = &mut states {
                while !states.peek_state().is_terminated() {
                    states.changed().await;
                }
            }
        };
        tokio::time::timeout(within, closed).await.map_err(|_| Error::NoAnswer { within })
    }

    pub(crate) fn wire(&self) -> &Arc<Wire> {
        &self.inner.wire
    }

    pub(crate) fn liveness(&self) -> Liveness {
        self.inner.pulse.read()
    }

    /// Waits until a hold that was granted at `losses` is lost. It looks at the time by itself: the runtime that the
    /// session was connected in, where others do, may be another one, and blocked or at its end.
    pub(crate) async fn lost_since(&self, losses: u64) -> LostReason {
        let mut changes = self.inner.pulse.subscribe();
        loop {
            if let Some(reason) = self.liveness().lost_since(losses) {
                return reason;
            }
            // The sender cannot go while `self` keeps it, so this ends with a change or in time.
            let _ = tokio::time::timeout(look_after(self.inner.timeout), changes.changed()).await;
        }
    }

    /// What this session's claims know of the nodes at a path that all of them use.
    pub(crate) fn shared_node(&self, path: &str) -> Arc<SharedNode> {
        self.inner.shared_nodes.at(path.to_owned())
    }

    /// What this session's contenders know of the queue at a path.
    pub(crate) fn known(&self, path: &str, names: Names) -> Arc<Known> {
        self.inner.known.at((path.to_owned(), names))
    }

    /// Which children of a node belong to which claims of this session.
    pub(crate) fn taken(&self, parent: &str) -> Arc<TakenNodes> {
        self.inner.taken.at(parent.to_owned())
    }

    /// Room for a watch of a node that is kept although nobody waits for it, if there is any.
    pub(crate) fn room_for_watch(&self, path: &str) -> Option<Room> {
        self.inner.kept_watches.room(self.inner.wire.path_len(path))
    }

    /// Those of this session who queue there one after the other.
    pub(crate) fn cohort(&self, queue: &LockQueue) -> Arc<Cohort> {
        let cohort = self.inner.cohorts.at((queue.parent().to_owned(), queue.names(), queue.naming()));
        if self.is_ended() {
            // Whoever told the others may not have found it.
            cohort.close();
        }
        cohort
    }

    pub(crate) fn abandon(&self, remains: Remains) {
        // It fails only once the reaper has seen the session end, and then the server has deleted everything.
        if self.inner.abandoned.send(remains).is_err() {
            debug!("the session has ended, the server deletes what it left");
        }
    }

    /// Turns the client library's error into ours.
    pub(crate) fn explain(&self, operation: &'static str, path: &str, error: ClientError) -> Error {
        match error {
            ClientError::SessionExpired | ClientError::SessionMoved => {
                Error::SessionEnded { reason: LostReason::Expired }
            }
            ClientError::ClientClosed | ClientError::AuthFailed => {
                Error::SessionEnded { reason: self.liveness().ended().unwrap_or(LostReason::Closed) }
            }
            error => Error::refused(operation, path, error),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &format_args!("{:#x}", self.inner.id))
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

/// The states of a session's connection, one after the other. Made by [`Session::states`].
#[derive(Clone, Debug)]
pub struct ConnectionStates {
    seen: ConnectionState,
    changes: watch::Receiver<Liveness>,
    pulse: Arc<Pulse>,
}

impl ConnectionStates {
    /// The state that was seen last.
    #[must_use]
    pub fn current(&self) -> ConnectionState {
        self.seen
    }

    /// Waits for another state than the one seen last and returns it; `None` once the session has ended and no other
    /// will come. States that lasted only while nobody waited may be skipped.
    ///
    /// # Cancel safety
    /// Nothing is lost: the next call sees what this one would have seen.
    pub async fn changed(&mut self) -> Option<ConnectionState> {
        loop {
            self.changes.mark_unchanged();
            let state = self.pulse.read().state();
            if state != self.seen {
                self.seen = state;
                return Some(state);
            }
            if self.pulse.read().ended().is_some() {
                return None;
            }
            self.changes.changed().await.ok()?;
        }
    }
}

/// How often whoever waits for the passing of time looks at the clock.
fn look_after(session_timeout: Duration) -> Duration {
    liveness::probe_after(session_timeout) / 2
}

/// Ends the session when it is dropped: whoever waits in another runtime learns so that nobody serves it any more.
struct EndsWithTheRuntime {
    pulse: Arc<Pulse>,
    cohorts: Arc<Cohorts>,
}

impl Drop for EndsWithTheRuntime {
    fn drop(&mut self) {
        // A session that ended otherwise stays ended as it was.
        self.pulse.end(LostReason::Closed);
        cohort::close(&self.cohorts);
    }
}

/// Feeds the pulse of a session until it ends: with what the client library reports, with the passing of time, and with
/// signs of life when nothing else is answered.
async fn monitor(mut states: StateWatcher, ends: EndsWithTheRuntime, wire: Weak<Wire>, timeout: Duration) {
    let pulse = &ends.pulse;
    // At most one is under way. While the connection is away it waits inside the client library, and is answered first
    // thing after the handshake.
    let mut probe: Option<Probe> = None;
    loop {
        tokio::select! {
            state = states.changed() => {
                if let Some(event) = event(state) {
                    debug!(?event, "connection event");
                    pulse.event(event);
                }
                if state.is_terminated() {
                    return;
                }
            }
            () = answered(&mut probe) => probe = None,
            () = tokio::time::sleep(look_after(timeout)) => {}
        }
        if pulse.tick() && probe.is_none() {
            let Some(wire) = wire.upgrade() else { continue };
            probe = Some(Box::pin(async move { wire.probe().await }));
        }
    }
}

/// A sign of life that was asked for.
type Probe = Pin<Box<dyn Future<Output = Result<(), ClientError>> + Send>>;

async fn answered(probe: &mut Option<Probe>) {
    match probe {
        Some(probe) => {
            if let Err(error) = probe.await {
                debug!(%error, "no sign of life");
            }
        }
        None => std::future::pending().await,
    }
}

fn event(state: SessionState) -> Option<Event> {
    match state {
        // Believed when a request is answered: the handshake may still break.
        SessionState::SyncConnected => None,
        // A server that cannot write can grant no lock.
        SessionState::Disconnected | SessionState::ConnectedReadOnly => Some(Event::Disconnected),
        SessionState::Expired => Some(Event::Ended(LostReason::Expired)),
        SessionState::AuthFailed | SessionState::Closed => Some(Event::Ended(LostReason::Closed)),
    }
}
