//! Connecting to a server: for a new session again and again, until one answers or there is no hope; for a session that has
//! lost its connection once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tracing::debug;
use zk_recipes_protocol::liveness::{self, Margins};
use zookeeper_client::{Client, Error as ClientError, SessionInfo};

use crate::error::Error;
use crate::session::acl::Auth;
use crate::session::backoff::Backoff;
use crate::session::config::SessionConfig;
use crate::session::line::Line;
use crate::session::servers;
use crate::session::task_link::TaskLink;
use crate::session::tls::{Encryption, Tls};

const TIMEOUT_MIN: Duration = Duration::from_millis(1);
const TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// Where and how a session connects.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    connect_string: String,
    tls: Option<Encryption>,
    auth: Vec<Auth>,
    tick: Option<Duration>,
}

impl Connector {
    /// # Errors
    /// Those of settings that can never work.
    pub(crate) fn new(connect_string: &str, config: &SessionConfig) -> Result<Self, Error> {
        let tls = config.tls_settings().map(|tls| tls.encryption(connect_string)).transpose()?;
        servers::check_schemes(connect_string, tls.is_some())?;
        let (connect_string, auth) = (connect_string.to_owned(), config.auth.clone());
        Ok(Self { connect_string, tls, auth, tick: config.tick_time })
    }

    /// How long holds can be relied on by a timeout that a server has granted.
    pub(crate) fn margins(&self, session_timeout: Duration) -> Margins {
        Margins::new(session_timeout, self.tick)
    }

    /// A connect string for each server.
    pub(crate) fn servers(&self) -> Vec<String> {
        servers::one_by_one(&self.connect_string)
    }

    /// A connect string for each address of a server. A server with TLS keeps its name, which its certificate is for.
    /// `None` without an answer within the time.
    pub(crate) async fn addresses(&self, server: &str, within: Duration) -> Option<Vec<String>> {
        match self.tls {
            Some(_) => Some(vec![server.to_owned()]),
            None => tokio::time::timeout(within, servers::addresses(server)).await.ok(),
        }
    }

    /// The connect string with the addresses of all servers, as far as they are found within the time.
    async fn resolve(&self, within: Duration) -> String {
        let servers = self.servers();
        let addresses = join_all(
            servers
                .iter()
                .map(async |server| self.addresses(server, within).await.unwrap_or_else(|| vec![server.clone()])),
        );
        servers::join(&addresses.await.concat())
    }

    /// Opens a session. Tries until a server answers, an answer leaves no hope, or the time is up.
    pub(crate) async fn connect(&self, config: &SessionConfig) -> Result<Line, Error> {
        let mut last_error = ClientError::Timeout;
        let attempts = async {
            let mut backoff = Backoff::to_connect();
            // The client library takes zero for a default of its own, and milliseconds are sent as a signed 32-bit number.
            let mut timeout = config.timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
            loop {
                let servers = self.resolve(liveness::connection_timeout(timeout)).await;
                match self.open(&servers, timeout, None).await {
                    // The server grants less than was asked for. A dead connection must then be noticed sooner, for
                    // there to be time to reconnect.
                    Ok(line) if line.client.session_timeout() < timeout => {
                        timeout = line.client.session_timeout();
                        continue;
                    }
                    Ok(line) => match line.has_chroot().await {
                        Ok(true) => return self.check_timeout(line),
                        Ok(false) => return Err(self.no_chroot(&line)),
                        Err(error) => last_error = error,
                    },
                    Err(error) => match self.hopeless(&error, config.tls_settings()).await {
                        Some(error) => return Err(error),
                        None => last_error = error,
                    },
                }
                debug!(self.connect_string, error = %last_error, "could not connect, trying again");
                backoff.pause().await;
            }
        };
        match tokio::time::timeout(config.connect_within, attempts).await {
            Ok(line) => line,
            Err(_) => Err(Error::Connect {
                connect_string: self.connect_string.clone(),
                within: config.connect_within,
                source: last_error.into(),
            }),
        }
    }

    /// Opens a session that asks a server for this timeout: it has what the server grants.
    pub(crate) async fn ask(&self, server: &str, timeout: Duration) -> Result<Line, ClientError> {
        self.open(server, timeout, None).await
    }

    /// Connects a session to a server anew.
    pub(crate) async fn attach(
        &self,
        server: &str,
        timeout: Duration,
        session: SessionInfo,
    ) -> Result<Line, ClientError> {
        self.open(server, timeout, Some(session)).await
    }

    async fn open(&self, servers: &str, timeout: Duration, session: Option<SessionInfo>) -> Result<Line, ClientError> {
        let mut connector = Client::connector()
            .with_session_timeout(timeout)
            .with_connection_timeout(liveness::connection_timeout(timeout))
            .with_fail_eagerly();
        for Auth { scheme, credentials } in &self.auth {
            connector = connector.with_auth(scheme, credentials);
        }
        if let Some(session) = session {
            connector = connector.with_session(session);
        }
        let (task_link, connecting) = (Arc::new(TaskLink::default()), Instant::now());
        let client = match &self.tls {
            Some(tls) => task_link.to_task_of(tls.connect(connector, servers)).await?,
            None => task_link.to_task_of(connector.connect(servers)).await?,
        };
        task_link.begin(client.state_watcher());
        Ok(Line { client, task_link, connecting })
    }

    /// The errors of an attempt to connect that no other attempt will better.
    async fn hopeless(&self, error: &ClientError, tls: Option<&Tls>) -> Option<Error> {
        let connect_string = self.connect_string.clone();
        match error {
            ClientError::BadArguments(_) => {
                Some(Error::InvalidConnectString { connect_string, source: error.clone().into() })
            }
            ClientError::NoHosts => tls?.diagnose(&connect_string).await,
            ClientError::AuthFailed => Some(Error::CredentialsRefused { connect_string }),
            _ => None,
        }
    }

    fn no_chroot(&self, line: &Line) -> Error {
        let chroot = line.client.path().to_owned();
        Error::NoChroot { connect_string: self.connect_string.clone(), chroot }
    }

    /// Refuses a timeout that is too short for the tick, as holds would be lost between two proofs.
    fn check_timeout(&self, line: Line) -> Result<Line, Error> {
        let timeout = line.client.session_timeout();
        match self.tick {
            Some(tick) if !self.margins(timeout).are_sufficient() => Err(Error::TimeoutTooShort { timeout, tick }),
            _ => Ok(line),
        }
    }
}
