//! A throwaway ZooKeeper ensemble.

mod links;

use std::ops::RangeInclusive;
use std::time::Duration;

pub use self::links::LinkFault;
use self::links::Links;
use crate::Error;
use crate::port::{Port, on_free_ports};
use crate::zookeeper::ZooKeeperConfig;
use crate::zookeeper::configuration::{Installation, Membership, Peer, ServerSettings};
use crate::zookeeper::server::{Ports, Server};

/// Enough for tests of faults, also with several servers on a small machine.
const HEAP_MAX_MIB: u32 = 192;
/// Far more servers than one machine can use.
const SERVERS_MAX: usize = 9;

/// Settings of a throwaway ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnsembleConfig {
    /// Number of servers, from one to nine. More than half of them must run for requests to be served.
    pub servers: usize,
    /// The servers' unit of time, in whole milliseconds, as in [`ZooKeeperConfig::tick_time`]. A leader and its followers that
    /// hear nothing of each other part after five ticks. So with a short tick, followers soon miss a frozen leader. They miss a
    /// stopped one at once.
    pub tick_time: Duration,
    /// Pause of the leader between two searches for empty containers, as in
    /// [`ZooKeeperConfig::container_check_interval`].
    pub container_check_interval: Duration,
    /// The shortest and the longest session timeout that the servers grant, as in [`ZooKeeperConfig::session_timeouts`].
    pub session_timeouts: Option<RangeInclusive<Duration>>,
    /// Whether the servers reach each other through proxies, so that the links between them can fail, as by
    /// [`Ensemble::isolate`].
    pub links: bool,
    /// Whether each server has a wall clock of its own, for [`Ensemble::step_clock`], if this machine has libfaketime.
    pub clocks: bool,
}

impl Default for EnsembleConfig {
    fn default() -> Self {
        let ZooKeeperConfig { tick_time, container_check_interval, session_timeouts, .. } = ZooKeeperConfig::default();
        Self { servers: 3, tick_time, container_check_interval, session_timeouts, links: false, clocks: false }
    }
}

/// ZooKeeper servers that replicate each other, each with free ports of 127.0.0.1 and a temporary folder of its own.
///
/// Servers are numbered from zero. Each is like a [`ZooKeeper`](crate::ZooKeeper) in all but its heap, which is smaller, and
/// can be stopped, started and frozen. Dropping the value stops all of them and removes their data; that blocks, usually for
/// less than a second.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), testbed::Error> {
/// use testbed::{Ensemble, EnsembleConfig};
///
/// let mut ensemble = Ensemble::start(EnsembleConfig::default()).await?;
/// println!("{}", ensemble.connect_string());
/// if let Some(leader) = ensemble.leader().await {
///     ensemble.stop_server(leader).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Server>,
    links: Option<Links>,
}

impl Ensemble {
    /// Starts an ensemble. All of its servers serve requests when this returns, one of them as the leader.
    ///
    /// # Errors
    ///
    /// Those of [`ZooKeeper::start`](crate::ZooKeeper::start); [`Error::Setting`] also for a number of servers that is not
    /// between one and nine.
    ///
    /// # Cancel safety
    ///
    /// The servers that were starting are stopped, and their folders removed.
    pub async fn start(config: EnsembleConfig) -> Result<Self, Error> {
        let EnsembleConfig { servers, tick_time, container_check_interval, session_timeouts, links, clocks } = config;
        if !(1..=SERVERS_MAX).contains(&servers) {
            return Err(Error::Setting(format!(
                "{servers} servers of an ensemble are not between 1 and {SERVERS_MAX}"
            )));
        }
        let settings = ServerSettings::new(tick_time, container_check_interval, HEAP_MAX_MIB)?;
        let settings = settings.with_session_timeouts(session_timeouts.as_ref())?;
        let installation = Installation::find()?;
        on_free_ports(async || {
            let mut ensemble = Self::create(servers, links, &installation, &settings).await?;
            // A server serves only once there is a quorum, so all are launched before one is waited for.
            for server in &mut ensemble.servers {
                if clocks {
                    server.own_clock()?;
                }
                server.launch().await?;
            }
            ensemble.until_serving().await?;
            Ok(ensemble)
        })
        .await
    }

