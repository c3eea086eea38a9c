//! The other instances of the service: how one instance hands purchases over to the instance that decides them.
//!
//! A batch of purchases of one SKU is one `POST` over a kept connection. `http::instances` receives it.
//! The receiver decides each purchase or says that it decides none of this SKU. It hands nothing on: a purchase makes one
//! hop.
//!
//! The answer has one [`BatchReply`] per purchase, as JSON. The receiver sends it as soon as the purchase is decided, so a
//! purchase that takes long delays no other one.

mod counted;

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use std::{fs, io};

use axum::body::Bytes;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{Request, StatusCode};
use futures_util::TryStreamExt;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncBufReadExt;
use tokio_util::io::StreamReader;

use self::counted::{CONNECT_WITHIN, Connector, connector};
use crate::failure::Failure;
use crate::sale::Order;

/// The path to which batches are posted.
pub const PATH: &str = "/purchases";

/// The largest batch, and the largest answer to a batch, in bytes. A purchase takes less than 1 KiB, and so does its reply.
pub const BYTES_MAX: usize = 1024 * 1024;

/// Upper bound of the connections to other instances, kept ones included. The limit of open files counts them.
pub const CONNECTIONS_MAX: usize = 256;

/// How long an unused connection is kept. The sender must be the one who closes it: a batch that meets a connection which the
/// receiver has closed has an unknown outcome. The receiver closes it after `IDLE_WITHIN` of its `http::wire`. When it shuts
/// down, it waits for the sender.
pub const IDLE_MAX: Duration = Duration::from_millis(500);

/// How an instance is reached by the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Host and port.
    pub at: String,
    /// The network in which a loopback address of the process is reached. Empty if it is not known.
    pub loopback: String,
    /// What a sender must know. A new process has a new secret, so a batch for one that has ended is refused by the one
    /// that listens at the same port now.
    pub secret: String,
}

impl Address {
    /// Makes the address of this process, which the others reach at `at`.
    pub fn of_this_process(at: String) -> Self {
        Self { at, loopback: loopback_network(), secret: format!("{:032x}", rand::random::<u128>()) }
    }

    /// Returns how this process reaches another one.
    pub fn reach(&self, other: &Self) -> Reach {
        // A network that is not known may be the same one.
        let networks = [&self.loopback, &other.loopback];
        let is_elsewhere = networks.iter().all(|network| !network.is_empty()) && self.loopback != other.loopback;
        let is_loopback = other.at.starts_with("localhost:")
            || other.at.parse().is_ok_and(|address: SocketAddr| address.ip().is_loopback());
        match (other.at == self.at, is_elsewhere) {
            (false, false) => Reach::Direct,
            (false, true) if !is_loopback => Reach::Direct,
            (true, false) => Reach::Ended,
            (_, true) => Reach::Nowhere,
        }
    }
}

/// How one process reaches another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// By its address.
    Direct,
    /// Not any more: this process has its address now.
    Ended,
    /// Never: its address leads elsewhere on this host, or back to this process.
    Nowhere,
}

/// Returns a name for the network of the loopback addresses of this process: the boot of its host, and its network namespace. Where
/// the system does not tell them, the host's name must do.
fn loopback_network() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let namespace = fs::read_link("/proc/self/ns/net");
    match (boot, namespace) {
        (Ok(boot), Ok(namespace)) => format!("{} {}", boot.trim(), namespace.display()),
        _ => nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default(),
    }
}

/// Purchases of one SKU.
#[derive(Debug, Serialize, Deserialize)]
pub struct Batch {
    /// The SKU.
    pub goods_no: i64,
    /// A random number. A batch with a number that has come before is not decided again.
    pub nonce: u64,
    /// What each buyer wants, in the order of their arrival.
    pub purchases: Vec<Wanted>,
}

/// A purchase that is handed over.
#[derive(Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// The sale to which the purchase was admitted.
    pub sale: i64,
    /// Whether it has decided by the stock of that sale.
    pub has_decided: bool,
    /// How many units.
    pub quantity: i64,
    /// The idempotency key, if it has one.
    pub key: Option<String>,
    /// The buyer, if the purchase names one.
    pub buyer: Option<String>,
    /// How long the buyer goes on waiting, in milliseconds.
    pub within_ms: u64,
}

/// The reply to one purchase of a batch.
#[derive(Debug, Serialize, Deserialize)]
pub struct BatchReply {
    /// The number of the purchase in its batch, from 0.
    pub index: usize,
    /// What its buyer is told.
    pub told: Told,
}

/// What a buyer is told whose purchase was handed over.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// It has bought.
    Sold(Order),
    /// It was refused, or its outcome is unknown.
    Refused {
        /// The kind of the failure.
        kind: String,
        /// What is wrong and what helps.
        detail: String,
        /// The order that may have been committed.
        order_id: Option<i64>,
    },
    /// The receiver does not decide purchases of this SKU any more, or has no slot for this one. Nothing was written.
    Elsewhere,
}

