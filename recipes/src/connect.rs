//! Connecting to a server: again and again, until one answers or there is no hope.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::debug;
use zookeeper_client::{Client, Error as ClientError, TlsOptions};

use crate::acl::Auth;
use crate::error::Error;
use crate::liveness;
use crate::session::SessionConfig;
use crate::tether::Tether;
use crate::tls::{self, Tls};

/// The first pause between two attempts to connect; it doubles up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

const TIMEOUT_MIN: Duration = Duration::from_millis(1);
const TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// The client of a session that is about to start.
pub(crate) struct Line {
    pub(crate) client: Client,
    pub(crate) tether: Arc<Tether>,
    /// When its handshake was begun.
    pub(crate) connecting: Instant,
}

impl Line {
    /// Tries to connect until a server answers, an answer leaves no hope, or the time is up.
    pub(crate) async fn connect(connect_string: &str, config: &SessionConfig) -> Result<Self, Error> {
        let tls = config.tls.as_ref().map(Tls::options).transpose()?;
        tls::check_servers(connect_string, config.tls.is_some())?;
        let mut last_error = ClientError::Timeout;
        let attempts = async {
            let mut backoff = BACKOFF_MIN;
            // The client library takes zero for a default of its own, and milliseconds are sent as a signed 32-bit number.
            let mut timeout = config.timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
            loop {
                match Self::open(connect_string, timeout, config, tls.as_ref()).await {
                    // The server grants less than was asked for. A dead connection must then be noticed sooner, for
                    // there to be time to reconnect.
                    Ok(line) if line.client.session_timeout() < timeout => {
                        timeout = line.client.session_timeout();
                        continue;
                    }
                    Ok(line) => match line.has_chroot().await {
                        Ok(true) => return Ok(line),
                        Ok(false) => return Err(no_chroot(connect_string, &line)),
                        Err(error) => last_error = error,
                    },
                    Err(error) => match hopeless(connect_string, &error, config.tls.as_ref()).await {
                        Some(error) => return Err(error),
                        None => last_error = error,
                    },
                }
                debug!(connect_string, error = %last_error, "could not connect, trying again");
                tokio::time::sleep(backoff).await;
                backoff = (backoff * 2).min(BACKOFF_MAX);
            }
        };
        match tokio::time::timeout(config.connect_within, attempts).await {
            Ok(line) => line,
            Err(_) => Err(Error::Connect {
                connect_string: connect_string.to_owned(),
                within: config.connect_within,
                cause: last_error.into(),
            }),
        }
    }

    async fn open(
        connect_string: &str,
        timeout: Duration,
        config: &SessionConfig,
        tls: Option<&TlsOptions>,
    ) -> Result<Self, ClientError> {
        let mut connector = Client::connector()
            .with_session_timeout(timeout)
            .with_connection_timeout(liveness::connection_timeout(timeout))
            .with_fail_eagerly();
        for Auth { scheme, credentials } in &config.auth {
            connector = connector.with_auth(scheme, credentials);
        }
        let (tether, connecting) = (Arc::new(Tether::default()), Instant::now());
        let client = match tls {
            Some(tls) => tether.to_task_of(connector.with_tls(tls.clone()).secure_connect(connect_string)).await?,
            None => tether.to_task_of(connector.connect(connect_string)).await?,
        };
        Ok(Self { client, tether, connecting })
    }

    /// Whether the chroot exists. One request, if there is a chroot and all is well.
    async fn has_chroot(&self) -> Result<bool, ClientError> {
        if self.client.path() == "/" || self.client.check_stat("/").await?.is_some() {
            return Ok(true);
        }
        // The server may lag behind the one that has just created it.
        self.client.sync("/").await?;
        Ok(self.client.check_stat("/").await?.is_some())
    }
}

/// The errors of an attempt to connect that no other attempt will better.
async fn hopeless(connect_string: &str, error: &ClientError, tls: Option<&Tls>) -> Option<Error> {
    let connect_string = connect_string.to_owned();
    match error {
        ClientError::BadArguments(_) => {
            Some(Error::InvalidConnectString { connect_string, cause: error.clone().into() })
        }
        ClientError::NoHosts => tls?.diagnose(&connect_string).await,
        ClientError::AuthFailed => Some(Error::CredentialsRefused { connect_string }),
        _ => None,
    }
}

fn no_chroot(connect_string: &str, line: &Line) -> Error {
    Error::NoChroot { connect_string: connect_string.to_owned(), chroot: line.client.path().to_owned() }
}
