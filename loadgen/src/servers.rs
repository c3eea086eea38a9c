//! ZooKeeper's servers, asked by four-letter words over plain TCP.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::herd::{Counters, servers_of};
use crate::report::ZooKeeperServer;

/// A server answers at once or not at all.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Every server of a connect string.
#[derive(Debug, Clone)]
pub(crate) struct Servers(Vec<String>);

impl Servers {
    /// The servers named in a connect string.
    pub(crate) fn of(connect_string: &str) -> Servers {
        Servers(servers_of(connect_string))
    }

    /// The counters of each server with its address; nothing when one of them does not answer `mntr`, as with a server
    /// whose `4lw.commands.whitelist` leaves it out.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn counters(&self) -> Option<Vec<(String, Counters)>> {
        let mut all = Vec::with_capacity(self.0.len());
        for server in &self.0 {
            let counters = Counters::from_mntr(&ask(server, "mntr").await.ok()?);
            counters.get("zk_watch_count")?;
            all.push((server.clone(), counters));
        }
        (!all.is_empty()).then_some(all)
    }

    /// Every server with its part in the ensemble, where it says so.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn modes(&self) -> Vec<ZooKeeperServer> {
        let mut servers = Vec::with_capacity(self.0.len());
        for server in &self.0 {
            let answer = ask(server, "srvr").await.unwrap_or_default();
            let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned);
            servers.push(ZooKeeperServer { server: server.clone(), mode });
        }
        servers
    }

    /// The version that the first server which says so runs, such as `3.8.0`.
    ///
    /// # Cancel safety
    ///
    /// Cancelling loses nothing.
    pub(crate) async fn version(&self) -> Option<String> {
        for server in &self.0 {
            if let Some(version) = ask(server, "srvr").await.ok().as_deref().and_then(version_in) {
                return Some(version);
            }
        }
        None
    }
}

/// The version in an answer to `srvr`: `Zookeeper version: 3.8.0-5a02a05, built on …`.
fn version_in(answer: &str) -> Option<String> {
    let line = answer.lines().find_map(|line| line.strip_prefix("Zookeeper version: "))?;
    line.split(['-', ',', ' ']).next().filter(|version| !version.is_empty()).map(str::to_owned)
}

async fn ask(server: &str, word: &str) -> io::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(server).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    tokio::time::timeout(ANSWER_WITHIN, exchange).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_number_alone() {
        let answer = "Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2024-12-29 17:54 UTC\nLatency: 0\n";
        assert_eq!(version_in(answer).as_deref(), Some("3.8.0"));
        assert_eq!(version_in("Zookeeper version: 3.9.2, built on x\n").as_deref(), Some("3.9.2"));
        assert_eq!(version_in("srvr is not executed because it is not in the whitelist.\n"), None);
    }
}
