//! A throwaway ZooKeeper.

mod child_number;
pub(crate) mod configuration;
mod properties;
pub(crate) mod server;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use self::configuration::{Installation, ServerSettings, Stores};
use self::server::{Ports, Server};
use crate::port::{Port, on_free_ports};
use crate::{Counters, Error, Identity};

/// Enough for the nodes and sessions of every run.
const HEAP_MAX_MIB: u32 = 1024;

/// Settings of a throwaway ZooKeeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZooKeeperConfig {
    /// The server's unit of time, in whole milliseconds. Sessions time out after two ticks at the least, and the server
    /// looks for expired ones once per tick. So a short tick makes a test of expiry short.
    pub tick_time: Duration,
    /// Pause between two searches for empty containers to delete, in whole milliseconds. The default is an hour, so
    /// that the nodes of idle locks stay there during a test or a measurement; the server's own default is a minute. A
    /// short interval makes a test of their removal short.
    pub container_check_interval: Duration,
    /// The shortest and the longest session timeout that the server grants, in whole milliseconds. Without them it grants from
    /// two ticks to ten minutes, or to 20 ticks if that is longer.
    pub session_timeouts: Option<RangeInclusive<Duration>>,
    /// The most connections of one host. Without it, there is no limit.
    pub connections_max: Option<u32>,
    /// Java properties of the server, as `zookeeper.enforceQuota=true`.
    pub properties: &'static [&'static str],
    /// The settings for TLS, which has a port of its own. Without them, the server speaks no TLS.
    pub tls: Option<ZooKeeperTls>,
}

/// The TLS settings of a ZooKeeper server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZooKeeperTls {
    /// The certificate of the server.
    pub identity: Identity,
    /// The certificate of the authority of the clients, as a PEM file. A client without a certificate of it is refused.
    pub client_authority: PathBuf,
}

impl ZooKeeperConfig {
    /// The properties of a server that throttles. It carries out one request at a time, looks every 5 ms whether the next one may
    /// be carried out, and refuses a request that has waited for longer than 1 ms.
    pub const THROTTLING: &[&str] = &[
        "zookeeper.request_throttle_max_requests=1",
        "zookeeper.request_throttle_stall_time=5",
        "zookeeper.throttled_op_wait_time=1",
    ];
}

impl Default for ZooKeeperConfig {
    fn default() -> Self {
        Self {
            tick_time: Duration::from_secs(2),
            container_check_interval: Duration::from_hours(1),
            session_timeouts: None,
            connections_max: None,
            properties: &[],
            tls: None,
        }
    }
}

/// A standalone ZooKeeper server of its own, on a free port of 127.0.0.1, with its data in a temporary folder.
///
/// Writes are durable, as by default, and it takes any number of connections. The four-letter words `conf`, `mntr`, `ruok` and
/// `srvr` are open, the admin server is off. Run as root, it is started under the account `zookeeper` or `nobody`. Dropping it
/// stops it and removes its data; that blocks, usually for less than a second.
///
/// # Examples
///
/// A server that goes away and comes back, as its clients see it:
///
/// ```no_run
/// # async fn example() -> Result<(), testbed::Error> {
/// use testbed::{ZooKeeper, ZooKeeperConfig};
///
/// let mut zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await?;
/// zookeeper.stop().await?;
/// // The clients find out that they are not connected.
/// zookeeper.start_again().await?;
/// // They come back to the same address, sessions and nodes.
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ZooKeeper {
    server: Server,
}

impl ZooKeeper {
    /// Starts a server. It serves requests when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::NotInstalled`] without ZooKeeper or Java on this machine; [`Error::Setting`] for a duration below a
    /// millisecond or beyond `i32::MAX` of them, and for a shortest session timeout above the longest one;
    /// [`Error::Ended`], with the end of its log, when the server gives up; [`Error::NotReady`] when it does not answer
    /// within a minute; [`Error::System`] when the operating system refuses a process, a port or a folder.
    ///
    /// # Cancel safety
    ///
    /// A server that was starting is stopped, and its folder removed.
    pub async fn start(config: ZooKeeperConfig) -> Result<Self, Error> {
        let settings = ServerSettings::new(config.tick_time, config.container_check_interval, HEAP_MAX_MIB)?;
        let settings = settings
            .with_session_timeouts(config.session_timeouts.as_ref())?
            .with_connections_max(config.connections_max)
            .with_properties(config.properties)
            .with_stores(config.tls.as_ref().map(Stores::read).transpose()?);

        let installation = Installation::find()?;
        on_free_ports(async || {
            let secure = config.tls.as_ref().map(|_| Port::reserve()).transpose()?;
            let ports = Ports { client: Port::reserve()?, secure, peers: None };
            let mut server = Server::create("zookeeper".to_owned(), &installation, settings.clone(), ports, None)?;
            server.launch().await?;
            server.until_serving().await?;
            Ok(Self { server })
        })
        .await
    }

