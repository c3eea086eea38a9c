//! A TCP proxy whose traffic a test can cut, hold back or lose.

mod hub;
pub(crate) mod lane;
pub(crate) mod relay;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::time::Duration;

use program::FromSystem as _;
use tokio::sync::watch;

use self::hub::Hub;
use self::lane::{Lane, LaneCommand};
pub use self::relay::Direction;
use crate::Error;
use crate::worker::Worker;

/// What a [`Proxy`] has forwarded since it was started, and its open connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProxyTraffic {
    /// Open connections of clients.
    pub connections: usize,
    /// Bytes that were passed on to the server.
    pub bytes_to_server: u64,
    /// Bytes that were read from the server, those included that were swallowed.
    pub bytes_from_server: u64,
}

/// A TCP proxy on a free port of 127.0.0.1 in front of one server: the network between it and its clients, for tests of faults.
///
/// | call | open connections | later connections | ends with |
/// |---|---|---|---|
/// | [`cut`](Self::cut) | closed | served | |
/// | [`refuse`](Self::refuse) | served | closed at once | [`accept`](Self::accept) |
/// | [`swallow_replies`](Self::swallow_replies) | requests pass, replies are lost | served | [`deliver`](Self::deliver), or the connection |
/// | [`lose_replies`](Self::lose_replies) | some replies are lost, and each closes its connection | likewise | `lose_replies(0.0)` |
/// | [`blackhole`](Self::blackhole) | nothing passes | nothing passes | [`deliver`](Self::deliver) |
/// | [`silence`](Self::silence) | nothing passes in one direction | nothing passes in one direction | [`deliver`](Self::deliver) |
/// | [`delay`](Self::delay) | each byte arrives late | each byte arrives late | `delay(Duration::ZERO)` |
/// | [`jitter`](Self::jitter) | bytes arrive late, some more than others | likewise | `jitter(Duration::ZERO)` |
/// | [`limit`](Self::limit) | few bytes arrive in a second | few bytes arrive in a second | `limit(None)` |
/// | [`replace_sessions`](Self::replace_sessions) | | a session of ZooKeeper is replaced by a new one | [`heal`](Self::heal) |
/// | [`refuse_sessions`](Self::refuse_sessions) | | closed if a session of ZooKeeper connects again | [`heal`](Self::heal) |
///
/// [`heal`](Self::heal) ends all of them. The faults combine: `refuse` and then `cut` make an unreachable server,
/// `swallow_replies` and then `cut` a lost reply. Each is in force when its call returns. Calls block, for well below a
/// millisecond.
///
/// The server need not run: a connection is closed when the server cannot be reached, and the next one tries again.
///
/// The proxy runs on a thread of its own. Dropping it closes its port and its connections and waits for the thread, so that
/// nothing is left of it.
///
/// # Examples
///
/// A reply is lost after the server has carried out the request:
///
/// ```no_run
/// # async fn example(send_request: impl AsyncFn()) -> Result<(), testbed::Error> {
/// use testbed::{Proxy, ZooKeeper, ZooKeeperConfig};
///
/// let zookeeper = ZooKeeper::start(ZooKeeperConfig::default()).await?;
/// let proxy = Proxy::start(&zookeeper.connect_string()).await?;
/// // … a client connects to proxy.connect_string() …
/// proxy.swallow_replies();
/// let before = proxy.bytes_from_server();
/// send_request().await;
/// proxy.until(|traffic| traffic.bytes_from_server > before).await;
/// proxy.cut();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    worker: Worker<LaneCommand>,
    traffic: watch::Receiver<ProxyTraffic>,
}

