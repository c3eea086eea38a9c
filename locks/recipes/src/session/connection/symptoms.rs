//! What the servers of a connect string do instead of giving a session.
//!
//! The client library reports only that it reached no server. So each server is looked at once more.

use std::fmt;
use std::io::{self, ErrorKind};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use zookeeper_client::Error as ClientError;

use crate::session::connection::servers::{Server, servers};
use crate::session::connection::tls::Tls;

/// The steps of a look: it resolves the name, connects, waits for the end of the connection, and asks the server.
const STEPS: u32 = 4;
/// The command that a server answers by default, whether it serves requests or not.
const COMMAND: &[u8] = b"srvr";
/// Upper bound of the bytes of an answer that are shown.
const ANSWER_MAX: usize = 80;

/// The symptom of each server.
#[derive(Debug)]
pub(crate) struct Symptoms {
    servers: Vec<(String, Symptom)>,
    /// Why the last attempt failed.
    last: Option<ClientError>,
}

#[derive(Debug)]
enum Symptom {
    NoAddress(Option<io::Error>),
    Unreachable(io::Error),
    Silent,
    /// It closes each connection at once.
    Closes,
    /// It accepts connections.
    Accepts(Greeting),
}

/// What a server says that accepts connections.
#[derive(Debug)]
enum Greeting {
    /// It shook hands, as the session speaks TLS.
    Encrypted,
    /// The first line, without TLS.
    Line(String),
    Failed(io::Error),
    Nothing,
}

impl Symptoms {
    /// Looks at all servers side by side. Takes at most `within`.
    pub(crate) async fn of(connect_string: &str, tls: Option<&Tls>, within: Duration) -> Self {
        let look = async |server: Server<'_>| (server.address.to_owned(), look(&server, tls, within / STEPS).await);
        Self { servers: join_all(servers(connect_string).map(look)).await, last: None }
    }

    /// Adds the error of the last attempt, unless it only says that no server gave a session.
    pub(crate) fn after(self, last: Option<ClientError>) -> Self {
        Self { last: last.filter(|error| !matches!(error, ClientError::NoHosts | ClientError::Timeout)), ..self }
    }

    /// Tells whether a server closes each connection at once. A server does so that has as many connections of one address as it
    /// allows.
    pub(crate) fn has_limit(&self) -> bool {
        self.servers.iter().any(|(_, symptom)| matches!(symptom, Symptom::Closes))
    }
}

/// Looks at a server. Each step takes at most `step`.
async fn look(server: &Server<'_>, tls: Option<&Tls>, step: Duration) -> Symptom {
    let addresses: Vec<_> = match timeout(step, lookup_host((server.host, server.port))).await {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => return Symptom::NoAddress(Some(error)),
        Err(_) => return Symptom::NoAddress(None),
    };
    let stream = match timeout(step, TcpStream::connect(&addresses[..])).await {
        Ok(Ok(stream)) => stream,
        // It was closed before we saw that it was open.
        Ok(Err(error)) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
            return Symptom::Closes;
        }
        Ok(Err(error)) => return Symptom::Unreachable(error),
        Err(_) => return Symptom::Silent,
    };
    if let Ok(Ok(0) | Err(_)) = timeout(step, stream.peek(&mut [0])).await {
        return Symptom::Closes;
    }
    let answer = match tls {
        Some(tls) => timeout(step, tls.greet(server)).await.map(|greeted| greeted.map(|()| Greeting::Encrypted)),
        None => timeout(step, ask(stream)).await.map(|line| line.map(Greeting::Line)),
    };
    Symptom::Accepts(answer.map_or(Greeting::Nothing, |answer| answer.unwrap_or_else(Greeting::Failed)))
}

/// Returns the first line of the answer to [`COMMAND`].
async fn ask(mut stream: TcpStream) -> io::Result<String> {
    stream.write_all(COMMAND).await?;
    let mut answer = [0; ANSWER_MAX];
    let length = stream.read(&mut answer).await?;
    let text = String::from_utf8_lossy(&answer[..length]);
    match text.lines().next() {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::Error::new(ErrorKind::UnexpectedEof, "it closes a connection that asks for its state")),
    }
}

impl fmt::Display for Symptoms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (server, symptom)) in self.servers.iter().enumerate() {
            let separator = if i > 0 { "; " } else { "" };
            write!(f, "{separator}{server} {symptom}")?;
        }
        self.last.iter().try_for_each(|error| write!(f, "; the last attempt failed: {error}"))
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
                "closes each connection at once (is its maxClientCnxns reached? The default is 60 connections of one address.)",
            ),
            Self::Accepts(answer) => write!(f, "accepts connections and gives no session ({answer})"),
        }
    }
}

impl fmt::Display for Greeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) if line.contains("not currently serving requests") => {
                f.write_str("does a quorum of its ensemble run?")
            }
            Self::Encrypted => f.write_str("it speaks TLS; what does its log say?"),
            // The second is the answer of a server that does not allow the command.
            Self::Line(line) if line.starts_with("Zookeeper version") || line.contains("not in the whitelist") => {
                f.write_str("it is a ZooKeeper server; what does its log say?")
            }
            // The first byte of a TLS alert.
            Self::Line(line) if line.starts_with('\u{15}') => f.write_str("it speaks TLS, and the session does not"),
            Self::Line(line) => write!(f, "is it a ZooKeeper server? It says {line:?}"),
            Self::Failed(error) => {
                write!(f, "{error}; is it a ZooKeeper server, and does it speak TLS as the session does?")
            }
            Self::Nothing => f.write_str("it says nothing: is it overloaded, or no ZooKeeper server?"),
        }
    }
}

impl std::error::Error for Symptoms {}

#[cfg(test)]
mod tests {
    use super::*;

    // L50
    #[test]
    fn the_last_error_is_told_if_it_says_more() {
        let told = |last| {
            let servers = vec![("zoo.example".to_owned(), Symptom::Silent)];
            Symptoms { servers, last: None }.after(last).to_string()
        };
        for tells_nothing in [None, Some(ClientError::NoHosts), Some(ClientError::Timeout)] {
            assert_eq!(told(tells_nothing), "zoo.example does not answer");
        }
        let throttled = told(Some(ClientError::Throttled));
        assert!(throttled.contains("the last attempt failed: request was throttled"), "{throttled}");
    }
}
