//! What the servers of a connect string do instead of giving a session. It is found out once the time for attempts is up.

use std::fmt;
use std::io::{self, ErrorKind};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::session::connection::servers::{Server, servers};

/// Upper bound of the time to resolve a name, to connect, and to wait for the end of the connection.
const STEP_WITHIN: Duration = Duration::from_secs(1);

/// The symptom of each server.
#[derive(Debug)]
pub(crate) struct Symptoms(Vec<(String, Symptom)>);

#[derive(Debug)]
enum Symptom {
    NoAddress(Option<io::Error>),
    Unreachable(io::Error),
    Silent,
    /// It closes each connection at once.
    Closes,
    /// It accepts connections.
    Accepts,
}

impl Symptoms {
    /// Looks at all servers side by side.
    pub(crate) async fn of(connect_string: &str) -> Self {
        let look = async |server: Server<'_>| (server.address.to_owned(), look(&server).await);
        Self(join_all(servers(connect_string).map(look)).await)
    }

    /// Tells whether a server closes each connection at once. A server does so that has as many connections of one address as it
    /// allows.
    pub(crate) fn has_limit(&self) -> bool {
        self.0.iter().any(|(_, symptom)| matches!(symptom, Symptom::Closes))
    }
}

async fn look(server: &Server<'_>) -> Symptom {
    let addresses: Vec<_> = match timeout(STEP_WITHIN, lookup_host((server.host, server.port))).await {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => return Symptom::NoAddress(Some(error)),
        Err(_) => return Symptom::NoAddress(None),
    };
    let mut stream = match timeout(STEP_WITHIN, TcpStream::connect(&addresses[..])).await {
        Ok(Ok(stream)) => stream,
        // It was closed before we saw that it was open.
        Ok(Err(error)) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
            return Symptom::Closes;
        }
        Ok(Err(error)) => return Symptom::Unreachable(error),
        Err(_) => return Symptom::Silent,
    };
    match timeout(STEP_WITHIN, stream.read(&mut [0])).await {
        Ok(Ok(0) | Err(_)) => Symptom::Closes,
        Ok(Ok(_)) | Err(_) => Symptom::Accepts,
    }
}

impl fmt::Display for Symptoms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (server, symptom)) in self.0.iter().enumerate() {
            let separator = if i > 0 { "; " } else { "" };
            write!(f, "{separator}{server} {symptom}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Symptom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress(Some(error)) => write!(f, "does not resolve ({error})"),
            Self::NoAddress(None) => f.write_str("does not resolve in time"),
            Self::Unreachable(error) if error.kind() == ErrorKind::ConnectionRefused => {
                f.write_str("refuses connections (is a server running there?)")
            }
            Self::Unreachable(error) => write!(f, "cannot be reached ({error})"),
            Self::Silent => f.write_str("does not answer"),
            Self::Closes => f.write_str(
                "closes each connection at once (has it as many of this address as its maxClientCnxns allows, 60 by default?)",
            ),
            Self::Accepts => f.write_str("accepts connections and gives no session (does a quorum of its ensemble run?)"),
        }
    }
}

impl std::error::Error for Symptoms {}
