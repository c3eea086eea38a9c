//! The limits of a request before its handler: its rate, its slot or permit, and the size and time of its body.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::connection::Connection;
use super::rates::Rates;
use crate::app::App;
use crate::failure::{self, Failure};

/// The largest body that is read. A full cart takes about a KiB.
const BODY_BYTES_MAX: usize = 4 * 1024;

/// The time limit for receiving a body, counted from the arrival of the request. If `--http-timeout` is shorter, it
/// is the limit. The body is received before the request takes a slot, so a slow client takes no slot from a buyer.
pub(super) const BODY_WITHIN: Duration = Duration::from_secs(5);

/// Upper bound of the administrative requests that are worked on at once, and of the requests for metrics. They take no slots,
/// so that a sale can be restarted and observed while buyers have all of them. The bound is low: there are few operators, and
/// each of their requests takes a database connection or a large answer.
const OPERATION_MAX: usize = 16;

/// When a request arrived. The deadlines of the request count from then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived(pub(super) Instant);

impl Arrived {
    fn of(request: &Request) -> Instant {
        let arrived = request.extensions().get::<Self>();
        arrived.expect("BUG: the time of every arrival is noted").0
    }
}

/// The limits that the requests of buyers share.
#[derive(Clone)]
pub(super) struct BuyerLimits {
    pub(super) app: Arc<App>,
    /// Whether the requests are purchases.
    pub(super) is_buying: bool,
    pub(super) rates: Option<Arc<Rates>>,
}

/// Checks the rates, receives the whole body, then takes a slot.
pub(super) async fn take_slot(
    State(BuyerLimits { app, is_buying, rates }): State<BuyerLimits>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    if let Some(rates) = rates {
        rates.check(&request)?;
    }
    let arrived = Arrived::of(&request);
    let mut request = receive(request, app.config.http_timeout).await?;
    let Some(slot) = app.try_slot(arrived) else { return Err(shed(&app)) };
    // A purchase keeps a clone of the slot, because it may outlive its request. A look keeps the slot until the
    // answer.
    request.extensions_mut().insert(slot.clone());
    let buyer = connection(&request).filter(|_| is_buying).cloned();
    let response = next.run(request).await;
    drop(slot);
    if let Some(buyer) = buyer
        && is_a_buyers(response.status())
    {
        buyer.note_purchase();
    }
    Ok(response)
}

/// Returns whether an answer with this status is one to a purchase that could have sold. A SKU that is sold out has its own
/// status.
fn is_a_buyers(status: StatusCode) -> bool {
    !status.is_client_error() || status == failure::SOLD_OUT.status
}

/// The limit that the requests of operators for one thing share.
#[derive(Clone)]
pub(super) struct OperatorLimit {
    app: Arc<App>,
    permits: Arc<Semaphore>,
}

impl OperatorLimit {
    pub(super) fn new(app: &Arc<App>) -> Self {
        Self { app: Arc::clone(app), permits: Arc::new(Semaphore::new(OPERATION_MAX)) }
    }
}

/// Takes a permit for the request of an operator, or refuses the request.
pub(super) async fn admit_operator(
    State(OperatorLimit { app, permits }): State<OperatorLimit>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    let Ok(_permit) = permits.try_acquire() else { return Err(shed(&app)) };
    Ok(next.run(request).await)
}

/// Answers a question to the servers, unless another client needs the room of the connection meanwhile.
pub(super) async fn give_way(State(app): State<Arc<App>>, request: Request, next: Next) -> Result<Response, Failure> {
    let Some(connection) = connection(&request).cloned() else { return Ok(next.run(request).await) };
    tokio::select! {
        biased;
        response = next.run(request) => Ok(response),
        () = connection.ask() => Err(shed(&app)),
    }
}

/// Receives the whole body.
pub(super) async fn receive_body(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    Ok(next.run(receive(request, app.config.http_timeout).await?).await)
}

/// Returns the connection of a request. Only tests of parts have requests without one.
fn connection(request: &Request) -> Option<&Arc<Connection>> {
    request.extensions().get()
}

/// Receives the whole body of a request, within the limits of its size and time.
async fn receive(request: Request, http_timeout: Duration) -> Result<Request, Failure> {
    if request.body().is_end_stream() {
        return Ok(request);
    }
    let within = BODY_WITHIN.min(http_timeout);
    let until = Arrived::of(&request) + within;
    let connection = connection(&request).cloned();
    let _receiving = connection.as_deref().map(Connection::receive);
    let ended = async {
        match &connection {
            Some(connection) => connection.ended().await,
            None => pending().await,
        }
    };
    let (head, body) = request.into_parts();
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(Failure::of(&failure::OVERSIZED_BODY));
    }
    let received = async {
        tokio::select! {
            // A client may end its side right behind its body. Then both are ready, and the body counts.
            biased;
            received = Limited::new(body, BODY_BYTES_MAX).collect() => received,
            () = ended => Err("the client has ended its side".into()),
        }
    };
    // The deadline of the answer may be the same instant. The inner timer is polled first, so the failure is
    // `BODY_TIMEOUT`.
    let received = timeout_at(until, received).await;
    let received = received.map_err(|_| {
        let detail = format!("the body did not arrive whole within {within:?}; nothing was written");
        Failure::new(&failure::BODY_TIMEOUT, detail)
    })?;
    let bytes = received.map_err(|error| {
        if error.is::<LengthLimitError>() {
            Failure::of(&failure::OVERSIZED_BODY)
        } else {
            Failure::new(&failure::MALFORMED_BODY, "the body could not be read to its end; nothing was written")
        }
    })?;
    Ok(Request::from_parts(head, Body::from(bytes.to_bytes())))
}

fn shed(app: &App) -> Failure {
    app.metrics.count_shed();
    Failure::of(&failure::OVERLOADED)
}
