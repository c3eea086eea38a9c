//! The socket of a connection, with its time limits. It ends the connection when a limit is exceeded, or when the service wants
//! that, and finds out whether a client that sends no more is still there.

use std::future::pending;
use std::io::{self, IoSlice};
use std::net;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Sleep, sleep};
use tokio_io_timeout::TimeoutWriter;

use super::connection::{Connection, Phase, Snapshot};

/// The time limit for the head of a request, from its first byte on.
pub(super) const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// How long a connection is kept without a request. A request that is on its way when the service closes the connection is not
/// answered, so the client should be the one that closes it. Usual clients and proxies close it after 5 to 350 s: reqwest and Go
/// after 90 s, nginx and AWS after 60 s, JMeter at the latest after 60 s. Google's load balancers close it after 600 s, and
/// Google asks for 620 s behind them. A longer time keeps no buyer out: idle connections give way to new ones.
pub(super) const IDLE_WITHIN: Duration = Duration::from_secs(620);

/// How long a client may leave bytes of its answer unread.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// Sent to a client that sends no more while its request is worked on. A client that reads on ignores it (RFC 9110, section
/// 15.2). The system of a client that is gone answers it with a reset.
const INTERIM_ANSWER: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The socket of a connection.
pub(super) struct Wire {
    /// `None` once the client sends no more, while a request is worked on.
    reader: Option<OwnedReadHalf>,
    /// Ends when a client that sends no more is gone.
    gone: BoxFuture<'static, ()>,
    writer: Pin<Box<TimeoutWriter<OwnedWriteHalf>>>,
    is_unread: bool,
    deadline: Pin<Box<Sleep>>,
    connection: Arc<Connection>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, connection: Arc<Connection>) -> Self {
        // Answers are small and wanted at once. A socket that refuses the option still works.
        stream.set_nodelay(true).ok();
        let (reader, writer) = stream.into_split();
        let mut writer = TimeoutWriter::new(writer);
        writer.set_timeout(Some(READ_WITHIN));
        Self {
            reader: Some(reader),
            gone: pending().boxed(),
            writer: Box::pin(writer),
            is_unread: false,
            deadline: Box::pin(sleep(IDLE_WITHIN)),
            connection,
        }
    }

    /// Notes that the client has ended its side. Returns an end if that ends the connection.
    fn hear_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.hear_end();
        let state = self.connection.watch(cx.waker());
        if state.takes_interim_answers() {
            match self.writer.get_ref().as_ref().try_write(INTERIM_ANSWER) {
                Ok(length) if length == INTERIM_ANSWER.len() => {}
                // The client has not read what was sent before, so the system will find out whether it is gone.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // No answer can follow a part of an interim one.
                Ok(_) | Err(_) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            }
        } else if !state.is_unread {
            return Poll::Ready(Ok(()));
        }
        // A reader at its end is always ready. Put aside, it wakes nobody again, and only `gone` is watched.
        if let Some(reader) = self.reader.take() {
            let gone = async move { while reader.ready(Interest::ERROR).await.is_ok_and(|ready| !ready.is_error()) {} };
            self.gone = gone.boxed();
        }
        self.poll_end(cx)
    }

    /// Waits while there is nothing to read. Returns an end or an error if the connection is over.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let state = self.connection.watch(cx.waker());
        if state.is_over() {
            return self.poll_last_look(&state);
        }
        if self.reader.is_none() {
            if !state.owes_answer() {
                return Poll::Ready(Ok(()));
            }
            ready!(self.gone.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let deadline = match state.phase {
            Phase::Idle(since) => since + IDLE_WITHIN,
            Phase::Head(since) => since + HEAD_WITHIN,
            Phase::Working | Phase::Body | Phase::Asking | Phase::Answering => return Poll::Pending,
        };
        if self.deadline.deadline() != deadline {
            self.deadline.as_mut().reset(deadline);
        }
        ready!(self.deadline.as_mut().poll(cx));
        self.poll_last_look(&state)
    }

    /// Ends the connection, unless a request has come that the runtime has not reported yet. It will, and wake the task.
    fn poll_last_look(&self, state: &Snapshot) -> Poll<io::Result<()>> {
        let has_input = |reader: &OwnedReadHalf| {
            // The system is asked, and not the runtime. The drop of a `net::TcpStream` closes it, so it gets a clone.
            let again = reader.as_ref().as_fd().try_clone_to_owned().map(net::TcpStream::from);
            again.and_then(|stream| stream.peek(&mut [0])).is_ok_and(|length| length > 0)
        };
        let is_idle = matches!(state.phase, Phase::Idle(_));
        if is_idle && self.reader.as_ref().is_some_and(has_input) { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// Notes whether the client reads. Ends the connection if its room is needed and the client does not read.
    fn note_write<T>(&mut self, task: &Waker, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if self.is_unread != written.is_pending() {
            self.is_unread = written.is_pending();
            self.connection.set_unread(self.is_unread);
        }
        if self.is_unread && self.connection.watch(task).is_over() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        written
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        let before = bytes.filled().len();
        let read = wire.reader.as_mut().map_or(Poll::Pending, |reader| Pin::new(reader).poll_read(cx, bytes))?;
        match read {
            Poll::Pending => wire.poll_end(cx),
            Poll::Ready(()) if bytes.filled().len() == before => wire.hear_end(cx),
            Poll::Ready(()) => {
                wire.connection.hear();
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wire = self.get_mut();
        let written = wire.writer.as_mut().poll_write(cx, bytes);
        wire.note_write(cx.waker(), written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wire = self.get_mut();
        let written = wire.writer.as_mut().poll_write_vectored(cx, parts);
        wire.note_write(cx.waker(), written)
    }

    fn is_write_vectored(&self) -> bool {
        self.writer.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().writer.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().writer.as_mut().poll_shutdown(cx)
    }
}
