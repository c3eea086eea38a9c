//! The thread of a proxy: it takes in connections, carries out orders and relays bytes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc as blocking;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::ProxyTraffic;
use crate::guard::POLL;

const BUFFER_BYTES: usize = 16 * 1024;

/// What a proxy can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Cut,
    Refuse,
    Accept,
    Swallow,
    Blackhole,
    Deliver,
}

/// A command, and whom to tell that it is carried out.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) command: Command,
    pub(super) done: blocking::Sender<()>,
}

/// What all connections go by. They are numbered in the order in which they were made.
#[derive(Debug, Clone, Copy, Default)]
struct Rules {
    is_blackhole: bool,
    /// The replies to the connections below this number are swallowed.
    swallowed_below: u64,
}

/// What every connection shares.
#[derive(Debug)]
struct Shared {
    upstreams: Vec<SocketAddr>,
    rules: watch::Sender<Rules>,
    traffic: watch::Sender<ProxyTraffic>,
}

/// Runs a proxy until nobody can give it orders any more. All of its connections are closed when this returns.
pub(super) fn run(
    listener: std::net::TcpListener,
    upstreams: Vec<SocketAddr>,
    mut orders: mpsc::UnboundedReceiver<Order>,
    traffic: watch::Sender<ProxyTraffic>,
    started: oneshot::Sender<io::Result<()>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(started.send(Err(error))),
    };
    runtime.block_on(async {
        let shared = Arc::new(Shared { upstreams, rules: watch::Sender::default(), traffic });
        let mut hub = match Hub::new(listener, shared) {
            Ok(hub) => hub,
            Err(error) => return drop(started.send(Err(error))),
        };
        // Whoever has stopped waiting for it has dropped the sender of the orders, too.
        let _ = started.send(Ok(()));
        hub.run(&mut orders).await;
    });
}

/// The one place where connections begin and orders take effect.
struct Hub {
    listener: TcpListener,
    /// The same socket. The system knows of a connection as soon as the client does, tokio a moment later.
    socket: std::net::TcpListener,
    shared: Arc<Shared>,
    connections: JoinSet<()>,
    /// How many connections there have been, which is the number of the next.
    made: u64,
    is_refusing: bool,
}

impl Hub {
    fn new(socket: std::net::TcpListener, shared: Arc<Shared>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let listener = TcpListener::from_std(socket.try_clone()?)?;
        Ok(Self { listener, socket, shared, connections: JoinSet::new(), made: 0, is_refusing: false })
    }

    async fn run(&mut self, orders: &mut mpsc::UnboundedReceiver<Order>) {
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.carry_out(order).await,
                    None => return,
                },
                accepted = self.listener.accept() => match accepted {
                    Ok((client, _)) => self.take_in(client),
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    // Out of file descriptors, for one: connections that end bring the remedy.
                    Err(_) => tokio::time::sleep(POLL).await,
                },
                Some(_) = self.connections.join_next() => {}
            }
            self.count();
        }
    }

    async fn carry_out(&mut self, order: Order) {
        // A connection that its client made before the call is an open one, whether tokio has heard of it or not.
        while let Ok((client, _)) = self.socket.accept() {
            if client.set_nonblocking(true).is_ok()
                && let Ok(client) = TcpStream::from_std(client)
            {
                self.take_in(client);
            }
        }
        let made = self.made;
        let rules = &self.shared.rules;
        match order.command {
            Command::Cut => self.connections.shutdown().await,
            Command::Refuse => self.is_refusing = true,
            Command::Accept => self.is_refusing = false,
            Command::Swallow => rules.send_modify(|rules| rules.swallowed_below = made),
            Command::Blackhole => rules.send_modify(|rules| rules.is_blackhole = true),
            Command::Deliver => drop(rules.send_replace(Rules::default())),
        }
        self.count();
        // The caller waits for the answer, unless its thread was ended in between.
        let _ = order.done.send(());
    }

    /// Starts to serve a connection, or closes it.
    fn take_in(&mut self, client: TcpStream) {
        if self.is_refusing {
            return;
        }
        let connection = Connection { number: self.made, shared: Arc::clone(&self.shared) };
        self.made += 1;
        self.connections.spawn(async move {
            // However it ends, both sides see it: there is nobody else to tell.
            let _ = connection.serve(client).await;
        });
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    FromServer,
}

struct Connection {
    number: u64,
    shared: Arc<Shared>,
}

impl Connection {
    /// Relays until both sides have closed their ends, or one side fails.
    async fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        self.until_open().await;
        let mut server = TcpStream::connect(self.shared.upstreams.as_slice()).await?;
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
        }
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::try_join!(
            self.relay(from_client, to_server, Direction::ToServer),
            self.relay(from_server, to_client, Direction::FromServer),
        )?;
        Ok(())
    }

    /// Passes on one direction until its end, and then the end.
    async fn relay(&self, from: ReadHalf<'_>, mut to: WriteHalf<'_>, direction: Direction) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let Some(mut bytes) = self.read(&from, &mut buffer).await? else {
                self.until_open().await;
                return to.shutdown().await;
            };
            if direction == Direction::FromServer {
                self.shared.traffic.send_modify(|traffic| traffic.bytes_from_server += length(bytes));
                if self.number < self.shared.rules.borrow().swallowed_below {
                    continue;
                }
            }
            while !bytes.is_empty() {
                let written = self.write(&to, bytes).await?;
                if direction == Direction::ToServer {
                    self.shared.traffic.send_modify(|traffic| traffic.bytes_to_server += length(&bytes[..written]));
                }
                bytes = &bytes[written..];
            }
        }
    }

    /// The next bytes, and `None` at the end. Nothing is read in a black hole, not even the end.
    async fn read<'a>(&self, from: &ReadHalf<'_>, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        loop {
            from.readable().await?;
            self.until_open().await;
            match from.try_read(buffer) {
                Ok(0) => return Ok(None),
                Ok(read) => return Ok(Some(&buffer[..read])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Passes on some of the bytes, which a black hole that began after they were read still holds back.
    async fn write(&self, to: &WriteHalf<'_>, bytes: &[u8]) -> io::Result<usize> {
        loop {
            to.writable().await?;
            self.until_open().await;
            match to.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return written,
            }
        }
    }

    /// Waits while there is a black hole.
    async fn until_open(&self) {
        let mut rules = self.shared.rules.subscribe();
        let open = rules.wait_for(|rules| !rules.is_blackhole).await;
        open.expect("BUG: the rules are shared by all who wait for them");
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("BUG: a buffer beyond u64")
}
