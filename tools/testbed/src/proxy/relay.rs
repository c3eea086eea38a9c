//! The relay of the bytes of one connection.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::ProxyTraffic;

const BUFFER_BYTES: usize = 16 * 1024;

/// The most bytes that a narrow connection passes on at once.
const STEP_BYTES: usize = 1024;

/// Upper bound of what one direction of a connection holds at once. Beyond it nothing more is read.
const CHUNKS_MAX: usize = 1024;

/// One of the two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Client,
    Server,
}

/// The rules of all connections. Connections are numbered in the order in which they were made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rules {
    /// The directions in which nothing passes.
    pub(super) silent: Silent,
    /// Time for which each byte is held, and the end of a direction.
    pub(super) latency: Duration,
    /// Upper bound of the random time for which bytes are held beyond that.
    pub(super) jitter: Duration,
    /// The most bytes that a connection passes on in a second in each direction, if there is a limit.
    pub(super) bytes_per_s: Option<NonZeroU32>,
    /// Whether the handshakes of existing ZooKeeper sessions ask for new ones.
    pub(super) replaces_sessions: bool,
    /// Whether these handshakes end their connections.
    pub(super) refuses_sessions: bool,
    /// The replies to the connections below this number are swallowed.
    pub(super) swallowed_below: u64,
    /// The probability with which a reply is lost, and ends its connection.
    pub(super) lost: f64,
    /// The end of every connection that stays open when the connections are closed.
    pub(super) stranded: Option<End>,
    /// The server that new connections lead to, if it is another one by now.
    pub(super) successor: Option<SocketAddr>,
}

/// The state that all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) upstreams: Vec<SocketAddr>,
    pub(super) rules: watch::Sender<Rules>,
    pub(super) traffic: watch::Sender<ProxyTraffic>,
}

/// A direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    FromServer,
}

/// The directions in which nothing passes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Silent {
    to_server: bool,
    from_server: bool,
}

impl Silent {
    pub(super) const BOTH: Self = Self { to_server: true, from_server: true };

    /// Lets nothing pass in this direction either.
    pub(super) fn add(&mut self, direction: Direction) {
        match direction {
            Direction::ToServer => self.to_server = true,
            Direction::FromServer => self.from_server = true,
        }
    }

    fn is_in(self, direction: Direction) -> bool {
        match direction {
            Direction::ToServer => self.to_server,
            Direction::FromServer => self.from_server,
        }
    }
}

/// Bytes that were read, and when they are due. Without bytes it is the end of the direction.
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
}

pub(super) struct Connection {
    pub(super) number: u64,
    /// The bytes for the client once the server is reached.
    pub(super) greeting: &'static [u8],
    pub(super) shared: Arc<Shared>,
}

impl Connection {
    /// Relays until the connection ends. Returns the end that stays open.
    pub(super) async fn serve(self, mut client: TcpStream) -> Option<TcpStream> {
        let mut server = None;
        tokio::select! {
            biased;
            end = self.until_stranded() => match end {
                End::Client => Some(client),
                End::Server => server,
            },
            // Both sides see the end, and there is nobody else to tell.
            _ = self.pass(&mut client, &mut server) => None,
        }
    }

    /// Relays until both sides have closed their ends, or one side fails. Sets `server` when it is reached.
    async fn pass(&self, client: &mut TcpStream, server: &mut Option<TcpStream>) -> io::Result<()> {
        self.until_open(Direction::ToServer).await;
        let latency = self.shared.rules.borrow().latency;
        // The client's system made this connection at once. Over a slow link that takes a round trip.
        sleep(2 * latency).await;
        let successor = self.shared.rules.borrow().successor;
        let upstreams = successor.as_ref().map_or(&self.shared.upstreams[..], std::slice::from_ref);
        let server = server.insert(TcpStream::connect(upstreams).await?);
        for stream in [&*client, &*server] {
            stream.set_nodelay(true)?;
        }
        client.write_all(self.greeting).await?;
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::try_join!(
            self.relay(from_client, to_server, Direction::ToServer),
            self.relay(from_server, to_client, Direction::FromServer),
        )?;
        Ok(())
    }

    /// Passes on one direction until its end, and then the end.
    async fn relay(&self, from: ReadHalf<'_>, to: WriteHalf<'_>, direction: Direction) -> io::Result<()> {
        let (chunks, read) = mpsc::channel(CHUNKS_MAX);
        tokio::try_join!(self.take(from, chunks, direction), self.give(read, to, direction)).map(drop)
    }

