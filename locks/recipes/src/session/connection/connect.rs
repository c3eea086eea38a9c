//! Connections to servers. `connect` opens a new session, and repeats its attempts. `attach` connects an existing session, in one
//! attempt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use tracing::debug;
use zk_recipes_protocol::liveness::{self, LostReason, Margins};
use zookeeper_client::{Client, Error as ClientError, SessionInfo};

use crate::error::Error;
use crate::session::acl::Auth;
use crate::session::backoff::Backoff;
use crate::session::connection::config::SessionConfig;
use crate::session::connection::established::Connection;
use crate::session::connection::servers;
use crate::session::connection::symptoms::Symptoms;
use crate::session::connection::task_link::TaskLink;
use crate::session::connection::tls::{Encryption, Tls};
use crate::session::connection::watched::WatchKinds;

/// The end of the time to connect in which the servers are looked at, beside the last attempts.
const LOOK_WITHIN: Duration = Duration::from_secs(3);

const TIMEOUT_MIN: Duration = Duration::from_millis(1);
const TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// The servers of a session, and the settings of its connections.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    connect_string: String,
    tls: Option<Encryption>,
    auth: Vec<Auth>,
    tick: Option<Duration>,
}

impl Connector {
    /// Returns a connector.
    pub(crate) fn new(connect_string: &str, config: &SessionConfig) -> Result<Self, Error> {
        let tls = config.tls_settings().map(|tls| tls.encryption(connect_string)).transpose()?;
        servers::check_schemes(connect_string, tls.is_some())?;
        let connect_string = connect_string.to_owned();
        let auth = config.auth.clone();
        Ok(Self { connect_string, tls, auth, tick: config.tick_time })
    }

    /// Returns the margins of a session timeout that a server granted.
    pub(crate) fn margins(&self, session_timeout: Duration) -> Margins {
        Margins::new(session_timeout, self.tick)
    }

    /// Returns why a session ends that a server does not authenticate.
    pub(crate) fn unauthenticated(&self) -> LostReason {
        if self.auth.is_empty() { LostReason::CredentialsMissing } else { LostReason::CredentialsRefused }
    }

    /// Returns a connect string for each server.
    pub(crate) fn servers(&self) -> Vec<String> {
        servers::one_by_one(&self.connect_string)
    }

    /// Returns a connect string for each address of a server. With TLS, the server keeps its name, because its certificate names
    /// it. `None` if the name was not resolved in time.
    pub(crate) async fn addresses(&self, server: &str, within: Duration) -> Option<Vec<String>> {
        match self.tls {
            Some(_) => Some(vec![server.to_owned()]),
            None => tokio::time::timeout(within, servers::addresses(server)).await.ok(),
        }
    }

    /// Returns the connect string with the addresses of all servers. A server that is not resolved in time keeps its name.
    async fn resolve(&self, within: Duration) -> String {
        let servers = self.servers();
        let addresses = join_all(
            servers
                .iter()
                .map(async |server| self.addresses(server, within).await.unwrap_or_else(|| vec![server.clone()])),
        );
        servers::join(&addresses.await.concat())
    }

    /// Opens a session. Repeats its attempts until one succeeds, an answer shows that none can, or the time is up.
    pub(crate) async fn connect(&self, config: &SessionConfig) -> Result<Connection, Error> {
        let within = config.connect_within;
        let look_within = LOOK_WITHIN.min(within);
        let look = || Symptoms::of(&self.connect_string, config.tls_settings(), look_within);
        let looked = async {
            tokio::time::sleep(within - look_within).await;
            look().await
        };
        let time_is_up = join(looked, tokio::time::sleep(within));
        let mut last_error = None;
        let (symptoms, within) = tokio::select! {
            biased;
            // An attempt that succeeds as the time ends still counts.
            opened = self.attempts(config, &mut last_error) => match opened {
                Some(opened) => return opened,
                None => (look().await, names_within(within)),
            },
            (symptoms, ()) = time_is_up => (symptoms, within),
        };
        let symptoms = symptoms.after(last_error);
        debug!(self.connect_string, %symptoms, "could not connect in time");
        Err(Error::Connect {
            connect_string: self.connect_string.clone(),
            within,
            is_limited: symptoms.has_limit(),
            source: symptoms.into(),
        })
    }

