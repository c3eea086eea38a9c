//! The listener for the other instances: it receives the batches that they hand over.

mod nonces;
pub(super) mod strangers;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use axum_extra::TypedHeader;
use axum_extra::headers::Authorization;
use axum_extra::headers::authorization::Bearer;
use futures_util::StreamExt;
use parking_lot::Mutex;
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::{debug, warn};

use self::nonces::Nonces;
use self::strangers::Strangers;
use super::connections::Connections;
use super::limits::BODY_WITHIN;
use crate::app::App;
use crate::instances::{BYTES_MAX, Batch, BatchReply, IDLE_MAX, PATH};

/// How long another instance may take to finish a request during a shutdown.
const FINISH_WITHIN: Duration = Duration::from_secs(5);

/// How long a shutdown waits until the other instances have closed their idle connections. They need twice `IDLE_MAX`, and
/// longer on a busy machine.
const LEAVE_WITHIN: Duration = IDLE_MAX.saturating_mul(6);

/// Serves the other instances until `ended`, and then until they have left.
pub(super) async fn serve(listener: TcpListener, app: Arc<App>, ended: CancellationToken) {
    // Several instances may come from one address, and one instance has several batches under way.
    let mut connections = Connections::at_most(app.config.connections_max, router(Arc::clone(&app)));
    let mut strangers = Strangers::new(&app.shared.hand_over.address);
    let accepting = async {
        loop {
            let (stream, address) = strangers.accept(&listener).await;
            connections.admit(stream, address).await;
        }
    };
    tokio::select! {
        () = accepting => {}
        () = ended.cancelled() => {}
    }
    if let Err(error) = connections.accept_waiting(listener) {
        debug!(%error, "connections of other instances were cut before they were accepted");
    }
    let leaving = async {
        while let Some((stream, address)) = strangers.last().await {
            connections.admit(stream, address).await;
        }
        connections.left().await;
    };
    if timeout(LEAVE_WITHIN, leaving).await.is_ok() {
        return;
    }
    if timeout(FINISH_WITHIN, connections.finish()).await.is_err() {
        warn!("some connections of other instances were still busy and are cut");
    }
}

/// What the batches of all instances share.
#[derive(Clone)]
struct BatchRoute {
    app: Arc<App>,
    nonces: Arc<Mutex<Nonces>>,
}

/// Makes the routes for the other instances.
fn router(app: Arc<App>) -> Router {
    // A sender gives a batch up after its `--db-timeout`, and so does each proxy between both.
    let nonces = Arc::new(Mutex::new(Nonces::new(2 * app.config.db_timeout)));
    Router::new()
        .route(PATH, post(take_over).with_state(BatchRoute { app: Arc::clone(&app), nonces }))
        .layer(DefaultBodyLimit::max(BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(&app), authorize))
        .layer(CatchPanicLayer::new())
        .layer(from_fn_with_state(Arc::clone(&app), say_goodbye))
        .with_state(app)
}

/// Refuses a batch for another process before its body is read.
async fn authorize(
    State(app): State<Arc<App>>,
    TypedHeader(Authorization(bearer)): TypedHeader<Authorization<Bearer>>,
    request: Request,
    next: Next,
) -> Result<Response, StatusCode> {
    // In constant time, so the time of a refusal tells nothing about the secret.
    match bearer.token().as_bytes().ct_eq(app.shared.hand_over.address.secret.as_bytes()).into() {
        true => Ok(next.run(request).await),
        false => Err(StatusCode::UNAUTHORIZED),
    }
}

/// Tells the sender that no other batch may come on this connection, if this instance shuts down. An answer whose head was sent
/// before does not say so. Its sender hears it with the next batch, or closes the connection after `IDLE_MAX`.
async fn say_goodbye(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if app.is_stopping() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Replies to each purchase of a batch as soon as it is decided. Decisions that are ready together are sent together. If
/// the sender goes, the body is dropped, and its buyers give up.
///
/// A body that does not come in time is refused, and nothing of the batch is decided. So is a batch that has come before, but
/// its first coming may have sold: the sender does not hand its purchases over again.
async fn take_over(
    State(BatchRoute { app, nonces }): State<BatchRoute>,
    request: Request,
) -> Result<Response, Response> {
    let refused = |status: StatusCode| status.into_response();
    let within = BODY_WITHIN.min(app.config.http_timeout);
    let received = timeout(within, Json::<Batch>::from_request(request, &())).await;
    let received = received.map_err(|_| refused(StatusCode::REQUEST_TIMEOUT))?;
    let Json(batch) = received.map_err(IntoResponse::into_response)?;
    if !nonces.lock().note(batch.nonce, Instant::now()) {
        return Err(refused(StatusCode::CONFLICT));
    }
    let frame_max = batch.purchases.len().max(1);
    let replies = app.take_over(batch).ok_or_else(|| refused(StatusCode::SERVICE_UNAVAILABLE))?;
    let frames = replies.ready_chunks(frame_max).map(|ready| Ok::<_, Infallible>(frame(&ready)));
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(frames)).into_response())
}

fn frame(replies: &[BatchReply]) -> Bytes {
    let mut frame = Vec::new();
    for reply in replies {
        serde_json::to_writer(&mut frame, reply).expect("BUG: a reply is not JSON");
        frame.push(b'\n');
    }
    frame.into()
}