impl Proxy {
    /// Starts a proxy in front of the server at `upstream`, which is `host:port`.
    ///
    /// # Errors
    ///
    /// [`Error::System`] when `upstream` is not the address of one server, and when the operating system refuses a port or a
    /// thread.
    ///
    /// # Cancel safety
    ///
    /// A proxy that was starting is gone.
    pub async fn start(upstream: &str) -> Result<Self, Error> {
        let upstreams = tokio::net::lookup_host(upstream).await;
        let upstreams = upstreams.map_err(|cause| io::Error::new(cause.kind(), format!("{cause}; give one host:port")));
        let upstreams: Vec<SocketAddr> = upstreams.map_err(Error::system(format!("resolve {upstream}")))?.collect();
        let failed = || Error::system(format!("start a proxy in front of {upstream}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?;
        let port = listener.local_addr().map_err(failed())?.port();

        let (traffic_sender, traffic) = watch::channel(ProxyTraffic::default());
        let worker = Worker::start("testbed-proxy", move |orders| {
            let hub = Hub::new(listener, Lane::new(upstreams, traffic_sender))?;
            Ok(hub.run(orders))
        });
        Ok(Self { port, worker: worker.await.map_err(failed())?, traffic })
    }

    /// Returns the address of the proxy, for clients of the server behind it: `127.0.0.1:PORT`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the port of the proxy on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends all faults of the network. What was held back arrives late; connections that lost bytes are closed.
    pub fn heal(&self) {
        self.worker.order(LaneCommand::Heal);
    }

    /// Closes every open connection on both sides. Clients may connect again at once.
    ///
    /// A connection that a client has made counts as open, whether it has reached the server or not. What has been passed on
    /// still arrives; what has not is lost.
    pub fn cut(&self) {
        self.worker.order(LaneCommand::Cut);
    }

    /// Closes every new connection as soon as it is made, until [`accept`](Self::accept). The open ones live on.
    pub fn refuse(&self) {
        self.worker.order(LaneCommand::Refuse);
    }

    /// Serves new connections again.
    pub fn accept(&self) {
        self.worker.order(LaneCommand::Accept);
    }

    /// Reads and drops whatever else the server sends on the connections that are open now, while requests still pass.
    ///
    /// The end of such a connection still passes. Later connections are served. The dropped bytes do not come back, so
    /// clients rarely understand a connection after [`deliver`](Self::deliver): [`cut`](Self::cut) it instead.
    pub fn swallow_replies(&self) {
        self.worker.order(LaneCommand::Swallow);
    }

    /// Loses each reply with this probability, and closes its connection then. The request has been passed on. A reply is what the
    /// server's system hands over at once: as a rule all that the server wrote.
    pub fn lose_replies(&self, probability: f64) {
        self.worker.order(LaneCommand::LoseReplies(probability));
    }

    /// Lets nothing pass in either direction, on open and on new connections, until [`deliver`](Self::deliver).
    ///
    /// Connections stay open, and new ones can be made, but they do not reach the server. As in a network that fails
    /// for a while, nothing is lost: bytes are held back, and also the end of a side.
    pub fn blackhole(&self) {
        self.worker.order(LaneCommand::Blackhole);
    }

    /// Lets nothing pass in one direction, on open and on new connections, until [`deliver`](Self::deliver).
    ///
    /// Nothing is lost: bytes are held back, and also the end of that direction.
    pub fn silence(&self, direction: Direction) {
        self.worker.order(LaneCommand::Silence(direction));
    }

    /// Ends [`blackhole`](Self::blackhole) and [`silence`](Self::silence), so that what was held back arrives late, and
    /// [`swallow_replies`](Self::swallow_replies).
    pub fn deliver(&self) {
        self.worker.order(LaneCommand::Deliver);
    }

    /// Holds each byte for `latency` in each direction, so a round trip takes twice that time longer. A new connection
    /// also takes a round trip. Bytes that were read before keep their time. Accurate to about a millisecond.
    pub fn delay(&self, latency: Duration) {
        self.worker.order(LaneCommand::Delay(latency));
    }

    /// Holds bytes longer than [`delay`](Self::delay) does, by a random time of at most `jitter` in each direction. Their order stays.
    pub fn jitter(&self, jitter: Duration) {
        self.worker.order(LaneCommand::Jitter(jitter));
    }

    /// Passes on at most this many bytes a second on each connection in each direction. `None` ends the limit.
    pub fn limit(&self, bytes_per_s: Option<NonZeroU32>) {
        self.worker.order(LaneCommand::Limit(bytes_per_s));
    }

    /// Replaces each ZooKeeper session that a client connects again from now on. The server is asked for a new session instead, as
    /// by a server or another proxy that does not know the session. Without TLS only.
    pub fn replace_sessions(&self) {
        self.worker.order(LaneCommand::ReplaceSessions);
    }

    /// Closes each connection on which a client connects a ZooKeeper session again from now on. New sessions are served. Without
    /// TLS only.
    pub fn refuse_sessions(&self) {
        self.worker.order(LaneCommand::RefuseSessions);
    }

    /// Leads new connections to another server, as a name does whose address has changed. The open ones stay where they are.
    pub fn lead_to(&self, server: SocketAddr) {
        self.worker.order(LaneCommand::LeadTo(server));
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.traffic().connections
    }

    /// Returns the bytes passed on to the server since the start, over all connections.
    #[must_use]
    pub fn bytes_to_server(&self) -> u64 {
        self.traffic().bytes_to_server
    }

    /// Returns the bytes read from the server since the start, over all connections, including those that were swallowed.
    #[must_use]
    pub fn bytes_from_server(&self) -> u64 {
        self.traffic().bytes_from_server
    }

    /// Returns all of the counts at one moment.
    #[must_use]
    pub fn traffic(&self) -> ProxyTraffic {
        *self.traffic.borrow()
    }

    /// Waits until the traffic is as asked for, such as until a request has reached the server. It waits for as long as that
    /// takes; give it a limit with `tokio::time::timeout`.
    ///
    /// An idle ZooKeeper session counts too: its pings are 12 bytes each, and 20 bytes the answer.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn until(&self, mut holds: impl FnMut(&ProxyTraffic) -> bool) -> ProxyTraffic {
        let mut traffic = self.traffic.clone();
        match traffic.wait_for(|traffic| holds(traffic)).await {
            Ok(traffic) => *traffic,
            Err(_) => unreachable!("BUG: a proxy ends only when it is dropped"),
        }
    }
}
