//! Connections whose clients have not shown yet that they know the secret of this process.
//!
//! An instance shows it in the head of its first request, which it sends as soon as it is connected. Until then its connection
//! counts here only. A client that says nothing goes when its room is needed, so it keeps no batch out.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use subtle::ConstantTimeEq;
use tokio::io::{AsyncWriteExt, copy, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::http::connections::accept;
use crate::instances::Address;

/// Upper bound of the strangers. The limit of open files counts them.
pub(in crate::http) const STRANGERS_MAX: usize = 32;

/// How long a stranger may take to show the secret.
const SHOW_WITHIN: Duration = Duration::from_secs(5);

/// The shortest time that a stranger has, although its room is needed. An instance needs less than a round trip. It may have to
/// wait behind 4096 silent strangers, which is the default bound of Linux. They are gone after less than 3 s.
const HEARD_FOR: Duration = Duration::from_millis(20);

/// The largest part of a head in which the secret is looked for. The heads of the instances have less than 300 bytes.
const HEAD_BYTES_MAX: usize = 1024;

/// The pause before a head that has come in part is looked at again.
const PAUSE: Duration = Duration::from_millis(5);

/// The answer to a client that does not know the secret. It learns that nothing of its batch is decided.
const REFUSAL: &[u8] = b"HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// The strangers of one listener.
pub(super) struct Strangers {
    address: Arc<Address>,
    tasks: JoinSet<Option<Known>>,
    /// Each task with its start, the oldest first.
    order: VecDeque<(Instant, AbortHandle)>,
}

/// A connection whose client knows the secret. None of its bytes has been taken.
pub(super) type Known = (TcpStream, SocketAddr);

impl Strangers {
    pub(super) fn new(address: &Arc<Address>) -> Self {
        Self { address: Arc::clone(address), tasks: JoinSet::new(), order: VecDeque::new() }
    }

    /// Waits for a connection whose client knows the secret.
    pub(super) async fn accept(&mut self, listener: &TcpListener) -> Known {
        loop {
            let room_at = self.room_at();
            let accepting = async {
                sleep_until(room_at).await;
                accept(listener).await
            };
            tokio::select! {
                Some(ended) = self.tasks.join_next() => {
                    if let Ok(Some(known)) = ended {
                        return known;
                    }
                }
                (stream, address) = accepting => self.hear(stream, address),
            }
        }
    }

    /// Waits for the last strangers. Returns the next one whose client knows the secret.
    pub(super) async fn last(&mut self) -> Option<Known> {
        while let Some(ended) = self.tasks.join_next().await {
            if let Ok(Some(known)) = ended {
                return Some(known);
            }
        }
        None
    }

    /// Returns when there is room for another stranger.
    fn room_at(&mut self) -> Instant {
        self.order.retain(|(_, task)| !task.is_finished());
        match self.order.front() {
            Some((since, _)) if self.order.len() >= STRANGERS_MAX => *since + HEARD_FOR,
            _ => Instant::now(),
        }
    }

    /// Listens to another stranger. If there are too many, the oldest one goes.
    fn hear(&mut self, stream: TcpStream, client: SocketAddr) {
        if self.order.len() >= STRANGERS_MAX
            && let Some((_, oldest)) = self.order.pop_front()
        {
            oldest.abort();
        }
        let address = Arc::clone(&self.address);
        let task = self.tasks.spawn(async move {
            let known = timeout(SHOW_WITHIN, listen(stream, &address.secret)).await.ok()??;
            Some((known, client))
        });
        self.order.push_back((Instant::now(), task));
    }
}

/// Returns the connection if its client shows the secret. A client that shows another one is told so.
async fn listen(mut stream: TcpStream, secret: &str) -> Option<TcpStream> {
    let mut head = [0; HEAD_BYTES_MAX];
    loop {
        let length = stream.peek(&mut head).await.ok()?;
        match shows(&head[..length], secret) {
            Some(true) => return Some(stream),
            Some(false) => break,
            None if length == 0 || length == HEAD_BYTES_MAX => return None,
            // The part that has come stays readable, so `peek` would return it at once, again and again.
            None => sleep(PAUSE).await,
        }
    }
    stream.write_all(REFUSAL).await.ok()?;
    stream.shutdown().await.ok()?;
    // Closed with unread bytes, the connection would be reset, and the answer lost.
    copy(&mut stream, &mut sink()).await.ok()?;
    None
}

/// Returns whether a head shows the secret, or `None` if that part of it has not come yet.
fn shows(head: &[u8], secret: &str) -> Option<bool> {
    let text = String::from_utf8_lossy(head);
    // The last line may have come in part.
    let (complete, _) = text.rsplit_once("\r\n")?;
    for line in complete.split("\r\n") {
        if line.is_empty() {
            return Some(false);
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("authorization")
        {
            let shown = value.trim().strip_prefix("Bearer ").unwrap_or_default();
            return Some(shown.as_bytes().ct_eq(secret.as_bytes()).into());
        }
    }
    None
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use super::*;

    // S63
    #[test]
    fn a_head_shows_the_secret_as_soon_as_its_line_is_complete() {
        const START: &str = "POST /purchases HTTP/1.1\r\n";
        for (rest, expected) in [
            ("", None),
            ("authorization: Bearer open", None),
            ("authorization: Bearer open sesame\r\n", Some(true)),
            ("host: a\r\nAuthorization:Bearer open sesame\r\ncontent-length: 2\r\n\r\n{}", Some(true)),
            ("authorization: Bearer open\r\n", Some(false)),
            ("authorization: Basic open sesame\r\n", Some(false)),
            ("host: a\r\n\r\n", Some(false)),
            ("host: a\r\n\r\nauthorization: Bearer open sesame\r\n", Some(false)),
        ] {
            assert_eq!(shows(format!("{START}{rest}").as_bytes(), "open sesame"), expected, "{rest:?}");
        }
        assert_eq!(shows(b"", "open sesame"), None);
    }
}
