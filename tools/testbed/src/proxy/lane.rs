//! The connections to one server, and the faults that they have.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::ProxyTraffic;
use super::relay::{Connection, Direction, End, Rules, Shared, Silent};
use crate::guard::POLL;

/// An order for a lane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum LaneCommand {
    Cut,
    Refuse,
    Accept,
    Swallow,
    /// Loses each reply with this probability, and ends its connection then.
    LoseReplies(f64),
    Blackhole,
    /// Lets nothing pass in one direction.
    Silence(Direction),
    Deliver,
    /// Ends all of these faults.
    Heal,
    /// Holds each byte for this long.
    Delay(Duration),
    /// Holds each byte for up to this long beyond that.
    Jitter(Duration),
    /// Passes on at most this many bytes a second on each connection in each direction.
    Limit(Option<NonZeroU32>),
    /// Asks for a new session when a client connects one again.
    ReplaceSessions,
    RefuseSessions,
    /// Leads new connections to this server.
    LeadTo(SocketAddr),
    /// Closes every open connection at one end only. This end stays open, and nothing is read from it.
    Strand(End),
}

/// The connections to one server. They run on the runtime of the thread that owns it.
#[derive(Debug)]
pub(crate) struct Lane {
    shared: Arc<Shared>,
    /// Each returns the end that is to stay open.
    connections: JoinSet<Option<TcpStream>>,
    /// Number of connections so far, which is the number of the next one.
    made: u64,
    is_refusing: bool,
    /// The ends that stay open after [`LaneCommand::Strand`].
    stranded: Vec<TcpStream>,
}

impl Lane {
    pub(crate) fn new(upstreams: Vec<SocketAddr>, traffic: watch::Sender<ProxyTraffic>) -> Self {
        let shared = Arc::new(Shared { upstreams, rules: watch::Sender::default(), traffic });
        Self { shared, connections: JoinSet::new(), made: 0, is_refusing: false, stranded: Vec::new() }
    }

    /// Starts to serve a connection, or closes it. The client is sent `greeting` once the server is reached.
    pub(crate) fn take_in(&mut self, client: TcpStream, greeting: &'static [u8]) {
        if self.is_refusing {
            return;
        }
        let connection = Connection { number: self.made, greeting, shared: Arc::clone(&self.shared) };
        self.made += 1;
        self.connections.spawn(connection.serve(client));
        self.count();
    }

    pub(crate) async fn carry_out(&mut self, command: LaneCommand) {
        let made = self.made;
        let rules = &self.shared.rules;
        match command {
            LaneCommand::Cut => {
                // Waits until the connections are closed, because the fault is in force when the order is confirmed.
                self.connections.shutdown().await;
                self.stranded.clear();
            }
            LaneCommand::Refuse => self.is_refusing = true,
            LaneCommand::Accept => self.is_refusing = false,
            LaneCommand::Swallow => rules.send_modify(|rules| rules.swallowed_below = made),
            LaneCommand::LoseReplies(lost) => rules.send_modify(|rules| rules.lost = lost),
            LaneCommand::Blackhole => rules.send_modify(|rules| rules.silent = Silent::BOTH),
            LaneCommand::Silence(direction) => rules.send_modify(|rules| rules.silent.add(direction)),
            LaneCommand::Deliver => {
                rules.send_modify(|rules| {
                    rules.silent = Silent::default();
                    rules.swallowed_below = 0;
                });
                self.stranded.clear();
            }
            LaneCommand::Heal => self.heal().await,
            LaneCommand::Delay(latency) => rules.send_modify(|rules| rules.latency = latency),
            LaneCommand::Jitter(jitter) => rules.send_modify(|rules| rules.jitter = jitter),
            LaneCommand::Limit(bytes_per_s) => rules.send_modify(|rules| rules.bytes_per_s = bytes_per_s),
            LaneCommand::ReplaceSessions => rules.send_modify(|rules| rules.replaces_sessions = true),
            LaneCommand::RefuseSessions => rules.send_modify(|rules| rules.refuses_sessions = true),
            LaneCommand::LeadTo(server) => rules.send_modify(|rules| rules.successor = Some(server)),
            LaneCommand::Strand(end) => self.strand(end).await,
        }
        self.count();
    }

    async fn heal(&mut self) {
        if self.shared.rules.borrow().swallowed_below > 0 {
            // What was swallowed does not come back, so these connections are of no use.
            self.connections.shutdown().await;
        }
        // Where new connections lead to is no fault.
        self.shared.rules.send_modify(|rules| *rules = Rules { successor: rules.successor, ..Rules::default() });
        self.is_refusing = false;
        self.stranded.clear();
    }

    async fn strand(&mut self, end: End) {
        self.shared.rules.send_modify(|rules| rules.stranded = Some(end));
        while let Some(ended) = self.connections.join_next().await {
            self.stranded.extend(ended.ok().flatten());
        }
        // Taken back, because the order is for the connections of this moment only.
        self.shared.rules.send_modify(|rules| rules.stranded = None);
    }

    /// Waits until a connection has ended. Returns at once while there is none.
    pub(crate) async fn until_one_ended(&mut self) -> bool {
        let has_ended = self.connections.join_next().await.is_some();
        self.count();
        has_ended
    }

    /// Forgets the connections that have ended.
    pub(crate) fn forget_ended(&mut self) {
        while self.connections.try_join_next().is_some() {}
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

/// Waits for the next connection of a listener.
pub(crate) async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((client, _)) => return client,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // For example, there are no file descriptors left until connections end.
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}
