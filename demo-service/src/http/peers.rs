//! The listener for the other instances: it receives the batches that they hand over.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
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
use subtle::ConstantTimeEq;
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::peers::{BYTES_MAX, Batch, Line, PATH};

/// Makes the routes for the other instances.
pub(super) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route(PATH, post(take_over))
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
    match bearer.token().as_bytes().ct_eq(app.address.secret.as_bytes()).into() {
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

/// Answers each purchase of a batch as soon as it is decided. Decisions that are ready together are sent together. If
/// the sender goes, the body is dropped, and its buyers give up.
async fn take_over(State(app): State<Arc<App>>, Json(batch): Json<Batch>) -> Result<Response, StatusCode> {
    let frame_max = batch.purchases.len().max(1);
    let told = app.take_over(batch).ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
    let frames = told.ready_chunks(frame_max).map(|lines| Ok::<_, Infallible>(frame(&lines)));
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(frames)).into_response())
}

fn frame(lines: &[Line]) -> Bytes {
    let mut frame = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut frame, line).expect("BUG: a line is not JSON");
        frame.push(b'\n');
    }
    frame.into()
}
