//! The connections of one listener. While as many are open as there may be, a new one replaces the one that is worth
//! least to its client.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Bytes, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tower::Service;
use tracing::{debug, warn};

use super::connection::{Connection, OpenRequest};
use super::rates::client;
use super::wire::{HEAD_WITHIN, IDLE_WITHIN, Wire};
use crate::config::Config;

/// The largest head of a request. The framework's own limit would let every connection take hundreds of KiB.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The pause after a connection could not be accepted. The most likely cause is that file descriptors were used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The open connections of one listener.
pub(super) struct Connections {
    router: Router,
    max: usize,
    per_client_max: Option<usize>,
    open: HashMap<Id, Arc<Connection>>,
    tasks: JoinSet<()>,
    gives_way: Arc<Notify>,
}

impl Connections {
    /// Makes room for the connections of buyers and operators.
    pub(super) fn of_clients(router: Router, config: &Config) -> Self {
        let per_client_max = config.connections_per_client.map(|max| max.get() as usize);
        Self { per_client_max, ..Self::at_most(config.connections_max, router) }
    }

    /// Makes room for `max` connections, which may all come from one address.
    pub(super) fn at_most(max: u32, router: Router) -> Self {
        Self {
            router,
            max: max as usize,
            per_client_max: None,
            open: HashMap::new(),
            tasks: JoinSet::new(),
            gives_way: Arc::default(),
        }
    }

    /// Accepts connections for ever.
    pub(super) async fn accept_all(&mut self, listener: &TcpListener) {
        loop {
            let (stream, address) = accept(listener).await;
            self.admit(stream, address).await;
        }
    }