    /// Reads one direction until its end.
    async fn take(&self, from: ReadHalf<'_>, chunks: mpsc::Sender<Chunk>, direction: Direction) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut is_handshake = direction == Direction::ToServer;
        loop {
            let bytes = self.read(&from, &mut buffer, direction).await?;
            if mem::take(&mut is_handshake) {
                let Rules { replaces_sessions, refuses_sessions, .. } = *self.shared.rules.borrow();
                if refuses_sessions && has_a_session(bytes) {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                if replaces_sessions {
                    ask_for_a_new_session(bytes);
                }
            }
            if direction == Direction::FromServer && !bytes.is_empty() {
                self.shared.traffic.send_modify(|traffic| traffic.bytes_from_server += length(bytes));
                let Rules { swallowed_below, lost, .. } = *self.shared.rules.borrow();
                if self.number < swallowed_below {
                    continue;
                }
                if rand::random::<f64>() < lost {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
            }
            let is_end = bytes.is_empty();
            let Rules { latency, jitter, .. } = *self.shared.rules.borrow();
            let due = Instant::now() + latency + jitter.mul_f64(rand::random());
            let chunk = Chunk { due, bytes: bytes.to_vec() };
            // A failed send means that the other half has failed, which also ends this one.
            if chunks.send(chunk).await.is_err() || is_end {
                return Ok(());
            }
        }
    }

    /// Writes what was read, when it is due.
    async fn give(
        &self,
        mut read: mpsc::Receiver<Chunk>,
        mut to: WriteHalf<'_>,
        direction: Direction,
    ) -> io::Result<()> {
        while let Some(Chunk { due, bytes }) = read.recv().await {
            sleep_until(due).await;
            if bytes.is_empty() {
                self.until_open(direction).await;
                return to.shutdown().await;
            }
            let mut left = bytes.as_slice();
            while !left.is_empty() {
                let bytes_per_s = self.shared.rules.borrow().bytes_per_s.map(NonZeroU32::get);
                let next = bytes_per_s.map_or(left, |most| &left[..left.len().min(STEP_BYTES.min(most as usize))]);
                if let Some(bytes_per_s) = bytes_per_s {
                    let step = u32::try_from(next.len()).expect("BUG: a step beyond u32");
                    sleep(Duration::from_secs(1) * step / bytes_per_s).await;
                }
                let written = self.write(&to, next, direction).await?;
                if direction == Direction::ToServer {
                    self.shared.traffic.send_modify(|traffic| traffic.bytes_to_server += length(&left[..written]));
                }
                left = &left[written..];
            }
        }
        Ok(())
    }

    /// Returns the next bytes, and none at the end. Nothing is read in a black hole, not even the end.
    async fn read<'a>(
        &self,
        from: &ReadHalf<'_>,
        buffer: &'a mut [u8],
        direction: Direction,
    ) -> io::Result<&'a mut [u8]> {
        loop {
            from.readable().await?;
            // Looked at after the wait for bytes, because a black hole may begin during that wait.
            self.until_open(direction).await;
            match from.try_read(buffer) {
                Ok(read) => return Ok(&mut buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Passes on some of the bytes. A black hole that began after they were read still holds them back.
    async fn write(&self, to: &WriteHalf<'_>, bytes: &[u8], direction: Direction) -> io::Result<usize> {
        loop {
            to.writable().await?;
            self.until_open(direction).await;
            match to.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return written,
            }
        }
    }

    /// Waits until one end alone is to stay open, and returns that end.
    async fn until_stranded(&self) -> End {
        let mut rules = self.shared.rules.subscribe();
        let stranded = rules.wait_for(|rules| rules.stranded.is_some()).await;
        stranded.ok().and_then(|rules| rules.stranded).expect("BUG: the rules are shared by all who wait for them")
    }

    /// Waits while nothing passes in a direction.
    async fn until_open(&self, direction: Direction) {
        let mut rules = self.shared.rules.subscribe();
        let open = rules.wait_for(|rules| !rules.silent.is_in(direction)).await;
        open.expect("BUG: the rules are shared by all who wait for them");
    }
}

/// The id of the session in a `ConnectRequest` of ZooKeeper. A client writes the request at once, so it is read as a whole.
const SESSION_ID: Range<usize> = 20..28;

/// Tells whether a `ConnectRequest` names a session.
fn has_a_session(handshake: &[u8]) -> bool {
    handshake.get(SESSION_ID).is_some_and(|id| id.iter().any(|byte| *byte != 0))
}

/// Makes a `ConnectRequest` ask for a new session: without the id and the password of a session.
fn ask_for_a_new_session(handshake: &mut [u8]) {
    const PASSWORD: Range<usize> = 32..48;
    for part in [SESSION_ID, PASSWORD] {
        if let Some(part) = handshake.get_mut(part) {
            part.fill(0);
        }
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("BUG: a buffer beyond u64")
}
