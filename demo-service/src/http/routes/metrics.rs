//! `/metrics`: the metrics, for Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::answers::Alive;
use crate::app::App;

/// The text format that Prometheus has read since 2014.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `GET`: all metrics of this instance.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "showMetrics",
    tag = "operation",
    summary = "Read the metrics of this instance",
    description = "In the text format of Prometheus.",
    responses(
        (status = 200, description = "The metrics.", body = String, content_type = "text/plain; version=0.0.4; charset=utf-8"),
        Alive
    )
)]
pub async fn render(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, TEXT_FORMAT)], app.render_metrics())
}