    /// Starts another server with a copy of this server's data, to test a restore from a snapshot. This server goes on.
    ///
    /// The copy has the nodes and the sessions of this moment. It expires each session of which it hears nothing.
    ///
    /// # Errors
    ///
    /// Those of [`start`](Self::start).
    ///
    /// # Cancel safety
    ///
    /// A copy that was starting is gone.
    pub async fn copy(&self) -> Result<Self, Error> {
        on_free_ports(async || {
            let secure = self.server.secure_address().map(|_| Port::reserve()).transpose()?;
            let mut server = self.server.copy(Ports { client: Port::reserve()?, secure, peers: None })?;
            server.launch().await?;
            server.until_serving().await?;
            Ok(Self { server })
        })
        .await
    }

    /// Returns the connect string, `127.0.0.1:PORT`. A restart does not change it.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.server.address()
    }

    /// Returns the process id of the server; `None` while it is stopped.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.server.pid()
    }

    /// Returns the connect string for TLS, `127.0.0.1:PORT`, or `None` without TLS. A restart does not change it.
    #[must_use]
    pub fn tls_connect_string(&self) -> Option<String> {
        self.server.secure_address()
    }

    /// Stops the server and keeps its data and its port, where connections are refused from now on. A server that is stopped
    /// already stays so.
    ///
    /// It ends as in a crash: sessions are not closed, and outlive it.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the operating system does not tell how the server ended, or does not give back its port.
    ///
    /// # Cancel safety
    ///
    /// The server stops all the same; this or [`start_again`](Self::start_again) then waits for it.
    pub async fn stop(&mut self) -> Result<(), Error> {
        self.server.stop().await
    }

    /// Starts the server again on the same port with the same data; one that still runs is stopped first. It serves requests
    /// when this returns.
    ///
    /// Every session that had not expired is there, with its whole timeout before it, and every node. A client that tries to
    /// come back while the server is still starting may be left without an answer, and then only tries again after its own
    /// connection timeout.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`], [`Error::NotReady`] and [`Error::System`] as for [`start`](Self::start). It may be tried again.
    ///
    /// # Cancel safety
    ///
    /// The server goes on starting, or stays stopped; another call starts it afresh.
    pub async fn start_again(&mut self) -> Result<(), Error> {
        self.server.launch().await?;
        self.server.until_serving().await
    }

    /// Sets the shortest and the longest session timeout that the server grants from its next start on.
    ///
    /// A session that outlives the restart is granted a timeout within the new limits when its client comes back.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] for limits that [`start`](Self::start) refuses too; [`Error::System`] when the operating system
    /// refuses to write the server's configuration.
    pub fn set_session_timeouts(&mut self, limits: RangeInclusive<Duration>) -> Result<(), Error> {
        self.server.set_session_timeouts(&limits)
    }

    /// Sets the number of the next sequential child of an existing node. The server must be stopped.
    ///
    /// The node looks as if a child with the number before had been created and deleted. The number cannot be lowered.
    ///
    /// The numbers end at 2147483647. ZooKeeper gives this one to every later child, and a creation of the same name fails
    /// with `NodeExists`. Creations that are under way together, or in one transaction, go on with -2147483648 instead.
    ///
    /// # Errors
    ///
    /// * [`Error::Setting`] when the server has not been stopped.
    /// * [`Error::Failed`] when there is no such node, when the number is below the next child's, and when Java is no JDK and
    ///   cannot compile (`make deps-test` installs one).
    /// * [`Error::System`] when the operating system refuses a process or a folder.
    ///
    /// # Cancel safety
    ///
    /// The next child gets the old number or the new one.
    pub async fn number_next_child(&mut self, path: &str, number: i32) -> Result<(), Error> {
        self.server.number_next_child(path, number).await
    }

    /// Freezes the server (`SIGSTOP`): connections stay open, nothing is answered and no time passes for it. Blocks
    /// for the moment that it takes.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the server is gone.
    pub fn pause(&self) -> Result<(), Error> {
        self.server.pause()
    }

    /// Lets a frozen server go on. It finds its sessions as old as the freeze was long.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the server is gone.
    pub fn resume(&self) -> Result<(), Error> {
        self.server.resume()
    }

    /// Returns one counter of the server, by the name that `mntr` gives it. One that is not listed yet is zero.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when the server does not answer within five seconds, as while it is frozen.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn metric(&self, name: &str) -> Result<u64, Error> {
        self.server.metric(name).await
    }

    /// Returns every counter that `mntr` lists, all of one moment.
    ///
    /// # Errors
    ///
    /// As for [`metric`](Self::metric).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn metrics(&self) -> Result<Counters, Error> {
        self.server.metrics().await
    }
}
