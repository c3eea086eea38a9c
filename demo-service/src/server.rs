//! Serving: accepting connections, within limits, until told to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, info, warn};

use crate::app::App;
use crate::config::Config;
use crate::error::SetupError;
use crate::router::router;

/// The pause after a connection could not be accepted because something, most likely file descriptors, was used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a shutdown grants requests in flight, beyond the time by which each of them must be answered.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// How long a shutdown waits for ZooKeeper, and then for Postgres, to take leave.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// A service that is ready: the port is bound, the servers behind it have answered.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
}

impl Server {
    /// Binds the port and opens the app.
    ///
    /// # Errors
    /// A [`SetupError`] that names what is missing.
    ///
    /// # Cancel safety
    /// Dropped, whatever was opened is closed.
    pub async fn start(config: Config) -> Result<Self, SetupError> {
        raise_open_files_limit();
        let address = config.listen;
        let unusable = |source: io::Error| SetupError::Listen { address, source };
        // Bound first, as it is the quickest to fail.
        let listener = TcpListener::bind(address).await.map_err(unusable)?;
        let address = listener.local_addr().map_err(unusable)?;
        let app = Arc::new(App::open(config).await?);
        let Config { instance, strategy, zk_sessions, .. } = &app.config;
        info!(%address, instance, strategy = strategy.name, zk_sessions, "ready");
        Ok(Self { listener, address, app })
    }

    /// Where it listens; with the real port when port 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` resolves. Then stops accepting, finishes the requests in flight, which takes no longer
    /// than the HTTP timeout and a little, closes the ZooKeeper sessions, which frees every lock, and disconnects.
    ///
    /// # Cancel safety
    /// Dropped, connections are cut; deductions that have begun go on to their end.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, app, .. } = self;
        let mut background = JoinSet::new();
        let upkeep = Arc::clone(&app);
        background.spawn(async move { upkeep.metrics.upkeep().await });

        let mut connections = Connections::new(router(Arc::clone(&app)), app.config.http_timeout);
        let vacancies = Arc::new(Semaphore::new(app.config.connections_max as usize));
        tokio::select! {
            () = shutdown => {}
            () = accept_all(listener, vacancies, &mut connections) => {}
        }
        // The listener is gone by now, so new clients are turned away by the system.
        info!("shutting down");
        let deadline = Instant::now() + app.config.http_timeout + DRAIN_GRACE;
        if timeout_at(deadline, connections.finish()).await.is_err() {
            warn!("some connections were still busy and are cut");
        }
        if timeout_at(deadline, app.drained()).await.is_err() {
            warn!("some deductions were still under way and are stopped");
        }
        if timeout(CLOSE_WITHIN, app.sessions.close()).await.is_err() {
            warn!("some ZooKeeper sessions could not be closed, the server will expire them");
        }
        if timeout(CLOSE_WITHIN, app.store.close()).await.is_err() {
            warn!("some database connections were still in use and are cut");
        }
        info!("stopped");
    }
}

/// The open connections.
struct Connections {
    router: Router,
    /// How long a client may take to send the head of a request, and how long a connection may idle between two.
    header_read_timeout: Duration,
    tasks: JoinSet<()>,
    graceful: GracefulShutdown,
}

impl Connections {
    fn new(router: Router, header_read_timeout: Duration) -> Self {
        Self { router, header_read_timeout, tasks: JoinSet::new(), graceful: GracefulShutdown::new() }
    }

    fn serve(&mut self, stream: TcpStream, vacancy: OwnedSemaphorePermit) {
        // Answers are small and wanted at once. A socket that refuses the option still works.
        stream.set_nodelay(true).ok();
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_read_timeout)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(self.router.clone()));
        let connection = self.graceful.watch(connection);
        self.tasks.spawn(async move {
            if let Err(error) = connection.await {
                debug!(%error, "a connection ended badly");
            }
            drop(vacancy);
        });
        while self.tasks.try_join_next().is_some() {}
    }

    /// Answers what is being asked, and closes.
    async fn finish(self) {
        self.graceful.shutdown().await;
    }
}

/// Accepts connections for ever. At the limit new ones wait in the system's queue.
async fn accept_all(listener: TcpListener, vacancies: Arc<Semaphore>, connections: &mut Connections) {
    while let Ok(vacancy) = Arc::clone(&vacancies).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => connections.serve(stream, vacancy),
            Err(error) if is_the_clients(&error) => debug!(%error, "a client left before it was accepted"),
            Err(error) => {
                warn!(%error, "cannot accept connections, trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Takes all the file descriptors that the system allows: every client, session and database connection needs one.
fn raise_open_files_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let raised =
        getrlimit(Resource::RLIMIT_NOFILE).and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        warn!(%error, "cannot raise the limit of open files, many connections may fail");
    }
}
