//! `/metrics`: the metrics, for Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::answers::Overloaded;
use crate::app::App;

/// The text format that Prometheus has read since 2014.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns all metrics of this instance (`GET`).
///
/// # Cancel safety
/// Nothing is lost.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "showMetrics",
    tag = "operation",
    summary = "Read the metrics of this instance",
    description = "In the text format of Prometheus. Clients that ask at the same time share one text.",
    responses(
        (status = 200, description = "The metrics.", body = String, content_type = "text/plain; version=0.0.4; charset=utf-8"),
        Overloaded
    )
)]
pub async fn render(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, TEXT_FORMAT)], app.metrics_text().await)
}
