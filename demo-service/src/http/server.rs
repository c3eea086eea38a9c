//! Serves: accepts connections, within limits, until told to stop.

use std::future::pending;
use std::io;
use std::iter::once;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{OptionFuture, join_all};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::audience::Audience;
use super::connections::Connections;
use super::router::router;
use super::{instances, open_files};
use crate::app::App;
use crate::config::Config;
use crate::setup_error::SetupError;

/// How long a shutdown waits for requests in flight beyond `--http-timeout`.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// How long a shutdown waits until the ZooKeeper sessions are closed.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// Upper bound of the connections that wait to be accepted. The system may allow fewer (`net.core.somaxconn` in
/// Linux). The customary bound is 1024. With it, handshakes of a crowd that comes at the same instant are dropped. A
/// dropped handshake is repeated only after a second, then after two more, and so on.
const BACKLOG: u32 = 65_535;

/// A service that is ready: its ports are bound, and its servers have answered.
pub struct Server {
    main: Listener,
    operators: Option<Listener>,
    instances: Option<Listener>,
    app: Arc<App>,
}

/// A bound port.
struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Binds the ports and opens the application.
    ///
    /// # Errors
    /// A [`SetupError`] that names what is missing.
    ///
    /// # Cancel safety
    /// Dropped, everything that was opened is closed.
    pub async fn start(config: Config) -> Result<Self, SetupError> {
        let mut config = open_files::fit(config)?;
        // The ports are bound first, because that fails the fastest.
        let main = Listener::bind(config.listen, "--listen (LISTEN)")?;
        let operators = config.operators_listen;
        let operators = operators.map(|address| Listener::bind(address, "--operators-listen (OPERATORS_LISTEN)"));
        let operators = operators.transpose()?;
        let instances =
            config.hands_over().then(|| Listener::bind(config.instances_listen, "--peers-listen (PEERS_LISTEN)"));
        let instances = instances.transpose()?;
        if let Some(listener) = &instances {
            // If port 0 was asked for, only the bound socket knows the port that the others must use.
            config.instances_address.get_or_insert_with(|| listener.address.to_string());
        }
        let app = Arc::new(App::open(config).await?);
        let Config { instance, strategy, zk_sessions, .. } = &app.config;
        let operators_address = operators.as_ref().map(|listener| listener.address);
        let peers_address = instances.as_ref().map(|_| &app.shared.hand_over.address.at);
        info!(address = %main.address, ?operators_address, peers_address, instance, strategy = strategy.name, zk_sessions, "ready");
        Ok(Self { main, operators, instances, app })
    }

    /// Returns the address of the main listener. If port 0 was asked for, it has the real port.
    pub fn address(&self) -> SocketAddr {
        self.main.address
    }

    /// Returns the address of the listener for operators, if there is one.
    pub fn operators_address(&self) -> Option<SocketAddr> {
        self.operators.as_ref().map(|listener| listener.address)
    }

    /// Serves until `shutdown` resolves. Then it accepts the connections that have come, and refuses at once every request that
    /// waits for a lock or a connection. It finishes all other requests, which takes at most `--http-timeout` and a
    /// second. Then it closes the ZooKeeper sessions, which frees every lock, and the database connections. At the end it
    /// waits until the other instances have closed their connections, so none of them loses the answer to a batch.
    ///
    /// A commit that the database does not answer may take longer, and its lock must outlive it. Then nothing is
    /// closed: the purchase goes on until the process ends, and its lock lives until ZooKeeper expires the session.
    ///
    /// # Cancel safety
    /// Dropped, connections are cut. Purchases in progress run to their end.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { main, operators, instances, app } = self;
        let ended = CancellationToken::new();
        // The others are served to the very end. While this instance shuts down, they learn that it owns nothing any more.
        let of_instances = instances.map(|listener| {
            AbortOnDropHandle::new(tokio::spawn(instances::serve(listener.socket, Arc::clone(&app), ended.clone())))
        });
        if serve_clients(main, operators, app, shutdown).await {
            ended.cancel();
            if let Some(Err(error)) = OptionFuture::from(of_instances).await {
                warn!(%error, "the listener for the other instances failed");
            }
            info!("stopped");
        }
    }
}