    /// Repeats attempts to open a session until one succeeds, or an answer shows that none can. Returns `None` if no name has resolved
    /// for [`names_within`]. A name that has resolved once is waited for, whatever becomes of it.
    async fn attempts(
        &self,
        config: &SessionConfig,
        last_error: &mut Option<ClientError>,
    ) -> Option<Result<Connection, Error>> {
        let begun = Instant::now();
        let mut has_resolved = false;
        // For the client library, zero stands for its default. The protocol sends milliseconds as a signed 32-bit number.
        let mut timeout = config.timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
        let mut backoff = Backoff::to_connect(timeout);
        loop {
            let servers = self.resolve(liveness::connection_timeout(timeout)).await;
            let error = match self.open(&servers, timeout, None).await {
                // The server granted a shorter timeout. A dead connection must then be noticed sooner, so that there is
                // time to reconnect. So the session is opened again, with this timeout.
                Ok(connection) if connection.client.session_timeout() < timeout => {
                    timeout = connection.client.session_timeout();
                    continue;
                }
                Ok(connection) => match connection.has_chroot().await {
                    Ok(true) => return Some(self.check_timeout(connection)),
                    Ok(false) => return Some(Err(self.no_chroot(&connection))),
                    Err(error) => error,
                },
                Err(error) => match self.hopeless(&error, config.tls_settings()).await {
                    Some(error) => return Some(Err(error)),
                    None => error,
                },
            };
            has_resolved = has_resolved || servers::any_resolves(&self.connect_string).await;
            if !has_resolved && begun.elapsed() >= names_within(config.connect_within) {
                return None;
            }
            debug!(self.connect_string, %error, "could not connect, trying again");
            *last_error = Some(error);
            backoff.pause().await;
        }
    }

    /// Opens a new session that asks one server for this timeout. The session has the timeout that the server grants.
    pub(crate) async fn ask(&self, server: &str, timeout: Duration) -> Result<Connection, ClientError> {
        self.open(server, timeout, None).await
    }

    /// Connects an existing session to one server.
    pub(crate) async fn attach(
        &self,
        server: &str,
        timeout: Duration,
        session: SessionInfo,
    ) -> Result<Connection, ClientError> {
        self.open(server, timeout, Some(session)).await
    }

    async fn open(
        &self,
        servers: &str,
        timeout: Duration,
        session: Option<SessionInfo>,
    ) -> Result<Connection, ClientError> {
        let mut connector = Client::connector()
            .with_session_timeout(timeout)
            .with_connection_timeout(liveness::connection_timeout(timeout))
            // Otherwise the library would repeat an attempt for up to the session timeout. The callers repeat it, with
            // pauses, and resolve the names anew.
            .with_fail_eagerly();
        for Auth { scheme, credentials } in &self.auth {
            connector = connector.with_auth(scheme, credentials);
        }
        if let Some(session) = session {
            connector = connector.with_session(session);
        }
        let task_link = Arc::new(TaskLink::default());
        // Before the handshake is sent, because the session counts as proved from this time on.
        let connecting = Instant::now();
        let client = match &self.tls {
            Some(tls) => task_link.to_task_of(tls.connect(connector, servers)).await?,
            None => task_link.to_task_of(connector.connect(servers)).await?,
        };
        task_link.begin(client.state_watcher());
        Ok(Connection { client, task_link, connecting, watched: WatchKinds::default() })
    }

    /// Returns the error for the caller if another attempt to connect cannot succeed either. `None` if it can.
    async fn hopeless(&self, error: &ClientError, tls: Option<&Tls>) -> Option<Error> {
        let connect_string = self.connect_string.clone();
        match error {
            ClientError::BadArguments(_) => {
                Some(Error::InvalidConnectString { connect_string, source: error.clone().into() })
            }
            ClientError::NoHosts => tls?.diagnose(&connect_string).await,
            ClientError::AuthFailed if self.auth.is_empty() => Some(Error::CredentialsMissing { connect_string }),
            ClientError::AuthFailed => Some(Error::CredentialsRefused { connect_string }),
            _ => None,
        }
    }

    fn no_chroot(&self, connection: &Connection) -> Error {
        let chroot = connection.client.path().to_owned();
        Error::NoChroot { connect_string: self.connect_string.clone(), chroot }
    }

    /// Rejects a timeout that is too short for the given tick, because holds would be lost between two proofs.
    fn check_timeout(&self, connection: Connection) -> Result<Connection, Error> {
        let timeout = connection.client.session_timeout();
        match self.tick {
            Some(tick) if !self.margins(timeout).are_sufficient() => Err(Error::TimeoutTooShort { timeout, tick }),
            _ => Ok(connection),
        }
    }
}

/// Returns how long it may take until the first name resolves: a quarter of the time to connect. The name of a container resolves once
/// the container has started, and a misspelt name never does.
fn names_within(connect_within: Duration) -> Duration {
    connect_within / 4
}