impl Told {
    /// Makes what the buyer is told of a decision.
    pub fn of(decision: Result<Order, Failure>) -> Self {
        match decision {
            Ok(order) => Self::Sold(order),
            Err(failure) => Self::Refused {
                kind: failure.kind().slug().to_owned(),
                detail: failure.detail().to_owned(),
                order_id: failure.order_id(),
            },
        }
    }

    /// Returns whether anything was decided.
    pub fn is_decided(&self) -> bool {
        !matches!(self, Self::Elsewhere)
    }

    /// Returns what was decided, or `None` if nothing was decided.
    pub fn decision(self) -> Option<Result<Order, Failure>> {
        match self {
            Self::Sold(order) => Some(Ok(order)),
            Self::Refused { kind, detail, order_id } => Some(Err(Failure::told(&kind, detail, order_id))),
            Self::Elsewhere => None,
        }
    }
}

/// Why a batch got no reply, or not one for each purchase.
#[derive(Debug, thiserror::Error)]
pub enum NoReply {
    /// The batch did not reach the instance. Nothing was written.
    #[error("another instance of the service was not reached")]
    NotReached(#[source] Cause),
    /// The instance has no slot for any purchase of the batch, or waits for another instance itself. Nothing was written.
    #[error("another instance of the service takes no batch at this moment")]
    Busy,
    /// The batch was sent, and the answer did not come to its end. Any purchase without a reply may have been written.
    #[error("another instance of the service did not answer")]
    Unknown(#[source] Cause),
}

type Cause = Box<dyn Error + Send + Sync>;

/// The connections to the other instances.
#[derive(Debug, Clone)]
pub struct Instances {
    client: Client<Connector, Full<Bytes>>,
}

impl Default for Instances {
    fn default() -> Self {
        let mut inner = HttpConnector::new();
        // Divided among the addresses of a name.
        inner.set_connect_timeout(Some(CONNECT_WITHIN));
        inner.set_nodelay(true);
        Self::by(connector(inner, CONNECTIONS_MAX))
    }
}

impl Instances {
    fn by(connector: Connector) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .build(connector);
        Self { client }
    }

    /// Hands a batch over. Calls `tell` with the index of each purchase and what its buyer is told, when its reply comes.
    /// Afterwards every purchase was told once, or there was an error.
    ///
    /// # Errors
    /// A [`NoReply`]. What was told before counts.
    ///
    /// # Cancel safety
    /// Dropped, any purchase that was not told may be written. The receiver gives up purchases whose batch it has not taken.
    pub async fn hand_over(
        &self,
        to: &Address,
        batch: &Batch,
        mut tell: impl FnMut(usize, Told),
    ) -> Result<(), NoReply> {
        let body = self.post(to, batch).await?;
        let unknown = |error: io::Error| NoReply::Unknown(error.into());
        let body = Limited::new(body, BYTES_MAX).into_data_stream().map_err(io::Error::other);
        let mut lines = StreamReader::new(body).lines();
        let mut is_told = vec![false; batch.purchases.len()];
        while let Some(line) = lines.next_line().await.map_err(unknown)? {
            let BatchReply { index, told } = serde_json::from_str(&line).map_err(|error| unknown(error.into()))?;
            match is_told.get_mut(index) {
                Some(is_told) if !*is_told => *is_told = true,
                _ => return Err(unknown(io::Error::other("it answers a purchase that does not wait for an answer"))),
            }
            tell(index, told);
        }
        match is_told.contains(&false) {
            true => Err(unknown(io::ErrorKind::UnexpectedEof.into())),
            false => Ok(()),
        }
    }

    /// Sends a batch. Returns the body of the answer.
    async fn post(&self, to: &Address, batch: &Batch) -> Result<Incoming, NoReply> {
        let not_reached = |cause: Cause| NoReply::NotReached(cause);
        let body = serde_json::to_vec(batch).map_err(|error| not_reached(error.into()))?;
        let request = Request::post(format!("http://{}{PATH}", to.at))
            .header(AUTHORIZATION, format!("Bearer {}", to.secret))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .map_err(|error| not_reached(error.into()))?;
        let response = self.client.request(request).await.map_err(|error| match is_unsent(&error) {
            true => not_reached(error.into()),
            false => NoReply::Unknown(error.into()),
        })?;
        match response.status() {
            StatusCode::OK => Ok(response.into_body()),
            StatusCode::SERVICE_UNAVAILABLE => Err(NoReply::Busy),
            // It has come before, and that answer is lost.
            StatusCode::CONFLICT => Err(NoReply::Unknown("the batch has come twice".into())),
            // Another process or version listens there. It has decided nothing.
            status if status.is_client_error() => Err(not_reached(format!("its answer has status {status}").into())),
            status => Err(NoReply::Unknown(format!("its answer has status {status}").into())),
        }
    }
}

/// Returns whether a request failed before its first byte was sent. Hyper calls it cancelled if its connection has broken before
/// that.
fn is_unsent(error: &hyper_util::client::legacy::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<hyper::Error>());
    error.is_connect() || cause.is_some_and(hyper::Error::is_canceled)
}