/// Serves buyers and operators until `shutdown` resolves. Then it finishes the purchases in progress, and closes the ZooKeeper
/// sessions and the database connections. Returns `false` if a purchase is still under way: then it closes neither.
async fn serve_clients(
    main: Listener,
    operators: Option<Listener>,
    app: Arc<App>,
    shutdown: impl Future<Output = ()>,
) -> bool {
    let mut background = JoinSet::new();
    let upkeep = Arc::clone(&app);
    background.spawn(async move { upkeep.upkeep().await });
    let audience = if operators.is_some() { Audience::Buyers } else { Audience::Everybody };
    let open = |listener: Listener, audience| {
        (listener.socket, Connections::of_clients(router(Arc::clone(&app), audience), &app.config))
    };
    let (main, mut of_main) = open(main, audience);
    let mut operators = operators.map(|listener| open(listener, Audience::Operators));
    let for_operators = async {
        let Some((listener, connections)) = &mut operators else { return pending().await };
        connections.accept_all(listener).await;
    };
    tokio::select! {
        () = shutdown => {}
        () = of_main.accept_all(&main) => {}
        () = for_operators => {}
    }
    info!("shutting down: requests that wait are refused, what has begun is finished");
    app.stop_waiting();
    // From now on the system refuses new clients.
    let finished = join_all(once((main, of_main)).chain(operators).map(|(listener, mut connections)| {
        if let Err(error) = connections.accept_waiting(listener) {
            debug!(%error, "clients were cut off before they were accepted");
        }
        connections.finish()
    }));
    let deadline = Instant::now() + app.config.http_timeout + DRAIN_GRACE;
    if timeout_at(deadline, finished).await.is_err() {
        warn!("some connections were still busy and are cut");
    }
    if timeout_at(deadline, app.drained()).await.is_err() {
        warn!(
            "some purchases are still under way, so the ZooKeeper sessions are left to expire: closing them would \
             free locks under commits that may be in flight"
        );
        return false;
    }
    if timeout(CLOSE_WITHIN, app.shared.sessions.close()).await.is_err() {
        warn!("some ZooKeeper sessions could not be closed, the server will expire them");
    }
    app.shared.store.close();
    true
}

impl Listener {
    fn bind(address: SocketAddr, setting: &'static str) -> Result<Self, SetupError> {
        let bound = listen(address).and_then(|socket| Ok(Self { address: socket.local_addr()?, socket }));
        bound.map_err(|source| SetupError::Listen { address, setting, source })
    }
}

/// Listens, with a backlog of at most [`BACKLOG`] connections.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait until the system forgets the old connections.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use tokio::net::TcpStream;

    use super::*;

    /// Returns the number of clients that come at the same instant in the classic demo. If the system lets fewer wait, returns
    /// that number.
    fn crowd() -> usize {
        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").ok();
        allowed.and_then(|allowed| allowed.trim().parse().ok()).unwrap_or(128).min(1500)
    }

    #[tokio::test]
    async fn a_crowd_is_connected_before_anyone_is_accepted() {
        program::raise_file_limit();
        let listener = listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let mut connected = Vec::new();
        for number in 0..crowd() {
            // A handshake that is dropped would be repeated after a second, and dropped again.
            let connected_in_time = timeout(Duration::from_secs(30), TcpStream::connect(address)).await;
            let stream =
                connected_in_time.unwrap_or_else(|_| panic!("connection {number} is not accepted by the system"));
            connected.push(stream.unwrap());
        }
        for _ in &connected {
            listener.accept().await.unwrap();
        }
    }

    #[tokio::test]
    async fn both_versions_of_ip_are_listened_to() {
        for address in [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))] {
            assert_eq!(listen(address).unwrap().local_addr().unwrap().ip(), address.ip());
        }
    }
}
