//! ZooKeeper's servers, asked by four-letter words over plain TCP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use testbed::{Counters, four_letter_word, zookeeper_version};

/// The node above all nodes of the service.
pub(crate) const LOCKS: &str = "/seckill";
/// The node in which the service keeps the identity of its ZooKeeper ensemble.
pub(crate) const IDENTITY: &str = "/seckill/ensemble";

/// A ZooKeeper server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ZooKeeperServer {
    /// Its address.
    pub(crate) server: String,
    /// `standalone`, `leader`, `follower` or `observer`; absent when it does not say.
    pub(crate) mode: Option<String>,
}

/// Every server of a connect string.
#[derive(Debug, Clone)]
pub(crate) struct Servers(Vec<String>);

impl Servers {
    /// Takes the servers that a connect string names.
    pub(crate) fn of(connect_string: &str) -> Servers {
        Servers(servers_of(connect_string))
    }

    /// Reads the counters of each server with its address. `None` if one of them does not answer `mntr`, for example because
    /// its `4lw.commands.whitelist` lacks it.
    pub(crate) async fn counters(&self) -> Option<Vec<(String, Counters)>> {
        let mut all = Vec::with_capacity(self.0.len());
        for server in &self.0 {
            // A server that does not allow `mntr` answers with a sentence, and not with an error.
            let counters = Counters::from_mntr(&four_letter_word(server, "mntr").await.ok()?);
            counters.get("zk_watch_count")?;
            all.push((server.clone(), counters));
        }
        (!all.is_empty()).then_some(all)
    }

    /// Asks every server for its role in the ensemble.
    pub(crate) async fn modes(&self) -> Vec<ZooKeeperServer> {
        let mut servers = Vec::with_capacity(self.0.len());
        for server in &self.0 {
            let answer = four_letter_word(server, "srvr").await.unwrap_or_default();
            let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned);
            servers.push(ZooKeeperServer { server: server.clone(), mode });
        }
        servers
    }

    /// Returns the version of the first server that tells it, such as `3.8.0`.
    pub(crate) async fn version(&self) -> Option<String> {
        for server in &self.0 {
            let version = zookeeper_version(server).await;
            if version.is_some() {
                return version;
            }
        }
        None
    }
}

/// Returns the `host:port` of every server of a connect string, without its chroot.
fn servers_of(connect_string: &str) -> Vec<String> {
    let hosts = connect_string.split('/').next().unwrap_or_default();
    let with_port = |host: &str| match host.rsplit_once(':') {
        Some((_, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host.to_owned(),
        _ => format!("{host}:2181"),
    };
    hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).map(with_port).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_of_a_connect_string_have_ports_and_no_chroot() {
        assert_eq!(servers_of("127.0.0.1:2181"), ["127.0.0.1:2181"]);
        assert_eq!(servers_of("a:1,b:2,[::1]:3/seckill/x"), ["a:1", "b:2", "[::1]:3"]);
        assert_eq!(servers_of("a, b/x"), ["a:2181", "b:2181"]);
    }
}