    /// Accepts the connections that wait, as far as there is room, and closes the listener. Closed before, it would reset
    /// them, and a request may be on its way on each of them.
    pub(super) fn accept_waiting(&mut self, listener: TcpListener) -> io::Result<()> {
        // Tokio's own `accept` knows only of those that were there when it asked the system last.
        let listener = listener.into_std()?;
        loop {
            let (stream, address) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_the_clients(&error) => continue,
                Err(error) => return Err(error),
            };
            // Linux does not pass the mode of a listener on to its connections, and tokio needs it.
            stream.set_nonblocking(true)?;
            if self.open.len() >= self.max {
                return Ok(());
            }
            self.serve(TcpStream::from_std(stream)?, address);
        }
    }

    /// Serves a connection as soon as there is room for it.
    pub(super) async fn admit(&mut self, stream: TcpStream, address: SocketAddr) {
        // A connection that has ended counts until it is forgotten.
        self.forget_ended();
        let client = client(address.ip());
        let of_client = |connection: &Connection| connection.client == client && !connection.is_over();
        if let Some(max) = self.per_client_max
            && self.open.values().filter(|connection| of_client(connection)).count() >= max
            && !self.take_back(of_client)
        {
            debug!(%client, "a client has as many connections as it may have, and all of them are at work");
            return;
        }
        while self.open.len() >= self.max {
            // A connection that is about to end makes the room. Another one would be cut for nothing.
            if !self.open.values().any(|connection| connection.is_over()) {
                self.take_back(|_| true);
            }
            tokio::select! {
                Some(ended) = self.tasks.join_next_with_id() => self.forget(ended),
                () = self.gives_way.notified() => {}
            }
        }
        self.serve(stream, address);
    }

    /// Ends the connection that is worth least among some of those that give way. Returns whether there is one.
    fn take_back(&self, of: impl Fn(&Connection) -> bool) -> bool {
        let now = Instant::now();
        let candidates = self.open.values().filter(|connection| of(connection));
        let least =
            candidates.filter_map(|connection| Some((connection.worth(now)?, connection))).min_by_key(|one| one.0);
        least.inspect(|(_, connection)| connection.take_back()).is_some()
    }

    fn serve(&mut self, stream: TcpStream, address: SocketAddr) {
        let connection = Arc::new(Connection::new(client(address.ip()), Arc::clone(&self.gives_way)));
        let wire = Wire::new(stream, Arc::clone(&connection));
        let router = self.router.clone();
        let of_requests = Arc::clone(&connection);
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            let working = OpenRequest::start(&of_requests, request.version());
            request.extensions_mut().insert(ConnectInfo(address));
            request.extensions_mut().insert(Arc::clone(&of_requests));
            answer(router.clone(), request, working)
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            // `Wire` is stricter. With a limit, hyper reads on as soon as an answer is sent, and so learns that the client or the
            // service ends the connection.
            .header_read_timeout(IDLE_WITHIN + HEAD_WITHIN)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(wire), service);
        let task = self.tasks.spawn(async move {
            if let Err(error) = served.await {
                debug!(%error, "a connection ended badly");
            }
        });
        self.open.insert(task.id(), connection);
    }

    fn forget_ended(&mut self) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.forget(ended);
        }
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.open.remove(&id);
    }

    /// Answers the requests in progress, and closes the connections.
    pub(super) async fn finish(mut self) {
        self.open.values().for_each(|connection| connection.end());
        self.left().await;
    }

    /// Waits until the clients have closed the connections. Closed from here, a connection might cut off a request that its
    /// client is just sending.
    pub(super) async fn left(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Accepts one connection.
pub(super) async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if is_the_clients(&error) => debug!(%error, "a client left before it was accepted"),
            Err(error) => {
                warn!(%error, "cannot accept connections, trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers one request of a connection.
async fn answer(
    mut router: Router,
    request: hyper::Request<Incoming>,
    working: OpenRequest,
) -> Result<Response<impl HttpBody<Data = Bytes, Error = axum::Error>>, Infallible> {
    let mut response = router.call(request).await?;
    if working.answer() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    // The request lasts as long as its answer, which keeps this function although there is nothing to map.
    Ok(response.map(|body| {
        body.map_err(move |error| {
            let _working = &working;
            error
        })
    }))
}

fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream as Client};

    use axum::routing::get;
    use tokio::time::timeout;

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n";

    async fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn connections(max: u32) -> Connections {
        Connections::at_most(max, Router::new().route("/", get(async || "served")))
    }

    /// Reads all that the service says on a connection, outside of the runtime.
    async fn said(mut client: Client) -> String {
        let read = tokio::task::spawn_blocking(move || {
            let mut said = String::new();
            client.read_to_string(&mut said).unwrap();
            said
        });
        read.await.unwrap()
    }

    // S61
    #[tokio::test]
    async fn a_listener_that_closes_serves_the_connections_that_wait() {
        let (listener, address) = listener().await;
        // The runtime does not look at the listener meanwhile.
        let clients: Vec<_> = (0..10).map(|_| Client::connect(address).unwrap()).collect();
        let mut connections = connections(10);
        connections.accept_waiting(listener).unwrap();
        assert!(Client::connect(address).is_err());
        for mut client in clients {
            client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").unwrap();
            let said = said(client).await;
            assert!(said.ends_with("served"), "{said}");
        }
        connections.left().await;
    }

    /// Goal: a request that has come is answered, although the service ends the connection at that instant. Method: the
    /// runtime does not look at the connection between both.
    // S67
    #[tokio::test]
    async fn a_request_that_has_come_is_answered_at_the_end() {
        for take_back in [false, true] {
            let (listener, address) = listener().await;
            let mut client = Client::connect(address).unwrap();
            let mut connections = connections(1);
            connections.accept_waiting(listener).unwrap();
            client.write_all(REQUEST).unwrap();
            let mut answer = [0; 4096];
            let mut asked = client.try_clone().unwrap();
            let length = tokio::task::spawn_blocking(move || asked.read(&mut answer).unwrap()).await.unwrap();
            assert!(length > 0);

            client.write_all(REQUEST).unwrap();
            if take_back {
                assert!(connections.take_back(|_| true));
            }
            connections.finish().await;
            let said = said(client).await;
            assert!(said.contains("connection: close") && said.ends_with("served"), "{take_back}: {said:?}");
        }
    }

    /// Goal: an answer that its client does not read does not keep the connection for good. Method: nobody needs the room.
    // S64
    #[tokio::test]
    async fn a_client_that_never_reads_is_cut_off() {
        let (listener, address) = listener().await;
        let mut client = Client::connect(address).unwrap();
        let mut connections = connections(10);
        connections.router = Router::new().route("/", get(async || vec![0; 64 * 1024 * 1024]));
        connections.accept_waiting(listener).unwrap();
        client.write_all(REQUEST).unwrap();
        timeout(Duration::from_secs(60), connections.left()).await.unwrap();
    }
}
