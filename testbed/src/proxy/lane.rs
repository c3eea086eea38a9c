//! The connections to one server, and the faults that they have.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::ProxyTraffic;
use super::relay::{Connection, Rules, Shared};
use crate::guard::POLL;

/// What a lane can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Cut,
    Refuse,
    Accept,
    Swallow,
    Blackhole,
    Deliver,
}

/// The connections to one server. They run on the runtime of the thread that owns it.
#[derive(Debug)]
pub(crate) struct Lane {
    shared: Arc<Shared>,
    connections: JoinSet<()>,
    /// How many connections there have been, which is the number of the next.
    made: u64,
    is_refusing: bool,
}

impl Lane {
    pub(crate) fn new(upstreams: Vec<SocketAddr>, traffic: watch::Sender<ProxyTraffic>) -> Self {
        let shared = Arc::new(Shared { upstreams, rules: watch::Sender::default(), traffic });
        Self { shared, connections: JoinSet::new(), made: 0, is_refusing: false }
    }

    /// Starts to serve a connection, or closes it.
    pub(crate) fn take_in(&mut self, client: TcpStream) {
        if self.is_refusing {
            return;
        }
        let connection = Connection { number: self.made, shared: Arc::clone(&self.shared) };
        self.made += 1;
        self.connections.spawn(async move {
            // However it ends, both sides see it: there is nobody else to tell.
            let _ = connection.serve(client).await;
        });
        self.count();
    }

    pub(crate) async fn carry_out(&mut self, command: Command) {
        let made = self.made;
        let rules = &self.shared.rules;
        match command {
            Command::Cut => self.connections.shutdown().await,
            Command::Refuse => self.is_refusing = true,
            Command::Accept => self.is_refusing = false,
            Command::Swallow => rules.send_modify(|rules| rules.swallowed_below = made),
            Command::Blackhole => rules.send_modify(|rules| rules.is_blackhole = true),
            Command::Deliver => drop(rules.send_replace(Rules::default())),
        }
        self.count();
    }

    /// Waits until a connection has ended. Returns at once while there is none.
    pub(crate) async fn until_one_ended(&mut self) -> bool {
        let has_ended = self.connections.join_next().await.is_some();
        self.count();
        has_ended
    }

    fn count(&self) {
        let connections = self.connections.len();
        self.shared.traffic.send_if_modified(|traffic| {
            let is_new = traffic.connections != connections;
            traffic.connections = connections;
            is_new
        });
    }
}

/// The next connection of a listener.
pub(crate) async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((client, _)) => return client,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // Out of file descriptors, for one: connections that end bring the remedy.
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}
