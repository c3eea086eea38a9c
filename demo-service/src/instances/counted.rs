//! The connections to the other instances. Each needs an open file, so their number has a bound.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt, service_fn};

use super::Cause;

/// The time limit for a connection to another instance: the wait until there are fewer than the bound, the lookup of the name, and
/// the handshake.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_millis(500);

/// Connects to other instances.
pub(super) type Connector = BoxCloneSyncService<Uri, TokioIo<Counted>, Cause>;

/// Makes a connector that connects by `inner`. At most `max` of its connections are open at once.
pub(super) fn connector<C>(inner: C, max: usize) -> Connector
where
    C: Service<Uri, Response = TokioIo<TcpStream>, Future: Send, Error: Into<Cause>> + Clone + Send + Sync + 'static,
{
    let permits = Arc::new(Semaphore::new(max));
    BoxCloneSyncService::new(service_fn(move |to| {
        let permits = Arc::clone(&permits);
        let connecting = inner.clone().oneshot(to);
        // The connector's own limit does not count the lookup of the name.
        let connected = timeout(CONNECT_WITHIN, async {
            // An attempt to connect needs an open file, too, so the permit comes first.
            let permit = permits.acquire_owned().await?;
            let stream = connecting.await.map_err(Into::<Cause>::into)?.into_inner();
            Ok(TokioIo::new(Counted { stream, _permit: permit }))
        });
        async { connected.await? }
    }))
}

/// A connection, which keeps its permit until it is closed.
pub(super) struct Counted {
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
}

impl Counted {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl Connection for Counted {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl AsyncRead for Counted {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, bytes)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}