    async fn create(
        servers: usize,
        with_links: bool,
        installation: &Installation,
        settings: &ServerSettings,
    ) -> Result<Self, Error> {
        let reserve = || Ok((Port::reserve()?, [Port::reserve()?, Port::reserve()?]));
        let ports = (0..servers).map(|_| reserve()).collect::<Result<Vec<_>, Error>>()?;
        let peers: Vec<Peer> = ports
            .iter()
            .map(|(_, [quorum, election])| Peer { quorum_port: quorum.number(), election_port: election.number() })
            .collect();
        let links = if with_links { Some(Links::start(peers.clone()).await?) } else { None };
        let servers = ports.into_iter().enumerate().map(|(index, (client, peer_ports))| {
            let ports = Ports { client, secure: None, peers: Some(peer_ports) };
            let proxy_port = links.as_ref().map(|links| links.port(index));
            let membership = Some(Membership { index, peers: peers.clone(), proxy_port });
            Server::create(format!("zookeeper server {index}"), installation, settings.clone(), ports, membership)
        });
        Ok(Self { servers: servers.collect::<Result<_, _>>()?, links })
    }

    /// Returns the connect string of all servers: `127.0.0.1:PORT,127.0.0.1:PORT,…`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.connect_strings().join(",")
    }

    /// Returns the connect string of each server, in the order of their numbers: for clients of one server, or for proxies.
    #[must_use]
    pub fn connect_strings(&self) -> Vec<String> {
        self.servers.iter().map(Server::address).collect()
    }

    /// Returns the number of the leader. `None` while there is none, as during an election, or while it is frozen.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn leader(&self) -> Option<usize> {
        let mut leaders = Vec::new();
        for (index, server) in self.servers.iter().enumerate().filter(|(_, server)| server.is_up()) {
            // A server that does not answer counts as stopped.
            let zxid = server.ask("srvr").await.ok().and_then(|answer| leader_zxid(&answer));
            leaders.extend(zxid.map(|zxid| (zxid, index)));
        }
        // The higher half of a zxid counts the leaders. A leader that was frozen may not know yet of its successor.
        leaders.into_iter().max().map(|(_, index)| index)
    }

    /// Stops a server and keeps its data and its ports, where connections are refused from now on. A server that is stopped
    /// already stays so.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] when there is no such server; [`Error::System`] when the operating system does not tell how the
    /// server ended, or does not give back its ports.
    ///
    /// # Cancel safety
    ///
    /// The server stops all the same; this or [`start_server`](Self::start_server) then waits for it.
    pub async fn stop_server(&mut self, index: usize) -> Result<(), Error> {
        self.server_mut(index)?.stop().await
    }

    /// Kills a server (`SIGKILL`) and keeps its data and its ports, as [`stop_server`](Self::stop_server) does.
    ///
    /// # Errors
    ///
    /// As for [`stop_server`](Self::stop_server).
    ///
    /// # Cancel safety
    ///
    /// As for [`stop_server`](Self::stop_server).
    pub async fn kill_server(&mut self, index: usize) -> Result<(), Error> {
        self.server_mut(index)?.kill().await
    }

    /// Launches a server again on the same ports with the same data, without waiting until it serves; one that still runs is stopped
    /// first.
    ///
    /// # Errors
    ///
    /// As for [`start_server`](Self::start_server), but for the wait.
    ///
    /// # Cancel safety
    ///
    /// The server may run or not.
    pub async fn launch_server(&mut self, index: usize) -> Result<(), Error> {
        self.server_mut(index)?.launch().await
    }

    /// Lets frozen servers go on, heals all links, and launches the servers that are down, without waiting until they serve.
    ///
    /// # Errors
    ///
    /// As for [`launch_server`](Self::launch_server).
    ///
    /// # Cancel safety
    ///
    /// Servers may be down or frozen still.
    pub async fn revive(&mut self) -> Result<(), Error> {
        for server in &mut self.servers {
            if server.pid().is_some() { server.resume()? } else { server.launch().await? }
        }
        (0..self.servers.len()).filter(|_| self.links.is_some()).try_for_each(|index| self.heal(index))
    }

    /// Returns how many servers it has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.servers.len()
    }

    /// Waits until each server serves. All of them run, and none is frozen.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] and [`Error::NotReady`] when a server does not serve.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn until_serving(&mut self) -> Result<(), Error> {
        for server in &mut self.servers {
            server.until_serving().await?;
        }
        Ok(())
    }

    /// Starts a server again on the same ports with the same data; one that still runs is stopped first.
    ///
    /// When this returns, it serves requests; or, while too few servers run for a quorum, it waits for more.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] when there is no such server; [`Error::Ended`], [`Error::NotReady`] and [`Error::System`] as for
    /// [`ZooKeeper::start`](crate::ZooKeeper::start). It may be tried again.
    ///
    /// # Cancel safety
    ///
    /// The server goes on starting, or stays stopped; another call starts it afresh.
    pub async fn start_server(&mut self, index: usize) -> Result<(), Error> {
        self.server_mut(index)?.launch().await?;
        let up = self.servers.iter().filter(|server| server.is_up()).count();
        let is_quorum = up > self.servers.len() / 2;
        let server = self.server_mut(index)?;
        if is_quorum { server.until_serving().await } else { server.until_answering().await }
    }

    /// Sets the shortest and the longest session timeout that a server grants to its own clients from its next start on.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] when there is no such server, and for limits that [`start`](Self::start) refuses too;
    /// [`Error::System`] when the operating system refuses to write the server's configuration.
    pub fn set_session_timeouts(&mut self, index: usize, limits: RangeInclusive<Duration>) -> Result<(), Error> {
        self.server_mut(index)?.set_session_timeouts(&limits)
    }

    /// Freezes a server (`SIGSTOP`): connections stay open, nothing is answered and no time passes for it. Blocks
    /// for the moment that it takes.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] when there is no such server, [`Error::System`] when it is gone.
    pub fn pause(&self, index: usize) -> Result<(), Error> {
        self.server(index)?.pause()
    }

    /// Lets a frozen server go on.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] when there is no such server, [`Error::System`] when it is gone.
    pub fn resume(&self, index: usize) -> Result<(), Error> {
        self.server(index)?.resume()
    }

    /// Lets the disk of a server take nothing more: every write to a file fails until the server is launched again. Linux only. It ends
    /// by itself as soon as it has something to write.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] when there is no such server, [`Error::System`] on other systems.
    pub fn fill_disk(&self, index: usize) -> Result<(), Error> {
        self.server(index)?.fill_disk()
    }

    /// Sets by how many seconds the wall clock of a server is ahead of the machine's, or behind it. The server follows within a second. Its
    /// monotonic clock stays as it is. The ensemble was started with [`EnsembleConfig::clocks`].
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] when there is no such server, or none with a clock of its own; [`Error::NotInstalled`] without libfaketime;
    /// [`Error::System`] when a file cannot be written.
    pub fn step_clock(&self, index: usize, ahead: i64) -> Result<(), Error> {
        self.server(index)?.step_clock(ahead)
    }

    /// Returns one counter of one server, by the name that `mntr` gives it. One that is not listed yet is zero.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] when there is no such server, [`Error::System`] when it does not answer within five seconds.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn metric(&self, index: usize, name: &str) -> Result<u64, Error> {
        self.server(index)?.metric(name).await
    }

    fn server(&self, index: usize) -> Result<&Server, Error> {
        self.servers.get(index).ok_or_else(|| no_such_server(index, self.servers.len()))
    }

    fn server_mut(&mut self, index: usize) -> Result<&mut Server, Error> {
        let servers = self.servers.len();
        self.servers.get_mut(index).ok_or_else(|| no_such_server(index, servers))
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        // All of them stop at once. Each drop then waits for one.
        self.servers.iter().for_each(Server::request_stop);
    }
}

fn no_such_server(index: usize, servers: usize) -> Error {
    Error::Setting(format!("there is no server {index} in an ensemble of {servers}, whose first is server 0"))
}

/// Returns the last zxid of a server that leads, from its answer to `srvr`.
fn leader_zxid(answer: &str) -> Option<u64> {
    let value = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let zxid = value("Zxid")?.trim().strip_prefix("0x")?;
    (value("Mode")?.trim() == "leader").then(|| u64::from_str_radix(zxid, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_leader_has_the_zxid_of_a_leader() {
        let srvr = |mode: &str| format!("Zookeeper version: 3.8.0\nZxid: 0x20000000a\nMode: {mode}\nNode count: 5\n");
        assert_eq!(leader_zxid(&srvr("leader")), Some(0x2_0000_000a));
        assert_eq!(leader_zxid(&srvr("follower")), None);
        assert_eq!(leader_zxid("This ZooKeeper instance is not currently serving requests\n"), None);
        assert_eq!(leader_zxid(""), None);
    }
}
