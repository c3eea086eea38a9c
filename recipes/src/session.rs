//! One ZooKeeper session: connection, state, clean-up and traffic.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tracing::{debug, info};
use zookeeper_client::{Client, Error as ClientError, SessionState, StateWatcher};

use crate::claim::Remains;
use crate::error::Error;
use crate::liveness::{self, ConnectionState, Event, Liveness, LostReason};
use crate::reaper;
use crate::traffic::Traffic;
use crate::wire::{Wire, retry_lost_reply};

/// The first pause between two attempts to connect; it doubles up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// How to open a [`Session`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// After how much silence the server expires the session and deletes its nodes. The server may grant another
    /// value, see [`Session::timeout`]. A holder that dies blocks the others for this long.
    pub timeout: Duration,
    /// How long to go on trying to connect.
    pub connect_within: Duration,
}

impl Default for SessionConfig {
    /// A timeout of 10 s, and 15 s to connect.
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), connect_within: Duration::from_secs(15) }
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
    /// The origin of the times in `live`.
    origin: Instant,
    wire: Arc<Wire>,
    live: watch::Receiver<Liveness>,
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
    /// Dropped, it leaves at most a session that nobody uses, which the client closes.
    pub async fn connect(connect_string: &str, config: SessionConfig) -> Result<Self, Error> {
        let mut last_error = ClientError::Timeout;
        let attempts = async {
            let mut backoff = BACKOFF_MIN;
            let mut timeout = config.timeout;
            loop {
                let connector = Client::connector()
                    .with_session_timeout(timeout)
                    .with_connection_timeout(liveness::connection_timeout(timeout))
                    .with_fail_eagerly();
                match connector.connect(connect_string).await {
                    // The server grants less than was asked for. A dead connection must then be noticed sooner, or
                    // holds would be lost too late.
                    Ok(client) if client.session_timeout() < timeout => {
                        timeout = client.session_timeout();
                        continue;
                    }
                    Ok(client) => return Ok(client),
                    // A malformed connect string will not get better.
                    Err(error @ ClientError::BadArguments(_)) => return Err(error),
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
            Ok(Ok(client)) => Ok(Self::start(client)),
            Ok(Err(error)) => Err(failed(error)),
            Err(_) => Err(failed(last_error)),
        }
    }

    fn start(client: Client) -> Self {
        let (id, timeout, states) = (client.session_id().0, client.session_timeout(), client.state_watcher());
        let origin = Instant::now();
        let wire = Arc::new(Wire::new(client));
        let (live_sender, live) = watch::channel(Liveness::new(timeout, Duration::ZERO));
        let (abandoned, reapable) = mpsc::unbounded_channel();
        tokio::spawn(monitor(states, live_sender, origin, timeout));
        tokio::spawn(reaper::run(reapable, Arc::clone(&wire), id));
        info!(session = format_args!("{id:#x}"), timeout_ms = timeout.as_millis(), "session established");
        Self { inner: Arc::new(Inner { id, timeout, origin, wire, live, abandoned }) }
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
        ConnectionStates { seen: self.state(), live: self.inner.live.clone() }
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

    /// Ends the session on the server, for all its clones: every node that it created goes, every hold is lost.
    ///
    /// # Errors
    /// [`Error::NoAnswer`] when the server did not confirm within the session timeout. It will then expire the session
    /// by itself.
    ///
    /// # Cancel safety
    /// The session is closing from the first poll on; dropped, only the confirmation is missed.
    pub async fn close(&self) -> Result<(), Error> {
        self.inner.wire.close();
        let mut live = self.inner.live.clone();
        let within = self.inner.timeout;
        match tokio::time::timeout(within, live.wait_for(|live| live.ended().is_some())).await {
            // The channel closes only after the end was noted.
            Ok(_) => Ok(()),
            Err(_) => Err(Error::NoAnswer { within }),
        }
    }

    pub(crate) fn wire(&self) -> &Arc<Wire> {
        &self.inner.wire
    }

    pub(crate) fn liveness(&self) -> Liveness {
        // Not in one expression: the borrow must not be held while `at` runs.
        let noted = *self.inner.live.borrow();
        noted.at(self.inner.origin.elapsed())
    }

    /// Waits until a hold that was granted at `losses` is lost.
    pub(crate) async fn lost_since(&self, losses: u64) -> LostReason {
        let mut live = self.inner.live.clone();
        loop {
            if let Some(reason) = self.liveness().lost_since(losses) {
                return reason;
            }
            if live.changed().await.is_err() {
                // The monitor is gone with its runtime, and with it whoever could keep the session alive.
                return self.liveness().lost_since(losses).unwrap_or(LostReason::Closed);
            }
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
    live: watch::Receiver<Liveness>,
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
            let state = self.live.borrow_and_update().state();
            if state != self.seen {
                self.seen = state;
                return Some(state);
            }
            self.live.changed().await.ok()?;
        }
    }
}

/// Feeds the liveness of a session until it ends.
async fn monitor(mut states: StateWatcher, live: watch::Sender<Liveness>, origin: Instant, timeout: Duration) {
    let interval = liveness::beat_interval(timeout);
    loop {
        let event = tokio::select! {
            state = states.changed() => event(state),
            () = tokio::time::sleep(interval) => None,
        };
        let now = origin.elapsed();
        live.send_if_modified(|live| {
            let before = (live.state(), live.losses());
            match event {
                Some(event) => live.on_event(now, event),
                None => live.on_beat(now),
            }
            before != (live.state(), live.losses()) || live.ended().is_some()
        });
        if let Some(event) = event {
            debug!(?event, "connection event");
        }
        if matches!(event, Some(Event::Ended(_))) {
            return;
        }
    }
}

fn event(state: SessionState) -> Option<Event> {
    Some(match state {
        SessionState::SyncConnected => Event::Connected,
        // A server that cannot write can grant no lock.
        SessionState::Disconnected | SessionState::ConnectedReadOnly => Event::Disconnected,
        SessionState::Expired => Event::Ended(LostReason::Expired),
        SessionState::AuthFailed | SessionState::Closed => Event::Ended(LostReason::Closed),
    })
}