#[cfg(test)]
mod fuzzed;

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use hyper_util::rt::TokioIo;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinSet;
    use tower::service_fn;

    use super::*;

    // S60
    #[test]
    fn an_address_of_another_host_s_own_network_leads_nowhere() {
        let address = |at: &str, loopback: &str| Address {
            at: at.to_owned(),
            loopback: loopback.to_owned(),
            secret: String::new(),
        };
        let own = address("127.0.0.1:7070", "here");
        for (at, loopback, expected) in [
            ("127.0.0.1:7071", "here", Reach::Direct),
            ("127.0.0.1:7071", "", Reach::Direct),
            ("127.0.0.1:7071", "there", Reach::Nowhere),
            ("[::1]:7070", "there", Reach::Nowhere),
            ("localhost:7071", "there", Reach::Nowhere),
            ("127.0.0.1:7070", "here", Reach::Ended),
            ("127.0.0.1:7070", "", Reach::Ended),
            ("127.0.0.1:7070", "there", Reach::Nowhere),
            ("demo-1:7070", "there", Reach::Direct),
        ] {
            assert_eq!(own.reach(&address(at, loopback)), expected, "{at} {loopback}");
        }
        assert_eq!(address("127.0.0.1:7071", "").reach(&own), Reach::Direct, "its network is not known");
        let named = address("demo-1:7070", "here");
        assert_eq!(named.reach(&address("demo-1:7070", "there")), Reach::Nowhere);
        assert_eq!(Address::of_this_process(String::new()).loopback, loopback_network());
    }

    // S56
    #[tokio::test]
    async fn a_batch_that_has_come_before_has_an_unknown_outcome() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let again = axum::Router::new().fallback(async || StatusCode::CONFLICT);
        let server = tokio::spawn(async { axum::serve(listener, again).await });
        let batch = Batch { goods_no: 1, nonce: 1, purchases: Vec::new() };
        let answered = Instances::default().hand_over(&Address::of_this_process(at), &batch, |_, _| ()).await;
        assert!(matches!(answered, Err(NoReply::Unknown(_))), "{answered:?}");
        server.abort();
    }

    // S54
    #[tokio::test]
    async fn an_instance_without_an_address_in_time_is_not_reached() {
        let silent = service_fn(|_| pending::<Result<TokioIo<TcpStream>, Cause>>());
        let instances = Instances::by(connector(silent, 1));
        let batch = Batch { goods_no: 1, nonce: 1, purchases: Vec::new() };
        let answered = instances.hand_over(&Address::of_this_process("silent:1".to_owned()), &batch, |_, _| ()).await;
        assert!(matches!(answered, Err(NoReply::NotReached(_))), "{answered:?}");
    }

    /// Goal: connections to other instances have a bound, and a batch beyond it is not sent. Method: the other instance accepts
    /// and never answers.
    // S59
    #[tokio::test]
    async fn a_batch_beyond_the_bound_of_connections_is_not_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Arc::new(Address::of_this_process(listener.local_addr().unwrap().to_string()));
        let instances = Instances::by(connector(HttpConnector::new(), 2));
        let mut batches = JoinSet::new();
        for nonce in 0..3 {
            let instances = instances.clone();
            let address = Arc::clone(&address);
            let batch = Batch { goods_no: 1, nonce, purchases: Vec::new() };
            batches.spawn(async move { instances.hand_over(&address, &batch, |_, _| ()).await });
        }
        let mut accepted = [listener.accept().await.unwrap(), listener.accept().await.unwrap()];
        let refused = batches.join_next().await.unwrap().unwrap();
        assert!(matches!(refused, Err(NoReply::NotReached(_))), "{refused:?}");
        // A connection that is closed makes room for another.
        let (stream, _) = &mut accepted[0];
        stream.shutdown().await.unwrap();
        let cut = batches.join_next().await.unwrap().unwrap();
        assert!(matches!(cut, Err(NoReply::Unknown(_))), "{cut:?}");
        let batch = Batch { goods_no: 1, nonce: 3, purchases: Vec::new() };
        let next = tokio::spawn(async move { instances.hand_over(&address, &batch, |_, _| ()).await });
        listener.accept().await.unwrap();
        next.abort();
    }
}
