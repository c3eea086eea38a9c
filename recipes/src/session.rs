//! One ZooKeeper session: connection, state, clean-up and traffic.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tracing::{debug, info};
use zookeeper_client::{Client, Error as ClientError, SessionState, StateWatcher};

use crate::acl::{Acl, Auth, NodePolicy, Parents};
use crate::claim::Remains;
use crate::error::Error;
use crate::liveness::{self, ConnectionState, Event, Liveness, LostReason};
use crate::pulse::Pulse;
use crate::reaper;
use crate::traffic::Traffic;
use crate::wire::{Wire, retry_lost_reply};

/// The first pause between two attempts to connect; it doubles up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

const TIMEOUT_MIN: Duration = Duration::from_millis(1);
const TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// How to open a [`Session`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// After how much silence the server expires the session and deletes its nodes. The server may grant another
    /// value, see [`Session::timeout`]. A holder that dies blocks the others for this long.
    pub timeout: Duration,
    /// How long to go on trying to connect.
    pub connect_within: Duration,
    /// Who the session is; nobody in particular when empty.
    pub auth: Vec<Auth>,
    /// Who may do what with the nodes that the session creates: those of its locks and their missing parents.
    pub acl: Acl,
    /// Other ACLs for the nodes of these paths, such as that of a parent under which others may create locks but not
    /// delete them.
    pub acl_of: BTreeMap<String, Acl>,
    /// How missing parents of locks are created.
    pub parents: Parents,
}

impl Default for SessionConfig {
    /// A timeout of 10 s, 15 s to connect, no credentials, nodes that are open to anyone, containers as parents.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            connect_within: Duration::from_secs(15),
            auth: Vec::new(),
            acl: Acl::open(),
            acl_of: BTreeMap::new(),
            parents: Parents::default(),
        }
    }
}

/// One ZooKeeper session. Cheap to clone; all clones are the same session, which closes when the last of them, and of
/// the recipes and guards made from them, is gone.
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
}

impl Session {
    /// Opens a session with one of the servers of `connect_string`: `host:port,host:port/chroot`. The chroot, if there
    /// is one, must exist.
    ///
    /// # Errors
    /// [`Error::Connect`] when none of them answered within [`SessionConfig::connect_within`].
    ///
    /// # Cancel safety
    /// Dropped, it leaves at most a session that nobody uses, which the server expires.
    pub async fn connect(connect_string: &str, config: SessionConfig) -> Result<Self, Error> {
        let mut last_error = ClientError::Timeout;
        let attempts = async {
            let mut backoff = BACKOFF_MIN;
            // The client library takes zero for a default of its own, and milliseconds are sent as a signed 32-bit number.
            let mut timeout = config.timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
            loop {
                let connecting = Instant::now();
                let mut connector = Client::connector()
                    .with_session_timeout(timeout)
                    .with_connection_timeout(liveness::connection_timeout(timeout))
                    .with_fail_eagerly();
                for Auth { scheme, credentials } in &config.auth {
                    connector = connector.with_auth(scheme, credentials);
                }
                match connector.connect(connect_string).await {
                    // The server grants less than was asked for. A dead connection must then be noticed sooner, for
                    // there to be time to reconnect.
                    Ok(client) if client.session_timeout() < timeout => {
                        timeout = client.session_timeout();
                        continue;
                    }
                    Ok(client) => return Ok((client, connecting)),
                    // A malformed connect string or refused credentials will not get better.
                    Err(error @ (ClientError::BadArguments(_) | ClientError::AuthFailed)) => return Err(error),
                    Err(error) => {
                        debug!(connect_string, %error, "could not connect, trying again");
                        last_error = error;
                    }
                }
                tokio::time::sleep(backoff).await;
                backoff = (backoff * 2).min(BACKOFF_MAX);
            }
        };
        let failed = |source: ClientError| Error::Connect {
            connect_string: connect_string.to_owned(),
            within: config.connect_within,
            source: source.into(),
        };
        match tokio::time::timeout(config.connect_within, attempts).await {
            Ok(Ok((client, connecting))) => {
                let SessionConfig { acl, acl_of, parents, .. } = config;
                Ok(Self::start(client, connecting, NodePolicy { acl, acl_of, parents }))
            }
            Ok(Err(error)) => Err(failed(error)),
            Err(_) => Err(failed(last_error)),
        }
    }

    fn start(client: Client, connecting: Instant, policy: NodePolicy) -> Self {
        let (id, timeout, states) = (client.session_id().0, client.session_timeout(), client.state_watcher());
        let pulse = Arc::new(Pulse::new(timeout, connecting));
        let wire = Arc::new(Wire::new(client, Arc::clone(&pulse), policy));
        let (abandoned, reapable) = mpsc::unbounded_channel();
        tokio::spawn(monitor(states, Arc::clone(&pulse), Arc::downgrade(&wire), timeout));
        tokio::spawn(reaper::run(reapable, Arc::clone(&wire), id));
        info!(session = format_args!("{id:#x}"), timeout_ms = timeout.as_millis(), "session established");
        Self { inner: Arc::new(Inner { id, timeout, wire, pulse, abandoned }) }
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

    /// Waits until a hold that was granted at `losses` is lost.
    pub(crate) async fn lost_since(&self, losses: u64) -> LostReason {
        let mut changes = self.inner.pulse.subscribe();
        loop {
            if let Some(reason) = self.liveness().lost_since(losses) {
                return reason;
            }
            // It cannot fail while `self` keeps the sender.
            let _ = changes.changed().await;
        }
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

/// Feeds the pulse of a session until it ends: with what the client library reports, with the passing of time, and with
/// signs of life when nothing else is answered.
async fn monitor(mut states: StateWatcher, pulse: Arc<Pulse>, wire: Weak<Wire>, timeout: Duration) {
    let interval = liveness::probe_after(timeout) / 2;
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
            () = tokio::time::sleep(interval) => {}
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
