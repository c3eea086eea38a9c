//! The thread that all connections between the servers go through.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::socks;
use crate::proxy::lane::{Lane, LaneCommand, accept};
use crate::worker::Orders;
use crate::zookeeper::configuration::Peer;

/// The connections that one server opens to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Commands for the connections of one link, which are carried out in their order.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) link: Link,
    pub(super) commands: Vec<LaneCommand>,
}

/// The connections of a link to one port.
struct PortConnections {
    link: Link,
    server: SocketAddr,
    lane: Lane,
}

/// A connection that a server makes.
struct Arrival {
    from: usize,
    server: SocketAddr,
    stream: TcpStream,
}

pub(super) struct Switchboard {
    ports: Vec<PortConnections>,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    _listeners: JoinSet<()>,
}

impl Switchboard {
    /// Takes in the connections of each server at a listener of its own.
    pub(super) fn new(listeners: Vec<std::net::TcpListener>, peers: &[Peer]) -> io::Result<Self> {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for (from, listener) in listeners.into_iter().enumerate() {
            listener.set_nonblocking(true)?;
            tasks.spawn(listen(from, TcpListener::from_std(listener)?, sender.clone()));
        }
        let mut ports = Vec::new();
        for from in 0..peers.len() {
            for (to, Peer { quorum_port, election_port }) in peers.iter().enumerate().filter(|&(to, _)| to != from) {
                ports.extend([quorum_port, election_port].map(|&port| {
                    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
                    PortConnections {
                        link: Link { from, to },
                        server,
                        lane: Lane::new(vec![server], watch::Sender::default()),
                    }
                }));
            }
        }
        Ok(Self { ports, arrivals, _listeners: tasks })
    }

    /// Runs until nobody can give orders any more.
    pub(super) async fn run(mut self, mut orders: Orders<Vec<Change>>) {
        loop {
            tokio::select! {
                order = orders.recv() => {
                    let Some(order) = order else { return };
                    // All changes of an order are made before the next connection is taken in.
                    for change in &order.command {
                        self.carry_out(change).await;
                    }
                    order.confirm();
                }
                Some(arrival) = self.arrivals.recv() => self.take_in(arrival),
            }
        }
    }

    async fn carry_out(&mut self, Change { link, commands }: &Change) {
        for port in self.ports.iter_mut().filter(|port| port.link == *link) {
            for command in commands {
                port.lane.carry_out(*command).await;
            }
        }
    }

    /// Serves a connection to another server of the ensemble, and closes any other.
    fn take_in(&mut self, Arrival { from, server, stream }: Arrival) {
        let port = self.ports.iter_mut().find(|port| port.link.from == from && port.server == server);
        if let Some(port) = port {
            // Nobody waits for the connections of this lane, so those that have ended are collected here.
            port.lane.forget_ended();
            port.lane.take_in(stream, socks::CONNECTED);
        }
    }
}

async fn listen(from: usize, listener: TcpListener, arrivals: mpsc::UnboundedSender<Arrival>) {
    loop {
        let mut stream = accept(&listener).await;
        let arrivals = arrivals.clone();
        // A client that is slow with its handshake must not keep the next one waiting.
        tokio::spawn(async move {
            if let Ok(server) = socks::destination(&mut stream).await {
                // A failed send means that the thread is about to end.
                let _ = arrivals.send(Arrival { from, server, stream });
            }
        });
    }
}
